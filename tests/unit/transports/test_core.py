"""Calls over a real link: `CoreClient` and `LinkServer` on a Unix socket, a scripted service."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from gateway.call import Call, Peer
from gateway.errors import (
    FailureError,
    ResourceExhaustedError,
    TaskNotFoundError,
    UnauthenticatedError,
    ValidationError,
    judge,
)
from gateway.link.frames import WINDOW_BYTES
from gateway.link.server import LinkLimits
from gateway.pb import (
    GetTaskRequest,
    Message,
    Part,
    ProtoMessage,
    SendMessageRequest,
    SendMessageResponse,
    SubscribeToTaskRequest,
    Task,
)
from tests.conftest import run
from tests.doubles.link import (
    Batch,
    FakeService,
    addresses,
    call,
    client,
    core,
    count,
    event,
    request,
    until,
)
from transports.core import Answer, CoreClient, CoreStream

BIG = 5_000_000


@pytest.fixture(params=["unix", "grpc"])
def address(request: pytest.FixtureRequest) -> Iterator[str]:
    """By what carries the link."""
    with addresses(request.param) as address:
        yield address


async def read(stream: CoreStream) -> list[int]:
    return [sequence async for batch in stream for sequence, _ in batch]


async def ask(
    adapter: CoreClient, message: ProtoMessage | None = None, of: Call | None = None
) -> Answer:
    return await adapter.unary("SendMessage", message or request(), of or call())


def forever(service: FakeService) -> None:
    """Unary calls do not end."""

    async def wait(request: Any, call: Call) -> ProtoMessage:
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    service.on_unary = wait


class TestUnary:
    def test_call_and_answer(self, address: str) -> None:
        async def main() -> None:
            async with core(address) as fake, client(address) as adapter:
                given = call(x_api_key="k")
                given.door, given.peer = "http", Peer("127.0.0.1:5", uid=0)
                answer = await ask(adapter, request("hi"), given)
                assert answer == (SendMessageResponse(message=request("hi").message), {})
                [(method, message, taken)] = fake.service.calls
                assert (method, message) == ("SendMessage", request("hi"))
                assert (taken.door, taken.peer) == ("http", given.peer)
                assert taken.metadata == {"a2a-version": "1.0", "x-api-key": "k"}
                assert taken.caller == "anonymous"

        run(main())

    def test_activated_extensions_come_back(self, address: str) -> None:
        """R15: the answer names the activated extensions, with a success and with a failure."""

        async def activate(request: Any, call: Call) -> ProtoMessage:
            call.activated = call.extensions
            if call.idempotency_key:
                raise TaskNotFoundError
            return SendMessageResponse()

        async def main() -> None:
            async with core(address) as fake, client(address) as adapter:
                fake.service.on_unary = activate
                answer = await ask(adapter, of=call(a2a_extensions="urn:a, urn:b"))
                assert answer.metadata == {"a2a-extensions": "urn:a, urn:b"}

        run(main())

    @pytest.mark.parametrize(
        "error",
        [
            TaskNotFoundError("Task not found: t", data={"taskId": "t"}),
            ValidationError(("message.parts", "is empty")),
            UnauthenticatedError("No token", ("Bearer", "Basic")),
            ResourceExhaustedError("Full", 2.0),
        ],
        ids=lambda error: type(error).__name__,
    )
    def test_failures_keep_every_detail(self, address: str, error: Exception) -> None:
        """R12: code, message and typed details pass the link unchanged."""

        async def fail(request: Any, call: Call) -> ProtoMessage:
            raise error

        async def main() -> None:
            async with core(address) as fake, client(address) as adapter:
                fake.service.on_unary = fail
                with pytest.raises(FailureError) as raised:
                    await ask(adapter)
                assert raised.value.failure == judge(error)

        run(main())

    def test_unknown_exceptions_stay_inside(
        self, address: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        async def fail(request: Any, call: Call) -> ProtoMessage:
            raise RuntimeError("/secret/path")

        async def main() -> None:
            async with core(address) as fake, client(address) as adapter:
                fake.service.on_unary = fail
                with pytest.raises(FailureError) as raised:
                    await ask(adapter)
                assert raised.value.failure.row.reason == "INTERNAL_ERROR"
                assert "secret" not in raised.value.failure.message

        run(main())
        assert "/secret/path" in caplog.text

    def test_unknown_method(self, address: str) -> None:
        async def main() -> None:
            async with core(address), client(address) as adapter:
                with pytest.raises(FailureError, match="Method not found: Nope"):
                    await adapter.unary("Nope", request(), call())

        run(main())

    def test_too_much_metadata_is_refused(self, address: str) -> None:
        async def main() -> None:
            async with core(address), client(address) as adapter:
                with pytest.raises(FailureError, match="metadata") as raised:
                    await ask(adapter, of=call(x="v" * 40_000))
                assert raised.value.failure.row.reason == "INVALID_PARAMS"

        run(main())

    def test_large_messages_both_ways_while_small_calls_go_on(self, address: str) -> None:
        """GR07. Small calls are answered in between, many for each large one."""

        async def main() -> None:
            async with core(address), client(address) as adapter:
                raw = bytes(range(256)) * (BIG // 256)
                message = Message(message_id="m", parts=[Part(raw=raw)])
                big = asyncio.create_task(ask(adapter, SendMessageRequest(message=message)))
                small = 0
                while not big.done():
                    await ask(adapter)
                    small += 1
                assert (await big).message == SendMessageResponse(message=message)
                assert small >= 10

        run(main())

    def test_request_above_the_limit(self, address: str) -> None:
        async def main() -> None:
            async with (
                core(address, limits=LinkLimits(message_bytes=100_000)) as fake,
                client(address) as adapter,
            ):
                assert adapter.limits.message_bytes == 100_000
                with pytest.raises(FailureError, match="100000 bytes") as raised:
                    await ask(adapter, request("x" * 100_001))
                assert raised.value.failure.row.reason == "INVALID_PARAMS"
                assert fake.service.calls == []

        run(main())

    def test_an_answer_too_large_for_the_adapter(self, address: str) -> None:
        """It costs its own call, and no other."""

        async def main() -> None:
            async with core(address) as fake, client(address, response_bytes=500_000) as adapter:
                with pytest.raises(FailureError, match="500000 bytes") as raised:
                    await ask(adapter, request("x" * 500_001))
                assert raised.value.failure.row.reason == "RESOURCE_EXHAUSTED"
                await ask(adapter)
                await until(lambda: fake.links.open_calls == 0)
                assert fake.links.open_links == 1

        run(main())

    def test_giving_up_reaches_the_core(self, address: str) -> None:
        async def main() -> None:
            async with core(address) as fake, client(address) as adapter:
                forever(fake.service)
                task = asyncio.create_task(ask(adapter))
                await until(lambda: fake.service.running == 1)
                task.cancel()
                await asyncio.wait((task,))
                assert task.cancelled()
                await until(lambda: fake.service.running == 0)
                assert adapter.open_calls == fake.links.open_calls == 0

        run(main())

    def test_giving_up_while_the_request_is_cut(self, address: str) -> None:
        async def main() -> None:
            async with core(address) as fake, client(address) as adapter:
                task = asyncio.create_task(ask(adapter, request("x" * BIG)))
                await until(lambda: fake.links.open_calls == 1)
                task.cancel()
                await asyncio.wait((task,))
                await until(lambda: fake.links.open_calls == 0)
                assert fake.service.calls == []
                await ask(adapter)

        run(main())

    def test_calls_of_a_link_are_bounded(self, address: str) -> None:
        """Refused at once; a place that becomes free is used."""

        async def main() -> None:
            async with (
                core(address, limits=LinkLimits(calls_per_link=2)) as fake,
                client(address) as adapter,
            ):
                forever(fake.service)
                tasks = [asyncio.create_task(ask(adapter)) for _ in range(2)]
                await until(lambda: fake.service.running == 2)
                with pytest.raises(FailureError) as raised:
                    await ask(adapter)
                assert raised.value.failure.row.reason == "RESOURCE_EXHAUSTED"
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)
                fake.service.on_unary = None
                await ask(adapter)

        run(main())

    def test_calls_of_all_links_are_bounded(self, address: str) -> None:
        async def main() -> None:
            async with (
                core(address, limits=LinkLimits(calls=1)) as fake,
                client(address) as one,
                client(address) as two,
            ):
                forever(fake.service)
                task = asyncio.create_task(ask(one))
                await until(lambda: fake.service.running == 1)
                with pytest.raises(FailureError) as raised:
                    await ask(two)
                assert raised.value.failure.row.reason == "RESOURCE_EXHAUSTED"
                task.cancel()
                await asyncio.wait((task,))

        run(main())


class TestDeadline:
    def test_the_core_enforces_it(self, address: str) -> None:
        """GR10: answered on time, and the call's resources are freed."""

        async def main() -> None:
            async with core(address) as fake, client(address, answer_slack=20) as adapter:
                forever(fake.service)
                with pytest.raises(FailureError) as raised:
                    await ask(adapter, of=call(timeout=0.05))
                assert raised.value.failure.row.reason == "DEADLINE_EXCEEDED"
                await until(lambda: fake.service.running == 0)

        run(main())

    def test_a_service_that_does_not_let_go(self, address: str) -> None:
        release = asyncio.Event()

        async def stubborn(request: Any, call: Call) -> ProtoMessage:
            while not release.is_set():
                try:
                    await release.wait()
                except asyncio.CancelledError:
                    continue
            return SendMessageResponse()

        async def main() -> None:
            async with core(address) as fake, client(address, answer_slack=20) as adapter:
                fake.service.on_unary = stubborn
                with pytest.raises(FailureError) as raised:
                    await ask(adapter, of=call(timeout=0.05))
                assert raised.value.failure.row.reason == "DEADLINE_EXCEEDED"
                assert fake.links.unwinding_calls == 1
                release.set()
                await until(lambda: fake.links.unwinding_calls == 0)

        run(main())

    def test_a_deadline_that_has_passed(self, address: str) -> None:
        async def main() -> None:
            async with core(address) as fake, client(address) as adapter:
                forever(fake.service)
                with pytest.raises(FailureError) as raised:
                    await ask(adapter, of=call(timeout=0))
                assert raised.value.failure.row.reason == "DEADLINE_EXCEEDED"

        run(main())

    def test_a_stream_that_hangs(self, address: str) -> None:
        async def hang(request: Any, call: Call) -> AsyncIterator[Batch]:
            yield [event(1)]
            await asyncio.Event().wait()

        async def main() -> None:
            async with core(address) as fake, client(address) as adapter:
                fake.service.on_stream = hang
                stream = adapter.stream("SendStreamingMessage", request(), call(timeout=0.05))
                assert await anext(stream) == [event(1)]
                with pytest.raises(FailureError) as raised:
                    await anext(stream)
                assert raised.value.failure.row.reason == "DEADLINE_EXCEEDED"
                await until(lambda: fake.service.running == 0)

        run(main())


class TestStreams:
    @pytest.mark.parametrize("together", [1, 7, 1000])
    def test_all_events_in_order(self, address: str, together: int) -> None:
        """R16."""

        async def main() -> None:
            async with core(address) as fake, client(address) as adapter:
                fake.service.on_stream = lambda request, call: count(3000, together=together)
                stream = adapter.stream("SendStreamingMessage", request(), call())
                events = [item async for batch in stream for item in batch]
                assert events == [event(n) for n in range(1, 3001)]
                assert adapter.open_calls == 0
                assert [e async for e in stream] == []

        run(main())

    def test_metadata_is_there_with_the_first_events(self, address: str) -> None:
        async def activate(request: Any, call: Call) -> AsyncIterator[Batch]:
            call.activated = ("urn:a",)
            yield [event(1)]
            await asyncio.Event().wait()

        async def main() -> None:
            async with core(address) as fake, client(address) as adapter:
                fake.service.on_stream = activate
                async with adapter.stream("SubscribeToTask", request(), call()) as stream:
                    await anext(stream)
                    assert stream.metadata == {"a2a-extensions": "urn:a"}

        run(main())

    def test_failure_after_events(self, address: str) -> None:
        async def fail(request: Any, call: Call) -> AsyncIterator[Batch]:
            yield [event(1), event(2)]
            raise TaskNotFoundError

        async def main() -> None:
            async with core(address) as fake, client(address) as adapter:
                fake.service.on_stream = fail
                stream = adapter.stream("SubscribeToTask", SubscribeToTaskRequest(id="t"), call())
                assert [n for n, _ in await anext(stream)] == [1, 2]
                with pytest.raises(FailureError) as raised:
                    await anext(stream)
                assert raised.value.failure.row.reason == "TASK_NOT_FOUND"
                with pytest.raises(StopAsyncIteration):
                    await anext(stream)

        run(main())

    def test_large_events(self, address: str) -> None:
        async def main() -> None:
            async with core(address) as fake, client(address) as adapter:
                fake.service.on_stream = lambda request, call: count(3, size=BIG)
                stream = adapter.stream("SubscribeToTask", request(), call())
                assert [e async for b in stream for e in b] == [event(n, BIG) for n in (1, 2, 3)]

        run(main())

    def test_closing_reaches_the_core(self, address: str) -> None:
        """S85: nothing is left of a stream whose client went away."""

        async def main() -> None:
            async with core(address) as fake, client(address) as adapter:
                fake.service.on_stream = lambda request, call: count(10**9)
                stream = adapter.stream("SubscribeToTask", request(), call())
                await anext(stream)
                await stream.aclose()
                await stream.aclose()
                with pytest.raises(StopAsyncIteration):
                    await anext(stream)
                await until(lambda: fake.service.running == 0)
                assert adapter.open_calls == fake.links.open_calls == 0

        run(main())

    def test_closing_ends_a_reader_that_waits(self, address: str) -> None:
        async def silent(request: Any, call: Call) -> AsyncIterator[Batch]:
            await asyncio.Event().wait()
            yield []

        async def main() -> None:
            async with core(address) as fake, client(address) as adapter:
                fake.service.on_stream = silent
                stream = adapter.stream("SubscribeToTask", request(), call())
                reader = asyncio.create_task(read(stream))
                await until(lambda: fake.service.running == 1)
                await stream.aclose()
                assert await reader == []

        run(main())

    def test_a_read_that_was_cancelled_loses_nothing(self, address: str) -> None:
        """Doors stop waiting for an event to write a keep-alive, and come back."""
        go = asyncio.Event()

        async def slow(request: Any, call: Call) -> AsyncIterator[Batch]:
            yield [event(1)]
            await go.wait()
            yield [event(2)]

        async def main() -> None:
            async with core(address) as fake, client(address) as adapter:
                fake.service.on_stream = slow
                stream = adapter.stream("SubscribeToTask", request(), call())
                await anext(stream)
                for _ in range(3):
                    with pytest.raises(TimeoutError):
                        async with asyncio.timeout(0.01):
                            await anext(stream)
                go.set()
                assert await read(stream) == [2]

        run(main())

    def test_never_read_never_started(self, address: str) -> None:
        async def main() -> None:
            async with core(address) as fake, client(address) as adapter:
                stream = adapter.stream("SubscribeToTask", request(), call())
                await stream.aclose()
                await ask(adapter)
                assert [method for method, _, _ in fake.service.calls] == ["SendMessage"]

        run(main())

    def test_a_slow_reader_hurts_only_itself(self, address: str) -> None:
        """The core stops asking the source of a stream that nobody reads; all others go on, and
        it goes on itself once it is read."""
        made = 0

        async def busy(request: Any, call: Call) -> AsyncIterator[Batch]:
            nonlocal made
            for n in range(1, 201):
                made = n
                yield [event(n, 10_000)]

        async def main() -> None:
            async with core(address) as fake, client(address) as adapter:
                fake.service.on_stream = busy
                slow = adapter.stream("SubscribeToTask", request(), call())
                first = await anext(slow)
                fake.service.on_stream = lambda request, call: count(300, size=10_000)
                for _ in range(2):
                    other = adapter.stream("SubscribeToTask", request(), call())
                    assert await read(other) == list(range(1, 301))
                    await ask(adapter)
                assert made * 10_000 <= WINDOW_BYTES + 2 * 65536 + 10_000
                assert [n for n, _ in first] + await read(slow) == list(range(1, 201))

        run(main())

    def test_many_streams_at_once(self, address: str) -> None:
        async def main() -> None:
            async with core(address) as fake, client(address) as adapter:
                fake.service.on_stream = lambda request, call: count(200, size=2000)
                streams = [
                    read(adapter.stream("SubscribeToTask", request(), call())) for _ in range(50)
                ]
                answers = [ask(adapter) for _ in range(50)]
                for numbers in (await asyncio.gather(*streams, *answers))[:50]:
                    assert numbers == list(range(1, 201))

        run(main())


class TestWithoutCore:
    def test_calls_fail_after_a_while(self, address: str) -> None:
        """SH07: an error within the limit, no hang."""

        async def main() -> None:
            async with core(address) as fake, client(address, wait_timeout=0.1) as adapter:
                await fake.kill()
                await until(lambda: not adapter.is_ready)
                started = time.monotonic()
                with pytest.raises(FailureError, match="cannot be reached") as raised:
                    await ask(adapter)
                assert raised.value.failure.row.reason == "UNAVAILABLE"
                assert time.monotonic() - started < 1
                with pytest.raises(FailureError, match="cannot be reached"):
                    await anext(adapter.stream("SubscribeToTask", request(), call()))

        run(main())

    def test_a_deadline_is_not_outwaited(self, address: str) -> None:
        async def main() -> None:
            async with core(address) as fake, client(address, wait_timeout=20) as adapter:
                await fake.kill()
                await until(lambda: not adapter.is_ready)
                with pytest.raises(FailureError) as raised:
                    await ask(adapter, of=call(timeout=0.05))
                assert raised.value.failure.row.reason == "DEADLINE_EXCEEDED"

        run(main())

    def test_after_the_stop(self, address: str) -> None:
        async def main() -> None:
            async with core(address), client(address) as adapter:
                await adapter.stop(1)
                await adapter.stop(1)
                with pytest.raises(FailureError, match="stopping"):
                    await ask(adapter)

        run(main())

    def test_stop_lets_calls_end(self, address: str) -> None:
        go = asyncio.Event()

        async def wait(request: Any, call: Call) -> ProtoMessage:
            await go.wait()
            return Task(id="t")

        async def main() -> None:
            async with core(address) as fake, client(address) as adapter:
                fake.service.on_unary = wait
                get = adapter.unary("GetTask", GetTaskRequest(id="t"), call())
                task = asyncio.create_task(get)
                await until(lambda: fake.service.running == 1)
                stop = asyncio.create_task(adapter.stop(20))
                await until(lambda: adapter.is_stopping)
                go.set()
                assert (await task).message == Task(id="t")
                await stop
                await until(lambda: fake.links.open_links == 0)

        run(main())

    def test_stop_cuts_what_does_not_end(self, address: str) -> None:
        async def main() -> None:
            async with core(address) as fake, client(address) as adapter:
                forever(fake.service)
                task = asyncio.create_task(ask(adapter))
                await until(lambda: fake.service.running == 1)
                await adapter.stop(0.05)
                with pytest.raises(FailureError) as raised:
                    await task
                assert raised.value.failure.row.reason == "UNAVAILABLE"

        run(main())
