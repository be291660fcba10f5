"""The client of this wire, against the door itself, in both bindings."""

import asyncio
from typing import Any

import pytest
from a2a.utils.errors import TaskNotFoundError

from gateway.call import Call
from gateway.errors import (
    TABLE,
    Failure,
    FailureError,
    ResourceExhaustedError,
    Row,
    UnauthenticatedError,
    ValidationError,
    judge,
)
from gateway.pb import (
    METHODS,
    GetTaskRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    SubscribeToTaskRequest,
    TaskPushNotificationConfig,
    TaskState,
    Timestamp,
)
from tests.conftest import run
from tests.doubles.core import FakeCore
from tests.unit.transports.http.serving import chunk, echo, served
from transports.http.client import Binding, HttpClient

both = pytest.mark.parametrize("binding", ["jsonrpc", "rest"])

REQUESTS: dict[str, Any] = {
    "SendMessage": SendMessageRequest(
        tenant="a/b",
        message=Message(message_id="m", role=Role.ROLE_USER, parts=[Part(raw=b"\xff\x00")]),
    ),
    "GetTask": GetTaskRequest(id="a/b:c %ä", history_length=0),
    "ListTasks": ListTasksRequest(
        tenant="t",
        context_id="a&b=c",
        status=TaskState.TASK_STATE_WORKING,
        page_size=3,
        include_artifacts=True,
        status_timestamp_after=Timestamp(seconds=1, nanos=5_000_000),
    ),
    "CreateTaskPushNotificationConfig": TaskPushNotificationConfig(task_id="t", url="https://x/"),
}


def request_for(method: str) -> Any:
    """A request with all that its path needs."""
    if method in REQUESTS:
        return REQUESTS[method]
    request = METHODS[method].request()
    for name in ("id", "task_id"):
        if name in request.DESCRIPTOR.fields_by_name:
            setattr(request, name, f"{name}/1")
    return request


@both
def test_every_unary_method(binding: Binding) -> None:
    """S42, R2: the core gets the same message over either binding."""

    async def main() -> None:
        async with served(FakeCore(echo)) as door, HttpClient(door.url, binding) as client:
            for method, found in METHODS.items():
                if not found.streaming:
                    request = request_for(method)
                    response = await client.unary(method, request, {"idempotency-key": "k"})
                    assert type(response) is found.response
                    name, received, call = door.core.calls[-1]
                    assert (name, received) == (method, request)
                    assert (call.version, call.idempotency_key) == ("1.0", "k")

    run(main())


@both
def test_streams(binding: Binding) -> None:
    """R36: events in order with their places; leaving one closes it at the core."""

    async def stream(method: str, request: Any, call: Call) -> Any:
        yield [chunk(1), chunk(2)]
        yield [chunk(3)]
        if request.id == "endless":
            await asyncio.Event().wait()
        if request.id == "bad":
            raise TaskNotFoundError("Task not found: bad")

    async def main() -> None:
        async with served(FakeCore(echo, stream)) as door, HttpClient(door.url, binding) as client:
            for task_id in ("good", "bad", "endless"):
                door.core.closed.clear()
                places = []
                events = client.stream("SubscribeToTask", SubscribeToTaskRequest(id=task_id))
                try:
                    async for place, event in events:
                        assert event.artifact_update.artifact.artifact_id == "a"
                        places.append(place)
                        if task_id == "endless" and place == 3:
                            break
                except FailureError as error:
                    assert task_id == "bad"
                    failure = error.failure
                await events.aclose()
                assert places == [1, 2, 3]
                await door.core.closed.wait()
            assert failure.row.reason == "TASK_NOT_FOUND"
            assert failure.message == "Task not found: bad"

    run(main())


@both
@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.reason)
def test_every_failure_comes_back(row: Row, binding: Binding) -> None:
    """R2, R12: one failure, whatever the binding, unary or at the start of a stream."""

    async def fail(method: str, request: Any, call: Call) -> Any:
        raise FailureError(Failure(row, "Something is wrong", {"taskId": "t"}))

    async def fail_stream(method: str, request: Any, call: Call) -> Any:
        await fail(method, request, call)
        yield []

    async def main() -> None:
        core = FakeCore(fail, fail_stream)
        async with served(core) as door, HttpClient(door.url, binding) as client:
            with pytest.raises(FailureError) as unary:
                await client.unary("GetTask", GetTaskRequest(id="x"))
            with pytest.raises(FailureError) as stream:
                await anext(client.stream("SubscribeToTask", SubscribeToTaskRequest(id="x")))
            for caught in (unary, stream):
                failure = caught.value.failure
                assert failure.row == row
                if row.http != 401:
                    assert failure.message == "Something is wrong"
                    assert failure.info == {"taskId": "t"}

    run(main())


@both
def test_details_of_failures(binding: Binding) -> None:
    """R12: fields, challenges and pauses survive."""
    errors = [
        ValidationError(("parts", "must hold at least one part")),
        UnauthenticatedError(challenges=("Bearer", "Basic")),
        ResourceExhaustedError(retry_after=2.5),
    ]

    async def fail(method: str, request: Any, call: Call) -> Any:
        raise errors[int(request.id)]

    async def main() -> None:
        async with served(FakeCore(fail)) as door, HttpClient(door.url, binding) as client:
            for number, error in enumerate(errors):
                with pytest.raises(FailureError) as caught:
                    await client.unary("GetTask", GetTaskRequest(id=str(number)))
                assert caught.value.failure == judge(error)

    run(main())


@both
def test_a_server_that_is_not_there(binding: Binding) -> None:
    async def main() -> None:
        async with served(FakeCore(echo)) as door:
            url = door.url
        async with HttpClient(url, binding) as client:
            with pytest.raises(FailureError) as caught:
                await client.unary("GetTask", GetTaskRequest(id="x"))
            assert caught.value.failure.row.reason == "UNAVAILABLE"

    run(main())
