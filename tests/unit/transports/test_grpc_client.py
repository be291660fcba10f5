"""Native gRPC with the look of every wire, against servers of every kind."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio
import pytest

from gateway.errors import FailureError
from gateway.pb import SERVICE_NAME, GetTaskRequest, SubscribeToTaskRequest, Task
from tests.conftest import run
from transports.grpc_client import GrpcClient, NativeClient
from transports.wire import UnreachableError

GET = GetTaskRequest(id="t")
BAD = b"\xff\xff\xff"


@asynccontextmanager
async def serving(answer: Callable[..., Any]) -> AsyncIterator[NativeClient]:
    """A client of a server that answers GetTask and SubscribeToTask so."""

    async def stream(request: bytes, context: Any) -> AsyncIterator[bytes]:
        yield await answer(request, context)

    server = grpc.aio.server()
    handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
        "GetTask": grpc.unary_unary_rpc_method_handler(answer),
        "SubscribeToTask": grpc.unary_stream_rpc_method_handler(stream),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE_NAME, handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    client = NativeClient(GrpcClient(f"127.0.0.1:{port}"))
    try:
        yield client
    finally:
        await client.aclose()
        await server.stop(0)


def test_what_came_beside_an_answer() -> None:
    """R35: metadata both ways; the deadline travels, too."""
    seen: list[Any] = []

    async def answer(request: bytes, context: Any) -> bytes:
        seen.append((dict(context.invocation_metadata()), context.time_remaining()))
        await context.send_initial_metadata((("a2a-extensions", "urn:x"),))
        return Task(id="t").SerializeToString()

    async def main() -> None:
        async with serving(answer) as client:
            assert await client.unary("GetTask", GET, {"a2a-version": "1.0"}, 100) == Task(id="t")
            assert client.metadata["a2a-extensions"] == "urn:x"
            await client.unary("GetTask", GET)

    run(main())
    (metadata, left), (_, forever) = seen
    assert metadata["a2a-version"] == "1.0"
    assert 50 < left < 150
    assert forever is None


def test_bytes_that_are_no_answer() -> None:
    """S163: a failure like any other."""

    async def answer(request: bytes, context: Any) -> bytes:
        return BAD

    async def main() -> None:
        async with serving(answer) as client:
            with pytest.raises(FailureError, match="no Task in protobuf"):
                await client.unary("GetTask", GET)
            with pytest.raises(FailureError, match="no StreamResponse in protobuf"):
                await anext(client.stream("SubscribeToTask", SubscribeToTaskRequest(id="t")))

    run(main())


def test_a_server_without_our_details() -> None:
    """R37: judged by its code; only a server that is not there is unreachable."""

    async def answer(request: bytes, context: Any) -> bytes:
        await context.abort(grpc.StatusCode.UNAVAILABLE, "closing")
        raise AssertionError

    async def main() -> None:
        async with serving(answer) as client:
            with pytest.raises(FailureError) as caught:
                await client.unary("GetTask", GET)
            assert caught.value.failure.row.reason == "UNAVAILABLE"
            assert not isinstance(caught.value, UnreachableError)
        nobody = NativeClient(GrpcClient("127.0.0.1:9"))
        with pytest.raises(UnreachableError):
            await nobody.unary("GetTask", GET)
        with pytest.raises(UnreachableError):
            await anext(nobody.stream("SubscribeToTask", SubscribeToTaskRequest(id="t")))
        await nobody.aclose()

    run(main())
