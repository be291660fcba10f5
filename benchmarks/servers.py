"""The servers under test as processes: ours (`a2a-gateway serve`, with its defaults) and the
peer, each on free ports and with a fresh directory; and what their memory is.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks.load import LoadError

ROOT = Path(__file__).resolve().parent.parent
AGENT = "benchmarks.agents:BenchExecutor"
START_SECONDS = 30.0
STOP_SECONDS = 20.0

watchers: "list[Callable[[Server], None]]" = []
"""Told of each server once it answers; the profiler is one."""


class ServerError(Exception):
    """A server did not start; the text holds its output."""


@dataclass(slots=True)
class Server:
    """A server that answers. Ports are on 127.0.0.1."""

    process: subprocess.Popen[bytes]
    directory: Path
    grpc: int
    http: int
    other: subprocess.Popen[bytes] | None = None
    """A second process that no first one has started."""

    def processes(self) -> list[psutil.Process]:
        """The processes that were started and everything below them."""
        started = [p for p in (self.process, self.other) if p]
        parents = [psutil.Process(p.pid) for p in started]
        return parents + [child for p in parents for child in p.children(recursive=True)]

    def pss_bytes(self) -> int:
        """Proportional set size of all: shared pages are counted once between them."""
        return sum(process.memory_full_info().pss for process in self.processes())

    def rss_bytes(self) -> int:
        """Resident set size of all."""
        return sum(process.memory_info().rss for process in self.processes())

    def output(self) -> str:
        """The end of what it printed."""
        return (self.directory / "output").read_text(errors="replace")[-4000:]


@contextmanager
def ours(store: str = "sqlite", isolation: str = "loop", agent: str = AGENT) -> Iterator[Server]:
    """The product with its defaults, store `sqlite` or `memory`."""
    grpc, http = _free_port(), _free_port()
    with fresh_directory() as directory:
        argv = _gateway("serve", directory, store, f"grpc=127.0.0.1:{grpc}", agent)
        argv += ["--transport", f"http=127.0.0.1:{http}"]
        process = _start(argv, directory, A2A_GATEWAY_AGENT__ISOLATION=isolation)
        server = Server(process, directory, grpc, http)
        with _ended(process):
            _wait(server, lambda: _is_healthy(http) and _accepts(grpc))
            _announce(server)
            yield server


@contextmanager
def parts(adapter: str) -> Iterator[Server]:
    """Core and HTTP adapter started apart, store memory; `adapter` is the adapter's module."""
    grpc, http = _free_port(), _free_port()
    with fresh_directory() as directory:
        core = _start(_gateway("core", directory, "memory", f"grpc=127.0.0.1:{grpc}"), directory)
        with _ended(core):
            _wait(Server(core, directory, grpc, http), lambda: _accepts(grpc))
            argv = [sys.executable, "-m", adapter, "adapter", f"http=127.0.0.1:{http}"]
            argv += ["--state-dir", str(directory / "state")]
            door = _start(argv, directory, A2A_BENCH_GRPC=f"127.0.0.1:{grpc}")
            server = Server(core, directory, grpc, http, door)
            with _ended(door):
                _wait(server, lambda: _is_healthy(http))
                _announce(server)
                yield server


def _gateway(
    command: str, directory: Path, store: str, transport: str, agent: str = AGENT
) -> list[str]:
    url = "memory:" if store == "memory" else f"sqlite:///{directory}/tasks.db"
    argv = [sys.executable, "-m", "gateway.cli", command, "--agent", agent, "--store", url]
    return [*argv, "--state-dir", str(directory / "state"), "--transport", transport]


@contextmanager
def peer(store: str = "memory") -> Iterator[Server]:
    """The SDK's server, store `memory` or `sqlite`."""
    with fresh_directory() as directory:
        arguments = ["--sqlite", str(directory / "tasks.db")] if store == "sqlite" else []
        with _peer(directory, arguments) as server:
            yield server


@contextmanager
def bare() -> Iterator[Server]:
    """A grpc.aio handler that returns a constant."""
    with fresh_directory() as directory, _peer(directory, ["--bare"]) as server:
        yield server


@contextmanager
def _peer(directory: Path, arguments: Sequence[str]) -> Iterator[Server]:
    process = _start([sys.executable, "-m", "benchmarks.peer", *arguments], directory)
    server = Server(process, directory, 0, 0)
    with _ended(process):
        _wait(server, lambda: "}" in server.output())
        line = next(line for line in server.output().splitlines() if line.startswith("{"))
        ports = json.loads(line)
        server.grpc, server.http = ports["grpc"], ports.get("http", 0)
        _announce(server)
        yield server


@contextmanager
def fresh_directory() -> Iterator[Path]:
    """On the disk of the checkout: a memory file system would make syncing free."""
    parent = ROOT / "benchmarks" / ".state"
    parent.mkdir(exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix="", dir=parent))
    try:
        yield directory
    except LoadError as error:
        output = directory / "output"
        said = output.read_text(errors="replace")[-2000:] if output.exists() else ""
        raise LoadError(f"{error}\nThe server's last words:\n{said}") from error
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _start(argv: Sequence[str], directory: Path, **environment: str) -> subprocess.Popen[bytes]:
    # Output goes to a file: a pipe would make the load generator read logs.
    with (directory / "output").open("ab") as output:
        return subprocess.Popen(
            argv,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )


@contextmanager
def _ended(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Ends the process."""
    try:
        yield
    finally:
        below = psutil.Process(process.pid).children(recursive=True) if _runs(process) else []
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for child in below:
            with suppress(psutil.NoSuchProcess):
                child.kill()


def _runs(process: subprocess.Popen[bytes]) -> bool:
    return process.poll() is None


def _wait(server: Server, is_ready: Callable[[], bool]) -> None:
    end = time.monotonic() + START_SECONDS
    while not is_ready():
        if not _runs(server.process) or time.monotonic() > end:
            raise ServerError(f"{server.process.args!r} did not start:\n{server.output()}")
        time.sleep(0.05)


def _announce(server: Server) -> None:
    for watcher in watchers:
        watcher(server)


def _accepts(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


def _is_healthy(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), 1) as tried:
            tried.sendall(b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            return tried.recv(64).startswith(b"HTTP/1.1 200")
    except OSError:
        return False


def _free_port() -> int:
    with socket.socket() as tried:
        tried.bind(("127.0.0.1", 0))
        port: int = tried.getsockname()[1]
        return port
