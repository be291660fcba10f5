"""What runs in the process of an agent: loads it, runs its turns, ends with the core.
Layer: agents.

Rules:

1. Events of a call leave in order. `emit` waits while a window of them (`frames`) has not been
   taken by the core, so that the runtime's back-pressure reaches the agent.
2. What the runtime says against an event is raised by the agent's next `emit`.
3. Turns and cancels of the agent run side by side in one loop, as in the core.
4. When the core is gone the whole process group is killed: by the kernel where it can do so
   (Linux), which also an agent that holds the interpreter cannot delay; by a thread elsewhere.
"""

import asyncio
import contextlib
import fcntl
import gc
import json
import os
import signal
import socket
import sys
import threading
import traceback
from threading import get_ident
from typing import Any

from google.rpc.status_pb2 import Status

from gateway import logs
from gateway.agents import Agent, AgentError, Turn, contract
from gateway.agents.containment import contained
from gateway.agents.loops import run_on
from gateway.agents.process.frames import GRANT, MAX_BYTES, MAX_EVENTS, Kind
from gateway.agents.process.stream import FrameStream
from gateway.agents.process.worker import SOCKETS_VARIABLE
from gateway.agents.watchdog import install
from gateway.errors import A2AError, Code, Failure, FailureError, InvalidAgentResponseError, judge
from gateway.pb import Event, SendMessageRequest, Task, agent_pb2
from gateway.runtime.contexts import Contexts

GC_THRESHOLD = 20_000
MAX_TRACE_BYTES = 64 * 1024
"""Of an exception, its end; the text of one may be anything."""
_OOM_SCORE = 500
"""Of 1000, for the kernel's choice of what to kill where memory runs out."""
_F_SETSIG = 10
"""Of Linux; the module fcntl does not name it."""


class ChildTurn(Turn):
    """A turn in the agent's process."""

    __slots__ = (
        "_child",
        "_error",
        "_is_dropped",
        "_number",
        "_open_bytes",
        "_open_events",
        "_room",
    )

    def __init__(self, child: "Child", number: int, request: Any, related: list[Task]):
        super().__init__(
            contract.to_call(request.call),
            request.request if request.HasField("request") else SendMessageRequest(),
            request.task_id,
            request.context_id,
            request.task if request.HasField("task") else None,
            related,
        )
        self._child = child
        self._number = number
        self._open_events = self._open_bytes = 0
        self._room = asyncio.Event()
        self._error: Exception | None = None
        self._is_dropped = False

    async def emit(self, event: Event) -> None:
        child = self._child
        if get_ident() != child.thread:
            await run_on(child.loop, lambda: self.emit(event))
            return
        payload = contract.to_response(event)
        size = len(payload)
        if size > child.event_bytes:
            raise InvalidAgentResponseError(f"the event has {size} bytes: send it in chunks")
        while self._is_full():
            self._room.clear()
            await self._room.wait()
        if self._error is not None:
            raise self._error
        if self._is_dropped:
            return
        self._open_events += 1
        self._open_bytes += size
        child.stream.send(Kind.EVENT, self._number, payload)
        if child.stream.is_full:
            await child.stream.drained()

    @property
    def session(self) -> dict[str, Any]:
        return self._child.contexts.session(self.call.scope, self.context_id)

    def _is_full(self) -> bool:
        if self._error is not None or self._is_dropped:
            return False
        return self._open_events >= MAX_EVENTS or self._open_bytes >= MAX_BYTES

    def grant(self, events: int, size: int) -> None:
        """The core has taken so much."""
        self._open_events -= events
        self._open_bytes -= size
        self._room.set()

    def refuse(self, error: Exception) -> None:
        """An event did not fit."""
        self._error = error
        self._room.set()

    def drop(self) -> None:
        """Nobody waits for the turn any more."""
        self._is_dropped = True
        self._room.set()


class Child:
    """Everything in this process."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.thread = get_ident()
        self.stream: FrameStream
        self.contexts = Contexts()
        self.event_bytes = 0
        self._agent: Agent
        self._setup: asyncio.Future[dict[str, Any]] = self.loop.create_future()
        self._is_over = asyncio.Event()
        self._turns: dict[int, ChildTurn] = {}
        self._jobs: dict[int, asyncio.Task[None]] = {}

    async def live(self, sock: socket.socket) -> None:
        """Load the agent as the core says, and serve until the end."""
        self.stream = FrameStream(self._take, self._lose, limit=2**31)
        await self.loop.create_unix_connection(lambda: self.stream, sock=sock)
        setup = await self._setup
        logs.setup(setup["log_level"], setup["log_format"], "agent")
        self.event_bytes = setup["event_bytes"]
        self.contexts = Contexts(setup["context_idle"])
        try:
            card = await self._start(setup)
        except AgentError as error:
            self.stream.send(Kind.NOT_STARTED, payload=str(error).encode(errors="replace"))
            self._is_over.set()
            self.stream.close()
            return
        gc.collect()
        gc.freeze()
        watchdog = install(self.loop, self._agent.name, setup["watchdog"], advice=ADVICE)
        self.stream.send(Kind.READY, payload=json.dumps({"card": card}).encode())
        await self._is_over.wait()
        watchdog.stop()
        await self._stop()

    async def _start(self, setup: dict[str, Any]) -> dict[str, Any]:
        from gateway.agents.loader import load, proposed_card

        spec = setup["spec"]
        self._agent = load(spec, name=setup["name"], secret_names=setup["secret_names"])
        card = proposed_card(spec)
        try:
            await self._agent.start()
        except AgentError:
            raise
        except Exception as error:
            traceback.print_exc()
            text = f"agent {spec}: its start failed: {type(error).__name__}: {error}"
            raise AgentError(text) from error
        return card

    async def _stop(self) -> None:
        jobs = list(self._jobs.values())
        for job in jobs:
            job.cancel()
        if jobs:
            await asyncio.wait(jobs, timeout=1.0)
        await self._agent.stop()
        self.stream.close()

    # What the core says

    def _take(self, kind: int, number: int, payload: bytes) -> None:
        match kind:
            case Kind.EXECUTE:
                request = agent_pb2.ExecuteRequest.FromString(payload)
                turn = ChildTurn(self, number, request, list(request.related_tasks))
                self._begin(number, turn, self._agent.run)
            case Kind.CANCEL:
                cancel = agent_pb2.CancelRequest.FromString(payload)
                self._begin(number, ChildTurn(self, number, cancel, []), self._agent.cancel)
            case Kind.PING:
                self.stream.send(Kind.PONG, number)
            case Kind.SETUP:
                self._setup.set_result(json.loads(payload))
            case Kind.STOP:
                self._is_over.set()
            case _:
                if number in self._turns:
                    self._tell(self._turns[number], kind, number, payload)

    def _tell(self, turn: ChildTurn, kind: int, number: int, payload: bytes) -> None:
        match kind:
            case Kind.GRANT:
                turn.grant(*GRANT.unpack(payload))
            case Kind.INTERRUPT:
                self._jobs[number].cancel()
            case Kind.REFUSE:
                turn.refuse(FailureError(Failure.from_status(Status.FromString(payload))))
            case Kind.DROP:
                turn.drop()

    def _lose(self, error: Exception | None) -> None:
        if not self._is_over.is_set():
            # the core is gone, or has given this process up
            end_group()

    def _begin(self, number: int, turn: ChildTurn, work: Any) -> None:
        self._turns[number] = turn
        self._jobs[number] = self.loop.create_task(self._run(number, turn, work))

    async def _run(self, number: int, turn: ChildTurn, work: Any) -> None:
        logs.begin_turn(turn.task_id)
        self.contexts.enter(turn.call.scope, turn.context_id)
        outcome = b""
        try:
            await contained(work(turn))
        except asyncio.CancelledError:
            outcome = Status(code=Code.CANCELLED).SerializeToString()
        except Exception as error:
            outcome = to_status(error).SerializeToString()
        finally:
            self.contexts.leave(turn.call.scope, turn.context_id)
            del self._turns[number], self._jobs[number]
            # what is emitted after the end goes nowhere, as in the core
            turn.drop()
            self.stream.send(Kind.END, number, outcome)


ADVICE = "its other turns wait. Let the agent await what it waits for"


def to_status(error: Exception) -> Status:
    """An agent's exception for the core, which judges it: errors of A2A as they are, others with
    their trace, for the log."""
    if isinstance(error, A2AError):
        return judge(error).to_status()
    code = Code.DEADLINE_EXCEEDED if isinstance(error, TimeoutError) else Code.UNKNOWN
    trace = "".join(traceback.format_exception(error)).encode(errors="backslashreplace")
    return Status(code=code, message=trace[-MAX_TRACE_BYTES:].decode(errors="replace"))


def end_with_parent(alive: int) -> None:
    """Have the process group killed when the pipe's other end is closed."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            fcntl.fcntl(alive, fcntl.F_SETOWN, -os.getpgrp())
            fcntl.fcntl(alive, _F_SETSIG, signal.SIGKILL)
            flags = fcntl.fcntl(alive, fcntl.F_GETFL)
            fcntl.fcntl(alive, fcntl.F_SETFL, flags | os.O_ASYNC)
    threading.Thread(target=_outlive, args=(alive,), name="parent", daemon=True).start()


def be_killed_first() -> None:
    """Where an agent uses up the machine's memory, it is the one to go and not the gateway."""
    with contextlib.suppress(OSError, ValueError), open("/proc/self/oom_score_adj", "r+") as file:
        score = max(int(file.read()), _OOM_SCORE)
        file.seek(0)
        file.write(str(score))


def _outlive(alive: int) -> None:
    # also where it ended before the kernel was told
    os.read(alive, 1)
    end_group()


def end_group() -> None:
    """Kill this process and what it has started."""
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


def main() -> None:
    """As a child of the core."""
    named = os.environ.pop(SOCKETS_VARIABLE, "")
    if not named:
        sys.exit("a2a-gateway: this is for the core to start")
    sock, alive = (int(number) for number in named.split(","))
    for number in (sock, alive):
        os.set_inheritable(number, False)
    end_with_parent(alive)
    be_killed_first()
    gc.set_threshold(GC_THRESHOLD, 10, 10)

    async def live() -> None:
        await Child().live(socket.socket(fileno=sock))

    with asyncio.Runner(loop_factory=_new_loop) as runner:
        try:
            runner.run(live())
        except BaseException as error:
            # of a job that the agent left in the loop; its turns end with the process, now
            traceback.print_exc()
            sys.stderr.flush()
            code = error.code if isinstance(error, SystemExit) else 1
            os._exit(code if isinstance(code, int) else 1)


def _new_loop() -> asyncio.AbstractEventLoop:
    import uvloop

    return uvloop.new_event_loop()


if __name__ == "__main__":
    main()
