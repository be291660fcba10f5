"""A gateway whose processes a test kills, freezes and looks into (Linux: /proc)."""

import asyncio
import os
import re
import signal
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from gateway.family import adapter_name
from tests.processes import Addresses, Server, free_ports, is_alive, start, write_config

AGENT = "tests.doubles.agents:agent"
MODULES = {"core": "gateway.core", "agent": "gateway.agents.process.child"}
ADAPTER = "transports.process"
MARK = "FAULTS_MARK"
"""A variable by which every process of a gateway is found."""
END_SECONDS = 20.0


class Victim:
    """A running gateway: the supervisor, its children, and the agent's process if it has one."""

    def __init__(
        self,
        server: Server,
        argv: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.server = server
        self._argv = argv
        self.environment = environment or {}
        """What it has beside that of the tests."""
        self._seen: set[int] = set()
        self.pids()

    @property
    def supervisor(self) -> int:
        """Its process."""
        return self.server.process.pid

    async def revive(self, seconds: float) -> None:
        """Start it again after its supervisor was killed, as its user would: until it starts."""
        await asyncio.to_thread(self.server.process.wait)
        end = time.monotonic() + seconds
        while True:
            try:
                self.server = await asyncio.to_thread(start, self._argv, self.environment)
                return
            except AssertionError:
                assert time.monotonic() < end, "it cannot be started again"

    @property
    def addresses(self) -> Addresses:
        """Where it listens; the same after each restart."""
        return self.server.addresses

    def pids(self) -> dict[str, int]:
        """The children that live now, by the names that the supervisor gives them."""
        children = _children(self.supervisor)
        children += [grandchild for child in children for grandchild in _children(child)]
        found = {name: pid for pid in children if (name := _name(pid))}
        self._seen.update(found.values())
        return found

    def marked(self) -> dict[int, str]:
        """Every process that has the mark of this gateway, whoever started it, and its command."""
        mark = f"{MARK}={self.environment[MARK]}".encode()
        found = {}
        for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
            with suppress(OSError):
                if mark in Path(f"/proc/{pid}/environ").read_bytes() and is_alive(pid):
                    found[pid] = _command(pid).replace("\0", " ")
        return found

    def pid(self, name: str) -> int:
        """The process of a child. Fails where there is none just now."""
        return self.pids()[name]

    def signal(self, name: str, number: signal.Signals) -> bool:
        """Send a child, or the `supervisor`, a signal; False where there is none just now."""
        pid = self.supervisor if name == "supervisor" else self.pids().get(name)
        if pid is None:
            return False
        with suppress(ProcessLookupError):
            os.kill(pid, number)
            return True
        return False

    def kill(self, name: str) -> bool:
        """kill -9 of a child."""
        return self.signal(name, signal.SIGKILL)

    def terminate(self) -> float:
        """SIGTERM to the supervisor; the moment (monotonic)."""
        self.server.process.send_signal(signal.SIGTERM)
        return time.monotonic()

    def left(self) -> list[int]:
        """Children, of all restarts, that still live."""
        return [pid for pid in self._seen if is_alive(pid)]

    async def gone(self, seconds: float) -> None:
        """Wait until no child is left."""
        await eventually(lambda: not self.left(), seconds, lambda: f"left behind: {self.left()}")

    async def exit_code(self, seconds: float) -> int:
        """Wait for the end of the supervisor."""
        return await asyncio.to_thread(self.server.process.wait, seconds)

    async def figures(self, process: str) -> dict[str, float]:
        """The metrics of one process: `name{labels}` to value."""
        text = await asyncio.to_thread(_get, self.addresses.metrics[process])
        lines = (line for line in text.splitlines() if line and not line.startswith("#"))
        return {name: float(value) for name, _, value in (x.rpartition(" ") for x in lines)}

    def open_files(self, name: str) -> int:
        """Open descriptors of a child."""
        return len(os.listdir(f"/proc/{self.pid(name)}/fd"))

    def memory(self, name: str) -> int:
        """Resident bytes of a child, without what other processes map, too."""
        text = Path(f"/proc/{self.pid(name)}/smaps_rollup").read_text()
        sizes = re.findall(r"^Private_\w+:\s+(\d+) kB", text, re.MULTILINE)
        return 1024 * sum(map(int, sizes))

    def end(self) -> None:
        """End whatever still runs of it."""
        self.pids()
        for pid in self._seen:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        if self.server.process.poll() is None:
            self.server.process.kill()
        self.server.process.wait()
        for pid in self.left():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.server.reader.join(END_SECONDS)


def launch(
    folder: Path,
    config: Mapping[str, Any] | None = None,
    *,
    agent: str = AGENT,
    environment: Mapping[str, str] | None = None,
) -> Victim:
    """Start a gateway on fixed ports that nothing takes while its processes are away."""
    argv = write_config(agent, folder, {"transports": doors(), **(config or {})})
    environment = {MARK: str(uuid4()), **(environment or {})}
    return Victim(start(argv, environment), argv, environment)


@contextmanager
def victim(
    folder: Path,
    config: Mapping[str, Any] | None = None,
    *,
    agent: str = AGENT,
    environment: Mapping[str, str] | None = None,
) -> Iterator[Victim]:
    """A gateway that is ended at the end, however it stands then."""
    found = launch(folder, config, agent=agent, environment=environment)
    try:
        yield found
    finally:
        found.end()


@contextmanager
def relaunch(folder: Path) -> Iterator[Victim]:
    """Start the gateway of this folder once more, as it was configured."""
    found = Victim(start(command(folder)))
    try:
        yield found
    finally:
        found.end()


def command(folder: Path) -> list[str]:
    """The command line of the gateway of this folder."""
    config = str(folder / "gateway.json")
    return [sys.executable, "-m", "gateway.cli", "serve", "--config", config]


def doors() -> dict[str, Any]:
    """Both doors, on two free ports."""
    grpc, http = free_ports(2)
    return {
        "grpc": {"address": f"127.0.0.1:{grpc}"},
        "http": {"address": f"127.0.0.1:{http}"},
    }


async def eventually(condition: Any, seconds: float, words: Any = lambda: "") -> None:
    """Wait for what other processes do: they give no event to wait on."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s {words()}")
        await asyncio.sleep(0.02)


def _children(pid: int) -> list[int]:
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [int(word) for word in text.split()]


def _name(pid: int) -> str:
    """What the supervisor calls a process; empty where it is none of ours."""
    words = _command(pid).split("\0")
    if ADAPTER in words:
        return adapter_name([word for word in words[words.index(ADAPTER) + 1 :] if word])
    return next((name for name, module in MODULES.items() if module in words), "")


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as response:
        text: str = response.read().decode()
        return text
