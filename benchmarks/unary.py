"""SendMessage, answered with a completed task: calls per second at a fixed number in flight."""

from contextlib import AbstractContextManager
from functools import partial

from benchmarks import requests, servers
from benchmarks.http1 import HttpClient
from benchmarks.http2 import GrpcClient
from benchmarks.load import Client, closed
from benchmarks.scenario import Figure, Measure, Scenario, Settings, at_least
from benchmarks.servers import Server


async def grpc_client(server: Server, in_flight: int) -> Client:
    """A client of the native door."""
    client = GrpcClient(requests.grpc_send(), streams=in_flight)
    await client.open(server.grpc)
    return client


async def http_client(server: Server, in_flight: int) -> Client:
    """A client of the JSON-RPC door."""
    client = HttpClient(requests.http_send(), connections=in_flight)
    await client.open(server.http)
    return client


async def rate(
    started: AbstractContextManager[Server], door: str, in_flight: int, settings: Settings
) -> Figure:
    """Calls per second of one server, fresh."""
    with started as server:
        client = await (grpc_client if door == "grpc" else http_client)(server, in_flight)
        try:
            load = await closed(
                client, in_flight, seconds=settings.seconds, warm_up=settings.warm_up
            )
        finally:
            client.close()
        return Figure(load.rate, load.generator_share)


def _ours(store: str, door: str, in_flight: int) -> Measure:
    return lambda settings: rate(servers.ours(store), door, in_flight, settings)


def _peer(store: str, door: str, in_flight: int) -> Measure:
    return lambda settings: rate(servers.peer(store), door, in_flight, settings)


def _bare(in_flight: int) -> Measure:
    return lambda settings: rate(servers.bare(), "grpc", in_flight, settings)


_scenario = partial(Scenario, unit="calls/s")

SCENARIOS = [
    _scenario(
        "grpc-sqlite",
        "gRPC SendMessage, 32 in flight, sqlite",
        target=at_least(4.5),
        ours=_ours("sqlite", "grpc", 32),
        against="SDK, memory",
        peer=_peer("memory", "grpc", 32),
    ),
    _scenario(
        "grpc-memory",
        "gRPC SendMessage, 32 in flight, memory",
        target=at_least(6),
        ours=_ours("memory", "grpc", 32),
        against="SDK, memory",
        peer=_peer("memory", "grpc", 32),
    ),
    _scenario(
        "grpc-memory-bare",
        "gRPC SendMessage, 32 in flight, memory",
        target=at_least(0.45),
        ours=_ours("memory", "grpc", 32),
        against="bare grpc.aio",
        peer=_bare(32),
    ),
    _scenario(
        "http-memory-16",
        "JSON-RPC SendMessage, 16 connections, memory",
        target=at_least(9),
        ours=_ours("memory", "http", 16),
        against="SDK, memory",
        peer=_peer("memory", "http", 16),
    ),
    _scenario(
        "http-sqlite-16",
        "JSON-RPC SendMessage, 16 connections, sqlite",
        target=at_least(6.5),
        ours=_ours("sqlite", "http", 16),
        against="SDK, memory",
        peer=_peer("memory", "http", 16),
    ),
    _scenario(
        "http-sqlite-64",
        "JSON-RPC SendMessage, 64 connections, sqlite",
        target=at_least(7.5),
        ours=_ours("sqlite", "http", 64),
        against="SDK, memory",
        peer=_peer("memory", "http", 64),
    ),
    _scenario(
        "http-sqlite-sqlite",
        "JSON-RPC SendMessage, 16 connections, sqlite",
        target=at_least(25),
        ours=_ours("sqlite", "http", 16),
        against="SDK, its SQLite",
        peer=_peer("sqlite", "http", 16),
    ),
]
