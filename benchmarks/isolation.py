"""What an agent in a process of its own costs, against the same agent in the core's loop."""

from benchmarks import servers
from benchmarks.scenario import Scenario, at_least
from benchmarks.unary import rate

SCENARIOS = [
    Scenario(
        "process-isolation",
        "JSON-RPC SendMessage, 16 connections, sqlite, isolation: process",
        "calls/s",
        at_least(0.6),
        lambda settings: rate(servers.ours("sqlite", "process"), "http", 16, settings),
        "ours, in the loop",
        lambda settings: rate(servers.ours("sqlite"), "http", 16, settings),
    )
]
