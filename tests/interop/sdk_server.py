"""The SDK's own server around an executor: a second opinion on what the interop tests ask.

`python -m tests.interop.sdk_server module:attribute` prints one line of JSON with the addresses.
A test that the gateway fails and this server passes has found a fault of ours; one that both
fail is likely a fault of the test.
"""

import asyncio
import importlib
import json
import socket
import sys

import grpc
import uvicorn
from a2a.server.request_handlers import DefaultRequestHandler, GrpcHandler
from a2a.server.routes import (
    create_agent_card_routes,
    create_jsonrpc_routes,
    create_rest_routes,
)
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill, a2a_pb2_grpc
from starlette.applications import Starlette


async def serve(spec: str, path: str = "/") -> None:
    module, _, attribute = spec.partition(":")
    executor = getattr(importlib.import_module(module), attribute)()
    listener = socket.create_server(("127.0.0.1", 0))
    http = f"http://127.0.0.1:{listener.getsockname()[1]}"
    grpc_server = grpc.aio.server()
    port = grpc_server.add_insecure_port("127.0.0.1:0")
    address = f"127.0.0.1:{port}"
    card = _card(http + path, http, address)
    handler = DefaultRequestHandler(
        agent_executor=executor, task_store=InMemoryTaskStore(), agent_card=card
    )
    a2a_pb2_grpc.add_A2AServiceServicer_to_server(GrpcHandler(handler), grpc_server)  # type: ignore[no-untyped-call]
    await grpc_server.start()
    app = Starlette(
        routes=[
            *create_agent_card_routes(card),
            *create_jsonrpc_routes(handler, rpc_url=path),
            *create_rest_routes(handler),
        ]
    )
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    print(json.dumps({"http": http, "grpc": address}), flush=True)
    await server.serve(sockets=[listener])
    await grpc_server.stop(0)


def _card(rpc: str, rest: str, grpc_address: str) -> AgentCard:
    addresses = {"JSONRPC": rpc, "HTTP+JSON": rest, "GRPC": grpc_address}
    return AgentCard(
        name="Dialogue",
        description="Talks with clients that the project did not write",
        version="1.0.0",
        capabilities=AgentCapabilities(streaming=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id="talk", name="Talk", description="Talks", tags=["test"])],
        supported_interfaces=[
            AgentInterface(url=url, protocol_binding=binding, protocol_version="1.0")
            for binding, url in addresses.items()
        ],
    )


if __name__ == "__main__":
    asyncio.run(serve(*sys.argv[1:]))
