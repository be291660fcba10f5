"""The native door: real server, real channel, scripted runtime."""

import asyncio
import base64
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio
import pytest
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status

from gateway.call import Call
from gateway.config import Address
from gateway.errors import (
    BY_REASON,
    TABLE,
    A2AError,
    Code,
    Failure,
    FailureError,
    ValidationError,
    judge,
)
from gateway.pb import (
    METHODS,
    GetTaskRequest,
    Part,
    Struct,
    SubscribeToTaskRequest,
    TaskState,
)
from gateway.server import GrpcServer, Listener, NativeDoor, PublicServer, ServerOptions
from gateway.server.native import TRAILER_BYTES, fit
from gateway.service import Service, ServiceOptions
from tests.conftest import run
from tests.doubles.runtime import ScriptedRuntime, make_task, status_event, task_event
from tests.unit.service.making import (
    ALICE,
    eventually,
    make_access,
    make_call,
    make_send,
    make_service,
)
from transports.grpc_client import GrpcClient

EXTENSION = "https://ext.example/a/v1"
EXTENDED = {"capabilities": {"extensions": [{"uri": EXTENSION}]}}

Test = Callable[[GrpcClient, ScriptedRuntime], Coroutine[Any, Any, None]]


SETTINGS = bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
"""An empty frame of HTTP/2: all as usual."""


@asynccontextmanager
async def serving(service: Service, **options: Any) -> AsyncIterator[GrpcClient]:
    server = PublicServer(service, [Listener(Address("127.0.0.1", 0))], ServerOptions(**options))
    [address] = await server.start()
    client = GrpcClient(str(address))
    try:
        yield client
    finally:
        await client.stop()
        await server.stop(0.0)


def with_client(test: Test, runtime: ScriptedRuntime | None = None, **options: Any) -> None:
    """Run a test against a server of its own."""
    runtime = runtime or ScriptedRuntime()

    async def main() -> None:
        async with serving(make_service(runtime, **options)) as client:
            await test(client, runtime)

    run(main())


async def refused(calling: Awaitable[Any]) -> Failure:
    with pytest.raises(FailureError) as caught:
        await calling
    return caught.value.failure


def test_serves_unary_calls() -> None:
    """S43, R34, R40: the answer of the service, and nothing else."""

    async def test(client: GrpcClient, runtime: ScriptedRuntime) -> None:
        answer = await client.unary("SendMessage", make_send(), make_call())
        assert answer.message == runtime.response
        [(call, request)] = runtime.sent
        assert (call.door, call.version, call.caller) == ("grpc", "1.0", "anonymous")
        assert call.peer.address.startswith("ipv4:127.0.0.1:")
        assert request == make_send()

    with_client(test)


def test_serves_streams() -> None:
    """R16, R36: events arrive in order, as the bytes that the log holds."""
    runtime = ScriptedRuntime()
    runtime.log = [task_event(1, make_task("t1", 2))]
    runtime.log += [status_event(n, "t1", 2) for n in range(2, 100)]

    async def test(client: GrpcClient, _: ScriptedRuntime) -> None:
        stream = client.stream("SendStreamingMessage", make_send(), make_call())
        payloads = [payload async for batch in stream for _, payload in batch]
        assert payloads == [event.payload for event in runtime.log]

    with_client(test, runtime)


def test_carries_a_cursor() -> None:
    """S71: the cursor travels as call metadata."""
    runtime = ScriptedRuntime()
    runtime.put(make_task("t1", 2))
    runtime.log = [status_event(n, "t1", 2) for n in range(1, 4)]

    async def test(client: GrpcClient, _: ScriptedRuntime) -> None:
        request = SubscribeToTaskRequest(id="t1")
        stream = client.stream("SubscribeToTask", request, make_call(cursor=2))
        assert [batch async for batch in stream] == [[(0, runtime.log[2].payload)]]

    with_client(test, runtime)


@pytest.mark.parametrize("names", [("a2a-version", "a2a-extensions"), ("A2A-Version", "x-a2a")])
def test_reads_service_parameters(names: tuple[str, str]) -> None:
    """GR06, R11, R35, VE01: version from metadata; without it the call means 0.3 and is refused."""

    async def test(client: GrpcClient, _: ScriptedRuntime) -> None:
        failure = await refused(client.unary("SendMessage", make_send(), Call("x")))
        assert failure.row.reason == "VERSION_NOT_SUPPORTED"
        assert failure.row.code == Code.FAILED_PRECONDITION
        metadata = {name.lower(): value for name, value in zip(names, ("1.0", "u"), strict=True)}
        await client.unary("SendMessage", make_send(), Call("x", metadata))

    with_client(test)


@pytest.mark.parametrize("method", ["SendMessage", "SendStreamingMessage"])
def test_names_the_activated_extensions(method: str) -> None:
    """R15: in the response metadata, before the first answer."""
    runtime = ScriptedRuntime()
    runtime.log = [task_event(1, make_task("t1", 2))]

    async def test(client: GrpcClient, _: ScriptedRuntime) -> None:
        for asked, told in (((EXTENSION, "https://x.example"), EXTENSION), ((), None)):
            call = make_call(extensions=asked)
            if method == "SendMessage":
                metadata = (await client.unary(method, make_send(), call)).metadata
            else:
                stream = client.stream(method, make_send(), call)
                assert [batch async for batch in stream]
                metadata = stream.metadata
            assert metadata.get("a2a-extensions") == told

    with_client(test, runtime, card=EXTENDED)


def test_drops_what_only_a_door_may_say() -> None:
    """R27: names of peer facts, and any others, are not believed from clients."""

    async def test(client: GrpcClient, runtime: ScriptedRuntime) -> None:
        forged = {
            "x-forwarded-for": "10.0.0.1",
            "peer-uid": "0",
            "a2a-note": "of an extension",
            "traceparent": "00-1",
        }
        await client.unary("SendMessage", make_send(), make_call(metadata=forged))
        [(call, _)] = runtime.sent
        assert set(call.metadata) == {"a2a-version", "a2a-note", "traceparent"}
        assert call.peer.uid is None

    with_client(test)


def test_authenticates() -> None:
    """D19, AU01: UNAUTHENTICATED with the challenges; with the token it is served."""

    async def test(client: GrpcClient, runtime: ScriptedRuntime) -> None:
        for name, method in METHODS.items():
            if method.streaming:
                stream = client.stream(name, method.request(), make_call())
                failure = await refused(anext(stream))
            else:
                failure = await refused(client.unary(name, method.request(), make_call()))
            assert failure.row.code == Code.UNAUTHENTICATED
            assert failure.challenges == ('Bearer realm="a2a"',)
        await client.unary("SendMessage", make_send(), make_call(metadata=ALICE))
        assert runtime.sent[0][0].caller == "alice"

    with_client(test, access=make_access())


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.reason)
@pytest.mark.parametrize("method", ["SendMessage", "SendStreamingMessage"])
def test_maps_every_error(row: Any, method: str) -> None:
    """R12, R37, R41: code, text and ErrorInfo of the table, unary and at the end of a stream."""
    runtime = ScriptedRuntime()
    error: A2AError = row.error("what happened")
    runtime.error = error
    runtime.log = [task_event(1, make_task("t1", 2))]

    async def test(client: GrpcClient, _: ScriptedRuntime) -> None:
        if method == "SendMessage":
            failure = await refused(client.unary(method, make_send(), make_call()))
        else:
            stream = client.stream(method, make_send(), make_call())
            await anext(stream)
            failure = await refused(anext(stream))
        assert failure == judge(error)

    with_client(test, runtime)


def test_details_are_google_rpc_status() -> None:
    """R12, R37: readable by any client: ErrorInfo first, in grpc-status-details-bin."""

    async def test(client: GrpcClient, _: ScriptedRuntime) -> None:
        rpc = client._unary["GetTask"]
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await rpc(
                GetTaskRequest(id="no-such").SerializeToString(),
                metadata=(("a2a-version", "1.0"),),
            )
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND
        assert caught.value.details() == "Task not found: no-such"
        trailers = dict(caught.value.trailing_metadata())
        status = Status.FromString(trailers["grpc-status-details-bin"])
        info = ErrorInfo()
        assert status.details[0].Unpack(info)
        assert (info.reason, info.domain) == ("TASK_NOT_FOUND", "a2a-protocol.org")

    with_client(test)


def test_says_nothing_of_unknown_errors() -> None:
    """GR03: INTERNAL with a reference, unary and stream."""
    runtime = ScriptedRuntime()
    runtime.error = ValueError("secret-123 in /home/me")

    async def test(client: GrpcClient, _: ScriptedRuntime) -> None:
        unary = await refused(client.unary("SendMessage", make_send(), make_call()))
        stream = client.stream("SendStreamingMessage", make_send(), make_call())
        streamed = await refused(anext(stream))
        for failure in (unary, streamed):
            assert failure.row.code == Code.INTERNAL
            assert "secret-123" not in str(failure)

    with_client(test, runtime)


@pytest.mark.parametrize("raw", [b"\xff\xff\xff", b"\x0a\x05ab", b"\x12\x02\x0a\x05"])
@pytest.mark.parametrize("method", ["SendMessage", "SendStreamingMessage"])
def test_refuses_bytes_that_are_no_request(method: str, raw: bytes) -> None:
    """R38, GR03: INVALID_ARGUMENT in words, not the parser's error."""

    async def test(client: GrpcClient, _: ScriptedRuntime) -> None:
        metadata = (("a2a-version", "1.0"),)
        if METHODS[method].streaming:
            answer = client._streams[method](raw, metadata=metadata).read()
        else:
            answer = client._unary[method](raw, metadata=metadata)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await answer
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert "SendMessageRequest" in str(caught.value.details())

    with_client(test)


def test_refuses_bad_metadata() -> None:
    """R38: a malformed cursor is a wrong parameter, not a crash."""

    async def test(client: GrpcClient, _: ScriptedRuntime) -> None:
        call = make_call(metadata={"last-event-id": "x"})
        failure = await refused(client.unary("SendMessage", make_send(), call))
        assert failure.row.reason == "INVALID_PARAMS"

    with_client(test)


def test_one_limit_for_sizes() -> None:
    """GR07: over the limit the service says so; far over it gRPC itself does."""
    limit = 1 << 20

    async def main() -> None:
        runtime = ScriptedRuntime()
        service = make_service(runtime, options=ServiceOptions(message_bytes=limit))
        async with serving(service, message_bytes=limit) as client:

            def send(size: int) -> Coroutine[Any, Any, Any]:
                return client.unary("SendMessage", make_send(Part(text="x" * size)), make_call())

            await send(limit - 1000)
            failure = await refused(send(limit + 1000))
            assert failure.row.reason == "INVALID_PARAMS"
            assert str(limit) in failure.message
            assert (await refused(send(2 * limit))).row.code == Code.RESOURCE_EXHAUSTED

    run(main())


def test_bounds_calls_at_once() -> None:
    """S185: one call too many is refused at once, not queued."""

    async def main() -> None:
        runtime = ScriptedRuntime()
        runtime.gate = asyncio.Event()
        async with serving(make_service(runtime), calls=1) as client:
            first = asyncio.create_task(client.unary("SendMessage", make_send(), make_call()))
            await runtime.entered.wait()
            second = await refused(client.unary("SendMessage", make_send(), make_call()))
            assert second.row.code == Code.RESOURCE_EXHAUSTED
            runtime.gate.set()
            await first

    run(main())


def test_answers_may_be_larger_than_requests() -> None:
    """GR07: a task whose history adds up to 6 MB, by GetTask and as first event."""
    runtime = ScriptedRuntime()
    task = runtime.put(make_task("t1", 2))
    task.history[0].parts[0].text = "x" * (6 << 20)
    runtime.log = [task_event(1, task)]

    async def test(client: GrpcClient, _: ScriptedRuntime) -> None:
        answer = await client.unary("GetTask", GetTaskRequest(id="t1"), make_call())
        assert answer.message == task
        stream = client.stream("SubscribeToTask", SubscribeToTaskRequest(id="t1"), make_call())
        assert await anext(stream) == [(0, runtime.log[0].payload)]

    with_client(test, runtime)


def test_enforces_deadlines() -> None:
    """GR10: DEADLINE_EXCEEDED on time, the handler freed."""
    runtime = ScriptedRuntime()

    async def main() -> None:
        runtime.gate = asyncio.Event()
        service = make_service(runtime)
        async with serving(service) as client:
            call = make_call(metadata={}, deadline=asyncio.get_running_loop().time() + 0.1)
            failure = await refused(client.unary("SendMessage", make_send(), call))
            assert failure.row.code == Code.DEADLINE_EXCEEDED
            await eventually(lambda: not len(service.running))

    run(main())


def test_a_client_that_leaves_frees_its_stream() -> None:
    """SS09, S85, R16: the reader is given back, and nothing is logged as an error."""
    runtime = ScriptedRuntime()
    runtime.put(make_task("t1", TaskState.TASK_STATE_WORKING))
    runtime.log = [task_event(1, make_task("t1", 2))]

    async def test(client: GrpcClient, _: ScriptedRuntime) -> None:
        runtime.gate = asyncio.Event()
        for _round in range(20):
            request = SubscribeToTaskRequest(id="t1")
            stream = client.stream("SubscribeToTask", request, make_call())
            await anext(stream)
            await stream.aclose()
        await eventually(lambda: runtime.finished == 20)
        assert runtime.readers == 0

    with_client(test, runtime)


def test_a_client_that_does_not_read_is_cut_off() -> None:
    """SS06: its reader is given back after the limit; others are served meanwhile."""
    runtime = ScriptedRuntime()
    task = make_task("t1", 2)
    task.history[0].parts[0].text = "x" * 100_000
    runtime.log = [task_event(n, task) for n in range(1, 400)]

    async def main() -> None:
        service = make_service(runtime)
        door = NativeDoor(service, stall=0.2)
        server = GrpcServer((door.add_to,), [Listener(Address("127.0.0.1", 0))])
        [address] = await server.start()
        stuck, other = GrpcClient(str(address)), GrpcClient(str(address))
        stream = stuck.stream("SendStreamingMessage", make_send(), make_call())
        await anext(stream)
        while not runtime.finished:
            await other.unary("SendMessage", make_send(), make_call())
            await asyncio.sleep(0.02)
        assert (runtime.readers, len(service.running)) == (0, 0)
        await stuck.stop()
        await other.stop()
        await server.stop(0.0)

    run(main())


def test_a_client_that_answers_no_ping_is_gone() -> None:
    """One that is frozen, or whose network is: its connection is closed."""

    async def main() -> None:
        options = ServerOptions(keepalive=0.1, keepalive_timeout=0.1)
        server = GrpcServer((), [Listener(Address("127.0.0.1", 0))], options)
        [address] = await server.start()
        reader, writer = await asyncio.open_connection(address.host, address.port)
        writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + SETTINGS)
        while await reader.read(4096):
            pass  # pings among it
        writer.close()
        await server.stop(0)

    run(main(), 10)


@pytest.mark.parametrize(
    "failure",
    [
        Failure(BY_REASON["INVALID_PARAMS"], "ü€😀" * 341),
        Failure(BY_REASON["INVALID_PARAMS"], "%\n" * 512),
        Failure(
            BY_REASON["INVALID_PARAMS"],
            "x" * 1024,
            violations=tuple((f"message.parts[{n}]", "😀" * 256) for n in range(16)),
        ),
        Failure(BY_REASON["TASK_NOT_FOUND"], "x" * 1024, {str(n): "😀" * 256 for n in range(16)}),
    ],
)
def test_failures_fit_into_trailers(failure: Failure) -> None:
    """GR02: shortened until a peer with 8 KiB for headers can read it, the code kept."""
    fitted = fit(failure)
    status = fitted.to_status().SerializeToString()
    assert len(base64.b64encode(status)) < TRAILER_BYTES
    assert fitted.row == failure.row
    assert fitted.message
    assert Failure.from_status(Status.FromString(status)).row == failure.row


def test_small_failures_stay_whole() -> None:
    """GR02: nothing is cut without need."""
    failure = judge(ValidationError(("message.parts", "must hold at least one part")))
    assert fit(failure) is failure


def test_long_texts_reach_the_client() -> None:
    """GR02: 20 KB of text, and 500 bad parts, give the right code."""
    runtime = ScriptedRuntime()

    async def test(client: GrpcClient, _: ScriptedRuntime) -> None:
        bad = make_send(*[Part()] * 500)
        failure = await refused(client.unary("SendMessage", bad, make_call()))
        assert failure.row.reason == "INVALID_PARAMS"
        assert failure.violations[0][0] == "message.parts[0]"
        runtime.error = BY_REASON["INVALID_AGENT_RESPONSE"].error("ü" * 20_000)
        failure = await refused(client.unary("SendMessage", make_send(), make_call()))
        assert failure.row.reason == "INVALID_AGENT_RESPONSE"

    with_client(test, runtime)


def test_nulls_survive() -> None:
    """PB01: JSON null in metadata goes in and comes out."""
    runtime = ScriptedRuntime()
    metadata = Struct()
    metadata.update({"a": None, "b": [None, {"c": None}]})

    async def test(client: GrpcClient, _: ScriptedRuntime) -> None:
        request = make_send()
        request.message.metadata.CopyFrom(metadata)
        await client.unary("SendMessage", request, make_call())
        assert runtime.sent[0][1].message.metadata == metadata

    with_client(test, runtime)
