"""The load generators count good answers and nothing else; figures and bounds are computed as
the documentation says."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc
import pytest
from grpc import aio

from benchmarks import requests
from benchmarks.agents import BenchExecutor
from benchmarks.http1 import HttpClient
from benchmarks.http2 import GrpcClient
from benchmarks.load import Client, LoadError, closed, count, open_, percentile
from benchmarks.scenario import Figure, Result, Scenario, at_least, at_most, no_more_than
from benchmarks.sse import Stream, exchange
from gateway.pb import METHODS, SendMessageRequest, SendMessageResponse, TaskState
from tests.conftest import run

DONE = TaskState.TASK_STATE_COMPLETED


class Servicer:
    """Answers with tasks in one state, or with a failure from some call on."""

    def __init__(self, state: TaskState = DONE, fail_from: int = 10**9) -> None:
        self.state = state
        self.fail_from = fail_from
        self.ids: list[str] = []

    async def send(
        self, request: SendMessageRequest, context: aio.ServicerContext[object, object]
    ) -> SendMessageResponse:
        self.ids.append(request.message.message_id)
        if len(self.ids) >= self.fail_from:
            await context.abort(grpc.StatusCode.UNAVAILABLE, f"call {len(self.ids)}")
        assert ("a2a-version", "1.0") in tuple(context.invocation_metadata() or ())
        answer = SendMessageResponse()
        answer.task.status.state = self.state
        answer.task.artifacts.add(artifact_id="a")
        return answer


@asynccontextmanager
async def grpc_server(servicer: Servicer) -> AsyncIterator[int]:
    method = METHODS["SendMessage"]
    handler = grpc.unary_unary_rpc_method_handler(
        servicer.send,
        request_deserializer=SendMessageRequest.FromString,
        response_serializer=SendMessageResponse.SerializeToString,
    )
    server = aio.server()
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(method.path.split("/")[1], {method.name: handler}),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield port
    finally:
        await server.stop(None)


@asynccontextmanager
async def http_server(*answers: bytes) -> AsyncIterator[int]:
    """Gives the answers in turn, the last one from then on; a piece ends at each NUL."""
    left = list(answers)
    serving: list[asyncio.Task[None]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.append(asyncio.current_task())  # type: ignore[arg-type]
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                size = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
                await reader.readexactly(size)
                for piece in (left.pop(0) if len(left) > 1 else left[0]).split(b"\0"):
                    writer.write(piece)
                    await asyncio.sleep(0.002)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await asyncio.gather(*serving)
        await asyncio.sleep(0.01)  # transports close in the loop's next turns


def answer(body: bytes, status: str = "200 OK") -> bytes:
    size = len(body.replace(b"\0", b""))
    return f"HTTP/1.1 {status}\r\nContent-Length: {size}\r\n\r\n".encode() + body


COMPLETED = answer(b'{"result":{"task":{"status":{"state":"TASK_STATE_COMPLETED"}}}}')


async def _counted(client: Client, calls: int) -> None:
    try:
        await count(client, 4, calls)
    finally:
        client.close()


async def _grpc(servicer: Servicer, calls: int) -> None:
    async with grpc_server(servicer) as port:
        client = GrpcClient(requests.grpc_send(), streams=4)
        await client.open(port)
        await _counted(client, calls)


async def _http(calls: int, *answers: bytes) -> None:
    async with http_server(*answers) as port:
        client = HttpClient(requests.http_send(), connections=4)
        await client.open(port)
        await _counted(client, calls)


def test_grpc_calls_are_answered_with_ids_of_their_own() -> None:
    servicer = Servicer()
    run(_grpc(servicer, 200))
    assert len(servicer.ids) == len(set(servicer.ids)) == 200


def test_a_grpc_status_other_than_ok_voids_the_load() -> None:
    with pytest.raises(LoadError, match="14 call 50"):
        run(_grpc(Servicer(fail_from=50), 200))


def test_a_task_that_did_not_complete_voids_the_load() -> None:
    with pytest.raises(LoadError, match="TASK_STATE_FAILED"):
        run(_grpc(Servicer(TaskState.TASK_STATE_FAILED), 200))


def test_http_calls_are_answered_also_in_pieces() -> None:
    run(_http(40, COMPLETED))
    run(_http(40, COMPLETED[:20] + b"\0" + COMPLETED[20:60] + b"\0" + COMPLETED[60:]))


def test_an_http_answer_without_a_completed_task_voids_the_load() -> None:
    refused = answer(b'{"error":{"code":-32603}}')
    with pytest.raises(LoadError, match="-32603"):
        run(_http(40, *[COMPLETED] * 20, refused))


def test_an_http_status_other_than_200_voids_the_load() -> None:
    with pytest.raises(LoadError, match="503"):
        run(_http(40, *[COMPLETED] * 20, answer(b"", "503 Service Unavailable")))


def test_closed_and_open_loop_measure_rate_and_latency() -> None:
    async def main() -> None:
        async with grpc_server(Servicer()) as port:
            client = GrpcClient(requests.grpc_send(), streams=8)
            await client.open(port)
            full = await closed(client, 8, seconds=0.2, warm_up=0.05)
            client.close()
            assert full.answers > 0
            assert full.rate == pytest.approx(full.answers / full.seconds)
            client = GrpcClient(requests.grpc_send(), streams=8)
            await client.open(port)
            half = await open_(client, 100, seconds=0.5, warm_up=0.05)
            client.close()
            assert half.answers == len(half.latencies)
            assert 0 < percentile(half.latencies, 0.5) <= percentile(half.latencies, 0.99) < 10

    run(main())


def test_open_loop_tells_of_a_server_that_does_not_keep_up() -> None:
    async def main() -> None:
        async with http_server(b"\0" * 200 + COMPLETED) as port:
            client = HttpClient(requests.http_send(), connections=1)
            await client.open(port)
            try:
                await open_(client, 100, seconds=0.3, warm_up=0.0)
            finally:
                client.close()

    with pytest.raises(LoadError, match="answered in time"):
        run(main())


def test_delays_are_read_from_events_also_when_cut() -> None:
    sent = time.monotonic_ns()
    pieces = f'data: "at {sent}"\n\ndata: "at {str(sent)[:5]}\0{str(sent)[5:]}"\n\n'

    async def main() -> list[float]:
        async with http_server(answer(pieces.encode())) as port:
            stream = await Stream.open(port, requests.http_send().fill())
            await stream.body()
            stream.close()
            return stream.delays()

    first, second = run(main())
    assert 0 < first < second < (time.monotonic_ns() - sent) / 1e9


def test_an_exchange_gives_results_and_raises_errors() -> None:
    async def main(body: object) -> object:
        async with http_server(answer(json.dumps(body).encode())) as port:
            return await exchange(port, requests.http_task("GetTask", "x").fill())

    assert run(main({"result": {"id": "x"}})) == {"id": "x"}
    with pytest.raises(LoadError, match="-32001"):
        run(main({"error": {"code": -32001}}))


async def _never(settings: object) -> Figure:
    raise AssertionError


def test_a_result_is_the_ratio_of_medians_against_its_bound() -> None:
    scenario = Scenario("x", "X", "calls/s", at_least(3), _never, "SDK", _never)
    runs: list[tuple[Figure, Figure | None]] = [
        (Figure(400.0), Figure(100.0)),
        (Figure(300.0), Figure(90.0)),
        (Figure(200.0), Figure(1000.0)),
    ]
    result = Result(scenario, runs)
    assert (result.ours, result.peer, result.ratio, result.ok) == (300.0, 100.0, 3.0, True)
    entry = result.to_json()
    assert (entry["ours"], entry["peer"], entry["ratio"]) == (300.0, 100.0, 3.0)
    assert (entry["target"], entry["ok"]) == ("≥ 3 x", True)


@pytest.mark.parametrize(
    ("target", "ours", "ratio", "holds"),
    [
        (at_least(2), 1.0, 1.9, False),
        (at_most(2), 1.0, 2.1, False),
        (at_most(2), 1.0, 2.0, True),
        (at_most(2), 1.0, None, False),
        (no_more_than(50), 51.0, 0.1, False),
        (no_more_than(50), 49.0, None, True),
    ],
)
def test_bounds(target: object, ours: float, ratio: float | None, holds: bool) -> None:
    assert target.holds(ours, ratio) is holds  # type: ignore[attr-defined]


def test_the_agent_is_an_executor_of_the_sdk() -> None:
    from a2a.server.agent_execution import AgentExecutor

    assert issubclass(BenchExecutor, AgentExecutor)
