"""What a gateway needs is taken: one clear line, an exit code, and recovery once it is free (GR12,
US01)."""

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import run
from tests.faults.callers import Caller
from tests.faults.test_kills import back
from tests.faults.victim import AGENT, Victim, doors, eventually, victim
from tests.processes import ROOT, write_config

ADDRESS_TAKEN = 4
STATE_TAKEN = 5


def refusal(argv: list[str]) -> tuple[int, str]:
    """Exit code and output of a gateway that cannot start."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(
        argv, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=30
    )
    own = [line for line in ended.stderr.splitlines() if line.startswith("a2a-gateway: ")]
    assert len(own) == 1, ended.stderr
    assert "Traceback" not in ended.stderr
    return ended.returncode, own[0]


@contextmanager
def holder(port: int) -> Iterator[None]:
    """Somebody else listens there, as soon as nobody does."""
    end = time.monotonic() + 2.0
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        while True:
            try:
                sock.bind(("127.0.0.1", port))
                break
            except OSError:
                assert time.monotonic() < end
        sock.listen()
        yield


def _port(places: dict[str, Any], door: str) -> int:
    return int(places[door]["address"].rpartition(":")[2])


@pytest.mark.parametrize("door", ["grpc", "http"])
def test_a_port_that_is_taken(tmp_path: Path, door: str) -> None:
    """The address and what to do stand in the line; nothing stays behind."""
    places = doors()
    argv = write_config(AGENT, tmp_path, {"transports": places})
    with holder(_port(places, door)):
        code, text = refusal(argv)
    assert code == ADDRESS_TAKEN
    assert text == (
        f"a2a-gateway: cannot open {door} on {places[door]['address']}: the address is in use; "
        "stop what listens there, or give another"
    )


def test_a_state_directory_that_is_in_use(tmp_path: Path) -> None:
    """A second `serve` names the address of the first, which does not notice."""
    with victim(tmp_path) as gateway:
        argv = write_config(AGENT, tmp_path / "other", {"state_dir": str(tmp_path / "state")})
        code, text = refusal(argv)
        assert code == STATE_TAKEN
        assert f"process {gateway.pid('core')}, which listens on grpc" in text
        assert gateway.addresses.grpc in text
        assert gateway.addresses.http in text
        run(back(gateway))


def test_two_cores_on_one_port(tmp_path: Path) -> None:
    """GR12: the second does not start, and every call reaches the store of the first."""

    async def all_found(gateway: Victim) -> None:
        async with Caller(gateway.addresses, "grpc") as caller:
            task_id = (await caller.send("echo x")).task.id
        for _ in range(50):
            async with Caller(gateway.addresses, "grpc") as caller:
                assert (await caller.get(task_id)).id == task_id

    with victim(tmp_path / "one") as gateway:
        places = {"grpc": {"address": gateway.addresses.grpc}}
        argv = write_config(AGENT, tmp_path / "two", {"transports": places})
        argv[argv.index("serve")] = "core"
        code, text = refusal(argv)
        assert code == ADDRESS_TAKEN
        assert gateway.addresses.grpc in text
        run(all_found(gateway))


def test_a_port_that_is_taken_while_its_process_is_away(tmp_path: Path) -> None:
    """The supervisor goes on trying; the service is back once the port is free."""

    async def snatch(gateway: Victim) -> None:
        port = int(gateway.addresses.http.rpartition(":")[2])
        gateway.kill("adapter-http")
        with holder(port):
            await eventually(lambda: "the address is in use" in gateway.server.text(), 20.0)
            async with Caller(gateway.addresses, "grpc") as caller:
                assert (await caller.send("echo x")).HasField("task")
        await back(gateway)

    with victim(tmp_path) as gateway:
        run(snatch(gateway))


def test_sockets_of_the_dead_and_of_others(tmp_path: Path) -> None:
    """US01: Unix sockets that nobody answers are replaced; live ones, and other files, are not."""
    grpc, http = tmp_path / "grpc.sock", tmp_path / "http.sock"
    config = {
        "transports": {"grpc": {"address": f"unix:{grpc}"}, "http": {"address": f"unix:{http}"}}
    }
    for path in (grpc, http):
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(path))
        assert path.exists()
    argv = write_config(AGENT, tmp_path / "other", config)
    with victim(tmp_path, config) as gateway:
        for path in (grpc, http):
            with socket.socket(socket.AF_UNIX) as live:
                live.connect(str(path))
        code, text = refusal(argv)
        assert code == ADDRESS_TAKEN
        assert str(grpc) in text
        for path in (grpc, http):
            with socket.socket(socket.AF_UNIX) as live:
                live.connect(str(path))
        # both processes die, leave their sockets, and take them over again
        first = gateway.pids()
        for name in ("core", "adapter-http"):
            assert gateway.kill(name)
        run(_replaced(gateway, first, [grpc, http]))

    for path in (http, grpc):
        path.unlink(missing_ok=True)
        path.write_text("precious")
        code, text = refusal(argv)
        assert code == ADDRESS_TAKEN
        assert "no socket" in text
        assert path.read_text() == "precious"


async def _replaced(gateway: Victim, first: dict[str, int], paths: list[Path]) -> None:
    def is_new() -> bool:
        pids = gateway.pids()
        return len(pids) == len(first) and not set(pids.values()) & set(first.values())

    def is_answered(path: Path) -> bool:
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex(str(path)) == 0

    await eventually(is_new, 20.0)
    await eventually(lambda: all(map(is_answered, paths)), 20.0)
    async with Caller(gateway.addresses, "grpc") as caller:
        await caller.list()
