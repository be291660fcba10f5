"""The client's end of a framed session, before a real session or a scripted peer."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest

from gateway.call import Call
from gateway.errors import FailureError, TaskNotFoundError, UnauthenticatedError
from gateway.pb import (
    GetTaskRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    SubscribeToTaskRequest,
    Task,
)
from tests.conftest import run
from tests.doubles.core import FakeCore
from tests.unit.transports.session.joined import (
    Gate,
    Pipe,
    connected,
    echo,
    event,
    three,
    until,
)
from transports.framing import Framing
from transports.session import client as module
from transports.session.client import SessionClient
from transports.session.server import CANCELLED
from transports.wire import UnreachableError

STYLES = ["responses", "notifications"]


def ask(task_id: str = "t") -> GetTaskRequest:
    return GetTaskRequest(id=task_id)


def send(text: str = "hi") -> SendMessageRequest:
    message = Message(message_id="m", role=Role.ROLE_USER, parts=[Part(text=text)])
    return SendMessageRequest(message=message)


def text_of(response: Any) -> str:
    return str(response.artifact_update.artifact.parts[0].text)


async def code_of(call: Any) -> str:
    """The reason of the failure that a call ends with."""
    with pytest.raises(FailureError) as caught:
        await call
    return caught.value.failure.row.reason


class Scripted:
    """A peer that the test writes."""

    def __init__(self, **options: Any) -> None:
        self.up, self.down = Pipe(), Pipe()
        self.client = SessionClient(self.down.read, self.up.write, **options)

    async def read(self, count: int) -> list[Any]:
        """So many frames that the client sends, parsed."""
        data = b""
        while data.count(b"\n") < count:
            data += await self.up.read()
        return [json.loads(line) for line in data.splitlines()]

    async def write(self, *values: Any) -> None:
        """Frames, or bytes as they are."""
        lines = [v if isinstance(v, bytes) else json.dumps(v).encode() for v in values]
        await self.down.write(b"\n".join(lines) + b"\n")


@pytest.mark.parametrize("framing", Framing)
@pytest.mark.parametrize("streams", STYLES)
def test_calls(framing: Framing, streams: str) -> None:
    """Unary calls and streams, in both framings and both styles."""

    async def main() -> None:
        core = FakeCore(echo, three)
        core.metadata = {"a2a-extensions": "urn:x"}
        async with connected(core, framing=framing, streams=streams) as (client, _):
            answer: Any = await client.unary("SendMessage", send("ä\n"))
            assert answer.message.parts[0].text == "ä\n"
            assert client.metadata == {"a2a-extensions": "urn:x"}
            headers: dict[str, str] = {}
            events = [
                (number, text_of(response))
                async for number, response in client.stream(
                    "SubscribeToTask",
                    SubscribeToTaskRequest(id="t"),
                    {"last-event-id": "4"},
                    headers,
                )
            ]
            assert events == [(5, "one"), (6, "two"), (7, "three")]
            assert headers == {"a2a-extensions": "urn:x"}
            assert await client.ping(5) < 5

    run(main())


def test_many_at_once() -> None:
    """Answers find their calls in whatever order they come."""

    async def main() -> None:
        gate = Gate()
        async with connected(gate.core()) as (client, _):
            calls = [asyncio.create_task(client.unary("GetTask", ask(str(n)))) for n in range(20)]
            for _ in calls:
                await gate.started.get()
            for number in reversed(range(20)):
                gate.let(str(number))
                answer = await calls[number]
                assert isinstance(answer, Task)
                assert answer.id == str(number)

    run(main())


def test_parameters() -> None:
    """Those of the client reach each call, and a call has its own."""

    async def main() -> None:
        parameters = {"authorization": "Bearer x"}
        async with connected(FakeCore(echo), parameters=parameters) as (client, joined):
            await client.unary("GetTask", ask())
            await client.unary("GetTask", ask(), {"authorization": "Bearer y"}, 5)
            first, second = [call for _, _, call in joined.core.calls]
            assert first.metadata == {"a2a-version": "1.0", "authorization": "Bearer x"}
            assert second.metadata["authorization"] == "Bearer y"
            remaining = second.remaining()
            assert remaining is not None
            assert 0 < remaining <= 5

    run(main())


@pytest.mark.parametrize("streams", STYLES)
def test_failures(streams: str) -> None:
    """They are raised as the failure that the server rendered, with all that belongs to it."""

    async def unary(method: str, message: Any, call: Call) -> Any:
        raise UnauthenticatedError(challenges=("Bearer", 'Basic realm="x"'))

    async def stream(method: str, message: Any, call: Call) -> AsyncIterator[Any]:
        yield [(1, event("one"))]
        raise TaskNotFoundError

    async def main() -> None:
        async with connected(FakeCore(unary, stream), streams=streams) as (client, _):
            with pytest.raises(FailureError) as caught:
                await client.unary("GetTask", ask())
            assert caught.value.failure.challenges == ("Bearer", 'Basic realm="x"')
            events = client.stream("SubscribeToTask", SubscribeToTaskRequest(id="t"))
            assert (await anext(events))[0] == 1
            assert await code_of(anext(events)) == "TASK_NOT_FOUND"

    run(main())


def test_a_stream_that_is_closed() -> None:
    """The call is given up at the core, and the session goes on."""

    async def main() -> None:
        gate = Gate()
        async with connected(gate.core()) as (client, joined):
            stream = client.stream("SubscribeToTask", SubscribeToTaskRequest(id="t"))
            async with aclosing(stream):
                await anext(stream)
            await until(lambda: gate.cancelled == ["t"])
            assert joined.session.open_calls == 0
            await client.ping()

    run(main())


def test_a_call_that_is_given_up() -> None:
    async def main() -> None:
        gate = Gate()
        async with connected(gate.core()) as (client, joined):
            call = asyncio.create_task(client.unary("GetTask", ask()))
            await gate.started.get()
            call.cancel()
            await until(lambda: gate.cancelled == ["t"])
            assert call.cancelled()
            assert joined.session.open_calls == 0
            assert await code_of(client.unary("GetTask", ask("late"), None, 0.05)) == (
                "DEADLINE_EXCEEDED"
            )
            await until(lambda: joined.session.open_calls == 0)

    run(main())


def test_the_server_goes() -> None:
    """Calls under way end with words; later ones are not sent."""

    async def main() -> None:
        gate = Gate()
        async with connected(gate.core(), peer="the agent") as (client, joined):
            call = asyncio.create_task(client.unary("GetTask", ask()))
            await gate.started.get()
            await joined.wire.down.end()
            with pytest.raises(FailureError, match=r"the agent: it ended.*not known"):
                await call
            with pytest.raises(UnreachableError, match="the agent cannot be reached"):
                await client.unary("GetTask", ask())
            assert await client.closed == "it ended the connection"

    run(main())


def test_a_drain() -> None:
    """Calls under way are told, new ones are not sent."""

    async def main() -> None:
        gate = Gate()
        async with connected(gate.core()) as (client, joined):
            call = asyncio.create_task(client.unary("GetTask", ask()))
            await gate.started.get()
            draining = asyncio.create_task(joined.session.drain(0.1))
            assert await code_of(call) == "UNAVAILABLE"
            assert client.is_leaving
            with pytest.raises(UnreachableError, match="is stopping"):
                await client.unary("GetTask", ask())
            await draining

    run(main())


def test_close() -> None:
    """It gives up what runs, lets go of the connection once, and may be repeated."""
    closed = 0

    async def on_close() -> None:
        nonlocal closed
        closed += 1

    async def main() -> None:
        gate = Gate()
        async with connected(gate.core(), on_close=on_close) as (client, joined):
            call = asyncio.create_task(client.unary("GetTask", ask()))
            await gate.started.get()
            await client.aclose()
            assert await code_of(call) == "UNAVAILABLE"
            await until(lambda: gate.cancelled == ["t"])
            await client.aclose()
            assert closed == 1
            assert joined.session.open_calls == 0
            with pytest.raises(UnreachableError, match="was closed"):
                await client.unary("GetTask", ask())

    run(main())


def test_requests_beyond_the_limit() -> None:
    """They are not sent: the server could not say whose they were."""

    async def main() -> None:
        core = FakeCore(echo, message_bytes=2**20)
        async with connected(core) as (client, _):
            await client.unary("SendMessage", send("x" * 2**20))
            assert await code_of(client.unary("SendMessage", send("x" * 2**21))) == (
                "INVALID_PARAMS"
            )
            await client.ping()
            assert len(core.calls) == 1

    run(main())


def test_a_session_that_is_refused() -> None:
    """Wrong parameters of the client end it, in words."""

    async def main() -> None:
        parameters = {"idempotency-key": "x"}
        async with connected(FakeCore(echo), parameters=parameters) as (client, _):
            assert "idempotency-key belongs to one call" in await client.closed
            with pytest.raises(UnreachableError, match="refused the session"):
                await client.unary("GetTask", ask())

    run(main())


def test_a_peer_that_talks_nonsense(caplog: pytest.LogCaptureFixture) -> None:
    """What nobody asked for is passed over; a strange answer is the agent's fault."""

    async def main() -> None:
        peer = Scripted()
        async with peer.client as client:
            call = asyncio.create_task(client.unary("GetTask", ask()))
            first, second = await peer.read(2)
            assert (first["method"], second["method"]) == ("$/initialize", "GetTask")
            await peer.write(
                b"no json",
                b"\xff",
                [],
                {"id": True, "result": {}},
                {"id": [1], "result": {}},
                {"id": "2", "result": {}},
                {"id": 99, "result": {}},
                {"id": None, "error": {"code": -32700, "message": "what?"}},
                {"method": "$/progress", "params": {"token": second["id"], "value": {}}},
                {"method": "$/progress", "params": {"token": {}}},
                {"method": "$/progress"},
                {"method": 5},
                {"jsonrpc": "2.0", "id": "p", "method": "$/ping"},
                {"jsonrpc": "2.0", "id": "q", "method": "ask/user"},
            )
            pong, refusal = await peer.read(2)
            assert pong == {"jsonrpc": "2.0", "id": "p", "result": {}}
            assert refusal["error"]["code"] == -32601
            await peer.write({"jsonrpc": "2.0", "id": second["id"], "result": {"id": 5}})
            assert await code_of(call) == "INVALID_AGENT_RESPONSE"

    run(main())
    assert "what?" in caplog.text
    assert caplog.text.count("what is no JSON-RPC") == 3


@pytest.mark.parametrize("about", [None, [], {"limits": 5}, {"limits": {"frameBytes": "many"}}])
def test_a_peer_that_says_odd_things_of_itself(about: Any) -> None:
    """What cannot be understood is as good as unsaid."""

    async def main() -> None:
        peer = Scripted()
        async with peer.client as client:
            call = asyncio.create_task(client.unary("SendMessage", send("x" * 300_000)))
            [first] = await peer.read(1)
            await peer.write({"jsonrpc": "2.0", "id": first["id"], "result": about})
            [second] = await peer.read(1)
            result = {"jsonrpc": "2.0", "id": second["id"], "result": {}, "seq": "1"}
            await peer.write({**result, "a2a-service-parameters": {"a": 5, "b": "c"}})
            await call
            assert client.metadata == {"b": "c"}

    run(main())


def test_a_peer_that_is_another_program() -> None:
    """It may go on for ever: it is left, and does not keep others from their turn."""

    async def yes() -> bytes:
        return b"y\n" * 1000

    async def main() -> None:
        async with SessionClient(yes, Pipe().write) as client:
            with pytest.raises(FailureError, match="nothing that it sent is JSON-RPC"):
                await client.unary("GetTask", ask())

    run(main())


def test_a_frozen_peer() -> None:
    """One that has answered once, and then not even a ping, is left; one that answers pings
    may take its time."""

    async def main() -> None:
        peer = Scripted(silence=0.25)
        async with peer.client as client:
            call = asyncio.create_task(client.unary("GetTask", ask()))
            first, second = await peer.read(2)
            await peer.write({"jsonrpc": "2.0", "id": first["id"], "result": {}})
            for _ in range(2):
                [ping] = await peer.read(1)
                assert ping["method"] == "$/ping"
                await peer.write({"jsonrpc": "2.0", "id": ping["id"], "error": {"code": -32601}})
            await peer.write({"jsonrpc": "2.0", "id": second["id"], "result": {"id": "t"}})
            assert await call == Task(id="t")
            with pytest.raises(FailureError, match=r"has not answered for 0\.5 seconds"):
                await client.unary("GetTask", ask())
            assert client.is_lost

    run(main())


def test_a_peer_that_only_loads_is_waited_for() -> None:
    """Nothing is asked before its first answer."""

    async def main() -> None:
        peer = Scripted(silence=0.01)
        async with peer.client as client:
            call = asyncio.create_task(client.unary("GetTask", ask()))
            first, second = await peer.read(2)
            await asyncio.sleep(0.1)
            assert not client.is_lost
            await peer.write(
                {"jsonrpc": "2.0", "id": first["id"], "result": {}},
                {"jsonrpc": "2.0", "id": second["id"], "result": {"id": "t"}},
            )
            assert await call == Task(id="t")

    run(main())


def test_why_a_peer_is_gone() -> None:
    """Its end says more than a pipe that broke before."""

    async def main() -> None:
        peer = Scripted()
        await peer.up.break_off()

        async def ends() -> None:
            await until(lambda: client._outbox._is_closed)  # the only trace of it
            await peer.down.end()

        async with peer.client as client:
            ending = asyncio.create_task(ends())
            with pytest.raises(FailureError, match="it ended the connection"):
                await client.unary("GetTask", ask())
            await ending

    run(main())


def test_cancelled_by_the_server() -> None:
    async def main() -> None:
        peer = Scripted()
        async with peer.client as client:
            call = asyncio.create_task(client.unary("GetTask", ask()))
            request = (await peer.read(2))[1]
            error = {"code": CANCELLED.row.jsonrpc, "message": "x"}
            await peer.write({"jsonrpc": "2.0", "id": request["id"], "error": error})
            assert await code_of(call) == "CANCELLED"

    run(main())


def test_a_stream_that_nobody_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends with words once too much waits for its reader; other calls do not notice."""
    monkeypatch.setattr(module, "QUEUE_BYTES", 100_000)

    async def flood(method: str, message: Any, call: Call) -> AsyncIterator[Any]:
        for number in range(1, 1000):
            yield [(number, event("x" * 1000))]

    async def main() -> None:
        core = FakeCore(echo, flood)
        async with connected(core) as (client, joined):
            stream = client.stream("SubscribeToTask", SubscribeToTaskRequest(id="t"))
            await anext(stream)
            await until(lambda: joined.session.open_calls == 0)
            await client.unary("GetTask", ask())
            last = 1
            reason = ""
            try:
                async for number, _ in stream:
                    assert number == last + 1
                    last = number
            except FailureError as error:
                reason = error.failure.row.reason
            assert reason == "RESOURCE_EXHAUSTED"
            assert 80 < last < 999

    run(main())
