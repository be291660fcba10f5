"""Health, reflection and the store's monitor."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio
import pytest
from google.protobuf import descriptor_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from gateway.config import Address
from gateway.pb import SERVICE_NAME
from gateway.server import Listener, Monitor, PublicServer, UnreadyError
from tests.conftest import run
from tests.unit.service.making import make_service

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


@asynccontextmanager
async def serving() -> AsyncIterator[tuple[PublicServer, grpc.aio.Channel]]:
    server = PublicServer(make_service(), [Listener(Address("127.0.0.1", 0))])
    [address] = await server.start()
    async with grpc.aio.insecure_channel(str(address)) as channel:
        yield server, channel
    await server.stop(0)


async def check(channel: grpc.aio.Channel, service: str) -> Any:
    stub: Any = health_pb2_grpc.HealthStub(channel)
    return (await stub.Check(health_pb2.HealthCheckRequest(service=service))).status


@pytest.mark.parametrize("service", ["", SERVICE_NAME])
def test_tells_whether_calls_are_welcome(service: str) -> None:
    """R38: NOT_SERVING until the core is ready, and again when its store is not."""

    async def main() -> None:
        async with serving() as (server, channel):
            assert await check(channel, service) == NOT_SERVING
            await server.set_ready(True)
            assert await check(channel, service) == SERVING
            await server.set_ready(False)
            assert await check(channel, service) == NOT_SERVING

    run(main())


def test_knows_no_other_service() -> None:
    """grpc.health.v1: NOT_FOUND for a name that is not served."""

    async def main() -> None:
        async with serving() as (_, channel):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await check(channel, "no.such.Service")
            assert caught.value.code() is grpc.StatusCode.NOT_FOUND

    run(main())


def test_watchers_see_the_drain() -> None:
    """SH02: NOT_SERVING is told before the end, and a watcher does not hold the stop up."""

    async def main() -> None:
        async with serving() as (server, channel):
            await server.set_ready(True)
            stub: Any = health_pb2_grpc.HealthStub(channel)
            watch = stub.Watch(health_pb2.HealthCheckRequest())
            assert (await watch.read()).status == SERVING
            await server.drain()
            assert (await watch.read()).status == NOT_SERVING
            await server.set_ready(True)
            assert not server.health.is_serving
            await server.stop(0.05)
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await watch.read()
            assert caught.value.code() is grpc.StatusCode.UNAVAILABLE

    run(main())


def test_reflection_shows_the_service() -> None:
    """R34: clients such as grpcurl find the eleven methods."""

    async def main() -> None:
        async with serving() as (_, channel):
            plain: Any = channel
            stub: Any = reflection_pb2_grpc.ServerReflectionStub(plain)
            request: Any = reflection_pb2.ServerReflectionRequest
            call = stub.ServerReflectionInfo(
                iter([request(list_services=""), request(file_containing_symbol=SERVICE_NAME)])
            )
            listed = await call.read()
            names = {s.name for s in listed.list_services_response.service}
            assert {SERVICE_NAME, "grpc.health.v1.Health"} <= names
            described = await call.read()
            files = [
                descriptor_pb2.FileDescriptorProto.FromString(raw)
                for raw in described.file_descriptor_response.file_descriptor_proto
            ]
            [service] = [s for f in files for s in f.service if s.name == "A2AService"]
            assert len(service.method) == 11

    run(main())


def test_the_monitor_tells_of_changes_alone() -> None:
    """A store that fails and comes back: one line each, however often it is asked."""
    told: list[tuple[bool, str]] = []
    failure: list[Exception] = []

    async def ping() -> None:
        if failure:
            raise failure[0]

    async def changed(is_well: bool, reason: str) -> None:
        told.append((is_well, reason))

    async def main() -> None:
        monitor = Monitor(ping, changed)
        assert await monitor.check()
        assert await monitor.check()
        failure.append(OSError("disk I/O error on /secret/path"))
        assert not await monitor.check()
        assert not await monitor.check()
        failure.clear()
        assert await monitor.check()

    run(main())
    assert told == [(True, ""), (False, "the store does not answer"), (True, "")]


def test_the_monitor_passes_on_what_else_is_wrong() -> None:
    """Such as an agent that cannot be reached."""
    told: list[tuple[bool, str]] = []

    async def ping() -> None:
        raise UnreadyError("the agent cannot be reached")

    async def changed(is_well: bool, reason: str) -> None:
        told.append((is_well, reason))

    run(Monitor(ping, changed).check())
    assert told == [(False, "the agent cannot be reached")]


def test_the_monitor_notices_a_store_that_hangs() -> None:
    """A store that never answers is as bad as one that fails; and the monitor goes on asking."""
    asked = asyncio.Event()
    told: list[bool] = []

    async def ping() -> None:
        if len(told) > 0:
            asked.set()
        await asyncio.Event().wait()

    async def changed(is_well: bool, reason: str) -> None:
        assert "0.01 s" in reason
        told.append(is_well)

    async def main() -> None:
        monitor = Monitor(ping, changed, interval=0.01, limit=0.01)
        await monitor.start()
        await asked.wait()
        await monitor.stop()
        await monitor.stop()

    run(main())
    assert told == [False]
