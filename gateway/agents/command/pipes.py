"""The core's ends of a program's stdin, stdout and stderr. Layer: agents.

None of them reads ahead or waits on a timer: what is there is taken when the loop says so, stdout
only when somebody wants it. So a program that floods is held up by its own full pipe.
"""

import asyncio
import contextlib
import os
from collections.abc import Callable
from typing import Self

READ_BYTES = 64 * 1024
"""A pipe holds as much, on Linux."""
LINGER = 0.5
"""Seconds of silence after a program's end for what it left behind to print more."""


class Input:
    """Writes the program's stdin and closes it. A program that reads none of it, or ends before
    it has read all, is no fault."""

    def __init__(self, descriptor: int, data: bytes):
        self._descriptor = descriptor
        self._data = memoryview(data)
        self._is_watched = False
        os.set_blocking(descriptor, False)
        self._write()

    def _write(self) -> None:
        try:
            while self._data:
                self._data = self._data[os.write(self._descriptor, self._data) :]
        except BlockingIOError:
            if not self._is_watched:
                self._is_watched = True
                asyncio.get_running_loop().add_writer(self._descriptor, self._write)
            return
        except OSError:
            pass  # EPIPE: it is not read any more
        self.close()

    def close(self) -> None:
        """End of the input; may be called twice."""
        if self._descriptor < 0:
            return
        if self._is_watched:
            asyncio.get_running_loop().remove_writer(self._descriptor)
        os.close(self._descriptor)
        self._descriptor = -1


class Errors:
    """Reads the program's stderr as it comes; `told` gets the bytes."""

    def __init__(self, descriptor: int, told: Callable[[bytes], None]):
        self._descriptor = descriptor
        self._told = told
        os.set_blocking(descriptor, False)
        asyncio.get_running_loop().add_reader(descriptor, self._read)

    def _read(self) -> None:
        with contextlib.suppress(BlockingIOError):
            data = os.read(self._descriptor, READ_BYTES)
            if data:
                self._told(data)
            else:
                self._end()

    def _end(self) -> None:
        asyncio.get_running_loop().remove_reader(self._descriptor)
        os.close(self._descriptor)
        self._descriptor = -1

    def close(self) -> None:
        """Take what is there, and no more; may be called twice."""
        if self._descriptor >= 0:
            self._read()
        if self._descriptor >= 0:
            self._end()


class Output:
    """Reads the program's stdout, by `read`."""

    def __init__(self, descriptor: int):
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        self._is_over = False
        self._linger: asyncio.TimerHandle | None = None
        self._waiter: asyncio.Future[None] | None = None
        os.set_blocking(descriptor, False)

    async def read(self) -> bytes:
        """What is there, waiting where nothing is; nothing at its end."""
        while True:
            try:
                return os.read(self._descriptor, READ_BYTES)
            except BlockingIOError:
                if self._is_over:
                    return b""
                await self._readable()

    def expect_end(self, *_: object) -> None:
        """The program has ended. What still holds the pipe may go on for a moment."""
        if self._descriptor >= 0:
            self._linger = self._loop.call_later(LINGER, self._give_up)

    def drop(self) -> None:
        """Nobody reads any more: take what comes and throw it away, so that a program that is told
        to end can print its last words."""
        self._loop.add_reader(self._descriptor, self._throw_away)

    def close(self) -> None:
        """May be called twice."""
        if self._linger is not None:
            self._linger.cancel()
        if self._descriptor >= 0:
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1

    async def _readable(self) -> None:
        self._waiter = self._loop.create_future()
        self._loop.add_reader(self._descriptor, self._wake)
        try:
            await self._waiter
        finally:
            self._waiter = None
            self._loop.remove_reader(self._descriptor)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _give_up(self) -> None:
        self._is_over = True
        self._wake()

    def _throw_away(self) -> None:
        with contextlib.suppress(BlockingIOError):
            if not os.read(self._descriptor, READ_BYTES):
                self._loop.remove_reader(self._descriptor)


class Pipes:
    """All three. `theirs` are the program's ends, for whoever starts it, and closes them."""

    def __init__(self, data: bytes, told: Callable[[bytes], None]):
        (theirs, stdin), (stdout, out), (stderr, errors) = _pipes(3)
        self.theirs = (theirs, out, errors)
        self.input = Input(stdin, data)
        self.output = Output(stdout)
        self.errors = Errors(stderr, told)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.input.close()
        self.output.close()
        self.errors.close()


def _pipes(count: int) -> list[tuple[int, int]]:
    """All of them, or an error and none."""
    made: list[tuple[int, int]] = []
    try:
        for _ in range(count):
            made.append(os.pipe())
    except OSError:
        for descriptor in (end for pipe in made for end in pipe):
            os.close(descriptor)
        raise
    return made
