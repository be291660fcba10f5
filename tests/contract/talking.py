"""Calls as the behaviours write them: verbs of A2A over the client of any door."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any, TypeVar, cast

from gateway.errors import Failure, FailureError
from gateway.pb import (
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    ListTasksResponse,
    Message,
    Part,
    ProtoMessage,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    SendMessageResponse,
    SubscribeToTaskRequest,
    Task,
    TaskState,
    TaskStatusUpdateEvent,
)
from tests.contract.doors import Client, Door, Event, Events, Metadata, Reply

T = TypeVar("T")

VERSION = {"a2a-version": "1.0"}

_numbers = itertools.count(1)


def request(
    *content: str | Part,
    task_id: str = "",
    context_id: str = "",
    message_id: str = "",
    immediate: bool = False,
    **fields: Any,
) -> SendMessageRequest:
    """A good request; `fields` go into its configuration."""
    message = Message(
        message_id=message_id or f"m{next(_numbers)}",
        role=Role.ROLE_USER,
        task_id=task_id,
        context_id=context_id,
        parts=[Part(text=part) if isinstance(part, str) else part for part in content],
    )
    made = SendMessageRequest(message=message)
    if immediate:
        made.configuration.return_immediately = True
    if fields:
        made.configuration.MergeFrom(SendMessageConfiguration(**fields))
    return made


async def outcome_of(call: Awaitable[T]) -> T | Failure:
    """What a call gives, or how it fails."""
    try:
        return await call
    except FailureError as error:
        return error.failure


async def failure_of(call: Awaitable[object]) -> Failure:
    """How a call fails; it has to."""
    outcome = await outcome_of(call)
    assert isinstance(outcome, Failure), f"did not fail: {outcome}"
    return outcome


async def until(check: Callable[[], Awaitable[T]], limit: float = 20.0) -> T:
    """Look again and again until what is found is true: the gateway is another process."""
    async with asyncio.timeout(limit):
        while not (found := await check()):  # noqa: ASYNC110 - nobody here can set an event
            await asyncio.sleep(0.01)
        return found


def state(task: Task | TaskStatusUpdateEvent) -> str:
    """The state's name without its prefix."""
    return TaskState.Name(task.status.state).removeprefix("TASK_STATE_")


def text_of(task: Task) -> str:
    """The text of all artifacts."""
    return "".join(part.text for artifact in task.artifacts for part in artifact.parts)


class Talk:
    """A caller at one door. `tenant` keeps what it does apart from all other tests."""

    def __init__(
        self, door: Door, client: Client, tenant: str = "", metadata: Metadata | None = None
    ):
        self.door = door
        self.tenant = tenant
        self._client = client
        self._metadata = {**VERSION, **(metadata or {})}

    def as_other(self, tenant: str | None = None, **metadata: str) -> "Talk":
        """Another caller over the same connection; underscores stand for hyphens."""
        more = {name.replace("_", "-"): value for name, value in metadata.items()}
        tenant = self.tenant if tenant is None else tenant
        return Talk(self.door, self._client, tenant, {**self._metadata, **more})

    async def reply(
        self, method: str, message: Any, timeout: float | None = None, /, **metadata: str
    ) -> Reply:
        """Any unary operation."""
        return await self._client.unary(
            method, self._own(message), self.as_other(**metadata)._metadata, timeout
        )

    async def unary(self, method: str, message: Any, **metadata: str) -> ProtoMessage:
        """Any unary operation; its message."""
        return (await self.reply(method, message, **metadata)).message

    def events(
        self, method: str, message: Any, headers: dict[str, str] | None = None, /, **metadata: str
    ) -> Events:
        """Any streaming operation."""
        return self._client.stream(
            method,
            self._own(message),
            self.as_other(**metadata)._metadata,
            {} if headers is None else headers,
        )

    async def all_events(self, method: str, message: Any, **metadata: str) -> list[Event]:
        """A stream to its end."""
        async with aclosing(self.events(method, message, **metadata)) as events:
            return [event async for event in events]

    async def call(self, method: str, message: Any, **metadata: str) -> object:
        """Any operation to its end, streaming or not."""
        if method in ("SendStreamingMessage", "SubscribeToTask"):
            return await self.all_events(method, message, **metadata)
        return await self.unary(method, message, **metadata)

    # -- verbs ----------------------------------------------------------------------------

    async def answer(self, message: SendMessageRequest, **metadata: str) -> SendMessageResponse:
        """SendMessage."""
        return cast(SendMessageResponse, await self.unary("SendMessage", message, **metadata))

    async def send(self, *content: str | Part, **fields: Any) -> Task:
        """SendMessage, where a task is the answer."""
        response = await self.answer(request(*content, **fields))
        assert response.HasField("task"), response
        return response.task

    async def stream(self, *content: str | Part, **fields: Any) -> list[Event]:
        """SendStreamingMessage to its end."""
        return await self.all_events("SendStreamingMessage", request(*content, **fields))

    def subscribe(self, task_id: str, after: int | None = None) -> Events:
        """SubscribeToTask, after a sequence number if one is given."""
        metadata = {} if after is None else {"last_event_id": str(after)}
        return self.events("SubscribeToTask", SubscribeToTaskRequest(id=task_id), **metadata)

    async def get(self, task_id: str, length: int | None = None) -> Task:
        """GetTask."""
        message = GetTaskRequest(id=task_id, history_length=length)
        return cast(Task, await self.unary("GetTask", message))

    async def list(self, **fields: Any) -> ListTasksResponse:
        """ListTasks."""
        message = ListTasksRequest(**fields)
        return cast(ListTasksResponse, await self.unary("ListTasks", message))

    async def cancel(self, task_id: str) -> Task:
        """CancelTask."""
        return cast(Task, await self.unary("CancelTask", CancelTaskRequest(id=task_id)))

    def _own(self, message: Any) -> Any:
        if message.tenant or not self.tenant:
            return message
        mine = type(message)()
        mine.CopyFrom(message)
        mine.tenant = self.tenant
        return mine
