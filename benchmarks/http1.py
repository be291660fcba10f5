"""A small HTTP/1.1 client for load: many kept connections, one call in flight on each.

It checks every answer: status 200, and the marker in the body. One call costs the generator some
15 microseconds, so that the servers, and not it, have the machine's two cores.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import cast

from benchmarks.requests import Template

COMPLETED = b'"TASK_STATE_COMPLETED"'


class HttpClient:
    """`connections` connections to one server. `start(tag)` sends a call on an idle one, or
    keeps it until one is; `on_answer(tag)` is called at each good answer."""

    def __init__(
        self, request: Template, *, connections: int, path: str = "", marker: bytes = COMPLETED
    ) -> None:
        self.on_answer: Callable[[float], None] = lambda tag: None
        self.failure = ""
        self.first = b""
        self._request = request
        self._marker = marker
        self._connections = connections
        self._all: list[_Connection] = []
        self._idle: deque[_Connection] = deque()
        self._waiting: deque[float] = deque()

    async def open(self, port: int) -> None:
        """Connect all."""
        loop = asyncio.get_running_loop()
        for _ in range(self._connections):
            _, connection = await loop.create_connection(
                lambda: _Connection(self._answered, self._failed), "127.0.0.1", port
            )
            self._all.append(connection)
        # by turns: servers close connections that are idle for long
        self._idle = deque(self._all)

    def start(self, tag: float) -> None:
        """Send one call."""
        if self._idle:
            self._idle.popleft().send(self._request.fill(), tag)
        else:
            self._waiting.append(tag)

    def close(self) -> None:
        """Drop all connections; answers under way are not counted."""
        self._failed = lambda reason: None  # type: ignore[method-assign]
        for connection in self._all:
            connection.close()

    def _answered(self, connection: "_Connection", tag: float, body: bytes) -> None:
        if not self.first:
            self.first = body
        if self._marker not in body:
            self._failed(f"an answer without {self._marker!r}: {body[:300]!r}")
            return
        if self._waiting:
            connection.send(self._request.fill(), self._waiting.popleft())
        else:
            self._idle.append(connection)
        self.on_answer(tag)

    def _failed(self, reason: str) -> None:
        self.failure = self.failure or reason


class _Connection(asyncio.Protocol):
    def __init__(
        self,
        answered: Callable[["_Connection", float, bytes], None],
        failed: Callable[[str], None],
    ) -> None:
        self._answered = answered
        self._failed = failed
        self._buffer = b""
        self._tag = 0.0
        self._closing = False
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not subclasses of asyncio's.
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._closing:
            self._failed(f"the server closed a connection: {exc}")

    def send(self, request: bytes, tag: float) -> None:
        assert self._transport
        self._tag = tag
        self._transport.write(request)

    def close(self) -> None:
        self._closing = True
        if self._transport:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        data = self._buffer + data if self._buffer else data
        end = data.find(b"\r\n\r\n")
        if end < 0:
            self._buffer = data
            return
        head = data[:end].lower()
        if not head.startswith(b"http/1.1 200"):
            self._failed(f"not a 200: {data[:300]!r}")
            return
        size = _content_length(head)
        if len(data) < end + 4 + size:
            self._buffer = data
            return
        self._buffer = b""
        self._answered(self, self._tag, data[end + 4 :])


def _content_length(head: bytes) -> int:
    at = head.index(b"content-length:") + len(b"content-length:")
    stop = head.find(b"\r", at)
    return int(head[at : stop if stop > 0 else len(head)])
