"""Plain functions as agents."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from gateway.agents import AgentError, function
from gateway.agents.function import (
    FunctionAgent,
    Input,
    ask,
    ask_auth,
    done,
    fail,
    file,
    link,
    reject,
    reply,
    status,
)
from gateway.agents.thread import ThreadAgent
from gateway.call import Call
from gateway.pb import (
    Artifact,
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    Struct,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
    Value,
)
from tests.conftest import run
from tests.doubles.recording import RecordingTurn, run_once


def play(function: Any, *parts: Part | str, **turn: Any) -> RecordingTurn:
    return run(run_once(FunctionAgent(function), RecordingTurn(*parts, **turn)))


def yielding(*values: Any) -> Any:
    async def agent(input: Input) -> AsyncIterator[Any]:
        for value in values:
            yield value

    return agent


def test_text_is_streamed_into_one_artifact() -> None:
    turn = play(yielding("a ", "", "b ", "c"))
    chunks = [e for e in turn.events if isinstance(e, TaskArtifactUpdateEvent)]
    assert [c.artifact.parts[0].text for c in chunks] == ["a ", "b ", "c"]
    assert [c.append for c in chunks] == [False, True, True]
    assert len({c.artifact.artifact_id for c in chunks}) == 1
    assert turn.states == ["WORKING", "COMPLETED"]


def test_every_event_names_task_and_context() -> None:
    turn = play(yielding("a", {"b": 1}, status("c"), Artifact(parts=[Part(text="d")])))
    assert {(e.task_id, e.context_id) for e in turn.events if not isinstance(e, Task)} == {
        ("task-1", "context-1")
    }


def test_data_becomes_a_data_part_each() -> None:
    turn = play(yielding({"ok": True, "n": None, "s": "it's"}, [1, 2.5]))
    assert turn.parts[0].data.struct_value.fields["s"].string_value == "it's"
    assert turn.parts[0].data.struct_value.fields["n"].WhichOneof("kind") == "null_value"
    assert [v.number_value for v in turn.parts[1].data.list_value.values] == [1, 2.5]
    ids = {e.artifact.artifact_id for e in turn.events if isinstance(e, TaskArtifactUpdateEvent)}
    assert len(ids) == 2


@pytest.mark.parametrize("value", [{"a": object()}, [{1, 2}], {"a": b"bytes"}])
def test_data_that_is_no_json_fails_with_a_reason(value: Any) -> None:
    with pytest.raises(TypeError, match="JSON values"):
        play(yielding(value))


@pytest.mark.parametrize("value", [5, True, object(), AgentError])
def test_a_value_without_meaning_fails_with_a_reason(value: Any) -> None:
    with pytest.raises(TypeError, match=r"yields str, bytes, dict.*not \w+"):
        play(yielding(value))


def test_files() -> None:
    turn = play(
        yielding(b"x", file(b"y", "y.txt", "text/plain"), link("https://h/z", "z", "text/z"))
    )
    assert [p.raw for p in turn.parts] == [b"x", b"y", b""]
    assert [p.filename for p in turn.parts] == ["", "y.txt", "z"]
    assert turn.parts[0].media_type == "application/octet-stream"
    assert turn.parts[2].url == "https://h/z"


def test_a_reply_alone_is_a_message_without_a_task() -> None:
    turn = play(yielding(reply("hello"), "never"))
    (message,) = turn.events
    assert isinstance(message, Message)
    assert message.role == Role.ROLE_AGENT
    assert message.message_id
    assert message.context_id == "context-1"


@pytest.mark.parametrize("task", [None, Task(id="task-1", context_id="context-1")])
def test_a_reply_in_a_task_is_a_message_of_the_task(task: Task | None) -> None:
    """R17: no bare Message once there is a task."""
    values = [reply("hello")] if task else ["text", reply("hello")]
    turn = play(yielding(*values), task=task)
    assert not any(isinstance(e, Message) for e in turn.events)
    told = [e for e in turn.events if isinstance(e, TaskStatusUpdateEvent)]
    assert told[-2].status.message.parts[0].text == "hello"
    assert told[-2].status.message.task_id == "task-1"
    assert turn.states[-1] == "COMPLETED"


@pytest.mark.parametrize(
    ("value", "state"),
    [
        (ask("why?"), "INPUT_REQUIRED"),
        (ask_auth("why?"), "AUTH_REQUIRED"),
        (reject("why?"), "REJECTED"),
        (fail("why?"), "FAILED"),
        (done("why?"), "COMPLETED"),
    ],
)
def test_what_ends_a_turn(value: Any, state: str) -> None:
    closed = []

    async def agent(input: Input) -> AsyncIterator[Any]:
        try:
            yield value
            yield "never"
        finally:
            closed.append(True)

    turn = play(agent)
    assert turn.states == [state]
    assert turn.last_words == "why?"
    assert closed == [True]


def test_events_of_the_agent_s_own_get_their_ids_and_end_the_turn() -> None:
    own = TaskStatusUpdateEvent(status=TaskStatus(state=TaskState.TASK_STATE_INPUT_REQUIRED))
    turn = play(
        yielding(
            Task(status=TaskStatus(state=TaskState.TASK_STATE_WORKING)),
            TaskArtifactUpdateEvent(artifact=Artifact(artifact_id="a", parts=[Part(text="t")])),
            own,
            "never",
        )
    )
    assert turn.states == ["WORKING", "INPUT_REQUIRED"]
    first = turn.events[0]
    assert isinstance(first, Task)
    assert (first.id, first.context_id) == ("task-1", "context-1")
    assert len(turn.events) == 3


def test_no_output_completes_the_task() -> None:
    assert play(yielding(None)).states == ["COMPLETED"]


def test_a_coroutine_gives_one_answer() -> None:
    async def agent(input: Input) -> str:
        return f"you said {input.text}"

    turn = play(agent, "hi")
    assert turn.text == "you said hi"
    assert turn.states == ["COMPLETED"]


def test_a_callable_object_is_a_function() -> None:
    class Agent:
        async def __call__(self, input: Input) -> str:
            return "called"

    assert play(Agent()).text == "called"


def test_plain_functions_run_in_a_thread() -> None:
    seen = []

    def agent(input: Input) -> str:
        seen.append(threading.current_thread())
        return "done"

    assert play(agent).text == "done"
    assert seen != [threading.main_thread()]


def test_plain_generators_run_in_a_thread_and_are_closed() -> None:
    seen: list[Any] = []
    is_closed = threading.Event()

    def agent(input: Input) -> Iterator[Any]:
        try:
            seen.append(threading.current_thread())
            yield "a"
            yield ask("b?")
            seen.append("never")
        finally:
            is_closed.set()

    turn = play(agent)
    assert turn.states == ["WORKING", "INPUT_REQUIRED"]
    assert is_closed.wait(5)
    assert threading.main_thread() not in seen
    assert "never" not in seen


def test_a_cancelled_plain_generator_is_closed_after_its_step() -> None:
    begun, go_on, is_closed = threading.Event(), threading.Event(), threading.Event()

    def agent(input: Input) -> Iterator[Any]:
        try:
            begun.set()
            go_on.wait(10)
            yield "a"
            yield "never"
        finally:
            is_closed.set()

    async def main() -> RecordingTurn:
        turn, runner = RecordingTurn(), FunctionAgent(agent)
        task = asyncio.create_task(runner.run(turn))
        await asyncio.to_thread(begun.wait, 5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        go_on.set()
        assert await asyncio.to_thread(is_closed.wait, 5)
        await runner.stop()
        return turn

    assert run(main()).events == []


@pytest.mark.parametrize("is_generator", [False, True])
def test_functions_that_never_end_hold_nobody_up(
    is_generator: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ST14: however many turns were cancelled whose functions hang, others run."""
    monkeypatch.setattr(function, "MAX_THREADS", 2)
    begun, go_on = threading.Semaphore(0), threading.Event()

    def hang(input: Input) -> str:
        if input.text == "hang":
            begun.release()
            go_on.wait(20)
        return "done"

    def steps(input: Input) -> Iterator[Any]:
        yield hang(input)

    async def main() -> None:
        runner = FunctionAgent(steps if is_generator else hang)
        for _ in range(6):
            task = asyncio.create_task(runner.run(RecordingTurn("hang")))
            await asyncio.to_thread(begun.acquire, timeout=5)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            turn = RecordingTurn("go")
            await runner.run(turn)
            assert turn.text == "done"
        go_on.set()
        await runner.stop()

    run(main())


def test_cancelling_runs_the_function_s_cleanup() -> None:
    """S82/ST14: cancel reaches the function where it awaits."""
    begun, cleaned = asyncio.Event(), []

    async def agent(input: Input) -> AsyncIterator[Any]:
        try:
            yield "a"
            begun.set()
            await asyncio.Event().wait()
        finally:
            cleaned.append(True)

    async def main() -> None:
        task = asyncio.create_task(FunctionAgent(agent).run(RecordingTurn()))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(main())
    assert cleaned == [True]


def test_cancelling_while_an_event_waits_closes_the_function() -> None:
    closed = []

    async def agent(input: Input) -> AsyncIterator[Any]:
        try:
            yield "a"
        finally:
            closed.append(True)

    async def main() -> None:
        turn = RecordingTurn()
        turn.gate = asyncio.Event()
        task = asyncio.create_task(FunctionAgent(agent).run(turn))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(main())
    assert closed == [True]


def test_an_exception_comes_out() -> None:
    async def agent(input: Input) -> AsyncIterator[Any]:
        yield "a"
        raise ValueError("secret-123")

    with pytest.raises(ValueError, match="secret-123"):
        play(agent)


@pytest.mark.parametrize("is_async", [True, False])
def test_an_agent_that_exits_ends_its_turn_only(is_async: bool) -> None:
    async def agent(input: Input) -> None:
        raise SystemExit(3)

    def plain(input: Input) -> None:
        raise SystemExit(3)

    with pytest.raises(RuntimeError, match=r"sys\.exit"):
        play(agent if is_async else plain)


def test_a_stray_stop_iteration_comes_out() -> None:
    """Of a bare `next()`: a future would not take it, and the turn would never end."""

    def plain(input: Input) -> Any:
        return next(iter(()))

    with pytest.raises(RuntimeError, match="StopIteration"):
        play(plain)


def test_the_session_is_shared_whatever_thread_the_function_runs_in() -> None:
    """S94: the memory of a context is the runtime's to keep and to drop."""

    async def agent(input: Input) -> AsyncIterator[Any]:
        input.session["async"] = 1
        yield "x"

    def plain(input: Input) -> Iterator[Any]:
        input.session["plain"] = 2
        yield "x"

    assert play(agent).memory == {"async": 1}
    assert play(plain).memory == {"plain": 2}
    inner = FunctionAgent(plain)
    assert run(run_once(ThreadAgent(inner), RecordingTurn())).memory == {"plain": 2}


def test_the_input() -> None:
    data = Value(struct_value=Struct())
    data.struct_value.update({"n": 1, "x": None, "f": 0.5, "b": [True, "s", {}]})
    call = Call("test", caller="ada", tenant="acme", extensions=("urn:x",))
    before = Message(message_id="m0", parts=[Part(text="before")])
    metadata = Struct()
    metadata.update({"k": [1, None]})
    turn = RecordingTurn(
        "one",
        Part(data=data),
        Part(raw=b"f", filename="f"),
        Part(url="https://h/f"),
        "two",
        call=call,
        related=[Task(id="other")],
        metadata=metadata,
    )
    turn.task = Task(id="task-1", history=[before, turn.request.message])
    turn.request.configuration.CopyFrom(
        SendMessageConfiguration(accepted_output_modes=["text/plain"])
    )
    input = Input(turn)
    assert input.text == "one\ntwo"
    assert input.data == [{"n": 1, "x": None, "f": 0.5, "b": [True, "s", {}]}]
    assert isinstance(input.data[0]["n"], int)
    assert [p.WhichOneof("content") for p in input.files] == ["raw", "url"]
    assert input.metadata == {"k": [1, None]}
    assert (input.task_id, input.context_id) == ("task-1", "context-1")
    assert input.task is turn.task
    assert [m.message_id for m in input.history] == ["m0"]
    assert [t.id for t in input.related] == ["other"]
    assert (input.caller, input.tenant, input.extensions) == ("ada", "acme", ("urn:x",))
    assert input.accepts == ["text/plain"]


def test_the_input_of_a_first_turn_has_no_past() -> None:
    input = Input(RecordingTurn("hi"))
    assert input.task is None
    assert input.history == []


@pytest.mark.parametrize("function", [lambda: None, lambda a, b: None])
def test_the_wrong_number_of_arguments_is_refused(function: Any) -> None:
    with pytest.raises(AgentError, match="must take one argument"):
        FunctionAgent(function)
