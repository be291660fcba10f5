"""SendStreamingMessage over SSE, one stream at a time: events per second from the request to the
end of the stream, and whether the ten-thousandth event costs what the first does."""

import time
from contextlib import AbstractContextManager

from benchmarks import requests, servers
from benchmarks.load import LoadError
from benchmarks.scenario import Figure, Scenario, Settings, at_least, at_most
from benchmarks.servers import Server
from benchmarks.sse import Stream


async def one(port: int, chunks: int, kind: str = "stream") -> float:
    """Seconds of one stream. Raises `LoadError` unless every chunk and the end came."""
    request = requests.http_send(f"{kind} {chunks}", method="SendStreamingMessage").fill()
    stream = await Stream.open(port, request)
    body = await stream.body()
    stream.close()
    if (came := body.count(b'"artifactUpdate"')) != chunks:
        raise LoadError(f"{came} of {chunks} chunks came: {body[-300:]!r}")
    if b'"TASK_STATE_COMPLETED"' not in body[-2000:]:
        raise LoadError(f"the stream did not complete: {body[-300:]!r}")
    return (stream.ended.result() - stream.started) / 1e9


async def rate(
    started: AbstractContextManager[Server], chunks: int, settings: Settings, kind: str = "stream"
) -> Figure:
    """Events per second in streams of `chunks`, one after another."""
    with started as server:
        for _ in range(3):
            await one(server.http, 100, kind)
        spent, count, cpu = 0.0, 0, time.process_time()
        while not count or spent < settings.seconds:
            spent += await one(server.http, chunks, kind)
            count += 1
        return Figure(count * chunks / spent, (time.process_time() - cpu) / spent)


async def _cost(chunks: int, settings: Settings) -> Figure:
    figure = await rate(servers.ours(), chunks, settings)
    return Figure(1e6 / figure.value, figure.generator_share)


SCENARIOS = [
    Scenario(
        "sse-1000",
        "SSE stream of 1,000 chunks",
        "events/s",
        at_least(4),
        lambda settings: rate(servers.ours(), 1000, settings),
        "SDK, memory",
        lambda settings: rate(servers.peer(), 1000, settings),
    ),
    Scenario(
        "sse-10000",
        "SSE stream of 10,000 chunks",
        "events/s",
        at_least(9),
        lambda settings: rate(servers.ours(), 10_000, settings),
        "SDK, memory",
        lambda settings: rate(servers.peer(), 10_000, settings),
    ),
    Scenario(
        "sse-burst",
        "SSE stream of 1,000 chunks, the agent never gives way",
        "events/s",
        at_least(4),
        lambda settings: rate(servers.ours(), 1000, settings, "burst"),
        "SDK, memory",
        lambda settings: rate(servers.peer(), 1000, settings, "burst"),
    ),
    Scenario(
        "sse-cost",
        "cost of an event, 10,000 chunks",
        "us/event",
        at_most(1.2),
        lambda settings: _cost(10_000, settings),
        "ours, 1,000 chunks",
        lambda settings: _cost(1000, settings),
    ),
]
