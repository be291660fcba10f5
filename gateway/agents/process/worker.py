"""The process of an agent as the core holds it: started, watched, ended with all its descendants.

Started by exec, never by fork; a process group of its own. A thread waits for its end, then kills
what it has left behind in its group, and only then lets the number of the group go. The
child holds the read end of a pipe whose write end is here: when this process is gone, however
that came, it ends itself (`child`).
"""

import asyncio
import contextlib
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable

from gateway.child import command, environment_for_children

SOCKETS_VARIABLE = "A2A_GATEWAY_AGENT"
"""Names the descriptors that the child inherits: its socket, and the pipe of its parent's life."""
CONFIGURATION = "A2A_GATEWAY_"
MODULE = "gateway.agents.process.child"


class Worker:
    """One process. `ended` is called in the running loop, once, with its exit code."""

    def __init__(self, ended: Callable[[int], None]):
        self._ended = ended
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._is_reaped = False
        self._life = -1
        self.pid = 0

    def start(self) -> socket.socket:
        """Start the process; the core's end of its socket. Raises `OSError`."""
        ours, theirs = socket.socketpair()
        try:
            alive, self._life = os.pipe()
            try:
                self.pid = self._spawn(theirs.fileno(), alive)
            finally:
                os.close(alive)
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        threading.Thread(target=self._wait, name=f"agent-{self.pid}", daemon=True).start()
        ours.setblocking(False)
        return ours

    def _spawn(self, sock: int, alive: int) -> int:
        os.set_inheritable(sock, True)
        os.set_inheritable(alive, True)
        return os.posix_spawn(
            sys.executable,
            command(MODULE),
            _environment(f"{sock},{alive}"),
            # a terminal's Ctrl-C is for the supervisor, and what the agent starts goes with it
            setpgroup=0,
            setsigmask=[],
            setsigdef=[signal.SIGINT, signal.SIGTERM, signal.SIGPIPE],
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                # what an agent prints must not get between the frames of a door
                (os.POSIX_SPAWN_DUP2, 2, 1),
            ],
        )

    def kill(self) -> None:
        """End the process and what it has started, at once."""
        with self._lock:
            if self.pid and not self._is_reaped:
                self._kill_group()

    def _kill_group(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    def _wait(self) -> None:
        # not reaped yet, so that nobody else can get the number
        os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        with self._lock:
            self._kill_group()
            self._is_reaped = True
        _, status = os.waitpid(self.pid, 0)
        os.close(self._life)
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._ended, os.waitstatus_to_exitcode(status))


def _environment(sockets: str) -> dict[str, str]:
    """Ours but for the gateway's configuration: its tokens are not for agents."""
    ours = environment_for_children().items()
    kept = {name: text for name, text in ours if not name.startswith(CONFIGURATION)}
    return {**kept, SOCKETS_VARIABLE: sockets}


def described(code: int) -> str:
    """How a process ended, in words."""
    if code >= 0:
        return f"ended with exit code {code}"
    with contextlib.suppress(ValueError):
        return f"was killed by {signal.Signals(-code).name}"
    return f"was killed by signal {-code}"
