"""A core that belongs to another process of the gateway: `a2a-gateway stdio`.

Its keeper is started by a client that waits, so the core is started before anything else is
loaded; importing this costs next to nothing. The core is a child like those of the supervisor:
it gets its configuration by a channel, and drains by itself when its keeper is gone.
"""

import contextlib
import json
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gateway.child import Child
from gateway.state_dir import StateDir, StateDirInUseError

if TYPE_CHECKING:
    from gateway.config import Config


class OwnCore:
    """One core after the other, under one lock of the state directory."""

    def __init__(self, state_dir: Path):
        self.child: Child | None = None
        """There is none while another process has the state directory."""
        self._state_dir = StateDir(state_dir)
        self._wire: dict[str, Any] = {}

    def claim(self) -> bool:
        """Take the state directory, and start a core on it, which waits for its configuration;
        False where another process has it. Raises `StateDirError`."""
        if self.child is not None:
            return True
        try:
            self._state_dir.acquire()
        except StateDirInUseError:
            return False
        self.child = Child("core", ["gateway.core"], self._state_dir.lock)
        self.start()
        return True

    def configure(self, config: "Config") -> None:
        """What it runs, from now on."""
        from gateway.config import to_wire

        self._wire = json.loads(to_wire(config))
        self._wire["link"]["secret"] = self._wire["link"]["secret"] or os.urandom(32).hex()
        if self.child is not None:
            self.child.configure(self._wire)

    @property
    def link(self) -> tuple[str, str]:
        """Address and secret."""
        link = self._wire["link"]
        return link["address"], link["secret"]

    def start(self) -> None:
        """Start the process, unless there is one."""
        assert self.child is not None
        if not self.child.pid:
            self.child.start()
            if self._wire:
                self.child.configure(self._wire)

    def is_alive(self, ready_limit: float) -> bool:
        """Take what it has said; False once it has hung up, or is not ready in time. Then it is
        to be ended by `kill`."""
        child = self.child
        assert child is not None
        if child.channel is None or not child.read():
            return False
        if child.report is None and time.monotonic() > child.started_at + ready_limit:
            child.error = child.error or f"it was not ready after {ready_limit:.0f} s"
            return False
        return True

    def kill(self) -> None:
        """End it at once; `is_gone` follows."""
        if self.child is not None and self.child.pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.child.pid, signal.SIGKILL)

    def is_gone(self) -> bool:
        """Whether there is no process."""
        child = self.child
        if child is None:
            return True
        if child.pid:
            pid, _ = os.waitpid(child.pid, os.WNOHANG)
            if not pid:
                return False
            child.pid = 0
        if child.channel is not None:
            child.channel.close()
            child.channel = None
        return True

    def release(self) -> None:
        """Give the state directory back."""
        self._state_dir.release()
