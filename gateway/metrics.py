"""What the processes count, and where Prometheus reads it.

Counting happens on the paths that are measured, so it is plain arithmetic in one dict: no
locks, no label look-ups. prometheus-client comes in only when somebody asks for `/metrics`. No
label holds a prompt, an id or a caller: their number has no bound.
"""

import asyncio
import contextlib
import logging
import os
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from gateway.config import Address
from gateway.sockets import claim_path

logger = logging.getLogger(__name__)

LATENCIES = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the latency buckets, in seconds; also for the store and the link."""
SIZES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0)
"""Upper bounds of the buckets for the writes of one store commit."""
LIMIT_PER_REQUEST = 5.0
"""Seconds that one scrape may take to send its request."""


class Histogram:
    """Counts by bucket, and their sum."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: tuple[float, ...] = LATENCIES):
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        """Count one value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def buckets(self) -> list[tuple[str, float]]:
        """(upper bound, cumulated count), as the exposition format wants them."""
        total, result = 0, []
        for bound, count in zip((*map(str, self.bounds), "+Inf"), self.counts, strict=True):
            total += count
            result.append((bound, float(total)))
        return result


class Metrics:
    """Everything that one process counts. Used from the loop's thread alone."""

    def __init__(self) -> None:
        self._calls: dict[tuple[str, str, str], int] = {}
        self._latency: dict[tuple[str, str], Histogram] = {}
        self._streams: dict[str, int] = {}
        self._commits = Histogram()
        self._writes = Histogram(SIZES)
        self._link = Histogram()
        self._late_events = 0
        self._tasks: Callable[[], Mapping[str, int]] | None = None
        self._entered: dict[str, int] = {}
        self._blocked: dict[str, int] = {}

    def call_ended(self, door: str, operation: str, code: str, seconds: float) -> None:
        """One call ended with `code`, a gRPC status name. `operation` must be one of the
        protocol's names, not what a client sent."""
        key = (door, operation, code)
        self._calls[key] = self._calls.get(key, 0) + 1
        latency = self._latency.get(key[:2])
        if latency is None:
            latency = self._latency[key[:2]] = Histogram()
        latency.observe(seconds)

    def stream_opened(self, door: str) -> None:
        """A streaming call gave its first event."""
        self._streams[door] = self._streams.get(door, 0) + 1

    def stream_closed(self, door: str) -> None:
        """A stream that was counted as open has ended."""
        self._streams[door] = self._streams.get(door, 0) - 1

    def store_committed(self, seconds: float, writes: int) -> None:
        """One commit of the store, and how many tasks wrote in it."""
        self._commits.observe(seconds)
        self._writes.observe(writes)

    def link_answered(self, seconds: float) -> None:
        """One ping of the link came back."""
        self._link.observe(seconds)

    def late_event_dropped(self) -> None:
        """An agent emitted an event after the end of its task."""
        self._late_events += 1

    def state_entered(self, state: str) -> None:
        """A task entered a state."""
        self._entered[state] = self._entered.get(state, 0) + 1

    def loop_blocked(self, agent: str) -> None:
        """The watchdog found the loop blocked while this agent ran."""
        self._blocked[agent] = self._blocked.get(agent, 0) + 1

    def watch_tasks(self, count: Callable[[], Mapping[str, int]]) -> None:
        """Ask `count` at each scrape for the number of live tasks by state name."""
        self._tasks = count

    def open_streams(self, door: str) -> int:
        """Streams open now at one door."""
        return self._streams.get(door, 0)

    def collect(self) -> Iterator[Any]:
        """Metric families for prometheus-client, whose collector this is."""
        from prometheus_client import core

        calls = core.CounterMetricFamily(
            "a2a_gateway_calls",
            "Calls that ended, by door, operation and gRPC status",
            labels=("door", "operation", "code"),
        )
        for key, value in self._calls.items():
            calls.add_metric(key, value)
        yield calls
        latency = core.HistogramMetricFamily(
            "a2a_gateway_call_seconds",
            "Time from a call's arrival to its end",
            labels=("door", "operation"),
        )
        for labels, histogram in self._latency.items():
            latency.add_metric(labels, histogram.buckets(), histogram.sum)
        yield latency
        streams = core.GaugeMetricFamily(
            "a2a_gateway_open_streams", "Streams open now", labels=("door",)
        )
        for door, value in self._streams.items():
            streams.add_metric((door,), value)
        yield streams
        if self._tasks is not None:
            tasks = core.GaugeMetricFamily(
                "a2a_gateway_tasks", "Tasks in memory, by state", labels=("state",)
            )
            for state, value in self._tasks().items():
                tasks.add_metric((state,), value)
            yield tasks
        entered = core.CounterMetricFamily(
            "a2a_gateway_task_states", "Tasks that entered a state", labels=("state",)
        )
        for state, value in self._entered.items():
            entered.add_metric((state,), value)
        yield entered
        for name, text, histogram in (
            ("a2a_gateway_store_commit_seconds", "Time of one store commit", self._commits),
            ("a2a_gateway_store_commit_writes", "Tasks that share one commit", self._writes),
            ("a2a_gateway_link_seconds", "Round trip of the link's ping", self._link),
        ):
            if any(histogram.counts):
                yield core.HistogramMetricFamily(
                    name, text, buckets=histogram.buckets(), sum_value=histogram.sum
                )
        yield core.CounterMetricFamily(
            "a2a_gateway_late_events", "Events dropped after the end of a task", self._late_events
        )
        blocked = core.CounterMetricFamily(
            "a2a_gateway_loop_blocked", "Times an agent blocked the loop", labels=("agent",)
        )
        for agent, value in self._blocked.items():
            blocked.add_metric((agent,), value)
        yield blocked

    def render(self) -> bytes:
        """In Prometheus' text format, with the process' own figures (memory, CPU, files)."""
        from prometheus_client import (
            CollectorRegistry,
            GCCollector,
            PlatformCollector,
            ProcessCollector,
            generate_latest,
        )

        registry = CollectorRegistry(auto_describe=False)
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        GCCollector(registry=registry)
        registry.register(self)
        return generate_latest(registry)


class Exposition:
    """Answers `GET /metrics`, one request a connection, in the process' own loop."""

    def __init__(self, metrics: Metrics, address: str):
        self._metrics = metrics
        self.address = address
        """As it was asked for."""
        self._address = Address.parse(address)
        self._server: asyncio.Server | None = None

    async def start(self) -> str:
        """Listen; gives the address. Raises `OSError` where it is taken."""
        if self._address.is_unix:
            claim_path(self._address.path)
            self._server = await asyncio.start_unix_server(self._answer, self._address.path)
            return str(self._address)
        host = self._address.host
        self._server = await asyncio.start_server(
            self._answer, host, self._address.port, limit=8192
        )
        port = self._server.sockets[0].getsockname()[1]
        return str(Address(host, port))

    async def stop(self) -> None:
        """Close; a second call does nothing."""
        if self._server is not None:
            self._server.close()
            self._server = None
            if self._address.is_unix:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(self._address.path)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(LIMIT_PER_REQUEST):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(self._response(head))
                await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # a scraper that left or talks nonsense gets no answer
        except Exception:
            logger.exception("metrics cannot be rendered")
        finally:
            writer.close()

    def _response(self, head: bytes) -> bytes:
        method, _, rest = head.split(b"\r\n", 1)[0].partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0]
        status, kind, body = b"200 OK", b"text/plain; version=0.0.4; charset=utf-8", b""
        if path != b"/metrics":
            status, kind, body = b"404 Not Found", b"text/plain", b"metrics are at /metrics\n"
        elif method not in (b"GET", b"HEAD"):
            status, kind = b"405 Method Not Allowed\r\nAllow: GET, HEAD", b"text/plain"
        else:
            body = self._metrics.render()
        lines = (
            b"HTTP/1.1 " + status,
            b"Content-Type: " + kind,
            b"Content-Length: %d" % len(body),
            b"Connection: close",
        )
        return b"\r\n".join(lines) + b"\r\n\r\n" + (b"" if method == b"HEAD" else body)
