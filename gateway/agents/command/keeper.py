"""Programs as the core sees them: started, ended, and gone. Layer: agents.

The other end is `keeper_process`, whose docstring has the lines that travel between the two.
Nothing here waits but for the loop: a keeper that stands still delays its programs and nothing
else.
"""

import asyncio
import contextlib
import json
import logging
import os
import resource
import signal
import socket
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gateway.agents import AgentError
from gateway.agents.command import keeper_process
from gateway.agents.command.pipes import Pipes

logger = logging.getLogger(__name__)

START_SECONDS = 20.0
STOP_SECONDS = keeper_process.LAST_SECONDS + 2.0
MOST_STARTING = 16
"""Starts that the process has not confirmed; others wait. It starts one at a time anyway, and the
system bounds the descriptors that are on their way from one process to another."""
OPEN_FILES = 65_536
_KINDS = frozenset({"started", "failed", "ended", "gone"})
"""Lines about one program, named by its number."""
REAP_PAUSE = 0.01


@dataclass(frozen=True, slots=True)
class Ending:
    """How a program ended: by `code` (minus the signal's number), or it never was, for the reason
    `fault`, or it was lost with the process that keeps it."""

    code: int = 0
    fault: str = ""
    is_lost: bool = False


class Program:
    """One start of the program."""

    def __init__(self, keeper: "Keeper", number: int, pipes: Pipes):
        self._keeper = keeper
        self.number = number
        self.pipes = pipes
        self.pid = 0
        """0 until it has started."""
        self.ended: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()

    def end(self, after: float) -> None:
        """SIGTERM to it and its children, SIGKILL after so many seconds."""
        if not self.ended.done():
            self._keeper.order({"end": self.number, "after": after})

    def release(self) -> None:
        """Kill what it has left behind, and itself where it still runs; forget it."""
        self._keeper.release(self)


class Keeper:
    """Starts one program, many times. Made without I/O; `start` makes the process."""

    def __init__(
        self, argv: Sequence[str], environment: Mapping[str, str], directory: str | None
    ) -> None:
        self._program: dict[str, Any] = {
            "argv": list(argv),
            "environment": dict(environment),
            "directory": directory,
        }
        self._numbers = 0
        self._programs: dict[int, Program] = {}
        self._starting: set[int] = set()
        self._slots = asyncio.Semaphore(MOST_STARTING)
        self._pid = 0
        self._socket: socket.socket | None = None
        self._buffer = b""
        self._unsent: deque[tuple[bytes, tuple[int, ...]]] = deque()
        self._ready = asyncio.Event()
        """The process has begun, or is gone."""
        self._gone = asyncio.Event()
        self._reaping: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Start the process. Raises `AgentError`."""
        self._program["open_files"] = raise_open_files()
        self._spawn()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(START_SECONDS):
                await self._ready.wait()
        if self._socket is None or not self._ready.is_set():
            await self.stop()
            raise AgentError(f"the process that starts programs does not run ({sys.executable})")

    async def stop(self) -> None:
        """End all programs and the process."""
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_WR)
            try:
                async with asyncio.timeout(STOP_SECONDS):
                    await self._gone.wait()
            except TimeoutError:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self._pid, signal.SIGKILL)
            finally:
                self._lose()
        if self._reaping:
            await asyncio.wait(self._reaping)

    async def launch(self, variables: Mapping[str, str], make: Callable[[], Pipes]) -> Program:
        """Start the program with these variables more, and the pipes that are made when it is its
        turn; the caller closes them. A failure shows in `ended`."""
        await self._slots.acquire()
        try:
            if self._socket is None:
                self._spawn()
            pipes = make()
        except BaseException:
            self._slots.release()
            raise
        self._numbers += 1
        program = self._programs[self._numbers] = Program(self, self._numbers, pipes)
        self._starting.add(program.number)
        self.order({"run": program.number, "environment": dict(variables)}, pipes.theirs)
        if self._socket is None and not program.ended.done():
            program.ended.set_result(Ending(is_lost=True))  # before it could be told of it
        return program

    def order(self, line: Mapping[str, Any], descriptors: tuple[int, ...] = ()) -> None:
        """Send one line; says nothing where the process is gone."""
        if self._socket is None:
            _close(descriptors)
            return
        self._unsent.append((json.dumps(line).encode() + b"\n", descriptors))
        if len(self._unsent) == 1:
            self._send()

    def release(self, program: Program) -> None:
        """See `Program.release`."""
        if program.number in self._programs:
            self.order({"release": program.number})

    # the process

    def _spawn(self) -> None:
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        self._ready.clear()
        self._gone.clear()
        try:
            # exec, never fork: gRPC may be loaded
            self._pid = os.posix_spawn(
                sys.executable,
                [sys.executable, "-I", "-S", keeper_process.__file__],
                _environment(self._program["environment"]),
                setpgroup=0,
                setsigmask=[],
                setsigdef=[signal.SIGINT, signal.SIGTERM, signal.SIGPIPE],
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, theirs.fileno(), 0),
                    (os.POSIX_SPAWN_DUP2, 2, 1),
                ],
            )
        except OSError as error:
            ours.close()
            raise AgentError(f"cannot start {sys.executable}: {error.strerror}") from error
        finally:
            theirs.close()
        self._socket, self._buffer = ours, b""
        loop.add_reader(ours, self._read)
        self.order(self._program)

    def _send(self) -> None:
        """Send what the socket takes; the loop calls again when it takes more."""
        sock = self._socket
        while self._unsent and sock is not None:
            data, descriptors = self._unsent[0]
            try:
                count = (
                    socket.send_fds(sock, [data], descriptors) if descriptors else sock.send(data)
                )
            except BlockingIOError:
                asyncio.get_running_loop().add_writer(sock, self._send)
                return
            except OSError:
                self._lose()
                return
            _close(descriptors)
            if count < len(data):
                self._unsent[0] = (data[count:], ())
            else:
                self._unsent.popleft()
        if sock is not None:
            asyncio.get_running_loop().remove_writer(sock)

    def _read(self) -> None:
        assert self._socket
        try:
            data = self._socket.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._lose()
            return
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            self._hear(json.loads(line))

    def _hear(self, line: dict[str, Any]) -> None:
        if "ready" in line:
            self._ready.set()
            return
        ((kind, number),) = ((k, n) for k, n in line.items() if k in _KINDS)
        self._has_started(number)
        program = self._programs.get(number)
        if program is None:
            return
        if kind == "started":
            program.pid = line["pid"]
        elif not program.ended.done():
            program.ended.set_result(Ending(line.get("code", 0), line.get("error", "")))
        if kind in ("failed", "gone"):
            del self._programs[number]

    def _has_started(self, number: int) -> None:
        if number in self._starting:
            self._starting.discard(number)
            self._slots.release()

    def _lose(self) -> None:
        """The process has ended, as told or by itself."""
        if self._socket is None:
            return
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._socket)
        loop.remove_writer(self._socket)
        self._socket.close()
        self._socket = None
        self._ready.set()
        self._gone.set()
        for _, descriptors in self._unsent:
            _close(descriptors)
        self._unsent.clear()
        for program in self._programs.values():
            _kill_group(program.pid)
            if not program.ended.done():
                program.ended.set_result(Ending(is_lost=True))
        self._programs.clear()
        for number in list(self._starting):
            self._has_started(number)
        task = loop.create_task(_reap(self._pid))
        self._reaping.add(task)
        task.add_done_callback(self._reaping.discard)


def _environment(programs: Mapping[str, str]) -> dict[str, str]:
    """No more than programs get: they can read it of their parent (/proc/PID/environ). What an
    interpreter needs to find its libraries comes along."""
    return {k: v for k, v in os.environ.items() if k in programs or k.startswith(("LD_", "DYLD_"))}


def raise_open_files() -> int:
    """Allow this process more open files: each program takes three. Gives what was allowed
    before, which programs are better off with."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(ValueError, OSError):  # macOS has a limit below the hard one
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return soft


async def _reap(pid: int) -> None:
    """Take the exit code of a process that has ended, or is about to."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(pid, os.WNOHANG) == (0, 0):  # noqa: ASYNC110, ASYNC222 -- does not wait
            await asyncio.sleep(REAP_PAUSE)


def _kill_group(pid: int) -> None:
    if pid:
        with contextlib.suppress(OSError):
            os.killpg(pid, signal.SIGKILL)


def _close(descriptors: Sequence[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
