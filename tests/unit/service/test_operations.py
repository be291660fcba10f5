"""What each operation asks of the runtime and makes of its answer."""

from typing import Any

import pytest

from gateway.errors import (
    InternalError,
    PushNotificationNotSupportedError,
    UnsupportedOperationError,
)
from gateway.pb import (
    METHODS,
    CancelTaskRequest,
    GetExtendedAgentCardRequest,
    GetTaskRequest,
    ListTasksRequest,
    ListTasksResponse,
    Message,
    SendMessageResponse,
    StreamResponse,
    SubscribeToTaskRequest,
    Task,
    TaskState,
)
from gateway.store import LogEvent
from tests.conftest import run
from tests.doubles.runtime import HISTORY, ScriptedRuntime, make_task, status_event, task_event
from tests.unit.service.making import make_call, make_send, make_service, serve

WORKING = TaskState.TASK_STATE_WORKING
COMPLETED = TaskState.TASK_STATE_COMPLETED


async def read(service: Any, name: str, request: Any, **fields: Any) -> list[LogEvent]:
    return [e async for batch in service.stream(name, request, make_call(**fields)) for e in batch]


@pytest.mark.parametrize("returns_at_once", [False, True])
def test_send_waits_unless_told_otherwise(returns_at_once: bool) -> None:
    """S48, S64, R19: the flag reaches the runtime."""
    runtime = ScriptedRuntime()
    request = make_send()
    request.configuration.return_immediately = returns_at_once
    response = serve(make_service(runtime), "SendMessage", request)
    assert response.task.id == "t1"
    assert runtime.waited == [not returns_at_once]


def test_send_gives_a_message_too() -> None:
    """S63: an agent may answer without a task."""
    runtime = ScriptedRuntime()
    runtime.response = SendMessageResponse(message=Message(message_id="a1"))
    request = make_send()
    request.configuration.history_length = 0
    assert serve(make_service(runtime), "SendMessage", request).message.message_id == "a1"


@pytest.mark.parametrize(
    ("length", "left"), [(None, HISTORY), (0, 0), (1, 1), (HISTORY, HISTORY), (100, HISTORY)]
)
def test_history_is_trimmed_to_the_last(length: int | None, left: int) -> None:
    """HP01, S75, R20: unset all, 0 none, n the last n; the stored task stays whole."""
    runtime = ScriptedRuntime()
    service = make_service(runtime)
    stored = runtime.put(make_task("t1"))
    expected = [f"m{number}" for number in range(HISTORY)][HISTORY - left :]
    task = serve(service, "GetTask", GetTaskRequest(id="t1", history_length=length))
    assert [m.message_id for m in task.history] == expected
    listing = ListTasksRequest(history_length=length)
    [listed] = serve(service, "ListTasks", listing).tasks
    assert [m.message_id for m in listed.history] == expected
    request = make_send()
    if length is not None:
        request.configuration.history_length = length
    sent = serve(service, "SendMessage", request)
    assert [m.message_id for m in sent.task.history] == expected
    runtime.log = [task_event(1, stored), status_event(2, "t1", COMPLETED)]
    first, second = run(read(service, "SendStreamingMessage", request))
    assert (first.seq, second) == (1, runtime.log[1])
    streamed = StreamResponse.FromString(first.payload).task
    assert [m.message_id for m in streamed.history] == expected
    assert len(stored.history) == HISTORY


def test_cancel_gives_the_canceled_task() -> None:
    """S81: the answer is the task after the cancel."""
    runtime = ScriptedRuntime()
    runtime.put(make_task("t1", WORKING))
    task = serve(make_service(runtime), "CancelTask", CancelTaskRequest(id="t1"))
    assert task.status.state == TaskState.TASK_STATE_CANCELED


def test_streams_pass_events_untouched() -> None:
    """S66, S67, R16, R17: in order, with their numbers, as the bytes that the log holds."""
    runtime = ScriptedRuntime()
    runtime.log = [task_event(1, make_task("t1", WORKING)), status_event(2, "t1", COMPLETED)]
    assert run(read(make_service(runtime), "SendStreamingMessage", make_send())) == runtime.log
    assert runtime.cursors == [None]
    assert (runtime.readers, runtime.finished) == (0, 1)


def test_streams_go_on_after_a_cursor() -> None:
    """S71, T13: a repeated send and a subscription take up where the client left off."""
    runtime = ScriptedRuntime()
    service = make_service(runtime)
    runtime.put(make_task("t1", COMPLETED))
    runtime.log = [status_event(n, "t1", WORKING) for n in range(1, 5)]
    subscribing = SubscribeToTaskRequest(id="t1")
    assert run(read(service, "SubscribeToTask", subscribing, cursor=2)) == runtime.log[2:]
    assert run(read(service, "SendStreamingMessage", make_send(), cursor=3)) == runtime.log[3:]
    assert runtime.cursors == [2, 3]


def test_subscribing_to_an_ended_task_is_unsupported() -> None:
    """ST05, D7, R18: -32004, not not-found."""
    runtime = ScriptedRuntime()
    runtime.put(make_task("t1", COMPLETED))
    with pytest.raises(UnsupportedOperationError):
        serve(make_service(runtime), "SubscribeToTask", SubscribeToTaskRequest(id="t1"))


def test_a_stream_that_fails_raises_after_its_events() -> None:
    """SS03: what came before the failure is delivered, and the failure keeps its kind."""
    runtime = ScriptedRuntime()
    runtime.log = [task_event(1, make_task("t1", WORKING))]
    runtime.error = InternalError("The task could not be stored")
    seen: list[LogEvent] = []

    async def main() -> None:
        async for batch in make_service(runtime).stream(
            "SendStreamingMessage", make_send(), make_call()
        ):
            seen.extend(batch)

    with pytest.raises(InternalError):
        run(main())
    assert seen == runtime.log
    assert runtime.readers == 0


def test_lists_in_pages() -> None:
    """S77, S78, S79, D10, D11, R21, HP03: every task once; sizes and an empty token at the end."""
    runtime = ScriptedRuntime()
    service = make_service(runtime)
    for number in range(7):
        runtime.put(make_task(f"t{number}"))
    seen: list[str] = []
    token = ""
    sizes = []
    while True:
        page = serve(service, "ListTasks", ListTasksRequest(page_size=3, page_token=token))
        assert (page.page_size, page.total_size) == (3, 7)
        seen += [task.id for task in page.tasks]
        sizes.append(len(page.tasks))
        token = page.next_page_token
        if not token:
            break
    assert seen == [f"t{number}" for number in range(6, -1, -1)]
    assert sizes == [3, 3, 1]


def test_lists_an_empty_store() -> None:
    """HP03: nothing, in numbers; the default page size."""
    page = serve(make_service(), "ListTasks", ListTasksRequest())
    assert page == ListTasksResponse(page_size=50)


@pytest.mark.parametrize(("asked", "artifacts"), [(None, 0), (False, 0), (True, 1)])
def test_lists_artifacts_only_on_request(asked: bool | None, artifacts: int) -> None:
    """S80, R21: artifacts are left out unless asked for."""
    runtime = ScriptedRuntime()
    runtime.put(make_task("t1"))
    page = serve(make_service(runtime), "ListTasks", ListTasksRequest(include_artifacts=asked))
    assert [len(task.artifacts) for task in page.tasks] == [artifacts]


def test_lists_by_every_filter() -> None:
    """S78, D11: filters reach the store; times in microseconds."""
    runtime = ScriptedRuntime()
    request = ListTasksRequest(context_id="c1", status=WORKING, page_size=100)
    request.status_timestamp_after.FromJsonString("2026-01-01T05:30:00.5+05:30")
    serve(make_service(runtime), "ListTasks", request)
    [query] = runtime.queries
    assert query.context_id == "c1"
    assert query.state == WORKING
    assert query.limit == 100
    assert query.status_from_us == 1_767_225_600_500_000
    assert query.before is None


@pytest.mark.parametrize("name", [name for name in METHODS if "PushNotification" in name])
def test_push_is_not_offered(name: str) -> None:
    """R13: all four config methods say so."""
    with pytest.raises(PushNotificationNotSupportedError):
        serve(make_service(), name, METHODS[name].request())


@pytest.mark.parametrize("name", ["SendMessage", "SendStreamingMessage"])
def test_push_is_not_offered_inline_either(name: str) -> None:
    """R13, S29: a config in a send would be lost without a word."""
    runtime = ScriptedRuntime()
    request = make_send()
    request.configuration.task_push_notification_config.url = "https://hooks.example/a"
    with pytest.raises(PushNotificationNotSupportedError):
        serve(make_service(runtime), name, request)
    assert not runtime.sent


def test_the_extended_card_is_not_offered() -> None:
    """R13: UnsupportedOperation, as the card declares none."""
    with pytest.raises(UnsupportedOperationError):
        serve(make_service(), "GetExtendedAgentCard", GetExtendedAgentCardRequest())


@pytest.mark.parametrize("name", ["SendStreamingMessage", "SubscribeToTask"])
def test_streaming_can_be_off(name: str) -> None:
    """R13: UnsupportedOperation before any work, for known and unknown tasks alike."""
    runtime = ScriptedRuntime()
    service = make_service(runtime, card={"capabilities": {"streaming": False}})
    request = make_send() if name == "SendStreamingMessage" else SubscribeToTaskRequest(id="x")
    with pytest.raises(UnsupportedOperationError, match="does not stream"):
        serve(service, name, request)
    assert not runtime.sent


def test_answers_are_the_callers_own() -> None:
    """S75: an answer may be changed without changing what is stored."""
    runtime = ScriptedRuntime()
    stored = runtime.put(make_task("t1"))
    before = Task()
    before.CopyFrom(stored)
    serve(make_service(runtime), "GetTask", GetTaskRequest(id="t1", history_length=0))
    assert stored == before
