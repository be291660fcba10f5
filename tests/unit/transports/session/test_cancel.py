"""Calls of a framed session that are given up, at each of their stages."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from gateway.call import Call
from tests.conftest import run
from tests.doubles.core import FakeCore
from tests.unit.transports.session.joined import (
    MESSAGE,
    Gate,
    codes,
    echo,
    event,
    request,
    served,
    until,
)

SEND = {"message": MESSAGE}
ASK = {"id": "t"}


@pytest.mark.parametrize(
    "cancel",
    [
        {"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": 1}},
        {"jsonrpc": "2.0", "id": 1, "cancelStream": True},
    ],
)
@pytest.mark.parametrize("method", ["GetTask", "SubscribeToTask"])
@pytest.mark.parametrize("stage", ["unstarted", "running"])
def test_cancel(cancel: Any, method: str, stage: str) -> None:
    """It is answered once, at once, and reaches the core; nothing of the call comes after."""

    async def main() -> None:
        gate = Gate()
        async with served(gate.core()) as (session, wire, core, _):
            if stage == "unstarted":
                await wire.send(request(method, ASK, 1), cancel)
            else:
                await wire.call(method, ASK, 1)
                await gate.started.get()
                if method == "SubscribeToTask":
                    assert (await wire.next())["seq"] == 1
                await wire.send(cancel)
            answer = await wire.next()
            assert codes([answer]) == [(1, -32044)]
            assert session.open_calls == 0
            assert await wire.quiet()
            assert gate.cancelled == ([] if stage == "unstarted" else ["t"])
            assert core.open_streams == core.running == 0
            # the id is free again
            await wire.call(method, ASK, 1)
            await gate.started.get()

    run(main())


def test_cancel_of_nothing() -> None:
    """Calls that have ended, ids that never were, and no ids at all: nothing happens."""

    async def main() -> None:
        async with served(FakeCore(echo)) as (_, wire, _, _):
            await wire.call("GetTask", ASK, 1)
            await wire.next()
            for wrong in (1, "1", None, True, {"a": 1}, 1.5):
                await wire.call("$/cancelRequest", {"id": wrong}, ...)
                await wire.send({"jsonrpc": "2.0", "id": wrong, "cancelStream": True})
            await wire.call("$/cancelRequest", {}, ...)
            await wire.call("$/cancelRequest", None, ...)
            # one with no readable id is no cancel, and no request either
            assert codes(await wire.take(2)) == [(None, -32600), (None, -32600)]
            assert await wire.quiet()

    run(main())


def test_cancel_takes_the_right_one() -> None:
    """Ids that look alike are apart for cancelling, too (JR05)."""

    async def main() -> None:
        gate = Gate()
        async with served(gate.core()) as (_, wire, _, _):
            await wire.call("GetTask", {"id": "number"}, 7)
            await wire.call("GetTask", {"id": "text"}, "7")
            await gate.started.get()
            await gate.started.get()
            await wire.call("$/cancelRequest", {"id": "7"}, ...)
            assert (await wire.next())["id"] == "7"
            assert gate.cancelled == ["text"]
            gate.let("number")
            assert (await wire.next())["result"]["id"] == "number"

    run(main())


def test_cancel_while_the_client_is_slow() -> None:
    """A stream that waits for room is let go of, and the next in line has its turn."""

    async def flood(method: str, message: Any, call: Call) -> AsyncIterator[Any]:
        for number in range(1, 1000):
            yield [(number, event("x" * 8000))]

    async def main() -> None:
        core = FakeCore(echo, flood)
        async with served(core) as (session, wire, _, _):
            await wire.call("SubscribeToTask", ASK, 1)
            await wire.call("SubscribeToTask", ASK, 2)
            await until(lambda: session.open_calls == 2 and not session._outbox.has_room)
            await wire.call("$/cancelRequest", {"id": 1}, ...)
            await until(lambda: core.open_streams == 1)
            frames = [frame for frame in await wire.take(1000) if frame["id"] == 1]
            assert "error" in frames[-1]
            while "streamEnd" not in await wire.next():
                pass
            assert session.open_calls == 0

    run(main())
