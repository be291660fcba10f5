"""One child process of the gateway, as whoever keeps it sees it: started by exec, with a socket for
its configuration, its readiness and its orders (`gateway.process.Channel` is the other end).

The standard library alone: the supervisor is made of it, and `gateway.own_core`.
"""

import contextlib
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Sequence
from typing import Any

from gateway.family import CHANNEL_VARIABLE
from gateway.lock import LOCK_VARIABLE

READY_LIMIT = 60.0
FIRST_PAUSE = 0.1
LONGEST_PAUSE = 5.0
LONGEST_PAUSE_IF_READY = 1.0
"""For a process that did start: somebody waits for it."""
STEADY_AFTER = 30.0
"""Seconds of life after which earlier deaths no longer count."""
MOST_FAILED_STARTS = 10
KILL_AFTER = 1.5
"""Seconds that a child may take beyond its grace."""

Config = dict[str, Any]


class Child:
    """One process, over all its restarts."""

    def __init__(
        self,
        name: str,
        arguments: list[str],
        lock: int | None = None,
        *,
        doors: Sequence[str] = (),
    ):
        self.name = name
        self.arguments = arguments
        self.doors = doors
        """Of an adapter: those that it opens."""
        self.metrics: str | None = None
        """Where an adapter has its metrics."""
        self.lock = lock
        """The state directory's lock file, lent to a core at each start."""
        self.pid = 0
        self.channel: socket.socket | None = None
        self.buffer = b""
        self.report: dict[str, Any] | None = None
        self.error = ""
        self.code = 0
        self.deaths = 0
        self.failed_starts = 0
        self.started_at = 0.0
        self.restart_at: float | None = None
        self.kill_at: float | None = None
        self.is_configured = False

    def start(self) -> None:
        """Start the process, which loads its code and then waits for its configuration."""
        ours, theirs = socket.socketpair()
        theirs.set_inheritable(True)
        environment = {**environment_for_children(), CHANNEL_VARIABLE: str(theirs.fileno())}
        self.report, self.error, self.buffer = None, "", b""
        self.restart_at = self.kill_at = None
        self.started_at = time.monotonic()
        if self.lock is not None:
            environment[LOCK_VARIABLE] = str(self.lock)
            os.set_inheritable(self.lock, True)
        self.pid = os.posix_spawn(
            sys.executable,
            command(*self.arguments),
            environment,
            # a terminal's Ctrl-C is for the supervisor, which then stops the others in order
            setpgroup=0,
            setsigmask=[],
            setsigdef=[signal.SIGINT, signal.SIGTERM, signal.SIGPIPE],
            file_actions=[(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)],
        )
        theirs.close()
        if self.lock is not None:
            os.set_inheritable(self.lock, False)
        ours.setblocking(False)
        self.channel = ours
        self.is_configured = False

    def died(self) -> float | None:
        """Note a death; the seconds until it is to be started again, None: it has failed to start
        too often."""
        is_steady = time.monotonic() - self.started_at > STEADY_AFTER
        self.deaths = 1 if is_steady else self.deaths + 1
        self.failed_starts = 0 if self.report is not None else self.failed_starts + 1
        if self.failed_starts > MOST_FAILED_STARTS:
            return None
        # the first death may be chance; what dies again and again is given time, more of it where
        # it fails to start again and again: for one that did start, somebody waits
        return max(
            min(_doubled(self.deaths), LONGEST_PAUSE_IF_READY),
            min(_doubled(self.failed_starts), LONGEST_PAUSE),
        )

    def configure(self, config: Config) -> None:
        """Hand the configuration over, whereupon the process opens what it has to."""
        if self.channel and not self.is_configured:
            self.is_configured = True
            self.channel.settimeout(READY_LIMIT)
            self.tell(config)
            self.channel.setblocking(False)

    def order(self, message: dict[str, Any]) -> None:
        """Tell a child that runs; one that still waits for its configuration just ends."""
        if self.is_configured:
            self.tell(message)
        elif self.channel:
            with contextlib.suppress(OSError):
                self.channel.shutdown(socket.SHUT_WR)

    def tell(self, message: dict[str, Any]) -> None:
        """Send one message."""
        if self.channel:
            with contextlib.suppress(OSError):  # it is dead, which SIGCHLD tells
                self.channel.sendall(json.dumps(message).encode() + b"\n")

    def read(self) -> bool:
        """Take all that the child has reported; False at the end."""
        assert self.channel
        is_open = True
        while is_open:
            try:
                data = self.channel.recv(65536)
            except BlockingIOError:
                break
            except OSError:
                data = b""
            is_open = bool(data)
            self.buffer += data
        *lines, self.buffer = self.buffer.split(b"\n")
        for line in lines:
            message = json.loads(line)
            if "ready" in message:
                self.report = message["ready"]
            elif "error" in message:
                self.error, self.code = message["error"], message["code"]
        return is_open


def _doubled(deaths: int) -> float:
    # a month of deaths has no power of two
    return FIRST_PAUSE * 2.0 ** (min(deaths, 30) - 1)


def command(module: str, *arguments: str) -> list[str]:
    """The command line that runs one of our modules under this interpreter."""
    # -P: a file of the user's current directory must not stand in for one of our modules; the
    # loader of agents looks there by itself
    return [sys.executable, "-P", "-m", module, *arguments]


def environment_for_children() -> dict[str, str]:
    """Ours, such that a gateway that runs from a source tree is found there."""
    environment = dict(os.environ)
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    known = [folder for folder in environment.get("PYTHONPATH", "").split(os.pathsep) if folder]
    if os.path.basename(root) not in ("site-packages", "dist-packages") and root not in known:
        environment["PYTHONPATH"] = os.pathsep.join([*known, root])
    return environment
