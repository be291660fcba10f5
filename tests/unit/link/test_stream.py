"""Batches on a byte stream: cut anywhere, never a crash, never without bound."""

import asyncio
import itertools
import os
import stat
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager

import pytest
import uvloop
from hypothesis import given
from hypothesis import strategies as st

from gateway.link.frames import LinkProtocolError, encode_ping
from gateway.link.stream import HEAD, MAX_BATCH_BYTES, MAX_WAITING, BatchStream, StreamListener
from tests.conftest import run
from tests.doubles.link import addresses, until

PINGS = [encode_ping(nonce) for nonce in range(5)]


def wire(*batches: bytes) -> bytes:
    return b"".join(HEAD.pack(len(batch)) + batch for batch in batches)


async def nonces(stream: BatchStream, count: int) -> list[int]:
    batches = [await stream.read() for _ in range(count)]
    return [frame.ping.nonce for batch in batches if batch for frame in batch.frames]


@asynccontextmanager
async def pair(high: int | None = None) -> AsyncIterator[tuple[BatchStream, BatchStream]]:
    """Two ends of a real socket."""
    came: asyncio.Future[BatchStream] = asyncio.get_running_loop().create_future()
    over = asyncio.Event()

    async def serve(stream: BatchStream) -> None:
        came.set_result(stream)
        await over.wait()

    with addresses("unix") as address:
        path = address.removeprefix("unix:")
        listener = StreamListener(path, serve)
        await listener.start()
        loop = asyncio.get_running_loop()
        transport, near = await loop.create_unix_connection(BatchStream, path)
        if high is not None:
            transport.set_write_buffer_limits(high=high)
        try:
            yield near, await came
        finally:
            over.set()
            near.cancel()
            await listener.stop()


@given(cuts=st.lists(st.integers(0, 100), max_size=12))
def test_bytes_may_be_cut_anywhere(cuts: list[int]) -> None:
    data = wire(*PINGS)
    places = sorted({min(cut, len(data)) for cut in cuts} | {0, len(data)})

    async def main() -> None:
        stream = BatchStream()
        for begin, end in itertools.pairwise(places):
            stream.data_received(data[begin:end])
        assert await nonces(stream, len(PINGS)) == [0, 1, 2, 3, 4]

    run(main())


def test_one_byte_at_a_time() -> None:
    async def main() -> None:
        stream = BatchStream()
        for byte in wire(*PINGS):
            stream.data_received(bytes((byte,)))
        assert await nonces(stream, len(PINGS)) == [0, 1, 2, 3, 4]

    run(main())


@pytest.mark.parametrize(
    "junk",
    [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        HEAD.pack(MAX_BATCH_BYTES + 1),
        wire(b"\xff\xff\xff"),
        wire(b"\x0a\x05\x00"),
    ],
)
def test_what_is_no_batch_is_refused_after_what_was(junk: bytes) -> None:
    """No length is believed that no batch can have, so nothing grows without bound."""

    async def main() -> None:
        stream = BatchStream()
        stream.data_received(wire(PINGS[3]) + junk)
        assert await nonces(stream, 1) == [3]
        for _ in range(2):
            with pytest.raises(LinkProtocolError, match="no batch"):
                await stream.read()
        stream.data_received(b"x" * 1000)
        assert len(stream._buffer) < 1000

    run(main())


@pytest.mark.parametrize("runs", [run, uvloop.run])
def test_both_ways_and_the_end(runs: Callable[[Coroutine[None, None, None]], None]) -> None:
    """On both loops: the processes run on uvloop, most tests do not."""

    async def main() -> None:
        async with pair() as (near, far):
            await near.write(PINGS[1])
            await far.write(PINGS[2])
            assert await nonces(far, 1) == [1]
            assert await nonces(near, 1) == [2]
            await near.write(PINGS[4])
            await near.close()
            assert await nonces(far, 1) == [4]
            assert await far.read() is None
            with pytest.raises(asyncio.InvalidStateError):
                await near.write(PINGS[0])

    runs(main())


def test_a_reader_that_does_not_read_holds_the_writer_back() -> None:
    """Bounded at both ends: the reader queues some, the writer's socket fills, its write waits."""

    async def main() -> None:
        big = encode_ping(7) + b"\x0a\x00" * 4000
        async with pair(high=1000) as (near, far):
            written = 0

            async def flood() -> None:
                nonlocal written
                while written < 5000:
                    await near.write(big)
                    written += 1

            writer = asyncio.create_task(flood())
            await until(lambda: near._room is not None and far._is_paused)
            assert len(far._batches) <= 2 * MAX_WAITING + 64
            assert written < 5000
            while written < 5000 or far._batches:
                assert await far.read() is not None
            await writer

    run(main())


def test_a_writer_that_waits_hears_of_the_end() -> None:
    async def main() -> None:
        async with pair(high=0) as (near, far):
            near.pause_writing()
            writer = asyncio.create_task(near.write(PINGS[0]))
            await asyncio.sleep(0)
            far.cancel()
            with pytest.raises(ConnectionResetError):
                await writer

    run(main())


def test_the_socket_is_its_owners_alone_and_goes_with_the_listener() -> None:
    async def main() -> bool:
        with addresses("unix") as address:
            path = address.removeprefix("unix:")
            listener = StreamListener(path, lambda stream: asyncio.sleep(0))
            assert await listener.start() == (address,)
            assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
            await listener.stop()
            await listener.stop()
            return os.path.lexists(path)  # noqa: ASYNC240

    assert not run(main())
