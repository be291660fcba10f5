"""Streams as server-sent events (A2A 9.4.2, 11.7; WHATWG HTML s9.2).

Each event is `id: SEQ` (where it has a sequence number, to resume after), one line of `data`, and
a blank line. A failure before the first event is left to the caller, who answers it as an ordinary
response; one after it becomes a last `data` frame. What is ready together leaves in one write.
"""

import asyncio
from typing import Any, Protocol

from gateway.errors import BY_REASON, Failure, judge
from transports.http.exchange import Exchange, Headers
from transports.http.protocol import COMMENT
from transports.jsonrpc.dispatch import Operation
from transports.jsonrpc.envelope import RESULT_TAIL, error_response, result_head

HEADERS: Headers = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache"),
    (b"connection", b"keep-alive"),
    (b"x-accel-buffering", b"no"),  # nginx would hold events back
]

STOPPING = Failure(
    BY_REASON["UNAVAILABLE"],
    "The server is stopping; a task that was started goes on",
    retry_after=1.0,
)


class Frames(Protocol):
    """How one wire writes events and failures."""

    def event(self, sequence: int, payload: bytes) -> bytes:
        """One event; `payload` is a serialized StreamResponse."""

    def failure(self, failure: Failure) -> bytes:
        """The last frame of a stream that failed."""


class JsonRpcFrames:
    """`data` holds a whole JSON-RPC response with the id of the request (A2A 9.4.2)."""

    __slots__ = ("_head", "_id", "_operation")

    def __init__(self, operation: Operation, call_id: bytes):
        self._operation = operation
        self._id = call_id
        self._head = b"data: " + result_head(call_id)

    def event(self, sequence: int, payload: bytes) -> bytes:
        text = self._head + self._operation.write_event(payload) + RESULT_TAIL + b"\n\n"
        return b"id: %d\n%b" % (sequence, text) if sequence else text

    def failure(self, failure: Failure) -> bytes:
        return b"data: " + error_response(self._id, failure) + b"\n\n"


async def send(exchange: Exchange, stream: Any, frames: Frames) -> Failure | None:
    """Write a stream to its end; closes it at the core in any case, at once where the client is
    gone. Returns the failure where nothing was sent yet."""
    try:
        await _send(exchange, stream, frames)
        return None
    except asyncio.CancelledError:
        if exchange.is_lost:
            raise
        # cancelled by the door's stop, not by the client: say so
        failure = STOPPING
    except Exception as error:
        failure = judge(error)
    finally:
        await stream.aclose()
    if not exchange.started:
        return failure
    await exchange.write(frames.failure(failure), more=False)
    return None


async def _send(exchange: Exchange, stream: Any, frames: Frames) -> None:
    connection = exchange.connection
    batch = await _first(exchange, stream)
    if not exchange.started:
        await _start(exchange, stream)
    while batch is not None:
        try:
            text = b"".join([frames.event(*event) for event in batch])
        except Exception:
            # those before the one that cannot be written as JSON
            for event in batch:
                await exchange.write(frames.event(*event))
            raise
        await exchange.write(text)
        if connection is not None:
            connection.wrote_at = connection.now
        batch = await anext(stream, None)
    await exchange.write(b"", more=False)


async def _first(exchange: Exchange, stream: Any) -> Any:
    """The first batch, None where the stream is empty; sends the head if it takes long."""
    patience = exchange.connection.bounds.patience if exchange.connection else None
    task = asyncio.create_task(_next(stream))
    try:
        await asyncio.wait((task,), timeout=patience)
        if not task.done():
            await _start(exchange, stream)
            await exchange.write(COMMENT)
        return await task
    except BaseException:
        # the stream may not be closed while somebody waits for its next batch
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        raise


async def _next(stream: Any) -> Any:
    return await anext(stream, None)


async def _start(exchange: Exchange, stream: Any) -> None:
    await exchange.start(200, HEADERS + metadata_headers(stream.metadata))
    if exchange.connection is not None:
        exchange.connection.wrote_at = exchange.connection.now
        exchange.connection.streams = True


def metadata_headers(metadata: dict[str, str] | None) -> Headers:
    """Response metadata that the client is to see, such as the activated extensions (R15)."""
    if not metadata:
        return []
    return [
        (name.encode("latin-1", "replace"), value.encode("latin-1", "replace"))
        for name, value in metadata.items()
        if name.startswith("a2a-")
    ]
