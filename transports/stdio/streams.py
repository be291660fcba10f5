"""Bytes of descriptors that this process was given: pipes, sockets, terminals, files.

Wire layer of the stdio door. `O_NONBLOCK` belongs to an open file that others may share (the
terminal of a shell, the pipe of a parent), so it is never set on one that is not ours: a pipe is
opened anew, a socket is asked for one call at a time, and everything else has a thread.
"""

import asyncio
import contextlib
import os
import queue
import socket
import stat
import threading
from collections.abc import Callable
from typing import Any, Protocol

READ_BYTES = 256 * 1024
READS_IN_A_ROW = 4
"""Without a wait, then others have their turn: a peer that never pauses must not have it all."""


class Take(Protocol):
    """Reads what is there, b"" at the end. Raises `BlockingIOError` and other `OSError`s."""

    def __call__(self) -> bytes: ...


class Put(Protocol):
    """Writes what there is room for, and says how much it was. Raises `BlockingIOError` and
    other `OSError`s."""

    def __call__(self, data: memoryview) -> int: ...


class Input:
    """What comes in by a descriptor, which is closed with it."""

    def __init__(self, descriptor: int):
        self._loop = asyncio.get_running_loop()
        self._source = _Source.of(descriptor, os.O_RDONLY)
        self._wait: asyncio.Future[bytes] | None = None
        self._is_watched = False
        self._in_a_row = 0

    async def read(self) -> bytes:
        """Some bytes, b"" at the end. Raises `OSError`. One reader at a time."""
        source = self._source
        if source.thread is not None:
            return bytes(await source.thread.run(source.take))
        self._in_a_row += 1
        if self._in_a_row > READS_IN_A_ROW:
            self._in_a_row = 0
            await asyncio.sleep(0)
        try:
            return source.take()
        except BlockingIOError:
            self._in_a_row = 0
        self._wait = self._loop.create_future()
        if not self._is_watched:
            self._is_watched = True
            self._loop.add_reader(source.number, self._take)
        try:
            return await self._wait
        finally:
            self._wait = None

    def _take(self) -> None:
        if self._wait is None:
            # nobody wants it now; the watch goes on only from one read to the next
            self._unwatch()
            return
        if self._wait.done():
            return
        try:
            self._wait.set_result(self._source.take())
        except BlockingIOError:
            pass
        except OSError as error:
            self._wait.set_exception(error)

    def _unwatch(self) -> None:
        if self._is_watched:
            self._is_watched = False
            self._loop.remove_reader(self._source.number)

    def close(self) -> None:
        """Read no more. A second call does nothing."""
        self._unwatch()
        if self._wait is not None:
            self._wait.cancel()
        self._source.close()


class Output:
    """What goes out by a descriptor, which is closed with it."""

    def __init__(self, descriptor: int):
        self._loop = asyncio.get_running_loop()
        self._source = _Source.of(descriptor, os.O_WRONLY)

    async def write(self, data: bytes) -> None:
        """All of it; returns once the system has it. Raises `OSError` where nobody reads any
        more. One writer at a time."""
        source = self._source
        left = memoryview(data)
        while left:
            if source.thread is not None:
                left = left[await source.thread.run(source.put, left) :]
                continue
            try:
                left = left[source.put(left) :]
            except BlockingIOError:
                await self._writable()

    async def _writable(self) -> None:
        wait = self._loop.create_future()
        self._loop.add_writer(self._source.number, _settle, wait)
        try:
            await wait
        finally:
            self._loop.remove_writer(self._source.number)

    def close(self) -> None:
        """The reader sees the end. A second call does nothing."""
        self._source.close()


class _Source:
    """A descriptor, and how to use it without waiting."""

    def __init__(
        self,
        number: int,
        take: Take,
        put: Put,
        close: Callable[[], None],
        thread: "_Thread | None" = None,
    ):
        self.number = number
        self.take = take
        self.put = put
        self.thread = thread
        self._close: Callable[[], None] | None = close

    @classmethod
    def of(cls, descriptor: int, flags: int) -> "_Source":
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISSOCK(mode):
            sock = socket.socket(fileno=descriptor)
            return cls(
                descriptor,
                lambda: sock.recv(READ_BYTES, socket.MSG_DONTWAIT),
                lambda data: sock.send(data, socket.MSG_DONTWAIT),
                sock.close,
            )
        thread = None
        if stat.S_ISFIFO(mode) and (own := _opened_anew(descriptor, flags)) is not None:
            os.close(descriptor)
            descriptor = own
        else:
            thread = _Thread()
        return cls(
            descriptor,
            lambda: os.read(descriptor, READ_BYTES),
            lambda data: os.write(descriptor, data),
            lambda: os.close(descriptor),
            thread,
        )

    def close(self) -> None:
        close, self._close = self._close, None
        if close is None:
            return
        if self.thread is None:
            close()
        else:
            # behind whatever it is waiting for; a descriptor in use must not be given away
            self.thread.end(close)


def _opened_anew(descriptor: int, flags: int) -> int | None:
    """The same pipe, open a second time with flags of its own; None where the system has no
    such thing, or the pipe belongs to another user."""
    try:
        return os.open(f"/proc/self/fd/{descriptor}", flags | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None


def _settle(wait: "asyncio.Future[None]") -> None:
    if not wait.done():
        wait.set_result(None)


class _Thread:
    """One thread for calls that may wait. It keeps no process from ending."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="stdio", daemon=True).start()

    async def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """The function's result."""
        loop = asyncio.get_running_loop()
        future = loop.create_future()

        def told(result: Any, error: BaseException | None) -> None:
            if future.done():
                return
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)

        def call() -> None:
            result = error = None
            try:
                result = function(*arguments)
            except OSError as failure:
                error = failure
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
                loop.call_soon_threadsafe(told, result, error)

        self._calls.put(call)
        return await future

    def end(self, last: Callable[[], None]) -> None:
        """Call `last`, and end."""
        self._calls.put(last)
        self._calls.put(None)

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            call()
