"""Service parameters of a session and of its calls, and what else belongs to the session."""

from typing import Any

import pytest

from gateway.call import Call
from gateway.errors import UnauthenticatedError
from gateway.pb import Task, TaskState, TaskStatus
from tests.conftest import run
from tests.doubles.core import FakeCore
from tests.unit.transports.session.joined import (
    MESSAGE,
    Gate,
    codes,
    echo,
    served,
)
from transports.session.parameters import MEMBER
from transports.session.server import Options

SEND = {"message": MESSAGE}
ASK = {"id": "t"}


def test_parameters() -> None:
    """A session sets them, a call overrides by name, null takes away; names have no case, and
    what a door does not pass on stays here (R47)."""

    async def main() -> None:
        async with served(FakeCore(echo)) as (_, wire, core, _):
            await wire.call("GetTask", ASK, 1)
            values = {
                "A2A-Version": "1.0",
                "Authorization": "Bearer one",
                "X-API-Key": "key",
                "A2A-Extensions": "urn:a, urn:b",
                "Cookie": "no",
            }
            await wire.call("$/initialize", {MEMBER: values}, ...)
            await wire.call("GetTask", ASK, 2)
            override = {
                "authorization": "Bearer two",
                "x-api-key": None,
                "Idempotency-Key": "k",
                "Last-Event-ID": "12",
                "traceparent": "00-a-b-01",
                "X-A2A-Timeout-Ms": "1500",
                "a2a-other": "kept",
            }
            await wire.call("GetTask", {**ASK, MEMBER: override}, 3)
            await wire.call("GetTask", ASK, 4)
            await wire.take(4)
            plain, second, third, fourth = [call for _, _, call in core.calls]
            assert plain.metadata == {}
            assert (
                second.metadata
                == fourth.metadata
                == {
                    "a2a-version": "1.0",
                    "authorization": "Bearer one",
                    "x-api-key": "key",
                    "a2a-extensions": "urn:a, urn:b",
                }
            )
            assert (second.version, second.extensions) == ("1.0", ("urn:a", "urn:b"))
            assert third.metadata["authorization"] == "Bearer two"
            assert third.metadata["a2a-other"] == "kept"
            assert "x-api-key" not in third.metadata
            assert "x-a2a-timeout-ms" not in third.metadata
            assert (third.idempotency_key, third.cursor) == ("k", 12)
            remaining = third.remaining()
            assert remaining is not None
            assert 0 < remaining <= 1.5
            assert fourth.remaining() is None

    run(main())


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ([], "object of strings"),
        ({"a2a-version": 1}, "a2a-version"),
        ({"a2a-x": "a\r\nb"}, "control character"),
        ({"a2a-ä": "x"}, "ASCII"),
        ({"a2a-x": "1", "A2A-X": "2"}, "twice"),
        ({"a2a-x": "x" * 40_000}, "more than"),
        ({"x-a2a-timeout-ms": "1.5"}, "milliseconds"),
        ({"last-event-id": "x"}, "last-event-id"),
        ({"idempotency-key": "x" * 300}, "idempotency-key"),
    ],
)
def test_wrong_parameters(values: Any, word: str) -> None:
    """The error names what is wrong and changes nothing."""

    async def main() -> None:
        async with served(FakeCore(echo)) as (_, wire, core, _):
            await wire.call("$/initialize", {MEMBER: {"a2a-version": "1.0"}}, 1)
            await wire.next()
            await wire.call("GetTask", {**ASK, MEMBER: values}, 2)
            await wire.call("$/initialize", {MEMBER: values}, 3)
            frames = await wire.take(2)
            assert codes(frames) == [(2, -32602), (3, -32602)]
            assert word in frames[0]["error"]["message"]
            assert core.calls == []
            await wire.call("GetTask", ASK, 4)
            await wire.next()
            assert core.calls[0][2].version == "1.0"

    run(main())


@pytest.mark.parametrize("name", ["idempotency-key", "last-event-id", "x-a2a-timeout-ms"])
def test_parameters_of_one_call(name: str) -> None:
    """A session cannot give the same key to all its sends."""

    async def main() -> None:
        async with served(FakeCore(echo)) as (_, wire, _, _):
            await wire.call("$/initialize", {MEMBER: {name: "1"}}, 1)
            frame = await wire.next()
            assert codes([frame]) == [(1, -32602)]
            assert name in frame["error"]["message"]

    run(main())


def test_credentials_of_another_core() -> None:
    """A core that wants other credentials gets them from the next call on."""

    async def main() -> None:
        async with served(FakeCore(echo)) as (_, wire, core, _):
            await wire.call("$/initialize", {MEMBER: {"x-api-key": "a", "x-other": "b"}}, 1)
            await wire.call("GetTask", ASK, 2)
            await wire.take(2)
            core.credential_names = ("x-other",)
            await wire.call("GetTask", ASK, 3)
            await wire.next()
            assert [call.metadata for _, _, call in core.calls] == [
                {"x-api-key": "a"},
                {"x-other": "b"},
            ]

    run(main())


def test_initialize() -> None:
    """It says what the session can do; what it cannot is refused by name."""

    async def main() -> None:
        options = Options(door="test", binding="urn:test", calls=9)
        async with served(FakeCore(echo, message_bytes=3000), options) as (_, wire, _, _):
            await wire.call("$/initialize", None, 1)
            assert (await wire.next())["result"] == {
                "binding": "urn:test",
                "protocolVersions": ["1.0"],
                "streams": "responses",
                "limits": {"frameBytes": 4000 + 65536, "calls": 9},
            }
            await wire.call("$/initialize", {"streams": "fast"}, 2)
            frame = await wire.next()
            assert codes([frame]) == [(2, -32602)]
            assert "streams" in frame["error"]["message"]

    run(main())


def test_hints() -> None:
    """When to poll again, and which credentials would do (R50, S88)."""

    async def main() -> None:
        async def unary(method: str, message: Any, call: Call) -> Any:
            if message.id == "locked":
                raise UnauthenticatedError(challenges=('Bearer realm="x"',))
            return Task(id="t", status=TaskStatus(state=TaskState.TASK_STATE_WORKING))

        async with served(FakeCore(unary)) as (_, wire, _, _):
            await wire.call("GetTask", ASK, 1)
            assert (await wire.next())[MEMBER] == {"retry-after": "1"}
            await wire.call("GetTask", {"id": "locked"}, 2)
            error = (await wire.next())["error"]
            assert error["code"] == -32000
            assert error["data"][0]["metadata"]["challenges"] == 'Bearer realm="x"'

    run(main())


def test_control_messages_give_access_to_nothing() -> None:
    """They act on this session alone; none reaches the core, or what runs in another (R58)."""

    async def main() -> None:
        gate = Gate()
        core = gate.core()
        async with served(core) as (_, mine, _, _), served(core) as (_, other, _, _):
            await mine.call("GetTask", ASK, 1)
            await gate.started.get()
            for method in ("$/cancelRequest", "$/initialize", "$/ping", "$/progress", "$/goaway"):
                await other.call(method, {"id": 1}, ...)
                await other.call(method, {"id": 1}, method)
            frames = await other.take(5)
            assert [frame["id"] for frame in frames if "error" in frame] == [
                "$/progress",
                "$/goaway",
            ]
            assert await other.quiet()
            assert (len(core.calls), gate.cancelled) == (1, [])
            gate.let("t")
            assert (await mine.next())["result"]["id"] == "t"

    run(main())
