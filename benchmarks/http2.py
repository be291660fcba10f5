"""A small HTTP/2 client for gRPC unary load: one connection, many calls in flight.

Request headers are encoded once and stay in the server's header table, as with real clients;
bodies are built by template. It checks every answer: `grpc-status: 0` and a COMPLETED task. A
grpc.aio client would cost 150 microseconds a call; this one some 20.
"""

import asyncio
import struct
from collections import deque
from collections.abc import Callable
from typing import cast

from a2a.types.a2a_pb2 import SendMessageResponse, TaskState
from hpack import Decoder, Encoder

from benchmarks.requests import Template

PATH = "/lf.a2a.v1.A2AService/SendMessage"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
MAX_WINDOW = 2**31 - 1
FIRST_WINDOW = 65_535
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM, ACK, END_HEADERS = 0x1, 0x1, 0x4
INITIAL_WINDOW_SIZE = 4
_HEAD = struct.Struct(">BHBBI")


def _frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return _HEAD.pack(len(payload) >> 16, len(payload) & 0xFFFF, kind, flags, stream) + payload


class GrpcClient:
    """One connection, at most `streams` calls in flight. `start(tag)` sends a call or keeps it
    until there is room; `on_answer(tag)` is called at each good answer."""

    def __init__(self, request: Template, *, streams: int) -> None:
        self.on_answer: Callable[[float], None] = lambda tag: None
        self.first = b""
        self._request = request
        self._streams = streams
        self._connection = _Connection(self._answered)

    @property
    def failure(self) -> str:
        """Why the load is void; empty while all is well."""
        return self._connection.failure

    async def open(self, port: int) -> None:
        """Connect."""
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: self._connection, "127.0.0.1", port)
        self._connection.authority = f"localhost:{port}"

    def start(self, tag: float) -> None:
        """Send one call."""
        self._connection.send(self._request.fill(), tag, self._streams)

    def close(self) -> None:
        """Drop the connection; answers under way are not counted."""
        self._connection.close()

    def _answered(self, tag: float, body: bytes) -> None:
        if not self.first:
            self.first = body
        answer = SendMessageResponse.FromString(body[5:])
        if answer.task.status.state != TaskState.TASK_STATE_COMPLETED or not answer.task.artifacts:
            self._connection.fail(f"not a completed task: {answer}")
            return
        self.on_answer(tag)


class _Connection(asyncio.Protocol):
    def __init__(self, answered: Callable[[float, bytes], None]) -> None:
        self.failure = ""
        self.authority = "localhost"
        self._answered = answered
        self._encoder = Encoder()
        self._decoder = Decoder()
        self._decoded: dict[bytes, str] = {}
        """Header block -> its grpc-status; valid while the decoder's table does not change."""
        self._headers: list[bytes] = []
        self._calls: dict[int, tuple[float, bytes]] = {}
        self._waiting: deque[tuple[bytes, float]] = deque()
        self._limit = 0
        self._next = 1
        self._window = FIRST_WINDOW
        self._received = 0
        self._buffer = b""
        self._out: list[bytes] = []
        self._reading = False
        self._closing = False
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not subclasses of asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        settings = struct.pack(">HI", INITIAL_WINDOW_SIZE, MAX_WINDOW)
        grow = struct.pack(">I", MAX_WINDOW - FIRST_WINDOW)
        self._transport.write(
            PREFACE + _frame(SETTINGS, 0, 0, settings) + _frame(WINDOW_UPDATE, 0, 0, grow)
        )

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._closing:
            self.fail(f"the server closed the connection: {exc}")

    def close(self) -> None:
        self._closing = True
        if self._transport:
            self._transport.abort()

    def fail(self, reason: str) -> None:
        self.failure = self.failure or reason

    def send(self, body: bytes, tag: float, limit: int) -> None:
        self._limit = limit
        self._waiting.append((body, tag))
        self._send_waiting()

    def data_received(self, data: bytes) -> None:
        data = self._buffer + data if self._buffer else data
        at = 0
        self._reading = True
        while len(data) - at >= _HEAD.size:
            high, low, kind, flags, stream = _HEAD.unpack_from(data, at)
            end = at + _HEAD.size + (high << 16 | low)
            if end > len(data):
                break
            self._frame_received(kind, flags, stream, data[at + _HEAD.size : end])
            at = end
        self._buffer = data[at:]
        self._reading = False
        self._send_waiting()

    def _send_waiting(self) -> None:
        while self._waiting and len(self._calls) < self._limit:
            body, tag = self._waiting[0]
            if len(body) > self._window:
                break
            self._waiting.popleft()
            self._window -= len(body)
            stream, self._next = self._next, self._next + 2
            self._calls[stream] = (tag, b"")
            self._out.append(_frame(HEADERS, END_HEADERS, stream, self._request_headers()))
            self._out.append(_frame(DATA, END_STREAM, stream, body))
        if self._out and not self._reading and self._transport:
            self._transport.write(b"".join(self._out))
            self._out.clear()

    def _request_headers(self) -> bytes:
        """Literal and remembered by the server the first time, indexes of its table after."""
        if len(self._headers) < 2:
            headers = [
                (":method", "POST"),
                (":scheme", "http"),
                (":path", PATH),
                (":authority", self.authority),
                ("te", "trailers"),
                ("content-type", "application/grpc"),
                ("user-agent", "a2a-gateway-bench"),
                ("a2a-version", "1.0"),
            ]
            self._headers.append(self._encoder.encode(headers))
            return self._headers[-1]
        return self._headers[1]

    def _frame_received(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == DATA:
            tag, body = self._calls[stream]
            self._calls[stream] = (tag, body + payload)
            self._count(len(payload))
        elif kind == HEADERS:
            if not flags & END_HEADERS:
                self.fail("a header block in several frames, which this client does not read")
            status = self._status(payload)
            if flags & END_STREAM:
                self._ended(stream, status)
        elif kind == SETTINGS and not flags & ACK:
            self._out.append(_frame(SETTINGS, ACK, 0))
        elif kind == PING and not flags & ACK:
            self._out.append(_frame(PING, ACK, 0, payload))
        elif kind == WINDOW_UPDATE and stream == 0:
            self._window += int.from_bytes(payload, "big")
        elif kind in (RST_STREAM, GOAWAY):
            self.fail(f"the server gave up (frame type {kind}): {payload!r}")

    def _count(self, size: int) -> None:
        self._received += size
        if self._received > 2**29:
            self._out.append(_frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", self._received)))
            self._received = 0

    def _status(self, block: bytes) -> str:
        if (known := self._decoded.get(block)) is not None:
            return known
        table = self._decoder.header_table
        before = [*table.dynamic_entries]
        headers = {str(name): str(value) for name, value, *_ in self._decoder.decode(block)}
        if [*table.dynamic_entries] != before:
            self._decoded.clear()
        status = f"{headers.get('grpc-status', '')} {headers.get('grpc-message', '')}".strip()
        self._decoded[block] = status
        return status

    def _ended(self, stream: int, status: str) -> None:
        tag, body = self._calls.pop(stream)
        if status != "0":
            self.fail(f"grpc-status {status}")
            return
        self._answered(tag, body)
