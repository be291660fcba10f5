"""Server and service stopping together, as the core stops them."""

import asyncio
import time
from typing import Any

import pytest

from gateway.config import Address
from gateway.errors import FailureError
from gateway.pb import SubscribeToTaskRequest
from gateway.server import Listener, PublicServer
from gateway.service import Service
from tests.conftest import run
from tests.doubles.runtime import ScriptedRuntime, make_task, task_event
from tests.unit.service.making import eventually, make_call, make_send, make_service
from transports.grpc_client import GrpcClient


class Core:
    """A server whose runtime waits at its gate."""

    def __init__(self) -> None:
        self.runtime = ScriptedRuntime()
        self.gate = self.runtime.gate = asyncio.Event()
        self.runtime.put(make_task("t1", 2))
        self.runtime.log = [task_event(1, make_task("t1", 2))]
        self.service: Service = make_service(self.runtime)
        self.server = PublicServer(self.service, [Listener(Address("127.0.0.1", 0))])

    async def start(self) -> GrpcClient:
        [address] = await self.server.start()
        return GrpcClient(str(address))

    async def stop(self, grace: float) -> float:
        """Seconds that it took."""
        started = time.monotonic()
        await self.server.drain()
        await self.service.drain(grace)
        await self.server.stop(0.2)
        return time.monotonic() - started


async def subscribe(client: GrpcClient) -> Any:
    stream = client.stream("SubscribeToTask", SubscribeToTaskRequest(id="t1"), make_call())
    await anext(stream)
    return stream


def test_idle_streams_do_not_hold_the_stop_up() -> None:
    """SH02: ten idle subscriptions end with UNAVAILABLE, within the grace and a little."""

    async def main() -> None:
        core = Core()
        client = await core.start()
        streams = [await subscribe(client) for _ in range(10)]
        assert await core.stop(0.4) < 2
        for stream in streams:
            with pytest.raises(FailureError) as caught:
                await anext(stream)
            failure = caught.value.failure
            assert failure.row.reason == "UNAVAILABLE"
            assert "stopping" in failure.message
        assert core.runtime.readers == 0
        await client.stop()

    run(main())


def test_running_calls_finish() -> None:
    """SH03: a unary call and a stream under way end by themselves; new ones are refused."""

    async def main() -> None:
        core = Core()
        client = await core.start()
        core.runtime.working = True
        stream = await subscribe(client)
        sending = asyncio.create_task(client.unary("SendMessage", make_send(), make_call()))
        await eventually(lambda: len(core.service.running) == 2)
        stopping = asyncio.create_task(core.stop(20.0))
        await eventually(lambda: core.service.running.is_draining)
        with pytest.raises(FailureError) as caught:
            await client.unary("SendMessage", make_send(), make_call())
        assert caught.value.failure.row.reason == "UNAVAILABLE"
        core.gate.set()
        assert (await sending).message == core.runtime.response
        assert [batch async for batch in stream] == []
        assert await stopping < 5
        await client.stop()

    run(main())


def test_a_stop_that_is_given_up_can_be_taken_over() -> None:
    """SH02: a second signal cuts the grace short."""

    async def main() -> None:
        core = Core()
        client = await core.start()
        stream = await subscribe(client)
        first = asyncio.create_task(core.server.stop(20.0))
        await asyncio.sleep(0.05)
        first.cancel()
        await asyncio.wait([first])
        started = time.monotonic()
        await core.server.stop(0.0)
        assert time.monotonic() - started < 10
        with pytest.raises(FailureError):
            await anext(stream)
        await client.stop()

    run(main())


def test_who_goes_on_calling_is_refused_in_words() -> None:
    """SH03: no call that comes while the listeners close is dropped by gRPC (CANCELLED)."""

    async def call_until_refused(client: GrpcClient) -> str:
        try:
            while True:
                await client.unary("SendMessage", make_send(), make_call())
        except FailureError as error:
            return f"{error.failure.row.reason}: {error.failure.message}"

    async def main() -> None:
        core = Core()
        core.gate.set()
        client = await core.start()
        calling = [asyncio.create_task(call_until_refused(client)) for _ in range(64)]
        await core.runtime.entered.wait()
        await core.stop(1.0)
        found = {await task for task in calling}
        assert {words.partition(":")[0] for words in found} == {"UNAVAILABLE"}, found
        assert any("The server is stopping" in words for words in found)
        await client.stop()

    run(main())
