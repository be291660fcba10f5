"""`grpc:ADDRESS` against a scripted server: the rules of `proto/agent.proto`, one by one."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status

from gateway.agents import AgentError, remote
from gateway.agents.kinds import Settings, card_name
from gateway.agents.loader import load, proposed_card
from gateway.agents.remote import RemoteAgent, RemoteFailureError
from gateway.call import Call
from gateway.errors import FailureError, InvalidAgentResponseError
from gateway.pb import (
    Message,
    Part,
    SendMessageRequest,
    Task,
    TaskStatus,
    agent_pb2,
)
from tests.conftest import run
from tests.doubles.agent_server import Cancel, Context, Execute, Response, chunk, serving, status
from tests.doubles.proxy import proxy
from tests.doubles.recording import RecordingTurn

ExecuteRequest = agent_pb2.ExecuteRequest
CancelRequest = agent_pb2.CancelRequest
CancelResponse = agent_pb2.CancelResponse


@asynccontextmanager
async def started(address: str, **options: Any) -> AsyncIterator[RemoteAgent]:
    agent = RemoteAgent(address, **options)
    await agent.start()
    try:
        yield agent
    finally:
        await agent.stop()


@asynccontextmanager
async def agent_of(
    execute: Execute, cancel: Cancel | None = None, **options: Any
) -> AsyncIterator[RemoteAgent]:
    async with serving(execute, cancel) as address, started(address, **options) as agent:
        yield agent


def play(execute: Execute, turn: RecordingTurn | None = None) -> RecordingTurn:
    """One turn to its end."""
    turn = turn or RecordingTurn("hi")

    async def main() -> None:
        async with agent_of(execute) as agent:
            await agent.run(turn)

    run(main())
    return turn


def ending(code: grpc.StatusCode, details: str = "", trailing: Any = ()) -> Execute:
    """Says WORKING and ends so."""

    async def execute(request: ExecuteRequest, context: Context) -> None:
        await context.write(status("WORKING"))
        await context.abort(code, details, trailing)

    return execute


async def idle(request: ExecuteRequest, context: Context) -> None:
    await context.write(status("WORKING"))
    await asyncio.Event().wait()


async def until(turn: RecordingTurn, count: int = 1) -> None:
    while len(turn.events) < count:  # noqa: ASYNC110 - a turn has no event to wait on
        await asyncio.sleep(0.001)


def unused_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


# What is asked


def test_the_agent_sees_the_turn_and_no_credentials() -> None:
    seen: list[ExecuteRequest] = []

    async def execute(request: ExecuteRequest, context: Context) -> None:
        seen.append(request)
        await context.write(status("COMPLETED"))

    call = Call(
        "http",
        {"authorization": "Bearer x", "x-key": "y", "traceparent": "00-1"},
        version="1.0",
        extensions=("urn:a", "urn:b"),
        activated=("urn:a",),
        tenant="t",
        caller="alice",
        scheme="bearer",
        deadline=Call.from_metadata([], door="http", timeout=60).deadline,
    )
    task = Task(
        id="task-1", context_id="context-1", status=TaskStatus(state="TASK_STATE_INPUT_REQUIRED")
    )
    turn = RecordingTurn("hi", call=call, task=task, related=[Task(id="other")])

    async def main() -> None:
        async with agent_of(execute, secret_names=frozenset({"x-key"})) as agent:
            await agent.run(turn)

    run(main())
    (request,) = seen
    assert (request.task_id, request.context_id) == ("task-1", "context-1")
    assert request.request == turn.request
    assert request.task == task
    assert [other.id for other in request.related_tasks] == ["other"]
    told = request.call
    assert dict(told.metadata) == {"traceparent": "00-1"}
    assert list(told.extensions) == ["urn:a", "urn:b"]
    assert list(told.activated_extensions) == ["urn:a"]
    assert (told.tenant, told.caller, told.scheme) == ("t", "alice", "bearer")
    assert (told.door, told.version) == ("http", "1.0")
    assert 50 < told.time_left.ToMilliseconds() / 1000 <= 60


def test_the_first_turn_has_no_task() -> None:
    seen: list[bool] = []

    async def execute(request: ExecuteRequest, context: Context) -> None:
        seen.append(request.HasField("task") or request.call.HasField("time_left"))
        await context.write(status("COMPLETED"))

    play(execute)
    assert seen == [False]


# What is answered


def test_events_come_in_order() -> None:
    async def execute(request: ExecuteRequest, context: Context) -> None:
        await context.write(Response(task=Task(status=TaskStatus(state="TASK_STATE_SUBMITTED"))))
        await context.write(status("WORKING"))
        for number in range(500):
            await context.write(chunk(f"{number} "))
        await context.write(status("COMPLETED", "done"))

    turn = play(execute)
    assert turn.states == ["SUBMITTED", "WORKING", "COMPLETED"]
    assert turn.text == "".join(f"{number} " for number in range(500))
    assert turn.last_words == "done"


def test_a_direct_answer() -> None:
    async def execute(request: ExecuteRequest, context: Context) -> None:
        await context.write(Response(message=Message(message_id="m", parts=[Part(text="hi")])))

    (answer,) = play(execute).events
    assert isinstance(answer, Message)
    assert answer.parts[0].text == "hi"


def test_an_unset_event_is_the_agent_s_fault() -> None:
    async def execute(request: ExecuteRequest, context: Context) -> None:
        await context.write(Response())

    with pytest.raises(InvalidAgentResponseError, match="one of its events"):
        play(execute)


def test_a_refused_event_ends_the_call() -> None:
    ended = asyncio.Event()

    async def execute(request: ExecuteRequest, context: Context) -> None:
        try:
            for number in range(100_000):
                await context.write(chunk(str(number)))
        finally:
            ended.set()

    async def main() -> None:
        turn = RecordingTurn("hi")
        turn.error = InvalidAgentResponseError("it does not fit")
        async with agent_of(execute) as agent:
            with pytest.raises(InvalidAgentResponseError, match="does not fit"):
                await agent.run(turn)
            await ended.wait()

    run(main())


def test_what_is_not_stored_holds_the_agent_up() -> None:
    written = 0

    async def execute(request: ExecuteRequest, context: Context) -> None:
        nonlocal written
        for number in range(2000):
            await context.write(chunk(f"{number} ".ljust(2000)))
            written += 1

    async def main() -> None:
        turn = RecordingTurn("hi")
        turn.gate = asyncio.Event()
        async with agent_of(execute) as agent:
            running = asyncio.create_task(agent.run(turn))
            before = -1
            while before != written:
                before = written
                await asyncio.sleep(0.1)
            assert written < 1000
            turn.gate.set()
            await running
        assert len(turn.events) == 2000

    run(main())


# Ends that are not OK


@pytest.mark.parametrize(
    "code", [grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL, grpc.StatusCode.INVALID_ARGUMENT]
)
def test_the_text_of_a_status_is_for_the_log(code: grpc.StatusCode) -> None:
    """S176, rule 7."""
    with pytest.raises(RemoteFailureError, match=f"{code.name}: secret-123"):
        play(ending(code, "secret-123"))


def test_an_error_of_a2a_is_for_the_client() -> None:
    told = Status(code=3, message="no pictures, please")
    told.details.add().Pack(
        ErrorInfo(reason="CONTENT_TYPE_NOT_SUPPORTED", domain="a2a-protocol.org")
    )
    trailing = (("grpc-status-details-bin", told.SerializeToString()),)
    with pytest.raises(FailureError) as caught:
        play(ending(grpc.StatusCode.INVALID_ARGUMENT, "no pictures, please", trailing))
    failure = caught.value.failure
    assert failure.row.reason == "CONTENT_TYPE_NOT_SUPPORTED"
    assert failure.message == "no pictures, please"


@pytest.mark.parametrize("details", [b"\xff", b""])
def test_details_of_others_are_not(details: bytes) -> None:
    trailing = (("grpc-status-details-bin", details),)
    with pytest.raises(RemoteFailureError):
        play(ending(grpc.StatusCode.UNKNOWN, "x", trailing))


def test_a_lost_connection_fails_the_task_and_says_so() -> None:
    """Rule 8: not just a reference to the log."""

    async def main() -> RecordingTurn:
        turn = RecordingTurn("hi")
        async with contextlib.AsyncExitStack() as stack:
            server = await stack.enter_async_context(contextlib.AsyncExitStack())
            address = await server.enter_async_context(serving(idle))
            agent = await stack.enter_async_context(started(address))
            running = asyncio.create_task(agent.run(turn))
            await until(turn)
            await server.aclose()
            await running
        return turn

    turn = run(main())
    assert turn.states == ["WORKING", "FAILED"]
    assert turn.last_words == remote.LOST


def test_a_lost_connection_after_the_question_is_no_failure() -> None:
    async def execute(request: ExecuteRequest, context: Context) -> None:
        await context.write(status("INPUT_REQUIRED"))
        await context.abort(grpc.StatusCode.UNAVAILABLE, "gone")

    assert play(execute).states == ["INPUT_REQUIRED"]


def test_a_frozen_agent_is_noticed_after_long_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule 8: asked in vain whether it lives. A turn that is silent for many such questions, and
    whose agent answers them, goes on; the gateway's readiness has it, too."""
    monkeypatch.setattr(remote, "KEEPALIVE", 0.1)
    monkeypatch.setattr(remote, "KEEPALIVE_TIMEOUT", 0.2)
    answers = 0

    def heard(seen: bytes) -> None:
        nonlocal answers
        answers += 1

    async def main() -> RecordingTurn:
        turn = RecordingTurn("hi")
        allowed = [("grpc.http2.max_ping_strikes", 0)]
        async with (
            serving(idle, options=allowed) as address,
            proxy(address, heard) as between,
            started(between.address) as agent,
        ):
            running = asyncio.create_task(agent.run(turn))
            await until(turn)
            before = answers
            while answers < before + 4:  # noqa: ASYNC110 - of gRPC's own making
                await asyncio.sleep(0.01)
            assert turn.states == ["WORKING"]
            between.flows.clear()
            await running
            while not agent.fault:  # noqa: ASYNC110 - connecting again, in vain
                await asyncio.sleep(0.01)
        return turn

    turn = run(main())
    assert turn.states == ["WORKING", "FAILED"]
    assert turn.last_words == remote.LOST


@pytest.mark.parametrize("chunks", [0, 1_000_000])
def test_an_agent_that_does_not_end_what_has_ended(
    chunks: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Rule 5, D28: such as one that forgot to end its stream. It would take a place for ever."""
    monkeypatch.setattr(remote, "LINGER", 0.05)
    told: list[bool] = []

    async def execute(request: ExecuteRequest, context: Context) -> None:
        await context.write(status("COMPLETED"))
        try:
            for _ in range(chunks):
                await context.write(chunk("more"))
            await asyncio.Event().wait()
        finally:
            told.append(True)

    turn = play(execute)
    assert turn.states == ["COMPLETED"]
    assert told == [True]
    assert "has not ended its Execute" in caplog.text


def test_a_server_of_something_else() -> None:
    turn = play(ending(grpc.StatusCode.UNIMPLEMENTED))
    assert turn.last_words == remote.NOT_SERVED


def test_an_event_beyond_the_limit() -> None:
    async def execute(request: ExecuteRequest, context: Context) -> None:
        await context.write(chunk("x" * (4 << 20)))

    async def main() -> RecordingTurn:
        turn = RecordingTurn("hi")
        async with agent_of(execute, message_bytes=1 << 20) as agent:
            await agent.run(turn)
        return turn

    assert run(main()).last_words == remote.TOO_LARGE


# Where nobody listens


def test_an_agent_that_is_not_there(tmp_path: Path) -> None:
    async def main() -> RecordingTurn:
        turn = RecordingTurn("hi")
        address = f"unix:{tmp_path}/none"
        async with started(address, start_wait=0.05, connect_wait=0.1) as agent:
            assert agent.fault
            await agent.run(turn)
            with pytest.raises(RemoteFailureError, match="cannot be reached"):
                await agent.cancel(turn)
        return turn

    turn = run(main())
    assert turn.states == ["FAILED"]
    assert turn.last_words == remote.UNREACHABLE


def test_an_agent_that_comes_later() -> None:
    """Sidecars start in any order; turns wait for a while."""

    async def execute(request: ExecuteRequest, context: Context) -> None:
        await context.write(status("COMPLETED"))

    async def main() -> RecordingTurn:
        address = f"127.0.0.1:{unused_port()}"
        turn = RecordingTurn("hi")
        async with started(address, start_wait=0.05) as agent:
            running = asyncio.create_task(agent.run(turn))
            await asyncio.sleep(0.1)
            async with serving(execute, address=address):
                await running
                assert agent.fault == ""
        return turn

    assert run(main()).states == ["COMPLETED"]


def test_a_turn_that_finds_no_connection_after_all(tmp_path: Path) -> None:
    """The channel had not learnt that the agent was gone: nothing was sent, so nothing is lost."""

    async def execute(request: ExecuteRequest, context: Context) -> None:
        await context.write(status("COMPLETED"))

    async def main() -> RecordingTurn:
        address = f"unix:{tmp_path}/agent"
        turn = RecordingTurn("hi")
        asked = 0
        async with started(address, start_wait=0.05, connect_wait=60) as agent:
            is_connected = agent._is_connected

            async def late(wait: float) -> bool:
                nonlocal asked
                asked += 1
                return asked == 1 or await is_connected(wait)

            agent._is_connected = late  # type: ignore[method-assign]
            running = asyncio.create_task(agent.run(turn))
            while asked < 2:  # noqa: ASYNC110 - the call has to fail first
                await asyncio.sleep(0.001)
            async with serving(execute, address=address):
                await running
        return turn

    assert run(main()).states == ["COMPLETED"]


def test_an_agent_that_comes_back(tmp_path: Path) -> None:
    async def execute(request: ExecuteRequest, context: Context) -> None:
        await context.write(status("COMPLETED"))

    async def main() -> None:
        address = f"unix:{tmp_path}/agent"
        turns = [RecordingTurn("hi") for _ in range(3)]
        async with started(address, start_wait=0.05) as agent:
            for turn in turns:
                async with serving(execute, address=address):
                    await agent.run(turn)
        assert [turn.states for turn in turns] == [["COMPLETED"]] * 3

    run(main())


def test_not_started() -> None:
    with pytest.raises(AgentError, match="not started"):
        run(RemoteAgent("127.0.0.1:1").run(RecordingTurn()))


# Cancelling


class Cancelled:
    """A server whose Execute idles, and what it has seen."""

    def __init__(self) -> None:
        self.request: CancelRequest | None = None
        self.ended = asyncio.Event()
        self.told = asyncio.Event()

    async def execute(self, request: ExecuteRequest, context: Context) -> None:
        try:
            await context.write(status("WORKING"))
            await asyncio.Event().wait()
        finally:
            self.ended.set()

    async def execute_until_told(self, request: ExecuteRequest, context: Context) -> None:
        await context.write(status("WORKING"))
        await self.told.wait()
        await context.write(status("CANCELED", "from Execute"))
        self.ended.set()

    async def cancel(self, request: CancelRequest, context: Context) -> CancelResponse:
        self.request = request
        self.told.set()
        return CancelResponse()

    async def cancel_with_words(self, request: CancelRequest, context: Context) -> CancelResponse:
        return CancelResponse(events=[status("CANCELED", "from Cancel")])

    async def cancel_badly(self, request: CancelRequest, context: Context) -> CancelResponse:
        raise ValueError("secret-123")


async def cancel_one(execute: Execute, cancel: Cancel | None) -> tuple[RecordingTurn, Any]:
    """As the runtime does: `run` is cancelled and `cancel` called, side by side."""
    turn = RecordingTurn("hi")
    async with agent_of(execute, cancel) as agent:
        running = asyncio.create_task(agent.run(turn))
        await until(turn)
        running.cancel()
        done = await asyncio.gather(agent.cancel(turn), return_exceptions=True)
        await asyncio.wait([running])
        assert running.cancelled()
    return turn, done[0]


def test_the_last_words_may_come_from_execute() -> None:
    async def main() -> None:
        server = Cancelled()
        turn, error = await cancel_one(server.execute_until_told, server.cancel)
        assert error is None
        assert turn.states == ["WORKING", "CANCELED"]
        assert turn.last_words == "from Execute"
        assert server.request is not None
        assert server.request.request == turn.request

    run(main())


def test_or_from_cancel() -> None:
    async def main() -> None:
        server = Cancelled()
        turn, error = await cancel_one(server.execute, server.cancel_with_words)
        assert error is None
        assert turn.last_words == "from Cancel"
        await server.ended.wait()

    run(main())


def test_without_cancel_the_call_is_cancelled() -> None:
    async def main() -> None:
        server = Cancelled()
        turn, error = await cancel_one(server.execute, None)
        assert error is None
        assert turn.states == ["WORKING"]
        await server.ended.wait()

    run(main())


def test_an_execute_that_does_not_end_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "LAST_WORDS", 0.05)

    async def main() -> None:
        server = Cancelled()
        turn, error = await cancel_one(server.execute, server.cancel)
        assert error is None
        assert turn.states == ["WORKING"]
        await server.ended.wait()

    run(main())


def test_a_cancel_that_fails_is_told_to_the_log() -> None:
    async def main() -> None:
        server = Cancelled()
        _, error = await cancel_one(server.execute, server.cancel_badly)
        assert isinstance(error, RemoteFailureError)
        await server.ended.wait()

    run(main())


def test_a_task_that_waits_is_cancelled_without_a_message() -> None:
    async def main() -> None:
        server = Cancelled()
        turn = RecordingTurn(task=Task(id="task-1"))
        turn.request.CopyFrom(SendMessageRequest())
        async with agent_of(server.execute, server.cancel) as agent:
            await agent.cancel(turn)
        assert server.request is not None
        assert not server.request.HasField("request")
        assert server.request.task.id == "task-1"

    run(main())


def test_a_death_while_it_is_cancelled_is_no_failure() -> None:
    async def execute(request: ExecuteRequest, context: Context) -> None:
        await context.write(status("WORKING"))
        await told.wait()
        await context.abort(grpc.StatusCode.UNAVAILABLE, "gone")

    async def cancel(request: CancelRequest, context: Context) -> CancelResponse:
        told.set()
        return CancelResponse()

    told = asyncio.Event()
    turn, _ = run(cancel_one(execute, cancel))
    assert turn.states == ["WORKING"]


def test_a_second_cancel_gives_the_call_up() -> None:
    """An agent that ignores a cancel is abandoned."""
    ended = asyncio.Event()

    async def execute(request: ExecuteRequest, context: Context) -> None:
        try:
            await idle(request, context)
        finally:
            ended.set()

    async def main() -> None:
        turn = RecordingTurn("hi")
        async with agent_of(execute) as agent:
            running = asyncio.create_task(agent.run(turn))
            await until(turn)
            running.cancel()
            await asyncio.sleep(0)
            assert not running.done()
            running.cancel()
            await asyncio.wait([running], timeout=5)
            assert running.cancelled()
            await ended.wait()

    run(main())


def test_stop_ends_what_runs() -> None:
    async def main() -> None:
        turn = RecordingTurn("hi")
        async with serving(idle) as address:
            agent = RemoteAgent(address)
            await agent.start()
            running = asyncio.create_task(agent.run(turn))
            await until(turn)
            running.cancel()
            await asyncio.sleep(0)
            await agent.stop()
            await asyncio.wait([running], timeout=5)
            assert running.cancelled()
            await agent.stop()

    run(main())


# The spec


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ("grpc:", "no port"),
        ("grpc:9000", "no port"),
        ("grpc:127.0.0.1:nine", "a port is a number"),
        ("grpc:127.0.0.1:0", "no port to connect to"),
        ("grpc:10.0.0.1:9000", "another machine"),
        ("grpc:agent:9000", "another machine"),
        ("grpc:unix:", "no path"),
    ],
)
def test_addresses_that_cannot_be_used(spec: str, text: str) -> None:
    with pytest.raises(AgentError, match=text):
        load(spec)


@pytest.mark.parametrize("spec", ["grpc:127.0.0.1:9000", "grpc:[::1]:9000", "grpc:unix:/run/a"])
def test_addresses_that_can(spec: str) -> None:
    assert isinstance(load(spec, settings=Settings()), RemoteAgent)
    assert card_name(spec) == "agent"
    assert proposed_card(spec) == {}
