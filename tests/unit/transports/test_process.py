"""What the adapter process counts of the calls that its doors make."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gateway.errors import FailureError, TaskNotFoundError
from gateway.metrics import Metrics
from gateway.pb import SubscribeToTaskRequest
from tests.conftest import run
from tests.doubles.link import SECRET, FakeCore, addresses, call, core, request
from transports.process import CountingClient


class Counted(Metrics):
    """Notes what it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[tuple[str, ...]] = []

    def call_ended(self, door: str, operation: str, code: str, seconds: float) -> None:
        self.told.append((door, operation, code))

    def stream_opened(self, door: str) -> None:
        self.told.append((door, "opened"))

    def stream_closed(self, door: str) -> None:
        self.told.append((door, "closed"))


@asynccontextmanager
async def counting() -> AsyncIterator[tuple[FakeCore, CountingClient, Counted]]:
    metrics = Counted()
    with addresses("unix") as address:
        async with core(address) as fake:
            client = CountingClient(metrics, address, door="adapter", secret=SECRET)
            await client.start()
            try:
                yield fake, client, metrics
            finally:
                await client.stop(1)


def test_streams_are_counted_once_however_they_end() -> None:
    async def main() -> None:
        async with counting() as (fake, client, metrics):
            whole = client.stream("SendStreamingMessage", request(), call())
            assert [batch async for batch in whole]
            await whole.aclose()
            assert metrics.told == [
                ("test", "opened"),
                ("test", "SendStreamingMessage", "OK"),
                ("test", "closed"),
            ]

            metrics.told.clear()
            left = client.stream("SubscribeToTask", SubscribeToTaskRequest(id="t"), call())
            await anext(left)
            await left.aclose()
            await left.aclose()
            assert metrics.told == [
                ("test", "opened"),
                ("test", "SubscribeToTask", "CANCELLED"),
                ("test", "closed"),
            ]

            async def refuse(request: object, call: object) -> AsyncIterator[object]:
                if isinstance(request, SubscribeToTaskRequest):
                    raise TaskNotFoundError
                yield []

            metrics.told.clear()
            fake.service.on_stream = refuse  # type: ignore[assignment]
            with pytest.raises(FailureError):
                await anext(client.stream("SubscribeToTask", SubscribeToTaskRequest(), call()))
            assert metrics.told == [("test", "SubscribeToTask", "NOT_FOUND")]

    run(main())


def test_unary_calls_are_counted_with_their_code() -> None:
    async def main() -> None:
        async with counting() as (_, client, metrics):
            await client.unary("SendMessage", request(), call())
            assert metrics.told == [("test", "SendMessage", "OK")]

    run(main())
