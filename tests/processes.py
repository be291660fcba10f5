"""Starts the product as its users do: real processes, port 0, a state directory of its own.

Shared by the suites that need whole processes (interop, kits, faults). Readiness is read from
what `serve` prints, never slept for. Whoever starts a process here ends it here.
"""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
START_SECONDS = 30.0
STOP_SECONDS = 20.0
READY = "a2a-gateway is ready"
_LOWEST_PORT = 15_000


class Addresses(NamedTuple):
    """Where a gateway listens; empty where it has no such door."""

    http: str
    """Base URL without a path: `http://host:port`."""
    grpc: str
    """`host:port`, or `unix:path`."""
    metrics: Mapping[str, str]
    """URL of the metrics of each process (`core`, `adapter-http`)."""


@dataclass
class Server:
    """A running gateway."""

    process: subprocess.Popen[str]
    """The supervisor; the core and the adapters are its children."""
    addresses: Addresses
    output: deque[str]
    """The last lines of stdout and stderr, for the message of a failed test."""
    reader: threading.Thread
    """Fills `output`; ends with the last process that holds the pipe."""

    def stop(self) -> int:
        """End it in order by SIGTERM; its exit code. Fails where it left a process behind."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"did not stop on SIGTERM:\n{self.text()}") from None
        self.reader.join(STOP_SECONDS)
        assert not self.reader.is_alive(), f"left processes behind:\n{self.text()}"
        return code

    def text(self) -> str:
        """What it printed last."""
        return "\n".join(self.output)


def write_config(agent: str, folder: Path, config: Mapping[str, Any]) -> list[str]:
    """The command line that serves `agent` from `folder`: its configuration and its state.

    `config` is merged over doors on free ports of loopback; it has the shape of the file.
    """
    folder.mkdir(parents=True, exist_ok=True)
    doors = {"grpc": {"address": "127.0.0.1:0"}, "http": {"address": "127.0.0.1:0"}}
    defaults = {
        "agent": {"spec": agent},
        "state_dir": str(folder / "state"),
        "transports": doors,
    }
    path = folder / "gateway.json"
    path.write_text(json.dumps(_merge(defaults, config)))
    return [sys.executable, "-m", "gateway.cli", "serve", "--config", str(path)]


def start(argv: Sequence[str], environment: Mapping[str, str] | None = None) -> Server:
    """Start a gateway and wait until it says that it is ready."""
    process = subprocess.Popen(
        argv,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    output: deque[str] = deque(maxlen=400)
    found: list[Addresses] = []
    settled = threading.Event()

    def read() -> None:
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                output.append(line.rstrip("\n"))
                if not found and (addresses := _announced(output)) is not None:
                    found.append(addresses)
                    settled.set()
        settled.set()

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    settled.wait(START_SECONDS)
    if not found:
        process.kill()
        process.wait()
        reader.join(STOP_SECONDS)
        raise AssertionError("did not become ready:\n" + "\n".join(output))
    return Server(process, found[0], output, reader)


@contextmanager
def gateway(
    agent: str,
    folder: Path,
    config: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Iterator[Server]:
    """A gateway that is stopped at the end, in order and with exit code 0."""
    server = start(write_config(agent, folder, config or {}), environment)
    try:
        yield server
    finally:
        code = server.stop()
    assert code == 0, f"exit code {code}:\n{server.text()}"


def core_of(pid: int) -> int | None:
    """The core among a process's children, if there is one (Linux: /proc)."""
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        with suppress(FileNotFoundError, ProcessLookupError):
            if b"gateway.core" in Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0"):
                return int(child)
    return None


def is_alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not (Linux: /proc)."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def free_ports(count: int) -> list[int]:
    """Ports below those that the system gives to clients. A client that knocks at a port of
    that range while nobody listens may be given it as its own, and would then hold it."""
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    found: list[int] = []
    while len(found) < count:
        port = random.randrange(_LOWEST_PORT, max(lowest, _LOWEST_PORT + 1000))
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            found.append(port)
    return found


def _announced(output: Sequence[str]) -> Addresses | None:
    """The addresses of the announcement, which ends with the second empty line after its start."""
    lines = list(output)
    begin = next((n for n, line in enumerate(lines) if line.startswith(READY)), None)
    if begin is None or lines[begin:].count("") < 2:
        return None
    words = [line.split() for line in lines[begin:] if line.startswith("  ")]
    # of a door with several addresses the first
    shown = {first: rest for first, *rest in reversed(words)}
    http = shown["http"][0] if "http" in shown else ""
    pairs = iter(shown.get("metrics", []))
    return Addresses(
        http="/".join(http.split("/")[:3]),
        grpc=shown["grpc"][0] if "grpc" in shown else "",
        metrics={process: url.rstrip(",") for process, url in zip(pairs, pairs, strict=True)},
    )


def _merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        below = merged.get(key)
        if isinstance(value, Mapping) and isinstance(below, Mapping):
            merged[key] = _merge(below, value)
        else:
            merged[key] = value
    return merged
