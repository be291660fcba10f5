"""One end of the socket between the core and an agent's process."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gateway.agents.process.frames import FrameError, Kind, encode
from gateway.agents.process.stream import MAX_WAITING_BYTES, FrameStream
from tests.conftest import run


class End:
    """A stream, and what came of it."""

    def __init__(self) -> None:
        self.frames: list[tuple[int, int, bytes]] = []
        self.lost: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        self.stream = FrameStream(
            lambda *frame: self.frames.append(frame), self.lost.set_result, limit=1 << 20
        )


@asynccontextmanager
async def one_end() -> AsyncIterator[tuple[End, socket.socket]]:
    """A stream, and the bare socket at the other end."""
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    end = End()
    with theirs:
        await asyncio.get_running_loop().create_unix_connection(lambda: end.stream, sock=ours)
        yield end, theirs
        # what is not read would be waited for
        theirs.close()
        end.stream.close()
        await end.lost


async def read(sock: socket.socket, size: int) -> bytes:
    loop, data = asyncio.get_running_loop(), b""
    while len(data) < size:
        data += await loop.sock_recv(sock, size)
    return data


def test_what_is_ready_together_leaves_together() -> None:
    async def main() -> None:
        async with one_end() as (end, other):
            frames = [encode(Kind.EVENT, number, b"x") for number in range(3)]
            for number in range(3):
                end.stream.send(Kind.EVENT, number, b"x")
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert other.recv(1000) == b"".join(frames)

    run(main())


def test_much_does_not_wait_for_the_next_round() -> None:
    async def main() -> None:
        async with one_end() as (end, other):
            end.stream.send(Kind.EVENT, 1, b"x" * MAX_WAITING_BYTES)
            assert other.recv(5)

    run(main())


def test_frames_arrive() -> None:
    async def main() -> None:
        async with one_end() as (end, other):
            await asyncio.get_running_loop().sock_sendall(other, encode(Kind.EXECUTE, 7, b"abc"))
            while not end.frames:  # noqa: ASYNC110 - a stream has no event to wait on
                await asyncio.sleep(0)
            assert end.frames == [(Kind.EXECUTE, 7, b"abc")]

    run(main())


def test_what_is_no_frame_ends_the_stream() -> None:
    async def main() -> None:
        async with one_end() as (end, other):
            await asyncio.get_running_loop().sock_sendall(other, b"\xff" * 100)
            assert isinstance(await end.lost, FrameError)
            end.stream.send(Kind.PING)
            await asyncio.sleep(0)

    run(main())


def test_a_writer_waits_for_the_other_end() -> None:
    async def main() -> None:
        async with one_end() as (end, other):
            end.stream.send(Kind.EVENT, 1, b"x" * (4 << 20))
            assert end.stream.is_full
            draining = asyncio.create_task(end.stream.drained())
            await read(other, 4 << 20)
            await draining
            assert not end.stream.is_full

    run(main())


def test_its_end_wakes_who_waits() -> None:
    async def main() -> None:
        async with one_end() as (end, other):
            end.stream.send(Kind.EVENT, 1, b"x" * (4 << 20))
            other.close()
            await end.stream.drained()
            await end.lost

    run(main())
