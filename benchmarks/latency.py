"""How long one thing takes: an event to an SSE client, a call at half load, a cancellation."""

import asyncio
import time
from contextlib import AbstractContextManager
from functools import partial
from statistics import median

from benchmarks import requests, servers
from benchmarks.load import LoadError, closed, open_, percentile
from benchmarks.scenario import Figure, Scenario, Settings, at_most, no_more_than
from benchmarks.servers import Server
from benchmarks.sse import Stream, exchange
from benchmarks.unary import grpc_client, http_client

IN_FLIGHT = 32
"""Of the run that finds the full rate, and the bound on calls under way at half of it."""


async def event(started: AbstractContextManager[Server], settings: Settings) -> Figure:
    """Median microseconds from just before the agent emits to the client's read: one event at a
    time, ten milliseconds apart, in one stream on an idle server."""
    count = 100 if settings.quick else 400
    with started as server:
        request = requests.http_send(f"ticks {count} 10", method="SendStreamingMessage")
        await (await Stream.open(server.http, request.fill())).body()
        stream = await Stream.open(server.http, request.fill())
        await stream.body()
        delays = stream.delays()
        if len(delays) != count:
            raise LoadError(f"{len(delays)} of {count} events came")
        return Figure(median(delays) * 1e6)


async def half_load(
    started: AbstractContextManager[Server], door: str, settings: Settings
) -> Figure:
    """p99 in milliseconds of SendMessage at half of the server's own full rate, found just before
    on the same server; calls start at random times, whatever the answers do."""
    with started as server:
        connect = grpc_client if door == "grpc" else http_client
        client = await connect(server, IN_FLIGHT)
        full = await closed(client, IN_FLIGHT, seconds=settings.seconds / 2, warm_up=1.0)
        client.close()
        client = await connect(server, 4 * IN_FLIGHT)
        try:
            load = await open_(client, full.rate / 2, seconds=settings.seconds * 2, warm_up=1.0)
        finally:
            client.close()
        return Figure(percentile(load.latencies, 0.99) * 1e3, load.generator_share)


async def cancel(started: AbstractContextManager[Server], settings: Settings) -> Figure:
    """The slowest of many, in milliseconds from the client's write of CancelTask until the
    agent's turn sees its cancellation."""
    with started as server:
        delays = [await _cancel_one(server.http) for _ in range(20 if settings.quick else 100)]
        return Figure(max(delays) * 1e3)


async def park(port: int) -> str:
    """Start a task that stays WORKING; its id once it does."""
    result = await exchange(port, requests.http_send("park", wait=False).fill())
    task = result["task"]
    task_id: str = task["id"]
    while task["status"]["state"] != "TASK_STATE_WORKING":
        await asyncio.sleep(0.002)
        task = await exchange(port, requests.http_task("GetTask", task_id).fill())
    return task_id


async def _cancel_one(port: int) -> float:
    request = requests.http_task("CancelTask", await park(port)).fill()
    before = time.monotonic_ns()
    task = await exchange(port, request)
    try:
        text = task["status"]["message"]["parts"][0]["text"]
        seen = int(text.removeprefix("seen "))
    except (KeyError, ValueError):
        raise LoadError(f"the agent's own last words are missing: {task}") from None
    return (seen - before) / 1e9


_half_load = partial(Scenario, unit="ms", target=at_most(2))

SCENARIOS = [
    Scenario(
        "event-latency",
        "a lone event to an SSE client, median",
        "us",
        at_most(1),
        lambda settings: event(servers.ours(), settings),
        "SDK, memory",
        lambda settings: event(servers.peer(), settings),
    ),
    _half_load(
        "p99-http",
        "JSON-RPC SendMessage at half load, p99",
        ours=lambda settings: half_load(servers.ours(), "http", settings),
        against="SDK, memory",
        peer=lambda settings: half_load(servers.peer(), "http", settings),
    ),
    _half_load(
        "p99-grpc",
        "gRPC SendMessage at half load, p99",
        ours=lambda settings: half_load(servers.ours(), "grpc", settings),
        against="SDK, memory",
        peer=lambda settings: half_load(servers.peer(), "grpc", settings),
    ),
    Scenario(
        "cancel",
        "CancelTask to the agent, slowest",
        "ms",
        no_more_than(50),
        lambda settings: cancel(servers.ours(), settings),
        "SDK, memory",
        lambda settings: cancel(servers.peer(), settings),
    ),
]
