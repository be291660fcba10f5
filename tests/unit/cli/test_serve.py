"""`serve` as a whole: what a user sees of it, and what it costs."""

import json
import re
import shlex
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.processes import ROOT, Server, gateway

TOKEN = "token-that-nobody-may-see"
ACCESS = {"access": {"tokens": [{"caller": "alice", "token": TOKEN}]}, "logs": {"format": "json"}}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The demo agent behind both doors, as `make run` serves it."""
    with gateway("gateway.agents.demo:agent", tmp_path_factory.mktemp("serve")) as server:
        yield server


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The same with credentials, and logs for machines."""
    with gateway("demo", tmp_path_factory.mktemp("guarded"), ACCESS) as server:
        yield server


def family(server: Server) -> list[psutil.Process]:
    """The supervisor and its children."""
    supervisor = psutil.Process(server.process.pid)
    return [supervisor, *supervisor.children()]


def test_the_line_to_try_http_streams(served: Server) -> None:
    """S66, S83: the printed command works as it stands, and its answer is a stream that ends."""
    (line,) = re.findall(r"try: (curl .*)", served.text())
    answer = subprocess.run(shlex.split(line), capture_output=True, text=True, check=True).stdout
    events = [
        json.loads(data.removeprefix("data: "))
        for data in answer.splitlines()
        if data.startswith("data: ")
    ]
    assert next(iter(events[0])) == "task"
    assert events[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert len(events) > 10


def test_the_line_to_try_grpc_streams(served: Server) -> None:
    """S66: our own client is there where the gateway is."""
    (line,) = re.findall(r"try: a2a-gateway (.*)", served.text())
    argv = [sys.executable, "-m", "gateway.cli", *shlex.split(line), "--json"]
    answer = subprocess.run(argv, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    assert "TASK_STATE_COMPLETED" in answer.splitlines()[-1]
    assert len(answer.splitlines()) > 10


def test_metrics_of_both_processes(served: Server) -> None:
    """Each prints its address, and answers there."""
    found = re.findall(r"(core|adapter-http) (http://127\.0\.0\.1:\d+/metrics)", served.text())
    assert [name for name, _ in found] == ["core", "adapter-http"]
    for _, url in found:
        with urllib.request.urlopen(url, timeout=10) as answer:
            assert b"process_resident_memory_bytes" in answer.read()


def test_the_supervisor_is_small(served: Server) -> None:
    """It waits for months; 25 MB at most."""
    supervisor, *children = family(served)
    assert "gateway.supervisor" in supervisor.cmdline()
    assert len(children) == 2
    assert supervisor.memory_info().rss < 25 * 2**20


def test_secrets_are_in_no_process_list(guarded: Server) -> None:
    """R30: configured secrets pass by descriptors, not by arguments or variables."""
    for process in family(guarded):
        assert TOKEN not in " ".join(process.cmdline())
        assert TOKEN not in json.dumps(process.environ())
    assert TOKEN not in guarded.text()
    assert "Authorization: Bearer TOKEN" in guarded.text()


def test_logs_for_machines(guarded: Server) -> None:
    """logs.format: json, one object a line."""
    entries = [json.loads(line) for line in guarded.text().splitlines() if line.startswith("{")]
    assert {entry["process"] for entry in entries} == {"core", "adapter-http"}


def test_state_directory_is_private(tmp_path: Path) -> None:
    """R30: nobody else can read what callers said."""
    with gateway("demo", tmp_path):
        for path in (tmp_path / "state", tmp_path / "state" / "link"):
            assert path.stat().st_mode & 0o777 == 0o700
        assert (tmp_path / "state" / "tasks.db").stat().st_mode & 0o077 == 0
