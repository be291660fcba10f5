"""How a framed session ends: in order, in a hurry, by itself."""

import asyncio
from typing import Any

from gateway.call import Call
from tests.conftest import run
from tests.doubles.core import FakeCore
from tests.unit.transports.session.joined import (
    MESSAGE,
    Gate,
    codes,
    echo,
    served,
    until,
)

SEND = {"message": MESSAGE}
ASK = {"id": "t"}


def test_drain() -> None:
    """Calls that end in time are answered, the others are told; new ones are refused; nothing
    hangs (SH02, SH03)."""

    async def main() -> None:
        gate = Gate()
        async with served(gate.core()) as (session, wire, core, _):
            await wire.call("GetTask", {"id": "ends"}, 1)
            await wire.call("SubscribeToTask", {"id": "idle"}, 2)
            assert (await wire.next())["id"] == 2
            await until(lambda: gate.started.qsize() == 2)
            draining = asyncio.create_task(session.drain(0.2))
            assert (await wire.next())["method"] == "$/goaway"
            await wire.call("GetTask", {"id": "late"}, 3)
            refusal = await wire.next()
            assert codes([refusal]) == [(3, -32042)]
            gate.let("ends")
            assert (await wire.next())["result"]["id"] == "ends"
            assert codes([await wire.next()]) == [(2, -32042)]
            await draining
            assert core.open_streams == 0
            assert gate.cancelled == ["idle"]

    run(main())


def test_drain_ends_as_soon_as_it_can() -> None:
    async def main() -> None:
        gate = Gate()
        async with served(gate.core()) as (session, wire, _, serving):
            await wire.call("GetTask", {"id": "a"}, 1)
            await gate.started.get()
            await wire.up.end()
            await serving
            draining = asyncio.create_task(session.drain(20, announce=False))
            await asyncio.sleep(0)
            gate.let("a")
            await draining
            assert (await wire.next())["id"] == 1
            await session.drain(20, announce=False)

    run(main(), limit=5)


def test_the_last_line_needs_no_end() -> None:
    async def main() -> None:
        async with served(FakeCore(echo)) as (session, wire, _, serving):
            await wire.raw(b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"t"}}')
            await wire.up.end()
            await serving
            await session.drain(5, announce=False)
            assert (await wire.next())["id"] == 1

    run(main())


def test_an_abrupt_end() -> None:
    """Calls are given up at the core; nothing is sent any more."""

    async def main() -> None:
        gate = Gate()
        async with served(gate.core()) as (session, wire, core, _):
            await wire.call("GetTask", {"id": "a"}, 1)
            await wire.call("SubscribeToTask", {"id": "b"}, 2)
            await gate.started.get()
            await gate.started.get()
            count = len(wire.down.writes)
            await session.close()
            await session.close()
            assert sorted(gate.cancelled) == ["a", "b"]
            assert core.open_streams == core.running == session.open_calls == 0
            session.feed(b'{"jsonrpc":"2.0","id":3,"method":"$/ping"}')
            assert len(wire.down.writes) == count

    run(main())


def test_a_client_that_is_gone() -> None:
    """A write that finds nobody ends the session and gives up its calls."""

    async def main() -> None:
        gate = Gate()
        async with served(gate.core()) as (session, wire, _, serving):
            await wire.call("GetTask", {"id": "a"}, 1)
            await gate.started.get()
            await wire.down.break_off()
            await wire.call("$/ping", call_id=2)
            assert "Broken pipe" in await session.lost
            await serving
            assert session.open_calls == 0
            await session.drain(5)

    run(main(), limit=5)


def test_nobody_learns_what_went_wrong_inside() -> None:
    """An unknown exception becomes an internal error with a reference."""

    async def main() -> None:
        async def unary(method: str, message: Any, call: Call) -> Any:
            raise RuntimeError("secret")

        async with served(FakeCore(unary)) as (_, wire, _, _):
            await wire.call("GetTask", ASK, 1)
            frame = await wire.next()
            assert codes([frame]) == [(1, -32603)]
            assert "secret" not in str(frame)

    run(main())
