"""The server's end of a framed session, frame by frame."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from gateway.call import Call
from gateway.errors import TaskNotFoundError, UnauthenticatedError
from gateway.pb import Task, TaskState, TaskStatus
from tests.conftest import run
from tests.doubles.core import FakeCore
from tests.unit.transports.session.joined import (
    MESSAGE,
    Gate,
    echo,
    event,
    request,
    served,
    three,
    until,
)
from transports.framing import Framing
from transports.session.parameters import MEMBER
from transports.session.server import Options

SEND = {"message": MESSAGE}
ASK = {"id": "t"}


def codes(frames: list[Any]) -> list[tuple[Any, int]]:
    """(id, code) of error responses."""
    return [(frame["id"], frame["error"]["code"]) for frame in frames]


@pytest.mark.parametrize("framing", Framing)
def test_a_call(framing: Framing) -> None:
    """One request, one answer, in the framing that the client uses (SD07, S45)."""

    async def main() -> None:
        async with served(FakeCore(echo), framing=framing) as (_, wire, core, _):
            await wire.call("SendMessage", SEND, "x")
            answer = await wire.next()
            assert answer["id"] == "x"
            assert answer["result"]["message"]["parts"] == [{"text": "hi"}]
            method, _, call = core.calls[0]
            assert (method, call.door) == ("SendMessage", "test")

    run(main())


def test_envelopes() -> None:
    """Each flaw has its code, and the id where it can be read (JR01, JR02, JR09, PB11, SD01,
    SD10); the session goes on."""

    async def main() -> None:
        async with served(FakeCore(echo)) as (_, wire, _, _):
            await wire.raw(
                b'{"id":1,"method":"GetTask","params":{"id":"x"}}\n'
                b'{"jsonrpc":"2.0","id":{"a":1},"method":"GetTask","params":{"id":"x"}}\n'
                b'{"jsonrpc":"2.0","id":2,"method":"GetTask","params":"x"}\n'
                b'{"jsonrpc":"2.0","id":3,"method":"GetTask","params":{"id":\n'
                b"\xff\xfe\n"
                b'{"jsonrpc":"2.0","id":"\xff","method":"GetTask","params":{"id":"x"}}\n'
                b'{"jsonrpc":"2.0","id":5}\n'
                b'{"jsonrpc":"2.0","id":6,"method":1}\n'
                b"\n \r\n"
                b'{"jsonrpc":"2.0","id":7,"method":""}\n'
                b'{"jsonrpc":"2.0","id":8,"method":"getTask"}\n'
                b'{"jsonrpc":"2.0","id":9,"method":"GetTask","params":[]}\n'
                b'{"jsonrpc":"2.0","id":"\\ud83d","method":"GetTask"}\n'
                b'[{"jsonrpc":"2.0","id":10,"method":"GetTask","params":{"id":"x"}}]\n'
                b"true\n"
                b'{"jsonrpc":"2.0","id":11,"method":"GetTask","params":{"id":5}}\n'
                b'{"jsonrpc":"2.0","id":12,"method":"$/odd"}\n'
            )
            assert codes(await wire.take(15)) == [
                (1, -32600),
                (None, -32600),
                (2, -32602),
                (None, -32700),
                (None, -32700),
                (None, -32700),
                (5, -32600),
                (6, -32600),
                (7, -32600),
                (8, -32601),
                (9, -32602),
                (None, -32600),
                (None, -32600),
                (None, -32600),
                (11, -32602),
            ]
            assert codes(await wire.take(1)) == [(12, -32601)]
            await wire.call("GetTask", ASK, 13)
            assert (await wire.next())["result"]["id"] == "t"

    run(main())


def test_ids_that_look_alike() -> None:
    """Three streams, each frame with its own exact id (JR05)."""

    async def main() -> None:
        gate = Gate()
        async with served(gate.core()) as (session, wire, _, _):
            ids: list[Any] = [7, "7", "07", 7.5, None]
            for number, call_id in enumerate(ids):
                await wire.call("SubscribeToTask", {"id": str(number)}, call_id)
            first = await wire.take(5)
            assert [frame["id"] for frame in first] == ids
            assert session.open_calls == 5
            for number in (3, 1, 4, 0, 2):
                gate.let(str(number))
                last = await wire.take(2)
                assert last[0]["id"] == last[1]["id"] == ids[number]
                assert type(last[0]["id"]) is type(ids[number])
                text = last[0]["result"]["artifactUpdate"]["artifact"]["parts"][0]["text"]
                assert text == f"{number} ends"

    run(main())


def test_an_id_that_is_under_way() -> None:
    """It is refused by an answer that cannot be taken for that of the first call."""

    async def main() -> None:
        gate = Gate()
        async with served(gate.core()) as (_, wire, _, _):
            await wire.call("GetTask", {"id": "a"}, 1)
            await gate.started.get()
            await wire.call("GetTask", {"id": "b"}, 1)
            refusal = await wire.next()
            assert codes([refusal]) == [(None, -32600)]
            assert refusal["error"]["data"][0]["metadata"] == {"id": "1"}
            gate.let("a")
            assert (await wire.next())["result"]["id"] == "a"
            await wire.call("GetTask", {"id": "b"}, 1)
            await gate.started.get()

    run(main())


def test_notifications() -> None:
    """No id, no answer, whatever becomes of it; an id of null is a request (JR07)."""

    async def main() -> None:
        async def unary(method: str, message: Any, call: Call) -> Any:
            raise TaskNotFoundError

        async with served(FakeCore(unary, three)) as (_, wire, core, _):
            await wire.call("GetTask", ASK, ...)
            await wire.call("SendStreamingMessage", SEND, ...)
            await wire.call("NoSuchMethod", ASK, ...)
            await wire.call("GetTask", {"id": 5}, ...)
            await wire.call("$/ping", {}, ...)
            assert await wire.quiet()
            await wire.call("GetTask", ASK, None)
            assert codes([await wire.next()]) == [(None, -32001)]
            assert [method for method, _, _ in core.calls] == [
                "GetTask",
                "SendStreamingMessage",
                "GetTask",
            ]
            assert core.open_streams == 0

    run(main())


def test_answers_are_not_answered() -> None:
    """Two servers that are joined by mistake do not talk for ever."""

    async def main() -> None:
        async with served(FakeCore(echo)) as (_, wire, _, _):
            await wire.send(
                {"jsonrpc": "2.0", "id": 1, "result": {}},
                {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "x"}},
            )
            assert await wire.quiet()

    run(main())


def test_a_stream() -> None:
    """Responses with the id of the request, numbers beside results, an end that is no result;
    response metadata with the first (R49)."""

    async def main() -> None:
        core = FakeCore(echo, three)
        core.metadata = {"a2a-extensions": "urn:x", "internal": "y"}
        async with served(core) as (_, wire, _, _):
            await wire.call("SendStreamingMessage", SEND, 4)
            frames = await wire.take(4)
            assert [frame.get("seq") for frame in frames] == [1, 2, 3, None]
            assert all(set(f) <= {"jsonrpc", "id", "result", "seq", MEMBER} for f in frames[:3])
            assert [MEMBER in frame for frame in frames] == [True, False, False, False]
            assert frames[0][MEMBER] == {"a2a-extensions": "urn:x"}
            assert frames[3] == {"jsonrpc": "2.0", "id": 4, "streamEnd": True}

    run(main())


@pytest.mark.parametrize("chosen", ["by the call", "by the session"])
def test_a_stream_as_notifications(chosen: str) -> None:
    """Events bear the token of the call, or its id; one response ends the request."""

    async def main() -> None:
        core = FakeCore(echo, three)
        core.metadata = {"a2a-extensions": "urn:x"}
        async with served(core) as (_, wire, _, _):
            params: dict[str, Any] = dict(SEND)
            if chosen == "by the call":
                params["partialResultToken"] = token = "mine"
            else:
                await wire.call("$/initialize", {"streams": "notifications"}, 1)
                assert (await wire.next())["result"]["streams"] == "notifications"
                token = "one"
            await wire.call("SendStreamingMessage", params, "one")
            frames = await wire.take(4)
            for number, frame in enumerate(frames[:3], 1):
                assert set(frame) == {"jsonrpc", "method", "params"}
                assert frame["method"] == "$/progress"
                assert frame["params"]["token"] == token
                assert frame["params"]["seq"] == number
                assert "artifactUpdate" in frame["params"]["value"]
            assert frames[3] == {
                "jsonrpc": "2.0",
                "id": "one",
                "result": {"streamEnd": True, "seq": 3},
                MEMBER: {"a2a-extensions": "urn:x"},
            }

    run(main())


def test_events_without_a_number() -> None:
    """A stream of a direct message has no place to go on from."""

    async def stream(method: str, message: Any, call: Call) -> AsyncIterator[Any]:
        yield [(0, event("direct"))]

    async def main() -> None:
        async with served(FakeCore(echo, stream)) as (_, wire, _, _):
            await wire.call("SendStreamingMessage", SEND, 1)
            assert set(await wire.next()) == {"jsonrpc", "id", "result"}
            assert (await wire.next())["streamEnd"] is True
            await wire.call("SendStreamingMessage", {**SEND, "partialResultToken": 5}, 2)
            assert set((await wire.next())["params"]) == {"token", "value"}
            assert (await wire.next())["result"] == {"streamEnd": True}

    run(main())


@pytest.mark.parametrize("token", [None, "t"])
@pytest.mark.parametrize("events", [0, 2])
def test_a_stream_that_fails(token: str | None, events: int) -> None:
    """An error is its end: with its own code, beside no result (SS03, JR11)."""

    async def stream(method: str, message: Any, call: Call) -> AsyncIterator[Any]:
        if events:
            yield [(n, event("x")) for n in range(1, events + 1)]
        raise TaskNotFoundError

    async def main() -> None:
        core = FakeCore(echo, stream)
        async with served(core) as (_, wire, _, _):
            params = SEND if token is None else {**SEND, "partialResultToken": token}
            await wire.call("SendStreamingMessage", params, 1)
            frames = await wire.take(events + 1)
            assert codes(frames[-1:]) == [(1, -32001)]
            assert "result" not in frames[-1]
            assert await wire.quiet()
            assert core.open_streams == 0

    run(main())


def test_answers_come_as_they_are_ready() -> None:
    """A slow call delays no other."""

    async def main() -> None:
        gate = Gate()
        async with served(gate.core()) as (_, wire, _, _):
            for number in range(5):
                await wire.call("GetTask", {"id": str(number)}, number)
                assert await gate.started.get() == str(number)
            for number in (4, 0, 3, 1, 2):
                gate.let(str(number))
                assert (await wire.next())["id"] == number

    run(main())


def test_too_many_calls() -> None:
    """What is beyond the bound is refused at once, with a hint when to come back."""

    async def main() -> None:
        gate = Gate()
        async with served(gate.core(), Options(calls=2)) as (session, wire, _, _):
            await wire.call("GetTask", {"id": "a"}, 1)
            await wire.call("SubscribeToTask", {"id": "b"}, 2)
            assert (await wire.next())["id"] == 2
            await wire.call("GetTask", {"id": "c"}, 3)
            refusal = await wire.next()
            assert codes([refusal]) == [(3, -32041)]
            assert any("retryDelay" in detail for detail in refusal["error"]["data"])
            await wire.call("GetTask", {"id": "c"}, ...)
            assert await wire.quiet()
            gate.let("a")
            assert (await wire.next())["id"] == 1
            await wire.call("GetTask", {"id": "c"}, 3)
            while await gate.started.get() != "c":
                pass
            assert session.open_calls == 2

    run(main())


# Cancel


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


# Service parameters


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


# Sizes and slow clients


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


# The end


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
