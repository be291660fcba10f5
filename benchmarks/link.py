"""The link against one gRPC call for each A2A call: the same core, the same adapter, which differ
in nothing but how the adapter's calls reach the core."""

from benchmarks import servers
from benchmarks.scenario import Scenario, at_least
from benchmarks.unary import rate

SCENARIOS = [
    Scenario(
        "link",
        "JSON-RPC SendMessage, 16 connections, memory, over the link",
        "calls/s",
        at_least(2),
        lambda settings: rate(servers.parts("gateway.cli"), "http", 16, settings),
        "one gRPC call each",
        lambda settings: rate(servers.parts("benchmarks.percall"), "http", 16, settings),
    )
]
