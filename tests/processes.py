"""Starts the product's processes for tests: real processes, port 0, a state directory of their own.

Shared by the suites that need whole processes (interop, kits, faults). Readiness is read from
what the process prints, never slept for. Whoever starts a process here ends it here.
"""

import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
START_SECONDS = 30.0
STOP_SECONDS = 20.0


class Addresses(NamedTuple):
    """Where a server under test listens."""

    http: str
    """Base URL, without a slash at its end."""
    grpc: str
    """`host:port`."""


@dataclass
class Server:
    """A running process that printed that it is ready."""

    process: subprocess.Popen[str]
    addresses: Addresses
    output: deque[str]
    """The last lines of stdout and stderr, for the message of a failed test."""
    reader: threading.Thread
    """Fills `output`; ends with the last process that holds the pipe."""

    def stop(self) -> int:
        """End it in order by SIGTERM; its exit code."""
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


Ready = Callable[[Sequence[str]], Addresses | None]
"""Looks at the lines printed so far; addresses once the process is ready."""


def start(argv: Sequence[str], ready: Ready, env: Mapping[str, str] | None = None) -> Server:
    """Start a process and wait until it says that it is ready."""
    process = subprocess.Popen(
        argv,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", **(env or {})},
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
                output.append(line.rstrip())
                if not found and (addresses := ready(list(output))) is not None:
                    found.append(addresses)
                    settled.set()
        settled.set()

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    settled.wait(START_SECONDS)
    if not found:
        process.kill()
        process.wait()
        reader.join()
        raise AssertionError("did not become ready:\n" + "\n".join(output))
    return Server(process, found[0], output, reader)


@contextmanager
def running(
    argv: Sequence[str], ready: Ready, env: Mapping[str, str] | None = None
) -> Iterator[Server]:
    """A started process that is stopped at the end, in order and with exit code 0."""
    server = start(argv, ready, env)
    try:
        yield server
    finally:
        code = server.stop()
    assert code == 0, f"exit code {code}:\n{server.text()}"


def python(module: str, *arguments: str) -> list[str]:
    """The command line of a module under this interpreter."""
    return [sys.executable, "-m", module, *arguments]
