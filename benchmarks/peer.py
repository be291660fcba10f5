"""The peer: a2a-sdk's own server, put together as its samples do, in one process.

gRPC (`GrpcHandler`) and HTTP (JSON-RPC, REST and card routes on uvicorn) under uvloop. The
access log is off and tracing is off, which favours the peer. `--bare` is a grpc.aio handler that
returns a constant: the limit of any gRPC server in Python. Prints one line of JSON once it
listens: {"http": port, "grpc": port}.
"""

import argparse
import asyncio
import json
import os
import signal

os.environ.setdefault("OTEL_INSTRUMENTATION_A2A_SDK_ENABLED", "false")

import grpc.aio
import uvicorn
import uvloop
from a2a.server.request_handlers import DefaultRequestHandler, GrpcHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import InMemoryTaskStore, TaskStore
from a2a.types import a2a_pb2_grpc
from a2a.types.a2a_pb2 import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    Part,
    SendMessageRequest,
    SendMessageResponse,
    Task,
    TaskState,
)
from starlette.applications import Starlette

from benchmarks.agents import BenchExecutor


class Bare(a2a_pb2_grpc.A2AServiceServicer):
    """Answers every SendMessage with the same completed task."""

    def __init__(self) -> None:
        task = Task(id="0" * 36, context_id="0" * 36)
        task.status.state = TaskState.TASK_STATE_COMPLETED
        artifact = task.artifacts.add(artifact_id="answer", name="answer")
        artifact.parts.append(Part(text="hello"))
        self._answer = SendMessageResponse(task=task)

    async def SendMessage(
        self,
        request: SendMessageRequest,
        context: grpc.aio.ServicerContext,  # type: ignore[type-arg]
    ) -> SendMessageResponse:
        """The constant."""
        return self._answer


def _card() -> AgentCard:
    return AgentCard(
        name="bench",
        description="Measured",
        version="1.0.0",
        capabilities=AgentCapabilities(streaming=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id="bench", name="bench", description="Bench", tags=["bench"])],
        supported_interfaces=[
            AgentInterface(
                protocol_binding="JSONRPC", protocol_version="1.0", url="http://localhost/"
            )
        ],
    )


async def _store(path: str) -> TaskStore:
    if not path:
        return InMemoryTaskStore()
    from a2a.server.tasks import DatabaseTaskStore
    from sqlalchemy.ext.asyncio import create_async_engine

    store = DatabaseTaskStore(create_async_engine(f"sqlite+aiosqlite:///{path}"))
    await store.initialize()
    return store


async def _serve(options: argparse.Namespace) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    server = grpc.aio.server()
    ports = {"grpc": server.add_insecure_port("127.0.0.1:0")}
    if options.bare:
        a2a_pb2_grpc.add_A2AServiceServicer_to_server(Bare(), server)  # type: ignore[no-untyped-call]
    else:
        card = _card()
        handler = DefaultRequestHandler(BenchExecutor(), await _store(options.sqlite), card)
        a2a_pb2_grpc.add_A2AServiceServicer_to_server(GrpcHandler(handler), server)  # type: ignore[no-untyped-call]
        routes = [
            *create_agent_card_routes(card),
            *create_jsonrpc_routes(handler, "/"),
            *create_rest_routes(handler),
        ]
        http = _Http(Starlette(routes=routes))
        ports["http"] = await http.start()
    await server.start()
    print(json.dumps(ports), flush=True)
    await stop.wait()
    # Measured and done with: nothing is worth a graceful end.
    os._exit(0)


class _Http:
    """uvicorn on a free port, without its own signal handlers."""

    def __init__(self, app: Starlette) -> None:
        config = uvicorn.Config(
            app, port=0, log_level="warning", access_log=False, loop="none", lifespan="off"
        )
        self._server = uvicorn.Server(config)

    async def start(self) -> int:
        self._server.config.load()
        self._server.lifespan = self._server.config.lifespan_class(self._server.config)
        await self._server.startup()
        self._ticks = asyncio.create_task(self._server.main_loop())
        port: int = self._server.servers[0].sockets[0].getsockname()[1]
        return port


def main() -> None:
    """Run the peer until SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--sqlite", default="", metavar="PATH", help="SQLite file; default: memory")
    parser.add_argument("--bare", action="store_true", help="only a constant over grpc.aio")
    uvloop.run(_serve(parser.parse_args()))


if __name__ == "__main__":
    main()
