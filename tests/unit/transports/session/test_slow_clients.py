"""Large frames, many at once, and clients that take little or nothing."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from gateway.call import Call
from tests.conftest import run
from tests.doubles.core import FakeCore
from tests.unit.transports.session.joined import (
    MESSAGE,
    codes,
    echo,
    event,
    request,
    served,
    until,
)
from transports.framing import Framing
from transports.session.server import READS, Options

SEND = {"message": MESSAGE}
ASK = {"id": "t"}


@pytest.mark.parametrize("framing", Framing)
def test_sizes(framing: Framing) -> None:
    """Served up to the limit of the other doors; beyond it one error, and the next request works
    (SD05)."""

    async def main() -> None:
        async with served(FakeCore(echo), framing=framing) as (session, wire, _, _):
            for size in (65_535, 65_537, 1_000_000, 5_000_000):
                text = "x" * size
                message = {**MESSAGE, "parts": [{"text": text}]}
                await wire.call("SendMessage", {"message": message}, size)
                assert (await wire.next())["result"]["message"]["parts"][0]["text"] == text
            message = {**MESSAGE, "parts": [{"text": "x" * session.frame_bytes}]}
            await wire.call("SendMessage", {"message": message}, 1)
            frame = await wire.next()
            assert codes([frame]) == [(None, -32602)]
            assert str(session.frame_bytes) in frame["error"]["message"]
            await wire.call("GetTask", ASK, 2)
            assert (await wire.next())["id"] == 2

    run(main())


def test_large_answers_for_a_client_that_does_not_read() -> None:
    """ML02: a thousand small reads are held back while the answers of some wait; sends are not, and
    once the client reads on, each gets its answer."""
    at_core = 0

    async def large(method: str, message: Any, call: Call) -> Any:
        nonlocal at_core
        at_core += method == "GetTask"
        task = await echo(method, message, call)
        if method == "GetTask":
            task.metadata["x"] = "x" * 100_000
        return task

    async def main() -> None:
        async with served(FakeCore(large)) as (session, wire, core, _):
            await wire.send(*[request("GetTask", ASK, n) for n in range(1000)])
            await wire.call("SendMessage", SEND, "send")
            await until(lambda: core.calls[-1:] != [] and core.calls[-1][0] == "SendMessage")
            for _ in range(100):
                await asyncio.sleep(0)
            assert at_core <= 2 * READS
            frames = await wire.take(1001)
            assert len({frame["id"] for frame in frames}) == 1001
            assert session.open_calls == 0

    run(main())


def test_what_is_ready_leaves_in_one_write() -> None:
    async def main() -> None:
        async with served(FakeCore(echo)) as (_, wire, _, _):
            await wire.send(*[request("GetTask", ASK, n) for n in range(32)])
            await wire.take(32)
            assert len(wire.down.writes) <= 2

    run(main())


def test_a_slow_client_stops_its_streams_at_the_core() -> None:
    """Events wait in the core, not here; another session does not notice (SS06)."""
    taken = 0

    async def flood(method: str, message: Any, call: Call) -> AsyncIterator[Any]:
        nonlocal taken
        for taken in range(1, 5000):
            yield [(taken, event("x" * 1000))]

    async def main() -> None:
        core = FakeCore(echo, flood)
        async with served(core) as (session, wire, _, _), served(core) as (_, other, _, _):
            await wire.call("SubscribeToTask", ASK, 1)
            await until(lambda: not session._outbox.has_room)
            for _ in range(10):
                await other.call("GetTask", ASK, 1)
                await other.next()
            # the pipe, what leaves next, and one batch in hand
            assert taken * 1000 < 4 * 64 * 1024
            frames = await wire.take(5000)
            assert [frame.get("seq") for frame in frames] == [*range(1, 5000), None]

    run(main())


def test_streams_take_turns() -> None:
    """One that has much to say does not hold up one that says a word."""

    async def stream(method: str, message: Any, call: Call) -> AsyncIterator[Any]:
        if message.id == "loud":
            for start in range(1, 20_000, 1000):
                yield [(n, event("x" * 100)) for n in range(start, start + 1000)]
        else:
            for number in range(1, 11):
                yield [(number, event("word"))]

    async def main() -> None:
        async with served(FakeCore(echo, stream)) as (_, wire, _, _):
            await wire.call("SubscribeToTask", {"id": "loud"}, 1)
            assert (await wire.next())["id"] == 1
            await wire.call("SubscribeToTask", {"id": "quiet"}, 2)
            seen = 0
            while "streamEnd" not in (frame := await wire.next()) or frame["id"] != 2:
                seen += frame["id"] == 1
            assert seen < 5000

    run(main())


def test_a_client_that_takes_nothing_is_cut_off() -> None:
    """After the time for writes the session is lost, and its calls are given up (SS06)."""

    async def flood(method: str, message: Any, call: Call) -> AsyncIterator[Any]:
        for number in range(1, 5000):
            yield [(number, event("x" * 1000))]

    async def main() -> None:
        core = FakeCore(echo, flood)
        options = Options(write_timeout=0.05)
        async with served(core, options) as (session, wire, _, serving):
            await wire.call("SubscribeToTask", ASK, 1)
            assert "0.05 seconds" in await session.lost
            await serving
            assert session.open_calls == 0
            await core.closed.wait()

    run(main())


def test_a_client_that_does_not_read_is_not_read_from() -> None:
    """Requests of a client that takes no answers wait in its own pipe."""

    async def main() -> None:
        core = FakeCore(echo)
        options = Options(congested_bytes=256 * 1024)
        async with served(core, options) as (session, wire, _, _):
            message = {**MESSAGE, "parts": [{"text": "x" * 20_000}]}

            async def ask() -> None:
                for number in range(200):
                    await wire.call("SendMessage", {"message": message}, number)

            asking = asyncio.create_task(ask())
            await until(lambda: session.is_congested)
            for _ in range(100):
                await asyncio.sleep(0)
            assert not asking.done()
            assert len(core.calls) < 60
            assert len(await wire.take(200)) == 200
            await asking

    run(main())


def test_a_client_that_is_slow_and_alive_is_not_cut_off() -> None:
    """A large frame may take longer than the time for writes, as long as parts of it are taken."""

    async def main() -> None:
        options = Options(write_timeout=1.0)
        async with served(FakeCore(echo), options) as (session, wire, _, _):
            message = {**MESSAGE, "parts": [{"text": "x" * 4_000_000}]}
            await wire.call("SendMessage", {"message": message}, 1)
            size = 0
            while size < 4_000_000:
                await asyncio.sleep(0.05)
                size += len(await wire.down.read())
            assert not session.lost.done()
            assert len(wire.down.writes) > 5

    run(main())
