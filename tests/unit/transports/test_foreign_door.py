"""Doors of other packages: configured, opened and shown like ours."""

import json
import os
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.pigeon import install
from tests.processes import ROOT, Server, gateway, write_config

AGENT = "tests.doubles.agents:agent"


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> str:
    """PYTHONPATH with a package that has doors."""
    return os.pathsep.join([str(install(tmp_path_factory.mktemp("package"))), str(ROOT)])


def fly(place: str, text: str) -> str:
    """Send a line, get a line."""
    host, _, port = place.removeprefix("tcp://").rpartition(":")
    with socket.create_connection((host, int(port)), timeout=10) as sock, sock.makefile("rw") as f:
        f.write(f"{text}\n")
        f.flush()
        return f.readline().strip()


def places(server: Server) -> dict[str, str]:
    """Where each door is, by the table."""
    words = [line.split() for line in server.output if line.startswith("  ")]
    return {line[0]: line[1] for line in words if len(line) > 1}


@pytest.mark.parametrize("adapters", ["apart", "together"])
def test_a_door_of_another_package(tmp_path: Path, package: str, adapters: str) -> None:
    """S36: beside ours, in a process of its own or in the same one; it stands in the card, and
    its line in the table."""
    doors = {
        "carrier-pigeon": {"wings": 4},
        "homing_pigeon": {"address": ["127.0.0.1:0"]},
    }
    config = {"transports": doors, "adapters": adapters}
    with gateway(AGENT, tmp_path, config, {"PYTHONPATH": package}) as server:
        found = places(server)
        assert fly(found["carrier-pigeon"], "echo x") == "TASK_STATE_COMPLETED 4"
        assert fly(found["homing_pigeon"], "ask") == "TASK_STATE_INPUT_REQUIRED 2"
        assert f"try: echo hello | nc {found['carrier-pigeon'][6:]}" in server.text()
        with urllib.request.urlopen(f"{server.addresses.http}/.well-known/agent-card.json") as page:
            card = json.load(page)
        assert found["carrier-pigeon"] in [entry["url"] for entry in card["supportedInterfaces"]]
        names = {"core", "adapter-http", "adapter-carrier-pigeon", "adapter-homing_pigeon"}
        expected = names if adapters == "apart" else {"core", "adapter"}
        assert set(server.addresses.metrics) == expected


@pytest.mark.parametrize(
    ("transports", "code", "words"),
    [
        (
            {"carrier-pigeon": {"wing": 4}},
            2,
            "transports.carrier-pigeon.wing: there is no such key; did you mean "
            "transports.carrier-pigeon.wings?",
        ),
        ({"carrier-pigeon": {"wings": 0}}, 2, "transports.carrier-pigeon.wings: 0 must be at"),
        ({"carrier-pidgin": {}}, 2, "did you mean carrier-pigeon? Installed are grpc, http, carr"),
        ({"carrier-pigeon": "0.0.0.0:0"}, 2, "0.0.0.0:0 can be reached from other machines"),
        ({"homing_pigeon": {"wings": 4}}, 2, "transports.homing_pigeon: a homing pigeon has no"),
        ({"homing_pigeon": 4}, 2, "transports.homing_pigeon: 4 is neither an address"),
        (
            {"lame-pigeon": {}},
            2,
            "transports.lame-pigeon: the door lame-pigeon needs the module no_such_wing, which "
            "cannot be imported; install it by: pip install pigeon-post",
        ),
    ],
)
def test_what_is_wrong_with_its_section(
    tmp_path: Path, package: str, transports: dict[str, Any], code: int, words: str
) -> None:
    """S39: by the same rules as for ours, or by the door itself; one line, no traceback."""
    argv = write_config(AGENT, tmp_path, {"transports": transports})
    ended = subprocess.run(
        [sys.executable, *argv[1:]],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": package},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert ended.returncode == code
    assert words in ended.stderr
    assert "Traceback" not in ended.stderr
    assert sum(line.startswith("a2a-gateway: ") for line in ended.stderr.splitlines()) == 1
