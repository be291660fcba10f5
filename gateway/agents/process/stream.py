"""One end of the socket between the core and an agent's process. Frames that are ready together
leave in one write."""

import asyncio
from collections.abc import Callable
from typing import cast

from gateway.agents.process.frames import Decoder, FrameError, Kind, encode

WRITE_BUFFER_BYTES = 1 << 20
MAX_WAITING_BYTES = 256 * 1024
"""Frames that wait for the loop's next round; beyond, they are written at once."""


class FrameStream(asyncio.Protocol):
    """Calls `took` for each frame, and `lost` once at the end, with the reason or none."""

    def __init__(
        self,
        took: Callable[[int, int, bytes], None],
        lost: Callable[[Exception | None], None],
        limit: int,
    ):
        self._took = took
        self._lost = lost
        self._decoder = Decoder(limit)
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._room: asyncio.Event = asyncio.Event()
        self._room.set()
        self._error: Exception | None = None

    def send(self, kind: Kind, number: int = 0, payload: bytes = b"") -> None:
        """Send one frame; after the end of the stream nothing happens."""
        if not self._waiting:
            self._loop.call_soon(self.flush)
        frame = encode(kind, number, payload)
        self._waiting.append(frame)
        self._waiting_bytes += len(frame)
        if self._waiting_bytes > MAX_WAITING_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what waits."""
        if self._waiting and self._transport is not None and not self._transport.is_closing():
            self._transport.write(b"".join(self._waiting))
        self._waiting.clear()
        self._waiting_bytes = 0

    @property
    def is_full(self) -> bool:
        """Whether the other end does not keep up."""
        return not self._room.is_set()

    async def drained(self) -> None:
        """Wait until the other end keeps up again, or is gone."""
        await self._room.wait()

    def close(self) -> None:
        """Write what waits and end the stream."""
        self.flush()
        if self._transport is not None:
            self._transport.close()

    # Of asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are asyncio's in all but their class
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)

    def data_received(self, data: bytes) -> None:
        if self._error is not None:
            return
        try:
            for kind, number, payload in self._decoder.feed(data):
                self._took(kind, number, payload)
        except FrameError as error:
            self._error = error
            if self._transport is not None:
                self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._room.set()
        self._lost(self._error or exc)

    def pause_writing(self) -> None:
        self._room.clear()

    def resume_writing(self) -> None:
        self._room.set()
