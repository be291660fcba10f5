"""One HTTP/1.1 connection: uvicorn's protocol with the bounds that it lacks (RFC 9112).

Wire layer of the HTTP door. Guarded here, for all connections by one clock instead of a timer
each: the size of the head and the time that it and the body may take (a client that sends byte by
byte), idle connections, a client that stops reading, and comment lines on silent streams. A lost
connection cancels the call at once (SS09).

The application finds its connection in the ASGI scope, under `extensions` and `EXTENSION`.
"""

import asyncio
import logging
import re
import ssl
from dataclasses import dataclass
from email.utils import formatdate
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

logger = logging.getLogger(__name__)

EXTENSION = "a2a_gateway.connection"

COMMENT = b": keep-alive\n\n"
_COMMENT_CHUNK = b"%x\r\n%b\r\n" % (len(COMMENT), COMMENT)

_UPGRADE = re.compile(rb"(?i)\r\nupgrade(?=[ \t]*:)")

_HEAD, _BODY, _ANSWER, _IDLE, _LEAVING = range(5)
"""What a connection waits for: the rest of a head, of a body, the answer, the next request, the
client's goodbye."""

_LINGER = 2.0
"""Seconds after a refusal in which what the client still sends is dropped. Closing with unread
bytes resets the connection, and the client would not see why (RFC 9112 s9.6)."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits of one connection; seconds and bytes."""

    connections: int = 10_000
    head_bytes: int = 32 * 1024
    head_timeout: float = 10.0
    body_timeout: float = 30.0
    """A body may take so long, and a second more for each `body_rate` bytes received."""
    body_rate: float = 4096.0
    surplus_bytes: int = 64 * 2**20
    """Bytes of a refused body that are read and dropped, so that its sender sees the answer."""
    idle_timeout: float = 75.0
    write_timeout: float = 30.0
    """A client that takes no byte for so long is cut off (SS06)."""
    keep_alive: float = 15.0
    """Seconds of silence after which a stream gets a comment line (SS12)."""
    patience: float = 1.0
    """Seconds that the head of a stream waits for the first event, or for a failure instead."""

    @property
    def tick(self) -> float:
        """How often the clock looks: often enough for the shortest of the times."""
        shortest = min(
            self.head_timeout,
            self.body_timeout,
            self.idle_timeout,
            self.write_timeout,
            self.keep_alive,
        )
        return min(1.0, shortest / 4)


class Listener:
    """What the connections of one door share: uvicorn's state, the bounds and the clock."""

    def __init__(self, app: Any, bounds: Bounds, *, is_secure: bool = False):
        self.bounds = bounds
        self._is_secure = is_secure
        # the listener is opened by the door: of uvicorn's server only the protocol is in use
        self.config = Config(
            app,
            http=HttpToolsProtocol,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            proxy_headers=False,
        )
        self.config.load()
        # uvicorn warns of each request that is not HTTP: whoever sends them would fill the log
        logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
        self.state = ServerState()
        self._timer: asyncio.TimerHandle | None = None
        self._tick = bounds.tick
        self.now = 0.0

    def __call__(self) -> "Connection":
        """A protocol for a new connection (`loop.create_server`)."""
        return Connection(self)

    def start_clock(self) -> None:
        """Look at all connections, now and from now on."""
        loop = asyncio.get_running_loop()
        self.now = loop.time()
        self.state.default_headers = self._default_headers()
        for connection in tuple(self.state.connections):
            connection.check(self.now)  # type: ignore[union-attr]
        self._timer = loop.call_later(self._tick, self.start_clock)

    def _default_headers(self) -> list[tuple[bytes, bytes]]:
        # RFC 9110 s6.6.1: a server with a clock sends Date
        headers = [(b"date", formatdate(usegmt=True).encode())]
        if self._is_secure:  # A2A 13.4; RFC 6797
            headers.append((b"strict-transport-security", b"max-age=31536000"))
        return headers

    def stop_clock(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class Connection(HttpToolsProtocol):
    """One connection. `peer_certificate`, `is_lost` and `abort` are for the application, as is
    `streams`, which it sets while comment lines may be written between its events."""

    # beside the instance's dict, which holds uvicorn's: with more than 30 names it would no longer
    # share its keys, and cost 1.2 KB more for each connection
    __slots__ = (
        "_bytes",
        "_certificate",
        "_dry_bytes",
        "_is_upgrade",
        "_listener",
        "_phase",
        "_running",
        "_since",
        "_stalled_since",
        "_task",
        "_unsent",
        "bounds",
        "is_lost",
        "streams",
        "wrote_at",
    )

    def __init__(self, listener: Listener):
        super().__init__(listener.config, listener.state, {})
        self._listener = listener
        self.bounds = listener.bounds
        self._phase = _HEAD
        self._since = listener.now
        self._bytes = 0
        self._dry_bytes = 0
        """Of a body, since the last that was content: chunk extensions, trailers."""
        self._stalled_since = 0.0
        self._unsent = 0
        self._is_upgrade = False
        self._task: asyncio.Task[None] | None = None
        self._running: Any = None
        """The cycle that the application works on; `cycle` is the one that arrived last."""
        self._certificate: str | None = None
        self.is_lost = False
        self.streams = False
        self.wrote_at = 0.0
        """When the application last wrote to its stream (the listener's `now`)."""

    # what the application uses

    @property
    def now(self) -> float:
        """The clock of `wrote_at`."""
        return self._listener.now

    @property
    def peer_certificate(self) -> str:
        """The client's certificate in PEM; empty where it showed none."""
        if self._certificate is None:
            tls = self.transport.get_extra_info("ssl_object")
            der = tls.getpeercert(binary_form=True) if tls is not None else None
            self._certificate = ssl.DER_cert_to_PEM_cert(der) if der else ""
        return self._certificate

    def answer(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> bool:
        """Write a whole answer at once, past the messages of ASGI. False where that cannot be:
        then send it as ASGI does."""
        cycle = self._running
        if cycle.response_started or cycle.disconnected or self.flow.write_paused:
            return False
        parts = [STATUS_LINE[status]]
        for name, value in (*cycle.default_headers, *headers):
            if b"\r" in value or b"\n" in value or name == b"connection":
                return False
            parts += (name, b": ", value, b"\r\n")
        parts.append(b"\r\n" if cycle.keep_alive else b"connection: close\r\n\r\n")
        if cycle.scope["method"] != "HEAD":
            parts.append(body)
        self.transport.write(b"".join(parts))
        cycle.response_started = cycle.response_complete = True
        cycle.message_event.set()
        if not cycle.keep_alive:
            self.transport.close()
        self.on_response_complete()
        return True

    @property
    def keeps_alive(self) -> bool:
        """Whether the connection stays open after the answer under way."""
        return bool(self._running.keep_alive)

    def write_plainly(self, length: int) -> None:
        """The next part of the answer has so many bytes, and goes out as it is: a client of
        HTTP/1.0 knows no chunks, and takes the close for the end (RFC 9112 s6.1, s6.3)."""
        self._running.chunked_encoding = False
        self._running.expected_content_length = length

    def abort(self) -> None:
        """Drop the connection with what is unsent."""
        self.transport.abort()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._since = self._listener.now
        if len(self.connections) > self.bounds.connections:
            self._refuse(503, "Too many connections")

    def data_received(self, data: bytes) -> None:
        if self._phase == _LEAVING:
            return
        if self._phase == _IDLE:
            self._enter(_HEAD)
        self._bytes += len(data)
        if self._phase == _BODY:
            self._dry_bytes += len(data)
        if self._phase == _HEAD and (b"pgrade" in data or b"PGRADE" in data):
            data = _without_upgrade(data)
        super().data_received(data)
        if self._phase == _LEAVING or self.transport.is_closing():
            return
        if self._is_upgrade:
            self._refuse(400, "Protocol upgrades are not supported; send the request without one")
        elif self._phase == _HEAD and self._bytes > self.bounds.head_bytes:
            self._refuse_head()
        elif self._phase == _BODY and self._dry_bytes > self.bounds.head_bytes:
            self._refuse(400, "The request's chunk extensions or trailers are too large")
        elif self._is_surplus():
            self.transport.close()

    def _is_surplus(self) -> bool:
        """Whether too much came of a body that the application has refused."""
        return (
            self._phase == _BODY
            and self._bytes > self.bounds.surplus_bytes
            and self.cycle.response_complete
        )

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._give_up()

    def _give_up(self) -> None:
        """End the running call; nobody is there to take its answer."""
        self.is_lost = True
        if self._task is not None:
            self._running.disconnected = True
            self._task.cancel()

    def pause_writing(self) -> None:
        self._stalled_since = self._listener.now
        self._unsent = self.transport.get_write_buffer_size()
        super().pause_writing()

    # the parser's callbacks

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._phase != _HEAD:  # pipelined behind another request
            self._enter(_HEAD)
        self.scope["extensions"] = {EXTENSION: self}  # type: ignore[dict-item]

    def on_headers_complete(self) -> None:
        if self._bytes > self.bounds.head_bytes and self._head_bytes() > self.bounds.head_bytes:
            # came in one piece: refused below, by way of the parser
            raise ValueError("the head is too large")
        self._is_upgrade = self.parser.should_upgrade()
        super().on_headers_complete()
        # trailers are no headers (RFC 9110 s6.5.1): a proxy before the door has not judged them
        self.headers = []
        self._dry_bytes = 0
        self._enter(_BODY)

    def _head_bytes(self) -> int:
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)

    def on_body(self, body: bytes) -> None:
        self._dry_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._enter(_IDLE if self.cycle.response_complete else _ANSWER)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        self.streams = False
        self._task = None
        if self._phase == _ANSWER and not self.pipeline:
            self._enter(_IDLE)
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            cycle, app = self.pipeline.pop()
            self._start_asgi_task(cycle, app)

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        task = self.loop.create_task(cycle.run_asgi(app))
        task.add_done_callback(self.tasks.discard)
        self.tasks.add(task)
        self._task, self._running = task, cycle

    def _unset_keepalive_if_required(self) -> None:
        """The clock watches idle connections; there is no timer to take back."""

    # bounds

    def _enter(self, phase: int) -> None:
        self._phase = phase
        self._since = self._listener.now
        self._bytes = 0

    def check(self, now: float) -> None:
        """Called by the clock: end what takes too long, write a comment where it is due."""
        if self.transport.is_closing():
            # a close that waits for a client that does not read
            self._check_writing(now)
            return
        waited = now - self._since
        if self._phase == _ANSWER or self._is_pipelined():
            self._check_writing(now)
            self._comment(now)
        elif self._phase == _IDLE:
            if waited > self.bounds.idle_timeout:
                self.transport.close()
        elif self._phase == _HEAD:
            if waited > self.bounds.head_timeout:
                if self._bytes:
                    self._refuse(408, "The request's head took too long")
                else:
                    # who has asked nothing would take an answer for that of its next request
                    self.transport.close()
        elif self._phase == _LEAVING:
            if waited > _LINGER:
                self.abort()
        elif waited > self.bounds.body_timeout + self._bytes / self.bounds.body_rate:
            self._refuse(408, "The request's body took too long")

    def _is_pipelined(self) -> bool:
        """Whether the request that arrives waits for the answer to another one."""
        return self._task is not None and (self._phase == _HEAD or self._running is not self.cycle)

    def _check_writing(self, now: float) -> None:
        unsent = self.transport.get_write_buffer_size()
        # nothing is added to what is unsent while writing is paused, or once it is closed
        is_stuck = self.flow.write_paused or self.transport.is_closing()
        if not is_stuck or unsent < self._unsent or self._stalled_since == 0.0:
            self._stalled_since = now
        elif now - self._stalled_since > self.bounds.write_timeout:
            logger.info("client %s takes no bytes; its connection is cut", self.client)
            self.abort()
        self._unsent = unsent

    def _comment(self, now: float) -> None:
        due = self.streams and now - self.wrote_at >= self.bounds.keep_alive
        if due and not self.flow.write_paused:
            self.transport.write(_COMMENT_CHUNK if self._running.chunked_encoding else COMMENT)
            self.wrote_at = now

    def send_400_response(self, msg: str) -> None:
        """What came is not HTTP, or its head was refused."""
        if self._phase == _HEAD and self._bytes > self.bounds.head_bytes:
            self._refuse_head()
        else:
            self._refuse(400, msg)

    def _refuse_head(self) -> None:
        self._refuse(431, f"The request's head is larger than {self.bounds.head_bytes} bytes")

    def _refuse(self, status: int, reason: str) -> None:
        """Answer by the wire itself, before or instead of the application, and close."""
        is_answered = self._phase == _BODY and self.cycle.response_started
        is_under_way = self._task is not None and self._running.response_started
        if is_answered or is_under_way or self._is_pipelined():
            self.abort()  # a second answer would be taken for a part of the first
            return
        body = b'{"error":"' + reason.encode() + b'"}'
        self.transport.write(
            STATUS_LINE[status]
            + b"content-type: application/json\r\nconnection: close\r\ncontent-length: "
            + b"%d\r\n\r\n%b" % (len(body), body)
        )
        self._give_up()
        if self.transport.can_write_eof():
            self.transport.write_eof()
            self._enter(_LEAVING)
        else:  # TLS
            self.transport.close()


def _without_upgrade(data: bytes) -> bytes:
    """Hide an Upgrade header, which a server may ignore (RFC 9110 s7.8), from the parser: it
    would take the body for another protocol. Java's HTTP client offers h2c with each request."""
    head, end, rest = data.partition(b"\r\n\r\n")
    return _UPGRADE.sub(b"\r\nx-upgrade", head) + end + rest
