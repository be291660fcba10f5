"""Which processes there are, and what each is told."""

import json
from typing import Any

import pytest

from gateway.config import load, to_wire
from gateway.supervisor import Supervisor, children_for, metrics_addresses


def config(**environment: str) -> dict[str, Any]:
    """As the supervisor gets it."""
    variables = {f"A2A_GATEWAY_{name}": value for name, value in environment.items()}
    wire: dict[str, Any] = json.loads(to_wire(load(environment=variables)))
    return wire


def with_two_doors(**environment: str) -> dict[str, Any]:
    """As if there were one more door."""
    found = config(**environment)
    found["transports"]["others"]["pigeon"] = {"address": ["127.0.0.1:0"]}
    return found


def test_a_process_for_each_door(tmp_path: Any) -> None:
    """The core opens its own door, and each of the others is told of its own door alone."""
    given = with_two_doors(STATE_DIR=str(tmp_path))
    core, adapters = children_for(given)
    assert core.arguments == ["gateway.core"]
    assert [child.name for child in adapters] == ["adapter-http", "adapter-pigeon"]
    assert adapters[1].arguments == ["transports.process", "pigeon"]
    told = Supervisor(given, core, adapters, lambda reports, config: None)._config_of(adapters[1])
    assert list(told["transports"]["others"]) == ["pigeon"]
    assert list(given["transports"]["others"]) == ["http", "pigeon"]


def test_all_doors_together(tmp_path: Any) -> None:
    """adapters: together."""
    _, adapters = children_for(with_two_doors(ADAPTERS="together", STATE_DIR=str(tmp_path)))
    assert [(child.name, child.doors) for child in adapters] == [("adapter", ["http", "pigeon"])]


def test_no_other_door(tmp_path: Any) -> None:
    """grpc alone: no adapter."""
    assert children_for(config(TRANSPORTS="[grpc]", STATE_DIR=str(tmp_path)))[1] == []


@pytest.mark.parametrize(
    ("first", "addresses"),
    [
        (None, [None, None]),
        ("127.0.0.1:0", ["127.0.0.1:0", "127.0.0.1:0"]),
        ("[::1]:9102", ["[::1]:9102", "[::1]:9103"]),
    ],
)
def test_metrics_of_several_adapters(first: str | None, addresses: list[str | None]) -> None:
    """One port for each process: a free one, or the next one."""
    assert metrics_addresses(first, 2) == addresses
