"""What is counted, and how it is read."""

import asyncio
import socket
from pathlib import Path

import pytest

from gateway.metrics import Exposition, Histogram, Metrics
from tests.conftest import run


def lines(metrics: Metrics) -> list[str]:
    """The exposition's samples of our own."""
    text = metrics.render().decode()
    return [line for line in text.splitlines() if line.startswith("a2a_gateway")]


def test_histogram_bounds_are_inclusive() -> None:
    """As Prometheus defines `le`."""
    histogram = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 2.0, 2.5):
        histogram.observe(value)
    assert histogram.buckets() == [("1.0", 2.0), ("2.0", 4.0), ("+Inf", 5.0)]
    assert histogram.sum == 7.5


def test_calls() -> None:
    """By door, operation and code."""
    metrics = Metrics()
    for code in ("OK", "OK", "NOT_FOUND"):
        metrics.call_ended("http", "GetTask", code, 0.002)
    found = lines(metrics)
    assert 'a2a_gateway_calls_total{code="OK",door="http",operation="GetTask"} 2.0' in found
    assert 'a2a_gateway_calls_total{code="NOT_FOUND",door="http",operation="GetTask"} 1.0' in found
    assert 'a2a_gateway_call_seconds_count{door="http",operation="GetTask"} 3.0' in found


def test_streams_and_tasks_are_gauges() -> None:
    """They go down again."""
    metrics = Metrics()
    metrics.watch_tasks(lambda: {"TASK_STATE_WORKING": 2})
    metrics.stream_opened("grpc")
    metrics.stream_opened("grpc")
    metrics.stream_closed("grpc")
    assert metrics.open_streams("grpc") == 1
    assert 'a2a_gateway_open_streams{door="grpc"} 1.0' in lines(metrics)
    assert 'a2a_gateway_tasks{state="TASK_STATE_WORKING"} 2.0' in lines(metrics)


def test_store_link_and_agent() -> None:
    """The rest of the figures."""
    metrics = Metrics()
    metrics.store_committed(0.001, 3)
    metrics.link_answered(0.0001)
    metrics.late_event_dropped()
    metrics.loop_blocked("my:agent")
    metrics.state_entered("TASK_STATE_FAILED")
    found = lines(metrics)
    for sample in (
        "a2a_gateway_store_commit_seconds_count 1.0",
        "a2a_gateway_store_commit_writes_sum 3.0",
        "a2a_gateway_link_seconds_count 1.0",
        "a2a_gateway_late_events_total 1.0",
        'a2a_gateway_loop_blocked_total{agent="my:agent"} 1.0',
        'a2a_gateway_task_states_total{state="TASK_STATE_FAILED"} 1.0',
    ):
        assert sample in found


async def ask(address: str, request: bytes) -> bytes:
    """Send a request; the whole answer."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(request)
    answer = await reader.read()
    writer.close()
    return answer


@pytest.mark.parametrize(
    ("request_line", "status", "in_body"),
    [
        ("GET /metrics", "200 OK", b"process_cpu_seconds_total"),
        ("GET /metrics?x=1", "200 OK", b"a2a_gateway_late_events_total"),
        ("HEAD /metrics", "200 OK", b""),
        ("POST /metrics", "405 Method Not Allowed", b""),
        ("GET /", "404 Not Found", b"/metrics"),
    ],
)
def test_exposition(request_line: str, status: str, in_body: bytes) -> None:
    """GET /metrics, and words for everything else."""

    async def main() -> bytes:
        exposition = Exposition(Metrics(), "127.0.0.1:0")
        address = await exposition.start()
        answer = await ask(address, f"{request_line} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        await exposition.stop()
        await exposition.stop()
        return answer

    head, _, body = run(main()).partition(b"\r\n\r\n")
    assert head.startswith(f"HTTP/1.1 {status}\r\n".encode())
    assert in_body in body
    if request_line.startswith("HEAD"):
        assert body == b""


def test_exposition_survives_nonsense() -> None:
    """Bytes that are no request, and a head that never ends, cost one connection."""

    async def main() -> bytes:
        exposition = Exposition(Metrics(), "127.0.0.1:0")
        address = await exposition.start()
        assert await ask(address, b"\xff\r\n\r\n") != b""
        assert await ask(address, b"GET /" + b"x" * 20000) == b""
        answer = await ask(address, b"GET /metrics HTTP/1.1\r\n\r\n")
        await exposition.stop()
        return answer

    assert run(main()).startswith(b"HTTP/1.1 200")


def test_exposition_address_taken() -> None:
    """An OSError for whoever starts it."""

    async def main() -> None:
        first = Exposition(Metrics(), "127.0.0.1:0")
        second = Exposition(Metrics(), await first.start())
        try:
            with pytest.raises(OSError, match="in use"):
                await second.start()
        finally:
            await first.stop()

    run(main())


def test_exposition_at_a_socket(tmp_path: Path) -> None:
    """US01: a live one is refused, one that is left over replaced, and our own removed."""
    path = tmp_path / "metrics.sock"

    async def main() -> None:
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(path))
        first = Exposition(Metrics(), f"unix:{path}")
        await first.start()
        with pytest.raises(OSError, match="in use"):
            await Exposition(Metrics(), f"unix:{path}").start()
        await first.stop()

    run(main())
    assert not path.exists()
