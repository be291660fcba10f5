"""Clients at each door with one look, for the load and for the checks."""

import itertools
from collections.abc import AsyncIterator
from contextlib import aclosing
from types import TracebackType
from typing import Any, Protocol, Self

from gateway.call import Call
from gateway.pb import (
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    ListTasksResponse,
    Message,
    Part,
    Role,
    SendMessageRequest,
    SendMessageResponse,
    StreamResponse,
    SubscribeToTaskRequest,
    Task,
    TaskState,
)
from tests.processes import Addresses
from transports.grpc_client import GrpcClient
from transports.http.client import HttpClient
from transports.stdio.client import StdioClient

Event = tuple[int, StreamResponse]
"""Sequence number (0 where the door does not show it) and payload."""

TIMEOUT = 15.0
"""Seconds after which a call that has no answer counts as hanging: past the link's limit."""
END_SECONDS = 2.0
"""What a program of ours gets to end by itself."""
DOORS = ("jsonrpc", "rest", "grpc")

TERMINAL = {
    TaskState.TASK_STATE_COMPLETED,
    TaskState.TASK_STATE_FAILED,
    TaskState.TASK_STATE_CANCELED,
    TaskState.TASK_STATE_REJECTED,
}

_numbers = itertools.count(1)


class Wire(Protocol):
    """What differs between doors."""

    async def unary(self, method: str, request: Any, metadata: dict[str, str]) -> Any:
        """One answer."""

    def stream(self, method: str, request: Any, metadata: dict[str, str]) -> AsyncIterator[Event]:
        """Events as they come."""

    async def stop(self) -> None:
        """Close it."""


class HttpWire:
    """JSON-RPC or REST."""

    def __init__(self, addresses: Addresses, binding: Any, timeout: float) -> None:
        self._client = HttpClient(addresses.http, binding, timeout=timeout)

    async def unary(self, method: str, request: Any, metadata: dict[str, str]) -> Any:
        return await self._client.unary(method, request, metadata)

    async def stream(
        self, method: str, request: Any, metadata: dict[str, str]
    ) -> AsyncIterator[Event]:
        async with aclosing(self._client.stream(method, request, metadata)) as events:
            async for event in events:
                yield event

    async def stop(self) -> None:
        await self._client.aclose()


class GrpcWire:
    """Native gRPC."""

    def __init__(self, addresses: Addresses, timeout: float) -> None:
        quick = [
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.min_reconnect_backoff_ms", 100),
            ("grpc.max_reconnect_backoff_ms", 500),
            # a connection of its own, as another program would have
            ("grpc.use_local_subchannel_pool", 1),
        ]
        self._client = GrpcClient(addresses.grpc, quick)
        self._timeout = timeout

    def _call(self, metadata: dict[str, str], timeout: float) -> Call:
        return Call.from_metadata(
            [("a2a-version", "1.0"), *metadata.items()], door="test", timeout=timeout
        )

    async def unary(self, method: str, request: Any, metadata: dict[str, str]) -> Any:
        call = self._call(metadata, self._timeout)
        return (await self._client.unary(method, request, call)).message

    async def stream(
        self, method: str, request: Any, metadata: dict[str, str]
    ) -> AsyncIterator[Event]:
        stream = self._client.stream(method, request, self._call(metadata, 600.0))
        async with aclosing(stream):
            async for batch in stream:
                for seq, payload in batch:
                    yield seq, StreamResponse.FromString(payload)

    async def stop(self) -> None:
        await self._client.stop()


class StdioWire:
    """A program on pipes, started when it is needed and again when it has died."""

    def __init__(self, command: str, timeout: float) -> None:
        self._command = command
        self._timeout = timeout
        self._client: StdioClient | None = None

    async def _live(self) -> StdioClient:
        if self._client is None or self._client.is_lost:
            await self.stop()
            self._client = StdioClient(self._command, captures=True, grace=END_SECONDS)
        return self._client

    async def unary(self, method: str, request: Any, metadata: dict[str, str]) -> Any:
        client = await self._live()
        return await client.unary(method, request, metadata, self._timeout)

    async def stream(
        self, method: str, request: Any, metadata: dict[str, str]
    ) -> AsyncIterator[Event]:
        client = await self._live()
        async with aclosing(client.stream(method, request, metadata)) as events:
            async for event in events:
                yield event

    async def stop(self) -> None:
        if self._client is not None:
            client, self._client = self._client, None
            await client.aclose()


class Caller:
    """One client at one door: a name of `DOORS`, or `stdio:COMMAND`. Use as a context manager.
    Raises `FailureError`."""

    def __init__(self, addresses: Addresses, door: str, timeout: float = TIMEOUT) -> None:
        self.door, _, program = door.partition(":")
        self._wire: Wire
        if self.door == "stdio":
            self._wire = StdioWire(program, timeout)
        elif self.door == "grpc":
            self._wire = GrpcWire(addresses, timeout)
        else:
            self._wire = HttpWire(addresses, door, timeout)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._wire.stop()

    async def send(
        self, text: str, task_id: str = "", *, key: str = "", immediate: bool = False
    ) -> SendMessageResponse:
        """SendMessage."""
        request = message(text, task_id, key)
        request.configuration.return_immediately = immediate
        answer: SendMessageResponse = await self._wire.unary(
            "SendMessage", request, {"idempotency-key": key} if key else {}
        )
        return answer

    def stream(self, text: str, task_id: str = "", *, key: str = "") -> AsyncIterator[Event]:
        """SendStreamingMessage."""
        metadata = {"idempotency-key": key} if key else {}
        return self._wire.stream("SendStreamingMessage", message(text, task_id, key), metadata)

    def subscribe(self, task_id: str, after: int | None = None) -> AsyncIterator[Event]:
        """SubscribeToTask."""
        metadata = {} if after is None else {"last-event-id": str(after)}
        request = SubscribeToTaskRequest(id=task_id)
        return self._wire.stream("SubscribeToTask", request, metadata)

    async def get(self, task_id: str) -> Task:
        """GetTask."""
        task: Task = await self._wire.unary("GetTask", GetTaskRequest(id=task_id), {})
        return task

    async def list(self, **fields: Any) -> ListTasksResponse:
        """ListTasks."""
        page: ListTasksResponse = await self._wire.unary(
            "ListTasks", ListTasksRequest(**fields), {}
        )
        return page

    async def cancel(self, task_id: str) -> Task:
        """CancelTask."""
        task: Task = await self._wire.unary("CancelTask", CancelTaskRequest(id=task_id), {})
        return task


def message(text: str, task_id: str = "", key: str = "") -> SendMessageRequest:
    """A request; under a key always the same one."""
    return SendMessageRequest(
        message=Message(
            message_id=f"of {key}" if key else f"m{next(_numbers)}",
            role=Role.ROLE_USER,
            task_id=task_id,
            parts=[Part(text=text)],
        )
    )


def task_id_of(event: StreamResponse) -> str:
    """The task that an event belongs to."""
    kind = event.WhichOneof("payload")
    if kind == "task":
        return event.task.id
    return event.status_update.task_id or event.artifact_update.task_id


def state_of(event: StreamResponse) -> int:
    """The state that an event shows; 0 where it shows none."""
    if event.HasField("task"):
        return event.task.status.state
    return event.status_update.status.state
