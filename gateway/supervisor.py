"""The supervisor: starts the core and the adapters, restarts what dies, stops them in order.

`a2a-gateway serve` reads the configuration and then becomes this program (exec), which takes the
configuration from an inherited descriptor. It uses the standard library alone, and of that no
asyncio: it lives as long as the gateway and should cost next to nothing. Its children
(`gateway.child`) drain by themselves when it is gone.
"""

import contextlib
import json
import os
import selectors
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from typing import IO, Any, NoReturn

from gateway.child import (
    KILL_AFTER,
    READY_LIMIT,
    Child,
    Config,
    command,
    environment_for_children,
)
from gateway.family import EXIT_DYING, EXIT_FAILED, ONE_SIGNAL, adapter_name
from gateway.lock import open_lock

Announce = Callable[[dict[str, dict[str, Any]], Config], None]
"""Told once, when all is open: what each process reported, and the configuration."""


class Supervisor:
    """Keeps the children running until it is told to stop."""

    def __init__(self, config: Config, core: Child, adapters: list[Child], announce: Announce):
        self._config = config
        self._announce = announce
        self._selector = selectors.DefaultSelector()
        self._core = core
        self._adapters = adapters
        self._is_announced = False
        self._stop_at: float | None = None
        self._signalled_at = 0.0
        self._is_hurried = False
        self._core_is_told = False
        self._exit_code = 0

    @property
    def _children(self) -> list[Child]:
        return [self._core, *self._adapters]

    def run(self) -> int:
        """Until the end; gives the exit code."""
        self._watch_signals()
        for child in self._children:
            self._start(child)
        while True:
            events = self._selector.select(self._until_next_timer())
            for key, _ in events:
                if isinstance(key.data, Child):
                    if key.data.channel is key.fileobj:  # not closed by an event before this one
                        self._read(key.data)
                else:
                    self._take_signals(key.fileobj)
            self._keep_time()
            if self._stop_at is not None and not any(c.pid for c in self._children):
                return self._exit_code

    # signals

    def _watch_signals(self) -> None:
        reading, writing = socket.socketpair()
        reading.setblocking(False)
        writing.setblocking(False)
        self._wakeup = writing  # closed with this object, no sooner
        signal.set_wakeup_fd(writing.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD, signal.SIGHUP):
            signal.signal(number, lambda number, frame: None)
        self._selector.register(reading, selectors.EVENT_READ, None)

    def _take_signals(self, reading: Any) -> None:
        numbers = reading.recv(4096)
        if any(n in numbers for n in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)):
            if self._stop_at is None:
                self._signalled_at = time.monotonic()
                self._stop()
            elif time.monotonic() - self._signalled_at > ONE_SIGNAL:
                self._hurry()
        if signal.SIGCHLD in numbers:
            self._reap()

    # children

    def _start(self, child: Child) -> None:
        child.start()
        assert child.channel
        self._selector.register(child.channel, selectors.EVENT_READ, child)
        self._configure()

    def _configure(self) -> None:
        """Adapters load beside the core, and open their doors once it is there."""
        self._core.configure(self._config)
        if self._core.report is not None:
            for child in self._adapters:
                child.configure(self._config_of(child))

    def _config_of(self, child: Child) -> Config:
        """An adapter opens its own doors alone."""
        transports = self._config["transports"]
        others = {name: transports["others"][name] for name in child.doors}
        return {
            **self._config,
            "transports": {**transports, "others": others},
            "metrics": {**self._config["metrics"], "adapter": child.metrics},
        }

    def _read(self, child: Child) -> None:
        was_ready = child.report is not None
        if not child.read():
            self._close(child)
        if child.report is not None and not was_ready:
            self._pin_addresses(child)
            self._configure()
            if not self._is_announced and all(c.report is not None for c in self._children):
                self._is_announced = True
                reports = {c.name: c.report for c in self._children if c.report is not None}
                self._announce(reports, self._config)

    def _pin_addresses(self, child: Child) -> None:
        """A process that is started again opens the ports that it had, also those it chose."""
        assert child.report is not None
        transports = self._config["transports"]
        for name, addresses in child.report.get("doors", {}).items():
            section = transports["others"].get(name) if child.doors else transports["grpc"]
            if addresses and "address" in (section or {}):
                section["address"] = addresses
        if "metrics" in child.report:
            child.metrics = child.report["metrics"]
            if child is self._core:
                self._config["metrics"]["core"] = child.metrics

    def _close(self, child: Child) -> None:
        if child.channel:
            self._selector.unregister(child.channel)
            child.channel.close()
            child.channel = None

    def _reap(self) -> None:
        """Take all that has ended, be it no child of ours: as process 1 of a container we are left
        the children of others."""
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG)) != (0, 0):
                pid, status = ended
                for child in self._children:
                    if child.pid == pid:
                        self._take_end(child, status)

    def _take_end(self, child: Child, status: int) -> None:
        if child.channel:
            child.read()  # its last words may still be in the socket
        self._close(child)
        child.pid = 0
        code = os.waitstatus_to_exitcode(status)
        if self._stop_at is not None:
            if code and not self._exit_code and not self._is_hurried:
                self._exit_code = EXIT_FAILED
            return
        if not self._is_announced and child.report is None:
            self._give_up(child.error or f"{child.name} {_ended(code)}", child.code or EXIT_FAILED)
            return
        self._restart_later(child, code)

    def _restart_later(self, child: Child, code: int) -> None:
        reason = f"{child.name} {_ended(code)}" + (f" ({child.error})" if child.error else "")
        pause = child.died()
        if pause is None:
            self._give_up(f"{reason}; it could not start {child.failed_starts} times", EXIT_DYING)
            return
        child.restart_at = time.monotonic() + pause
        say(f"{reason}; starting it again in {pause:.1f} s")

    # the end

    def _give_up(self, reason: str, code: int) -> None:
        say(reason)
        self._exit_code = code
        self._stop()

    def _stop(self) -> None:
        """Doors take no new work, calls end within the grace, then the core drains."""
        now = time.monotonic()
        self._stop_at = now + self._config["grace"]
        for child in self._children:
            child.restart_at = None
        for child in self._adapters:
            child.order({"stop": self._config["grace"]})
            child.kill_at = self._stop_at + KILL_AFTER
        self._core.order({"drain": self._config["grace"]})
        self._stop_core_at_last()

    def _hurry(self) -> None:
        self._is_hurried = True
        now = time.monotonic()
        for child in self._children:
            child.order({"stop": 0})
            child.kill_at = now + KILL_AFTER
        self._core_is_told = True

    def _stop_core_at_last(self) -> None:
        if self._core_is_told or self._stop_at is None or any(c.pid for c in self._adapters):
            return
        self._core_is_told = True
        grace = max(0.0, self._stop_at - time.monotonic())
        self._core.order({"stop": grace})
        self._core.kill_at = time.monotonic() + grace + KILL_AFTER

    # time

    def _until_next_timer(self) -> float | None:
        times = [
            due
            for child in self._children
            for due in (child.restart_at, child.kill_at if child.pid else None, self._due(child))
            if due is not None
        ]
        return max(0.0, min(times) - time.monotonic()) if times else None

    def _due(self, child: Child) -> float | None:
        is_waited_for = child.pid and child.report is None and self._stop_at is None
        return child.started_at + READY_LIMIT if is_waited_for else None

    def _keep_time(self) -> None:
        now = time.monotonic()
        for child in self._children:
            due = self._due(child)
            if child.restart_at is not None and now >= child.restart_at:
                self._start(child)
            elif due is not None and now >= due:
                child.error = child.error or f"it was not ready after {READY_LIMIT:.0f} s"
                self._kill(child)
            elif child.kill_at is not None and child.pid and now >= child.kill_at:
                say(f"{child.name} does not end; it is killed")
                self._exit_code = self._exit_code or EXIT_FAILED
                self._kill(child)
        self._stop_core_at_last()

    def _kill(self, child: Child) -> None:
        child.kill_at = None
        child.started_at = time.monotonic()
        with contextlib.suppress(ProcessLookupError):
            os.kill(child.pid, signal.SIGKILL)


def say(text: str) -> None:
    """One line to the operator."""
    sys.stderr.write(f"a2a-gateway: {text}\n")
    sys.stderr.flush()


def _ended(code: int) -> str:
    if code >= 0:
        return f"ended with code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"


def become(config: str) -> NoReturn:
    """Replace this process by the supervisor, which is much smaller than one that has read a
    configuration. `config` is the text of `gateway.config.to_wire`; it holds secrets and goes
    by a file that has no name."""
    with _nameless_file() as file:
        file.write(config.encode())
        file.seek(0)
        os.set_inheritable(file.fileno(), True)
        arguments = command("gateway.supervisor", str(file.fileno()))
        sys.stdout.flush()
        # our own interpreter with our own arguments
        os.execve(sys.executable, arguments, environment_for_children())  # noqa: S606


def _nameless_file() -> IO[bytes]:
    memory = getattr(os, "memfd_create", None)
    if memory is not None:
        return os.fdopen(memory("a2a-gateway"), "w+b", buffering=0)
    return tempfile.TemporaryFile(buffering=0)


def children_for(config: Config) -> tuple[Child, list[Child]]:
    """The core, and an adapter process for each door that is not the core's own, or one for all."""
    doors = list(config["transports"]["others"])
    groups = [doors] if config["adapters"] == "together" else [[name] for name in doors]
    adapters = [
        Child(adapter_name(group), ["transports.process", *group], doors=group)
        for group in groups
        if group
    ]
    for child, address in zip(
        adapters, metrics_addresses(config["metrics"]["adapter"], len(adapters)), strict=True
    ):
        child.metrics = address
    return Child("core", ["gateway.core"], _lock(config)), adapters


def _lock(config: Config) -> int | None:
    """The lock file, held open as long as this process lives, so that nobody takes the directory
    while a core is started again."""
    try:
        return open_lock(config["state_dir"])
    except OSError:
        return None  # the core says why


def metrics_addresses(first: str | None, count: int) -> list[str | None]:
    """Where each adapter process has its metrics: at successive ports, or each at a free one."""
    host, colon, port = (first or "").rpartition(":")
    if first is None or first.startswith("unix:") or port == "0":
        return [first] * count
    return [f"{host}{colon}{int(port) + number}" for number in range(count)]


def supervise(config: Config) -> int:
    """Run the gateway to its end; gives the exit code."""
    from gateway.cli.announcement import announce

    # for this start of the gateway; it outlives each of the processes
    config["link"]["secret"] = config["link"]["secret"] or os.urandom(32).hex()
    core, adapters = children_for(config)
    return Supervisor(config, core, adapters, announce).run()


def main() -> None:
    """Take the configuration from the descriptor that the command line left open."""
    with os.fdopen(int(sys.argv[1]), encoding="utf-8") as file:
        config = json.load(file)
    sys.exit(supervise(config))


if __name__ == "__main__":
    main()
