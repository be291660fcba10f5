"""Our wires for the SDK's own client: `register` teaches a `ClientFactory` the bindings that it
does not know, such as stdio, so that `factory.create(card)` gives a client of the usual kind.

Layer: client library. Failures become the SDK's exceptions.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from functools import partial
from typing import Any, TypeVar, cast

from a2a.client import ClientCallContext, ClientFactory
from a2a.client.client import ClientConfig
from a2a.client.errors import A2AClientError, A2AClientTimeoutError
from a2a.client.transports.base import ClientTransport

from gateway.errors import A2AError, Code, Failure, FailureError
from gateway.pb import (
    AgentCard,
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetExtendedAgentCardRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTaskPushNotificationConfigsResponse,
    ListTasksRequest,
    ListTasksResponse,
    ProtoMessage,
    SendMessageRequest,
    SendMessageResponse,
    StreamResponse,
    SubscribeToTaskRequest,
    Task,
    TaskPushNotificationConfig,
)
from transports.client import Connection, Options, connect
from transports.stdio import BINDING as STDIO

M = TypeVar("M", bound=ProtoMessage)

BINDINGS: tuple[str, ...] = (STDIO,)
"""The `protocolBinding`s that `register` adds. Name them in the factory's
`ClientConfig.supported_protocol_bindings`, too; entries of a card that have one of them hold a URL
that `transports.client.connect` takes."""


def register(factory: ClientFactory, options: Options | None = None) -> None:
    """Add our bindings to an SDK's factory; `options` hold for all connections that it makes."""

    def produce(card: AgentCard, url: str, config: ClientConfig) -> ClientTransport:
        return SdkTransport(partial(connect, url, options))

    for binding in BINDINGS:
        factory.register(binding, produce)


class SdkTransport(ClientTransport):
    """A connection of ours, opened with the first call, behind the SDK's interface."""

    def __init__(self, open: Callable[[], Awaitable[Connection]]) -> None:
        self._open = open
        self._connection: Connection | None = None

    async def _call(
        self, method: str, request: ProtoMessage, kind: type[M], context: ClientCallContext | None
    ) -> M:
        timeout = context.timeout if context is not None else None
        async with self._connected() as connection:
            answer = await connection.unary(method, request, _parameters(context), timeout)
        return cast(M, answer)

    async def _follow(
        self, method: str, request: ProtoMessage, context: ClientCallContext | None
    ) -> AsyncGenerator[StreamResponse, None]:
        async with (
            self._connected() as connection,
            aclosing(connection.stream(method, request, _parameters(context))) as events,
        ):
            async for _, response in events:
                yield response

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Connection]:
        if self._connection is None:
            self._connection = await self._open()
        try:
            yield self._connection
        except FailureError as error:
            raise to_sdk(error.failure) from error

    async def close(self) -> None:
        """Let go of the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.aclose()

    # -- the operations, as the SDK names them -----------------------------------------------

    async def send_message(
        self, request: SendMessageRequest, *, context: ClientCallContext | None = None
    ) -> SendMessageResponse:
        """SendMessage."""
        return await self._call("SendMessage", request, SendMessageResponse, context)

    async def send_message_streaming(
        self, request: SendMessageRequest, *, context: ClientCallContext | None = None
    ) -> AsyncGenerator[StreamResponse, None]:
        """SendStreamingMessage."""
        async with aclosing(self._follow("SendStreamingMessage", request, context)) as events:
            async for event in events:
                yield event

    async def subscribe(
        self, request: SubscribeToTaskRequest, *, context: ClientCallContext | None = None
    ) -> AsyncGenerator[StreamResponse, None]:
        """SubscribeToTask."""
        async with aclosing(self._follow("SubscribeToTask", request, context)) as events:
            async for event in events:
                yield event

    async def get_task(
        self, request: GetTaskRequest, *, context: ClientCallContext | None = None
    ) -> Task:
        """GetTask."""
        return await self._call("GetTask", request, Task, context)

    async def list_tasks(
        self, request: ListTasksRequest, *, context: ClientCallContext | None = None
    ) -> ListTasksResponse:
        """ListTasks."""
        return await self._call("ListTasks", request, ListTasksResponse, context)

    async def cancel_task(
        self, request: CancelTaskRequest, *, context: ClientCallContext | None = None
    ) -> Task:
        """CancelTask."""
        return await self._call("CancelTask", request, Task, context)

    async def create_task_push_notification_config(
        self, request: TaskPushNotificationConfig, *, context: ClientCallContext | None = None
    ) -> TaskPushNotificationConfig:
        """CreateTaskPushNotificationConfig."""
        name = "CreateTaskPushNotificationConfig"
        return await self._call(name, request, TaskPushNotificationConfig, context)

    async def get_task_push_notification_config(
        self,
        request: GetTaskPushNotificationConfigRequest,
        *,
        context: ClientCallContext | None = None,
    ) -> TaskPushNotificationConfig:
        """GetTaskPushNotificationConfig."""
        name = "GetTaskPushNotificationConfig"
        return await self._call(name, request, TaskPushNotificationConfig, context)

    async def list_task_push_notification_configs(
        self,
        request: ListTaskPushNotificationConfigsRequest,
        *,
        context: ClientCallContext | None = None,
    ) -> ListTaskPushNotificationConfigsResponse:
        """ListTaskPushNotificationConfigs."""
        name = "ListTaskPushNotificationConfigs"
        return await self._call(name, request, ListTaskPushNotificationConfigsResponse, context)

    async def delete_task_push_notification_config(
        self,
        request: DeleteTaskPushNotificationConfigRequest,
        *,
        context: ClientCallContext | None = None,
    ) -> None:
        """DeleteTaskPushNotificationConfig."""
        await self._call("DeleteTaskPushNotificationConfig", request, ProtoMessage, context)

    async def get_extended_agent_card(
        self, request: GetExtendedAgentCardRequest, *, context: ClientCallContext | None = None
    ) -> AgentCard:
        """GetExtendedAgentCard."""
        return await self._call("GetExtendedAgentCard", request, AgentCard, context)


def to_sdk(failure: Failure) -> A2AError:
    """The exception that the SDK's own transports would raise."""
    match failure.row.code:
        case Code.DEADLINE_EXCEEDED:
            return A2AClientTimeoutError(failure.message)
        case Code.UNAVAILABLE | Code.RESOURCE_EXHAUSTED:
            return A2AClientError(failure.message)
        case _:
            return failure.row.error(failure.message)


def _parameters(context: ClientCallContext | None) -> dict[str, str]:
    given: dict[str, Any] = dict((context.service_parameters if context else None) or {})
    return {name.lower(): str(value) for name, value in given.items()}


__all__ = ["BINDINGS", "STDIO", "SdkTransport", "register", "to_sdk"]
