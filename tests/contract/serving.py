"""Starts the gateways of the suite."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.contract.doors import Places
from tests.processes import gateway

AGENT = "tests.doubles.agents:agent"
SECRET = "the link's secret in these tests"

OPTIONAL = "urn:example:optional/v1"
OTHER = "urn:example:other/v1"


@contextmanager
def serving(folder: Path, config: Mapping[str, Any] | None = None) -> Iterator[Places]:
    """A gateway with the agent of the cases; its link is open to the tests as well."""
    link = f"unix:{folder}/link/core.sock"
    own = {"link": {"address": link, "secret": SECRET}}
    with gateway(AGENT, folder, {**own, **(config or {})}) as server:
        at = server.addresses
        yield Places(at.http, at.grpc, link, SECRET, at.metrics, f"{folder}/state")
