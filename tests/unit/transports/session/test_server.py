"""The server's end of a framed session, frame by frame."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from gateway.call import Call
from gateway.errors import TaskNotFoundError
from tests.conftest import run
from tests.doubles.core import FakeCore
from tests.unit.transports.session.joined import (
    MESSAGE,
    Gate,
    codes,
    echo,
    event,
    served,
    three,
)
from transports.framing import Framing
from transports.session.parameters import MEMBER
from transports.session.server import Options

SEND = {"message": MESSAGE}
ASK = {"id": "t"}


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


@pytest.mark.parametrize("token", [None, "t"])
def test_an_event_that_cannot_be_written(token: str | None) -> None:
    """SS03: those before it arrive, though they came in one batch; then the stream fails."""

    async def odd(method: str, message: Any, call: Call) -> AsyncIterator[Any]:
        yield [(1, event("one")), (2, event("two")), (3, b"\xff"), (4, event("four"))]

    async def main() -> None:
        async with served(FakeCore(echo, odd)) as joined:
            params = {"id": "t"} if token is None else {"id": "t", "partialResultToken": token}
            await joined.wire.call("SubscribeToTask", params)
            *events, end = await joined.wire.take(3)
            numbers = [e["seq"] if token is None else e["params"]["seq"] for e in events]
            assert numbers == [1, 2]
            assert end["error"]["code"] == -32603
            assert await joined.wire.quiet()

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
