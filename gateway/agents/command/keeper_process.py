"""Starts programs for the core and ends them: a process of its own. Layer: agents.

The core must not fork, since gRPC is loaded there, and it may be killed at any moment; its
programs must then end, too. So they are children of this process, which uses the standard library
alone, has one thread, and does nothing that waits, but for starting a program. It is run as a
file, `python -I -S keeper_process.py`, with a socket as descriptor 0.

Lines of JSON come and go on the socket; the descriptors of a program's stdin, stdout and stderr
come with the line that starts it:

    in    {"argv": [..], "environment": {..}, "directory": .., "open_files": 1024}    first
          {"run": 1, "environment": {..}}                         start the program once
          {"end": 1, "after": 2.0}      SIGTERM to its group, SIGKILL after so many seconds
          {"release": 1}                SIGKILL to what is left of its group; forget it
    out   {"ready": true}
          {"started": 1, "pid": 4711}   the process is there; the program may still fail to start
          {"failed": 1, "error": ".."}
          {"ended": 1, "code": 0}       the exit code, or minus the signal's number
          {"gone": 1}                   nothing is left of it

Rules:

1. Each program leads a session and a process group of its own, so that a signal reaches its
   children too, and a terminal's signals reach none of them.
2. A program that has ended stays a zombie until it is released: as long as that the number of its
   group cannot belong to anybody else.
3. When the socket closes, the core has gone: all groups get SIGTERM, and SIGKILL soon after.
   On Linux so do processes that had left their group, and this process sees it even where it
   was stopped.
4. Where memory runs out the kernel (Linux) kills programs before the gateway.
5. If this process itself is killed, its programs get SIGKILL (Linux), and the core, which knows
   their groups, does the rest.
"""

import contextlib
import json
import os
import resource
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

LAST_SECONDS = 0.5
"""For programs to end after SIGTERM, when the core has gone."""
MOST_DESCRIPTORS = 16
"""Of one read; each line brings three at most."""

OOM_SCORE = 500
"""Of 1000, for the kernel's choice of what to kill where memory runs out."""

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


class Run:
    """One start of the program."""

    def __init__(self, number: int, process: "subprocess.Popen[bytes]"):
        self.number = number
        self.process = process
        self.kill_at: float | None = None
        self.is_ended = False
        self.is_released = False

    def signal(self, number: int) -> None:
        """To the whole group."""
        with contextlib.suppress(OSError):
            os.killpg(self.process.pid, number)

    def look(self) -> int | None:
        """The exit code, once the program has ended; it stays a zombie."""
        if not hasattr(os, "waitid"):  # macOS before Python 3.13
            return self.process.poll()
        found = os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if found is None:
            return None
        return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status


class KeeperProcess:
    """Does what the lines say, until the socket closes."""

    def __init__(self, sock: socket.socket):
        self._socket = sock
        self._buffer = b""
        self._descriptors: list[int] = []
        self._runs: dict[int, Run] = {}
        self._program: dict[str, Any] = {}
        self._is_wanted = True
        self._pid = os.getpid()
        self._prctl = _find_prctl()
        self._selector = selectors.DefaultSelector()

    def run(self) -> None:
        """Until the core has gone and all programs with it."""
        if self._prctl:
            self._prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            # where this process is stopped when the core goes, it shall go on and see it
            self._prctl(_PR_SET_PDEATHSIG, signal.SIGCONT, 0, 0, 0)
        wake = self._watch_signals()
        self._selector.register(self._socket, selectors.EVENT_READ, self._read)
        self._selector.register(wake, selectors.EVENT_READ, lambda: wake.recv(4096))
        self._tell({"ready": True})
        while self._is_wanted:
            self._turn()
        self._selector.unregister(self._socket)
        for run in list(self._runs.values()):
            self._end(run, LAST_SECONDS)
        while self._runs:
            self._turn()
        _end_the_adopted()

    def _turn(self) -> None:
        for key, _ in self._selector.select(self._until_next_kill()):
            key.data()
        self._look()
        now = time.monotonic()
        for run in self._runs.values():
            if run.kill_at is not None and run.kill_at <= now:
                run.kill_at = None
                run.signal(signal.SIGKILL)

    def _until_next_kill(self) -> float | None:
        times = [run.kill_at for run in self._runs.values() if run.kill_at is not None]
        return max(0.0, min(times) - time.monotonic()) if times else None

    def _watch_signals(self) -> socket.socket:
        reading, writing = socket.socketpair()
        reading.setblocking(False)
        writing.setblocking(False)
        self._wakeup = writing
        signal.set_wakeup_fd(writing.fileno(), warn_on_full_buffer=False)
        # handlers that do nothing, not SIG_IGN, which programs would inherit
        for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda number, frame: None)
        signal.signal(signal.SIGTERM, self._leave)
        return reading

    def _leave(self, *_: object) -> None:
        self._is_wanted = False

    # the core's lines

    def _read(self) -> None:
        try:
            data, descriptors, _, _ = socket.recv_fds(self._socket, 65536, MOST_DESCRIPTORS)
        except OSError:
            data, descriptors = b"", []
        self._descriptors += descriptors
        if not data:
            self._is_wanted = False
            return
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            self._obey(json.loads(line))

    def _obey(self, line: dict[str, Any]) -> None:
        if "run" in line:
            given, self._descriptors = self._descriptors[:3], self._descriptors[3:]
            self._start(line["run"], line["environment"], given)
        elif "argv" in line:
            self._program = line
            _limit_open_files(line["open_files"])
        elif run := self._runs.get(line.get("end") or line.get("release") or 0):
            if "end" in line:
                self._end(run, line["after"])
            else:
                self._release(run)

    def _start(self, number: int, environment: dict[str, str], given: list[int]) -> None:
        program = self._program
        try:
            process = subprocess.Popen(  # noqa: S603 -- what to run is the operator's to say
                program["argv"],
                stdin=given[0],
                stdout=given[1],
                stderr=given[2],
                env={**program["environment"], **environment},
                cwd=program["directory"],
                start_new_session=True,
                preexec_fn=lambda: self._announce(number),
            )
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            self._tell({"failed": number, "error": str(error)})
        else:
            self._runs[number] = Run(number, process)
        finally:
            for descriptor in given:
                os.close(descriptor)

    def _announce(self, number: int) -> None:
        """In the new process, before it becomes the program."""
        if self._prctl:
            self._prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != self._pid:  # which has ended just before
                os._exit(1)
        _be_killed_first()
        # told here and not by the keeper, which may be killed before it could: the core knows
        # of each program before that can have children
        self._tell({"started": number, "pid": os.getpid()})

    def _end(self, run: Run, after: float) -> None:
        if run.is_ended:
            self._release(run)
            return
        if run.kill_at is None:
            run.signal(signal.SIGTERM)
        kill_at = time.monotonic() + after
        run.kill_at = kill_at if run.kill_at is None else min(run.kill_at, kill_at)

    def _release(self, run: Run) -> None:
        run.signal(signal.SIGKILL)
        if run.is_ended:
            run.process.wait()
            del self._runs[run.number]
            self._tell({"gone": run.number})
        else:
            run.is_released = True

    # what ends

    def _look(self) -> None:
        for run in list(self._runs.values()):
            if run.is_ended or (code := run.look()) is None:
                continue
            run.is_ended = True
            self._tell({"ended": run.number, "code": code})
            if run.is_released or not self._is_wanted:
                self._release(run)
        self._reap_adopted()

    def _reap_adopted(self) -> None:
        """Take leave of processes that came here because their own parents have ended."""
        if not self._prctl:
            return
        known = {run.process.pid for run in self._runs.values()}
        with contextlib.suppress(ChildProcessError):
            while found := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                if found.si_pid in known:
                    return  # it is shown first until it is released; the others can wait
                os.waitpid(found.si_pid, os.WNOHANG)

    def _tell(self, line: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):  # nobody is there to hear it
            self._socket.sendall(json.dumps(line).encode() + b"\n")


def _find_prctl() -> Callable[..., int] | None:
    if sys.platform != "linux":
        return None
    try:
        import ctypes
    except ImportError:  # a Python that was built without
        return None
    function: Callable[..., int] = ctypes.CDLL(None).prctl
    return function


def _be_killed_first() -> None:
    with contextlib.suppress(OSError, ValueError), open("/proc/self/oom_score_adj", "r+") as file:
        score = max(int(file.read()), OOM_SCORE)
        file.seek(0)
        file.write(str(score))


def _limit_open_files(number: int) -> None:
    """As it was before the core allowed itself more: programs inherit it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (number, hard))


def _end_the_adopted() -> None:
    """Kill the processes that had left their groups; their own children come here in turn."""
    children = f"/proc/self/task/{os.getpid()}/children"
    while os.path.exists(children):
        with open(children) as file:
            pids = [int(pid) for pid in file.read().split()]
        if not pids:
            return
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        for pid in pids:
            os.waitpid(pid, 0)


def main() -> None:
    """As the core starts it."""
    # what the core's libraries have left open is not for programs
    for descriptor in [int(name) for name in os.listdir("/dev/fd")]:
        if descriptor > 2:
            with contextlib.suppress(OSError):  # that of the listing itself
                os.close(descriptor)
    KeeperProcess(socket.socket(fileno=os.dup(0))).run()


if __name__ == "__main__":
    main()
