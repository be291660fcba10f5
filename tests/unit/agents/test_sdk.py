"""a2a-sdk executors behind the agent interface, each public method of what they are given."""

import asyncio
from typing import Any

import pytest
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater

from gateway.agents.sdk import SdkAgent, TurnQueue
from gateway.call import Call
from gateway.pb import (
    Message,
    Part,
    SendMessageConfiguration,
    SendMessageRequest,
    Struct,
    Task,
    TaskArtifactUpdateEvent,
    TaskStatusUpdateEvent,
)
from tests.conftest import run
from tests.doubles.recording import RecordingTurn, run_once
from tests.doubles.whole_interface import (
    ContextExecutor,
    LegacyQueueExecutor,
    QueueExecutor,
    UpdaterExecutor,
)


def seen_by(turn: RecordingTurn, **options: Any) -> dict[str, Any]:
    executor = ContextExecutor()
    run(run_once(SdkAgent(executor, **options), turn))
    return executor.seen


@pytest.mark.parametrize(
    ("method", "state"),
    [
        ("complete", "COMPLETED"),
        ("failed", "FAILED"),
        ("reject", "REJECTED"),
        ("requires_input", "INPUT_REQUIRED"),
        ("requires_auth", "AUTH_REQUIRED"),
        ("cancel", "CANCELED"),
    ],
)
def test_task_updater(method: str, state: str) -> None:
    turn = run(run_once(SdkAgent(UpdaterExecutor()), RecordingTurn(method)))
    assert turn.states == ["SUBMITTED", "WORKING", "WORKING", state]
    assert turn.last_words == "note"
    noted = turn.events[2]
    assert isinstance(noted, TaskStatusUpdateEvent)
    assert noted.metadata["step"] == 1
    assert noted.status.timestamp.ToJsonString() == "2026-01-01T00:00:00Z"
    assert noted.status.message.message_id == "message-1-task-1"
    first, second, third = (e for e in turn.events if isinstance(e, TaskArtifactUpdateEvent))
    assert first.artifact.artifact_id == "artifact-1-task-1"
    assert (second.artifact.name, list(second.artifact.extensions)) == ("name", ["urn:x"])
    assert (third.append, third.last_chunk) == (True, True)


def test_event_queue_takes_all_four_kinds() -> None:
    turn = run(run_once(SdkAgent(QueueExecutor()), RecordingTurn("task")))
    assert [type(e).__name__ for e in turn.events] == [
        "Task",
        "TaskArtifactUpdateEvent",
        "TaskStatusUpdateEvent",
    ]
    turn = run(run_once(SdkAgent(QueueExecutor()), RecordingTurn("message")))
    assert isinstance(turn.events[0], Message)


def test_request_context_of_a_first_turn() -> None:
    metadata = Struct()
    metadata.update({"k": {"n": None}})
    turn = RecordingTurn("one", "two", related=[Task(id="other")])
    turn.request.metadata.CopyFrom(metadata)
    turn.request.configuration.CopyFrom(SendMessageConfiguration(history_length=3))
    seen = seen_by(turn)
    assert seen["message"].message_id == "m1"
    assert (seen["input"], seen["joined"]) == ("one\ntwo", "one|two")
    assert (seen["task_id"], seen["context_id"]) == ("task-1", "context-1")
    assert seen["current_task"] is None
    assert seen["related_tasks"] == ["other"]
    assert seen["configuration"].history_length == 3
    assert seen["metadata"] == {"k": {"n": None}}
    assert seen["attached"] == ["other", "attached"]
    assert seen["set"] == "set"


def test_a_follow_up_that_names_only_the_task_has_the_task_s_context() -> None:
    """LC03: the context of the third turn is that of the first."""
    task = Task(id="task-1", context_id="context-1")
    turn = RecordingTurn("again", task=task)
    turn.request.message.context_id = ""
    seen = seen_by(turn)
    assert seen["context_id"] == "context-1"
    assert seen["message"].context_id == "context-1"
    assert seen["current_task"] is task


def test_the_call_context_of_an_authenticated_caller() -> None:
    call = Call(
        "http",
        metadata={
            "authorization": "Bearer secret",
            "cookie": "secret",
            "x-custom-key": "secret",
            "x-request-id": "r1",
            "traceparent": "00-1-2-01",
        },
        caller="ada",
        tenant="acme",
        scheme="bearer",
        extensions=("urn:a", "urn:b"),
    )
    seen = seen_by(RecordingTurn("x", call=call), secret_names=frozenset({"x-custom-key"}))
    context = seen["call_context"]
    assert context.user.is_authenticated
    assert context.user.user_name == "ada"
    assert context.state["headers"] == {"x-request-id": "r1", "traceparent": "00-1-2-01"}
    assert "secret" not in str(context)
    assert seen["tenant"] == "acme"
    assert seen["requested_extensions"] == {"urn:a", "urn:b"}


def test_an_anonymous_caller_is_not_authenticated() -> None:
    """AU06: no name stands for nobody."""
    user = seen_by(RecordingTurn("x"))["call_context"].user
    assert not user.is_authenticated
    assert user.user_name == ""


def test_cancel_gets_the_ids_and_the_message() -> None:
    executor = ContextExecutor()
    turn = RecordingTurn("stop", task=Task(id="task-1", context_id="context-1"))
    run(SdkAgent(executor).cancel(turn))
    assert (executor.cancelled["task_id"], executor.cancelled["context_id"]) == (
        "task-1",
        "context-1",
    )
    assert executor.cancelled["current_task"] is turn.task
    assert executor.cancelled["input"] == "stop"


def test_cancel_of_a_turn_without_a_message() -> None:
    executor = ContextExecutor()
    turn = RecordingTurn()
    turn.request = SendMessageRequest()
    run(SdkAgent(executor).cancel(turn))
    assert executor.cancelled["message"] is None
    assert executor.cancelled["task_id"] == "task-1"


def test_cancel_in_the_first_turn_has_a_task() -> None:
    executor = ContextExecutor()
    run(SdkAgent(executor).cancel(RecordingTurn("stop")))
    task = executor.cancelled["current_task"]
    assert (task.id, task.context_id) == ("task-1", "context-1")
    assert task.history[0].message_id == "m1"


def test_cancel_may_emit() -> None:
    turn = RecordingTurn("complete")
    run(SdkAgent(UpdaterExecutor()).cancel(turn))
    assert turn.states == ["CANCELED"]


def test_cancelling_reaches_the_executor() -> None:
    """S82/ST14: CancelledError arrives where the executor awaits, and it may still emit."""
    begun = asyncio.Event()

    class Waiting(AgentExecutor):
        async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
            updater = TaskUpdater(event_queue, context.task_id or "", context.context_id or "")
            try:
                begun.set()
                await asyncio.Event().wait()
            finally:
                await updater.cancel()

        async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
            raise NotImplementedError

    async def main() -> RecordingTurn:
        turn = RecordingTurn("x")
        task = asyncio.create_task(SdkAgent(Waiting()).run(turn))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return turn

    assert run(main()).states == ["CANCELED"]


def test_an_exception_of_the_executor_comes_out() -> None:
    with pytest.raises(NotImplementedError):
        run(SdkAgent(QueueExecutor()).cancel(RecordingTurn("x")))


def test_an_executor_that_exits_ends_its_turn_only() -> None:
    class Leaving(AgentExecutor):
        async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
            raise SystemExit(3)

        async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
            raise SystemExit(3)

    with pytest.raises(RuntimeError, match=r"sys\.exit"):
        run(SdkAgent(Leaving()).run(RecordingTurn("x")))
    with pytest.raises(RuntimeError, match=r"sys\.exit"):
        run(SdkAgent(Leaving()).cancel(RecordingTurn("x")))


def test_the_older_queue_s_methods(caplog: pytest.LogCaptureFixture) -> None:
    executor = LegacyQueueExecutor()
    turn = run(run_once(SdkAgent(executor), RecordingTurn("x")))
    assert turn.states == ["WORKING", "COMPLETED"]
    assert executor.copies == turn.events[:1]
    assert executor.was_closed == [False, True]
    assert turn.parts == []
    assert "after the queue was closed" in caplog.text
    run(SdkAgent(executor).cancel(RecordingTurn("x")))


def test_the_agent_does_not_read_its_own_queue() -> None:
    with pytest.raises(RuntimeError, match="tap"):
        run(TurnQueue(RecordingTurn("x")).dequeue_event())


def test_the_executor_waits_where_the_runtime_does() -> None:
    """Back-pressure of `emit` reaches `enqueue_event`."""

    async def main() -> None:
        turn = RecordingTurn("x")
        turn.gate = asyncio.Event()
        task = asyncio.create_task(TurnQueue(turn).enqueue_event(Task()))
        await asyncio.sleep(0)
        assert not task.done()
        turn.gate.set()
        await task
        assert len(turn.events) == 1

    run(main())


def test_no_tracing_decorator_is_in_the_path() -> None:
    for method in (TurnQueue.enqueue_event, TaskUpdater.update_status, RequestContext.__init__):
        assert not hasattr(method, "__wrapped__")


def test_the_name_is_that_of_the_executor_unless_given() -> None:
    assert SdkAgent(QueueExecutor()).name == "QueueExecutor"
    assert SdkAgent(QueueExecutor(), name="x").name == "x"


def test_the_event_may_be_changed_after_it_was_taken() -> None:
    class Reusing(AgentExecutor):
        async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
            event = TaskArtifactUpdateEvent()
            for text in ("a", "b"):
                event.artifact.ClearField("parts")
                event.artifact.parts.append(Part(text=text))
                await event_queue.enqueue_event(event)

        async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None: ...

    assert run(run_once(SdkAgent(Reusing()), RecordingTurn("x"))).text == "ab"
