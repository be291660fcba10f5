"""A link on a byte stream: batches, each behind its length (four bytes, little-endian).

What carries a link over a Unix socket, at both ends. Offers what a gRPC stream offers (`read`,
`write`, `cancel`, `peer`), so that the ends do not know which of the two carries them. Used
where both ends are on one machine, because gRPC passes every message through threads of its own;
docs/decisions/0005-link-carriers.md has the figures.
"""

import asyncio
import contextlib
import os
from collections import deque
from collections.abc import Awaitable, Callable
from struct import Struct
from typing import cast

from google.protobuf.message import DecodeError

from gateway.link.frames import LinkProtocolError
from gateway.pb import link_pb2

HEAD = Struct("<I")
MAX_BATCH_BYTES = 16 << 20
"""Far above any batch; a length beyond it is no length but another protocol."""
MAX_WAITING = 64
"""Batches that may wait for the reader before the socket is left alone."""
WRITE_BUFFER_BYTES = 1 << 20


class BatchStream(asyncio.Protocol):
    """One end of a stream. `opened` is called once it is connected."""

    def __init__(self, opened: Callable[["BatchStream"], None] | None = None) -> None:
        self._opened = opened
        self.on_lost: Callable[[], object] | None = None
        """Called when the stream ends while nobody reads, who would see it."""
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._batches: deque[link_pb2.Batch] = deque()
        self._reader: asyncio.Future[None] | None = None
        self._room: asyncio.Future[None] | None = None
        self._is_over = False
        self._is_paused = False
        self._broken: LinkProtocolError | None = None
        self._loop = asyncio.get_running_loop()

    # Of asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are asyncio's in all but their class
        self._transport = transport = cast(asyncio.Transport, transport)
        transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)
        if self._opened is not None:
            self._opened(self)

    def data_received(self, data: bytes) -> None:
        if self._broken is not None:
            return
        if self._buffer:
            self._buffer += data
            data = bytes(self._buffer)
            self._buffer.clear()
        try:
            used = self._take(data)
        except (DecodeError, LinkProtocolError) as error:
            self._broken = LinkProtocolError(f"what came is no batch: {error}")
        else:
            if used < len(data):
                self._buffer += data[used:]
        self._wake()
        if len(self._batches) > MAX_WAITING and not self._is_paused and self._transport:
            self._is_paused = True
            self._transport.pause_reading()

    def _take(self, data: bytes) -> int:
        """Queue the whole batches of `data`; how many bytes they were."""
        at, end = 0, len(data)
        while end - at >= HEAD.size:
            (size,) = HEAD.unpack_from(data, at)
            if size > MAX_BATCH_BYTES:
                raise LinkProtocolError(f"a batch of {size} bytes")
            begin = at + HEAD.size
            if end - begin < size:
                break
            at = begin + size
            self._batches.append(link_pb2.Batch.FromString(data[begin:at]))
        return at

    def eof_received(self) -> None:
        """The other end has hung up: so does this one."""

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_over = True
        if self._reader is None and self.on_lost is not None:
            self.on_lost()
        self._wake()
        self.resume_writing()

    def pause_writing(self) -> None:
        self._room = self._loop.create_future()

    def resume_writing(self) -> None:
        room, self._room = self._room, None
        if room is not None and not room.done():
            room.set_result(None)

    def _wake(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None and not reader.done():
            reader.set_result(None)

    # As a gRPC stream

    async def read(self) -> link_pb2.Batch | None:
        """The next batch; None at the end. Raises `LinkProtocolError` for what is no batch."""
        while not self._batches:
            if self._broken is not None:
                raise self._broken
            if self._is_over:
                return None
            self._reader = self._loop.create_future()
            await self._reader
        batch = self._batches.popleft()
        if self._is_paused and not self._batches and self._transport:
            self._is_paused = False
            self._transport.resume_reading()
        return batch

    async def write(self, batch: bytes) -> None:
        """Send a batch; waits while the other end does not keep up. Raises `InvalidStateError`
        where nothing of it has left, and `ConnectionError` where some of it may have."""
        transport = self._transport
        if transport is None or self._is_over or transport.is_closing():
            raise asyncio.InvalidStateError("the stream has ended")
        transport.write(HEAD.pack(len(batch)) + batch)
        if self._room is not None:
            await asyncio.shield(self._room)
            if self._is_over:
                raise ConnectionResetError("the stream has ended")

    def cancel(self) -> None:
        """End the stream at once."""
        if self._transport is not None:
            self._transport.abort()

    async def close(self) -> None:
        """End the stream once what was written has left."""
        if self._transport is not None:
            self._transport.close()

    def peer(self) -> str:
        """Where the other end is, as gRPC says it."""
        return "unix:"

    def peer_identities(self) -> None:
        """A socket has no certificate."""


class StreamListener:
    """A Unix socket that takes streams in; `serve` runs each to its end. `claim` makes the path
    free before it is bound, and raises `OSError` where it is somebody else's."""

    def __init__(
        self,
        path: str,
        serve: Callable[[BatchStream], Awaitable[None]],
        claim: Callable[[str], None] = lambda path: None,
    ) -> None:
        self._path = path
        self._serve = serve
        self._claim = claim
        self._server: asyncio.AbstractServer | None = None
        self._streams: dict[BatchStream, asyncio.Task[None]] = {}

    async def start(self) -> tuple[str, ...]:
        """Listen; where. Raises `OSError`."""
        loop = asyncio.get_running_loop()
        self._claim(self._path)
        # nobody else may open it, not even for the moment before a chmod
        mask = os.umask(0o177)
        try:
            self._server = await loop.create_unix_server(
                lambda: BatchStream(self._opened), self._path
            )
        finally:
            os.umask(mask)
        return (f"unix:{self._path}",)

    def _opened(self, stream: BatchStream) -> None:
        task = asyncio.get_running_loop().create_task(self._run(stream))
        stream.on_lost = task.cancel
        self._streams[stream] = task
        task.add_done_callback(lambda _: self._streams.pop(stream))

    async def _run(self, stream: BatchStream) -> None:
        try:
            await self._serve(stream)
        finally:
            await stream.close()

    async def stop(self, grace: float = 0.0) -> None:
        """Listen no more; cut the streams that have not ended within `grace` seconds."""
        if self._server is None:
            return
        self._server.close()
        self._server = None
        if grace and self._streams:
            await asyncio.wait(tuple(self._streams.values()), timeout=grace)
        for stream in self._streams:
            stream.cancel()
        if tasks := tuple(self._streams.values()):
            await asyncio.wait(tasks)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path)
