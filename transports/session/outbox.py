"""The one writer of a session: what is ready leaves in one write, and unsent bytes are bounded.

Session layer, both ends. Frames that come while a write is under way gather behind it; no timer
delays any. Those that can wait (streams) ask for `room` before they make their next frames, and
are served in the order in which they asked.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable

Send = Callable[[list[bytes]], Awaitable[None]]
"""Writes payloads in order, each as a frame; returns once the peer takes more. Raises `OSError`
where the peer is gone."""

logger = logging.getLogger(__name__)

BATCH_BYTES = 256 * 1024
"""Of one write, unless a single frame is larger."""


class Outbox:
    """Frames on their way out. `on_lost` is called once, with the reason, when the peer is gone or
    has taken nothing for `timeout` seconds."""

    def __init__(
        self,
        send: Send,
        *,
        room_bytes: int,
        timeout: float | None,
        on_lost: Callable[[str], None],
    ):
        self.unsent_bytes = 0
        """Of payloads that the carrier has not taken yet."""
        self._send = send
        self._room_bytes = room_bytes
        self._timeout = timeout
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._frames: list[bytes] = []
        self._waiters: deque[asyncio.Future[None]] = deque()
        """For room."""
        self._work: asyncio.Future[None] | None = None
        """What the writer waits for while there is nothing to write."""
        self._flushed: asyncio.Future[None] | None = None
        self._began: float | None = None
        """When the write under way began."""
        self._watch: asyncio.TimerHandle | None = None
        self._is_closed = False
        self._writer = asyncio.create_task(self._run())

    @property
    def has_room(self) -> bool:
        """Whether a stream may make more frames, and none waits to do so."""
        return self.unsent_bytes < self._room_bytes and not self._waiters

    def progressed(self) -> None:
        """A part of the write under way was taken: the peer is alive."""
        self._began = self._loop.time()

    def put(self, frame: bytes) -> None:
        """One more frame; dropped once the outbox is closed."""
        if self._is_closed:
            return
        self._frames.append(frame)
        self.unsent_bytes += len(frame)
        self._added()

    def put_all(self, frames: list[bytes]) -> None:
        """As `put`, for frames that belong together."""
        if self._is_closed:
            return
        self._frames += frames
        self.unsent_bytes += sum(map(len, frames))
        self._added()

    def _added(self) -> None:
        if self._work is not None:
            self._work.set_result(None)
            self._work = None
        if self._waiters:
            self._give_room()

    async def room(self) -> None:
        """Wait for one's turn to put frames; put them before the next `await`."""
        if self._is_closed or self.has_room:
            return
        waiter = self._loop.create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self._give_room()
            raise

    async def turn(self) -> None:
        """Wait for room without putting anything then: the room is for the next in the row."""
        await self.room()
        self._give_room()

    def _give_room(self) -> None:
        while self._waiters and self.unsent_bytes < self._room_bytes:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    async def flush(self) -> None:
        """Until all is written, or the peer is gone."""
        while self.unsent_bytes and not self._is_closed:
            if self._flushed is None:
                self._flushed = self._loop.create_future()
            await asyncio.shield(self._flushed)

    async def close(self) -> None:
        """Drop what is unsent, and end a write that is under way. A second call does nothing."""
        self._end()
        self._writer.cancel()
        await asyncio.wait((self._writer,))

    def _end(self) -> None:
        self._is_closed = True
        self._frames.clear()
        self.unsent_bytes = 0
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        self._wake_all()

    def _wake_all(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
        self._settle()

    def _settle(self) -> None:
        if self._flushed is not None:
            self._flushed.set_result(None)
            self._flushed = None

    async def _run(self) -> None:
        reason = "the connection is closed"
        try:
            while True:
                if not self._frames:
                    self._settle()
                    self._work = self._loop.create_future()
                    await self._work
                await self._write()
        except OSError as error:
            reason = f"the peer is gone: {error.strerror or type(error).__name__}"
        except Exception:
            logger.exception("cannot write to the peer")
            reason = "writing failed"
        self._lose(reason)

    def _lose(self, reason: str) -> None:
        if not self._is_closed:
            self._end()
            self._on_lost(reason)

    async def _write(self) -> None:
        batch, size = self._take()
        self._began = self._loop.time()
        if self._watch is None and self._timeout is not None:
            self._watch = self._loop.call_later(self._timeout, self._look)
        await self._send(batch)
        self._began = None
        self.unsent_bytes -= size
        if self._waiters:
            self._give_room()

    def _take(self) -> tuple[list[bytes], int]:
        """Frames for one write, and their bytes."""
        frames = self._frames
        if self.unsent_bytes <= BATCH_BYTES:
            self._frames = []
            return frames, self.unsent_bytes
        size = count = 0
        for frame in frames:
            if size and size + len(frame) > BATCH_BYTES:
                break
            size += len(frame)
            count += 1
        batch, self._frames = frames[:count], frames[count:]
        return batch, size

    def _look(self) -> None:
        """One timer for all writes: has the one under way taken too long?"""
        self._watch = None
        if self._began is None or self._timeout is None:
            return
        left = self._began + self._timeout - self._loop.time()
        if left > 0:
            self._watch = self._loop.call_later(left, self._look)
            return
        self._writer.cancel()
        self._lose(f"the peer has taken nothing for {self._timeout:g} seconds")
