"""Descriptors of every kind: nothing waits, nothing is lost, nothing of others is changed."""

import asyncio
import fcntl
import os
import pty
import socket
import tty
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import run
from transports.stdio.streams import Input, Output

Pair = tuple[int, int]
"""What is read from, and what is written to."""
LARGE = b"".join(b"%09d\n" % number for number in range(200_000))


def sockets() -> Pair:
    one, other = socket.socketpair()
    return one.detach(), other.detach()


def terminal() -> Pair:
    master, slave = pty.openpty()
    tty.setraw(slave)
    return slave, master


PAIRS: dict[str, Callable[[], Pair]] = {"pipe": os.pipe, "socket": sockets, "terminal": terminal}


def is_blocking(descriptor: int) -> bool:
    return not fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_NONBLOCK


@pytest.mark.parametrize("kind", PAIRS)
def test_all_bytes_in_order(kind: str) -> None:
    """SD05: far more than the system keeps, with a reader and a writer at work."""

    async def main() -> bytes:
        reading, writing = PAIRS[kind]()
        source, sink = Input(reading), Output(writing)
        data = LARGE if kind != "terminal" else LARGE[:100_000]
        sending = asyncio.create_task(sink.write(data))
        got = bytearray()
        while len(got) < len(data):
            got += await source.read()
        await sending
        assert got == data
        sink.close()
        sink.close()
        if kind != "terminal":  # Linux says EIO there
            assert await source.read() == b""
        source.close()
        source.close()
        return bytes(got)

    assert run(main())


@pytest.mark.parametrize("kind", PAIRS)
def test_flags_of_others_stay(kind: str) -> None:
    """A pipe, a socket or a terminal that a shell shares still blocks, during and after."""

    async def main() -> None:
        reading, writing = PAIRS[kind]()
        others = os.dup(reading), os.dup(writing)
        source, sink = Input(reading), Output(writing)
        await sink.write(b"x")
        assert await source.read() == b"x"
        assert all(map(is_blocking, others))
        waiting = asyncio.create_task(source.read())
        await asyncio.sleep(0)
        assert all(map(is_blocking, others))
        await sink.write(b"y")
        assert await waiting == b"y"
        source.close()
        sink.close()
        assert all(map(is_blocking, others))
        for descriptor in others:
            os.close(descriptor)

    run(main())


def test_a_file(tmp_path: Path) -> None:
    """`a2a-gateway stdio < requests > answers`."""
    path = tmp_path / "in"
    path.write_bytes(LARGE)

    async def main() -> bytes:
        source = Input(os.open(path, os.O_RDONLY))
        sink = Output(os.open(tmp_path / "out", os.O_WRONLY | os.O_CREAT))
        while data := await source.read():
            await sink.write(data)
        source.close()
        sink.close()
        return b""

    run(main())
    assert (tmp_path / "out").read_bytes() == LARGE


@pytest.mark.parametrize("kind", ["pipe", "socket"])
def test_a_reader_that_is_gone(kind: str) -> None:
    """The writer learns it as an error, also while it waits for room."""

    async def main() -> None:
        reading, writing = PAIRS[kind]()
        sink = Output(writing)
        sending = asyncio.create_task(sink.write(LARGE))
        await asyncio.sleep(0.05)
        assert not sending.done()
        os.close(reading)
        with pytest.raises(OSError, match=r"Broken pipe|reset"):
            await sending
        sink.close()

    run(main())


def test_a_writer_that_never_pauses() -> None:
    """Who reads from it leaves others their turn."""

    async def main() -> None:
        reading, writing = os.pipe()
        source = Input(reading)
        os.set_blocking(writing, False)
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        other = asyncio.create_task(others())
        for _ in range(100):
            os.write(writing, b"x")
            await source.read()
        other.cancel()
        source.close()
        os.close(writing)
        assert turns >= 10

    run(main())


def test_closing_ends_a_read() -> None:
    """Nobody is left waiting."""

    async def main() -> None:
        reading, writing = os.pipe()
        source = Input(reading)
        waiting = asyncio.create_task(source.read())
        await asyncio.sleep(0)
        source.close()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        os.close(writing)

    run(main())


def test_a_cancelled_read_loses_nothing() -> None:
    """Of a pipe; the next read has what came."""

    async def main() -> None:
        reading, writing = os.pipe()
        source, sink = Input(reading), Output(writing)
        for _ in range(3):
            waiting = asyncio.create_task(source.read())
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait((waiting,))
            await sink.write(b"x")
            assert await source.read() == b"x"
        source.close()
        sink.close()

    run(main())
