"""A server of the agents' contract whose methods a test gives: one coroutine for each."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio

from gateway.agents import contract
from gateway.pb import (
    Artifact,
    Message,
    Part,
    TaskArtifactUpdateEvent,
    TaskStatus,
    TaskStatusUpdateEvent,
    agent_pb2,
)

Context = Any
Execute = Callable[[agent_pb2.ExecuteRequest, Context], Awaitable[None]]
Cancel = Callable[[agent_pb2.CancelRequest, Context], Awaitable[agent_pb2.CancelResponse]]
Response = agent_pb2.ExecuteResponse


@asynccontextmanager
async def serving(
    execute: Execute,
    cancel: Cancel | None = None,
    address: str = "127.0.0.1:0",
    options: Sequence[tuple[str, int]] = (),
) -> AsyncIterator[str]:
    """The address at which it serves; without `cancel` that method is UNIMPLEMENTED."""
    server = grpc.aio.server(options=options)
    handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
        "Execute": grpc.unary_stream_rpc_method_handler(
            execute,
            agent_pb2.ExecuteRequest.FromString,
            Response.SerializeToString,
        )
    }
    if cancel is not None:
        handlers["Cancel"] = grpc.unary_unary_rpc_method_handler(
            cancel,
            agent_pb2.CancelRequest.FromString,
            agent_pb2.CancelResponse.SerializeToString,
        )
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(contract.SERVICE, handlers),)
    )
    port = server.add_insecure_port(address)
    await server.start()
    try:
        yield address if address.startswith("unix:") else f"127.0.0.1:{port}"
    finally:
        await server.stop(0)


def status(state: str, text: str = "") -> Response:
    message = Message(message_id="s", parts=[Part(text=text)]) if text else None
    now = TaskStatus(state=f"TASK_STATE_{state}", message=message)
    return Response(status_update=TaskStatusUpdateEvent(status=now))


def chunk(text: str) -> Response:
    artifact = Artifact(artifact_id="a", parts=[Part(text=text)])
    return Response(artifact_update=TaskArtifactUpdateEvent(artifact=artifact))
