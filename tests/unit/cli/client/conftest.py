"""The gateway that the client commands talk to."""

import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.processes import Server, gateway
from tests.unit.cli.client.running import Done, invoke

AGENT = "tests.doubles.agents:agent"


class Place(NamedTuple):
    """A running gateway and its own files."""

    server: Server
    folder: Path

    @property
    def http(self) -> str:
        return self.server.addresses.http

    @property
    def grpc(self) -> str:
        return self.server.addresses.grpc

    def url(self, wire: str) -> str:
        """The URL of one wire."""
        host = self.http.partition("://")[2]
        state = shlex.quote(str(self.folder / "state"))
        python = shlex.quote(sys.executable)
        return {
            "card": self.http,
            "jsonrpc": f"http+jsonrpc://{host}",
            "rest": f"http+rest://{host}",
            "grpc": f"grpc://{self.grpc}",
            "stdio": f"stdio:{python} -m gateway.cli stdio --state-dir {state} --log-level error",
        }[wire]


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """The agent of the cases, behind all doors."""
    folder = tmp_path_factory.mktemp("client")
    with gateway(AGENT, folder) as server:
        yield Place(server, folder)


@pytest.fixture
def command(tmp_path: Path) -> Callable[..., Done]:
    """Runs a client command with homes of this test's own."""

    def run(*arguments: str, text: bytes | None = None, **environment: str) -> Done:
        return invoke(*arguments, folder=tmp_path, text=text, **environment)

    return run
