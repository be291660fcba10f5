"""A client of one SSE response, and of one plain JSON-RPC exchange, over HTTP/1.1.

Bodies are kept as they came, with the time of each piece, and looked at after the end, so that
reading costs the generator little while a stream runs.
"""

import asyncio
import json
import re
import time
from typing import Any, cast

import httptools

from benchmarks.load import LoadError

WAIT_SECONDS = 120.0
_STAMP = re.compile(rb'"at (\d+)"')


class Stream(asyncio.Protocol):
    """One request, and its answer as pieces (monotonic nanoseconds, bytes)."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.pieces: list[tuple[int, bytes]] = []
        self.started = 0
        self.ended: asyncio.Future[int] = loop.create_future()
        """Monotonic nanoseconds of the end of the answer."""
        self.first: asyncio.Future[None] = loop.create_future()
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None

    @classmethod
    async def open(cls, port: int, request: bytes) -> "Stream":
        """Connect and send the request."""
        loop = asyncio.get_running_loop()
        _, stream = await loop.create_connection(cls, "127.0.0.1", port)
        assert stream._transport
        stream.started = time.monotonic_ns()
        stream._transport.write(request)
        return stream

    async def body(self) -> bytes:
        """The whole answer, once it has ended; raises `LoadError` where it is not a 200."""
        await asyncio.wait_for(asyncio.shield(self.ended), WAIT_SECONDS)
        body = b"".join(piece for _, piece in self.pieces)
        if self._parser.get_status_code() != 200:
            raise LoadError(f"status {self._parser.get_status_code()}: {body[:300]!r}")
        return body

    def close(self) -> None:
        """Drop the connection."""
        if self._transport:
            self._transport.abort()

    def delays(self) -> list[float]:
        """Seconds from the time that an event carries ("at N") to its arrival, in order."""
        found: list[float] = []
        rest = b""
        for arrived, piece in self.pieces:
            rest += piece
            stamps = list(_STAMP.finditer(rest))
            found += [(arrived - int(stamp[1])) / 1e9 for stamp in stamps]
            rest = rest[stamps[-1].end() :] if stamps else rest[-64:]
        return found

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_exception(LoadError(f"the stream broke off: {exc}"))
            self.ended.exception()

    def on_body(self, body: bytes) -> None:
        self.pieces.append((time.monotonic_ns(), body))
        if not self.first.done():
            self.first.set_result(None)

    def on_message_complete(self) -> None:
        if not self.ended.done():
            self.ended.set_result(time.monotonic_ns())


async def exchange(port: int, request: bytes) -> dict[str, Any]:
    """One call; its JSON-RPC result. Raises `LoadError` for an error answer."""
    stream = await Stream.open(port, request)
    answer = json.loads(await stream.body())
    stream.close()
    if "result" not in answer:
        raise LoadError(f"an error where a result was due: {answer}")
    result: dict[str, Any] = answer["result"]
    return result
