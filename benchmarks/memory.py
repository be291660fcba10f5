"""What memory it takes: idle, after many tasks, and for each open stream."""

import asyncio
from contextlib import AbstractContextManager

from benchmarks import requests, servers
from benchmarks.latency import park
from benchmarks.load import LoadError, count
from benchmarks.scenario import Figure, Measure, Scenario, Settings, at_most, no_more_than
from benchmarks.servers import Server
from benchmarks.sse import Stream, exchange
from benchmarks.unary import grpc_client, http_client

MB = 1e6
IN_FLIGHT = 32
SUBSCRIPTIONS = 1000
PARKED = 10


async def idle(started: AbstractContextManager[Server], settings: Settings) -> Figure:
    """PSS in MB of all processes, a moment after one call on each door."""
    with started as server:
        for connect in (grpc_client, http_client):
            client = await connect(server, 1)
            await count(client, 1, 1)
            client.close()
        await asyncio.sleep(3)
        return Figure(server.pss_bytes() / MB)


async def after_tasks(store: str, tasks: int, settings: Settings) -> Figure:
    """RSS in MB of all processes after so many tasks over JSON-RPC."""
    with servers.ours(store) as server:
        client = await http_client(server, IN_FLIGHT)
        await count(client, IN_FLIGHT, tasks // 10 if settings.quick else tasks)
        client.close()
        await asyncio.sleep(3)
        return Figure(server.rss_bytes() / MB)


async def subscriptions(started: AbstractContextManager[Server], settings: Settings) -> Figure:
    """KB of PSS, over all processes, that each of 1,000 open and silent SSE subscriptions adds.

    They follow ten parked tasks, so that it is the streams that are weighed.
    """
    with started as server:
        parked = [await park(server.http) for _ in range(PARKED)]
        streams = [await _subscribe(server.http, task_id) for task_id in parked]
        await asyncio.sleep(2)
        before = server.pss_bytes()
        for index in range(SUBSCRIPTIONS):
            streams.append(await _subscribe(server.http, parked[index % PARKED]))
        await asyncio.sleep(2)
        after = server.pss_bytes()
        if broken := sum(stream.ended.done() for stream in streams):
            raise LoadError(f"{broken} of the subscriptions ended by themselves")
        for stream in streams:
            stream.close()
        for task_id in parked:
            await exchange(server.http, requests.http_task("CancelTask", task_id).fill())
        return Figure((after - before) / SUBSCRIPTIONS / 1e3)


async def _subscribe(port: int, task_id: str) -> Stream:
    """An open subscription whose first event, the task as it is, has come."""
    stream = await Stream.open(port, requests.http_task("SubscribeToTask", task_id).fill())
    await asyncio.wait_for(stream.first, 10)
    if task_id.encode() not in stream.pieces[0][1]:
        raise LoadError(f"not a subscription: {stream.pieces[0][1]!r}")
    return stream


def _after(store: str, tasks: int) -> Measure:
    return lambda settings: after_tasks(store, tasks, settings)


def _growth(store: str) -> Scenario:
    return Scenario(
        f"rss-{store}",
        f"RSS after 200,000 tasks, {store}",
        "MB",
        at_most(1.2),
        _after(store, 200_000),
        "ours, 20,000 tasks",
        _after(store, 20_000),
    )


SCENARIOS = [
    Scenario(
        "pss-idle",
        "PSS of all processes, idle",
        "MB",
        at_most(2),
        lambda settings: idle(servers.ours(), settings),
        "SDK, memory",
        lambda settings: idle(servers.peer(), settings),
    ),
    _growth("sqlite"),
    _growth("memory"),
    Scenario(
        "subscriptions",
        "each of 1,000 idle SSE subscriptions",
        "KB",
        no_more_than(30),
        lambda settings: subscriptions(servers.ours(), settings),
        "SDK, memory",
        lambda settings: subscriptions(servers.peer(), settings),
    ),
]
