"""The link against one gRPC call each."""

from benchmarks.scenario import Scenario

SCENARIOS: list[Scenario] = []
