"""One life of an agent's process: from its start to its end, with its calls. Layer: agents."""

import asyncio
import contextlib
import itertools
import json
import time
from typing import Any

from google.rpc.status_pb2 import Status

from gateway import logs
from gateway.agents import AgentError, Turn
from gateway.agents.kinds import Settings
from gateway.agents.process.frames import Kind
from gateway.agents.process.passage import Passage, ProcessEndedError
from gateway.agents.process.stream import FrameStream
from gateway.agents.process.worker import Worker, described
from gateway.agents.pulse import Pulse
from gateway.errors import Code, Failure, FailureError

START_LIMIT = 60.0
PING_WAIT = 1.0
BLOCKED_LIMIT = 30.0
LAST_BYTES = 1.0
"""Seconds for the socket's end to follow the process's, or the other way round."""
FRAME_ROOM = 1 << 20


class AgentFailureError(Exception):
    """What the agent raised, with its trace; for the log."""


class Process:
    """A process and the calls in it."""

    def __init__(self, spec: str, name: str, settings: Settings):
        self._spec = spec
        self._name = name
        self._settings = settings
        # what clients have said comes back in tasks, and the runtime's own check does not count it
        self._event_bytes = 2 * settings.message_bytes
        self._worker = Worker(self._exited)
        self._stream: FrameStream
        self._numbers = itertools.count(1)
        self._passages: dict[int, Passage] = {}
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._has_hung_up = asyncio.Event()
        self._judging: asyncio.Task[None] | None = None
        self._ending_task: asyncio.Task[None] | None = None
        self._pong = asyncio.Event()
        self._pulse = Pulse(lambda: self.send(Kind.PING))
        self._kill_reason = ""
        self.card: dict[str, Any] = {}
        self.started_at = time.monotonic()
        self.gone = asyncio.Event()
        """Set at the end of the process, when its calls have ended too."""
        self.ending = ""
        """How it ended, in words."""

    async def start(self) -> None:
        """Raises `AgentError` where the agent is not loaded or does not start."""
        try:
            sock = self._worker.start()
        except OSError as error:
            raise AgentError(f"agent {self._spec}: no process for it: {error}") from None
        self._stream = FrameStream(self._take, self._hung_up, self._event_bytes + FRAME_ROOM)
        await asyncio.get_running_loop().create_unix_connection(lambda: self._stream, sock=sock)
        self.send(Kind.SETUP, payload=json.dumps(self._setup()).encode())
        try:
            async with asyncio.timeout(START_LIMIT):
                await self._ready
        except TimeoutError:
            await self._cut()
            raise AgentError(f"agent {self._spec} was not loaded after {START_LIMIT:g} s") from None
        except AgentError:
            await self._cut()
            raise
        except BaseException:
            self._worker.kill()
            raise

    def _setup(self) -> dict[str, Any]:
        level, form = logs.settings()
        return {
            "spec": self._spec,
            "name": self._name,
            "secret_names": sorted(self._settings.secret_names),
            "event_bytes": self._event_bytes,
            "context_idle": self._settings.context_idle,
            "watchdog": self._settings.watchdog,
            "log_level": level,
            "log_format": form,
        }

    def send(self, kind: Kind, number: int = 0, payload: bytes = b"") -> None:
        """Send one frame; nothing happens after the end."""
        self._stream.send(kind, number, payload)

    # Calls

    @property
    def is_usable(self) -> bool:
        """Whether it takes calls, as far as is known."""
        return not (self._kill_reason or self._has_hung_up.is_set() or self.gone.is_set())

    @property
    def fault(self) -> str:
        """Why its turns wait, where its loop does not turn."""
        return self._pulse.fault

    async def call(self, turn: Turn, kind: Kind, request: bytes) -> None:
        """One run or cancel of the agent; raises what it raised."""
        passage = Passage(self, next(self._numbers), turn)
        self._passages[passage.number] = passage
        if self.gone.is_set():
            passage.end(ProcessEndedError(self._reason()))
        self.send(kind, passage.number, request)
        try:
            await self._escort(passage)
        finally:
            del self._passages[passage.number]
        await passage.conclude()

    async def _escort(self, passage: Passage) -> None:
        try:
            await passage.carry()
        except asyncio.CancelledError:
            passage.is_interrupted = True
            self.send(Kind.INTERRUPT, passage.number)
            try:
                await passage.carry()
            except asyncio.CancelledError:
                if not passage.is_done:
                    self._abandon(passage)
            raise

    def _abandon(self, passage: Passage) -> None:
        self.send(Kind.DROP, passage.number)
        # as in the loop: some agents end at the second
        self.send(Kind.INTERRUPT, passage.number)
        if self._judging is None or self._judging.done():
            self._judging = asyncio.create_task(self.judge_silence())

    async def judge_silence(self) -> None:
        """After a turn was abandoned: kill the process if its loop does not turn, as soon as
        no other call waits in it, at the latest after `BLOCKED_LIMIT`."""
        began = time.monotonic()
        self._pong.clear()
        self.send(Kind.PING)
        while not self.gone.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PING_WAIT):
                    await self._pong.wait()
                    return
            stood = time.monotonic() - began
            if not self._passages or stood >= BLOCKED_LIMIT:
                self._kill(f"was ended because its loop stood still, for {stood:.0f} s at least")
                return

    def _kill(self, reason: str) -> None:
        self._kill_reason = reason
        self._worker.kill()

    # What the process says

    def _take(self, kind: int, number: int, payload: bytes) -> None:
        match kind:
            case Kind.EVENT:
                if (passage := self._passages.get(number)) is not None:
                    passage.arrive(payload)
            case Kind.END:
                if (passage := self._passages.get(number)) is not None:
                    passage.end(_to_error(payload))
            case Kind.PONG:
                self._pong.set()
                self._pulse.answer()
            case Kind.READY:
                self.card = json.loads(payload)["card"]
                self._settle(None)
            case Kind.NOT_STARTED:
                self._settle(AgentError(payload.decode()))

    def _settle(self, error: Exception | None) -> None:
        if self._ready.done():
            return
        if error is None:
            self._ready.set_result(None)
        else:
            self._ready.set_exception(error)

    # The end

    def _hung_up(self, error: Exception | None) -> None:
        self._has_hung_up.set()
        if not self._ending_task:
            # a process without its socket is of no use; mostly it is ending already
            asyncio.get_running_loop().call_later(LAST_BYTES, self._worker.kill)

    def _exited(self, code: int) -> None:
        self._ending_task = asyncio.create_task(self._end(code))

    async def _end(self, code: int) -> None:
        # what it sent last may still be in the socket
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_BYTES):
                await self._has_hung_up.wait()
        self.ending = self._kill_reason or described(code)
        self._stream.close()
        self.gone.set()
        self._settle(
            AgentError(f"agent {self._spec}: its process {self.ending} before it was ready")
        )
        for passage in self._passages.values():
            passage.end(ProcessEndedError(self._reason()))

    def _reason(self) -> str:
        return f"The agent's process {self.ending} in the middle of this turn"

    async def stop(self, timeout: float) -> None:
        """Let it end within `timeout` seconds; then it is killed."""
        self.send(Kind.STOP)
        try:
            async with asyncio.timeout(timeout):
                await self.gone.wait()
        except TimeoutError:
            await self._cut()
        finally:
            self._worker.kill()

    async def _cut(self) -> None:
        """Kill the process and see it gone."""
        self._worker.kill()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(2 * LAST_BYTES):
                await self.gone.wait()


def _to_error(payload: bytes) -> Exception | None:
    """What a call raised, from the status that it ended with."""
    if not payload:
        return None
    status = Status.FromString(payload)
    match status.code:
        case Code.CANCELLED if not status.details:
            return AgentFailureError("the agent gave its turn up (CancelledError)")
        case Code.DEADLINE_EXCEEDED if not status.details:
            return TimeoutError(status.message)
        case Code.UNKNOWN if not status.details:
            return AgentFailureError(status.message)
    return FailureError(Failure.from_status(status))
