"""`isolation: thread`: an agent in a thread of its own, with a loop of its own. Layer: agents.

An agent that blocks then stops its own turns and nothing else. What crosses the border between
the two loops goes through two mailboxes, which wake the other side once for a batch and not once
for an item. Rules:

1. Events of a turn cross in order; `emit` copies the event, so that the agent may change it.
2. `emit` waits while `MAX_EVENTS` or `MAX_BYTES` of the turn have crossed and were not taken, so
   that the runtime's back-pressure reaches the agent. One larger event passes alone.
3. What the runtime's `emit` raises is raised by the agent's next `emit`, or at the turn's end;
   events behind it are dropped, as they would not have come.
4. Cancelling `run` cancels the agent's coroutine and waits for its end; a second cancel gives
   up waiting, so that the runtime can abandon an agent that ignores it.
5. `sys.exit` in a background job of the agent ends the job: the loop goes on with all others.
   Where the thread ends all the same, its turns and all later ones fail at once, and `fault` says
   so.
"""

import asyncio
import contextvars
import logging
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from gateway.agents import Agent, AgentError, Turn
from gateway.agents.containment import contained
from gateway.agents.input import call_on
from gateway.agents.loops import run_on
from gateway.agents.pulse import Pulse
from gateway.pb import Event

logger = logging.getLogger(__name__)

MAX_EVENTS = 64
MAX_BYTES = 1024 * 1024
STOP_TIMEOUT = 5.0

Work = Callable[[Turn], Coroutine[Any, Any, None]]


class Mailbox:
    """Runs callbacks on a loop, posted by another thread, in order and in batches."""

    def __init__(self, loop: asyncio.AbstractEventLoop):
        self._loop = loop
        self._items: deque[tuple[Callable[..., Any], tuple[Any, ...]]] = deque()
        self._is_armed = False

    def post(self, callback: Callable[..., Any], *args: Any) -> None:
        """From any thread. After the loop is closed nothing happens."""
        self._items.append((callback, args))
        # the drain disarms before it reads: a post that still sees it armed is read by it
        if not self._is_armed:
            self._is_armed = True
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._drain)

    def _drain(self) -> None:
        self._is_armed = False
        # only what is there now: a busy poster must not hold the loop
        for _ in range(len(self._items)):
            callback, args = self._items.popleft()
            try:
                callback(*args)
            except Exception:
                logger.exception("a message between the core and an agent's thread failed")


class Passage(Turn):
    """A turn on its way through the border: the agent's side of it and the core's.

    The agent's loop runs `begin`, `emit`, `interrupt` and `grant`, the core's loop all else;
    each attribute is written by one side alone, as its group says.
    """

    __slots__ = (
        "_core",
        "_error",
        "_events",
        "_home",
        "_is_abandoned",
        "_is_done",
        "_job",
        "_open_bytes",
        "_open_events",
        "_outcome",
        "_room",
        "_session",
        "_signal",
        "_to_agent",
        "_to_core",
        "_turn",
    )

    def __init__(self, turn: Turn, to_agent: Mailbox, to_core: Mailbox) -> None:
        super().__init__(
            turn.call, turn.request, turn.task_id, turn.context_id, turn.task, turn.related
        )
        self._turn = turn
        self._to_agent = to_agent
        self._to_core = to_core
        self._core = asyncio.get_running_loop()
        # the core's
        self._events: deque[tuple[Event, int]] = deque()
        self._signal = asyncio.Event()
        self._is_done = False
        self._is_abandoned = False
        self._outcome: BaseException | None = None
        self._error: Exception | None = None
        # the agent's
        self._home: asyncio.AbstractEventLoop | None = None
        self._job: asyncio.Task[None] | None = None
        self._room = asyncio.Event()
        self._session: dict[str, Any] | None = None
        self._open_events = 0
        self._open_bytes = 0

    # the agent's side

    def begin(self, work: Work, context: contextvars.Context) -> None:
        self._home = asyncio.get_running_loop()
        self._job = self._home.create_task(contained(work(self)), context=context)
        self._job.add_done_callback(self._end)

    async def emit(self, event: Event) -> None:
        home = self._home
        if home is not None and asyncio.get_running_loop() is not home:
            await run_on(home, lambda: self.emit(event))
            return
        size = event.ByteSize()
        while self._is_full(size) and self._error is None and not self._is_abandoned:
            self._room.clear()
            await self._room.wait()
        if self._error is not None:
            raise self._error
        if self._is_abandoned:
            return
        copy: Any = type(event)()
        copy.CopyFrom(event)
        self._open_events += 1
        self._open_bytes += size
        self._to_core.post(self._arrive, copy, size)

    @property
    def session(self) -> dict[str, Any]:
        # the runtime's books are kept by the core's loop alone
        if self._session is None:
            self._session = call_on(self._core, lambda: self._turn.session)
        return self._session

    def interrupt(self) -> None:
        if self._job is not None:
            self._job.cancel()

    def grant(self, events: int, size: int) -> None:
        self._open_events -= events
        self._open_bytes -= size
        self._room.set()

    def _is_full(self, size: int) -> bool:
        return self._open_events >= MAX_EVENTS or (
            self._open_events > 0 and self._open_bytes + size > MAX_BYTES
        )

    def _end(self, job: "asyncio.Task[None]") -> None:
        outcome = asyncio.CancelledError() if job.cancelled() else job.exception()
        self._to_core.post(self._finish, outcome)

    # the core's side

    async def carry(self) -> None:
        """Hand the agent's events to the real turn until the agent has ended."""
        while True:
            await self._hand_over()
            if self._is_done:
                return
            await self._signal.wait()
            self._signal.clear()

    def raise_outcome(self) -> None:
        """Raise what ended the agent, or an error of the runtime that the agent never met."""
        error = self._outcome or self._error
        if error is not None:
            raise error

    def lose(self) -> None:
        """The agent's thread is gone, and with it whatever this turn was doing."""
        if not self._is_done:
            self._finish(AgentError("the agent's thread has ended"))

    def abandon(self) -> None:
        """Nobody waits any more: what the agent still emits is dropped."""
        self._is_abandoned = True
        self._to_agent.post(self._room.set)

    async def _hand_over(self) -> None:
        count = taken = 0
        try:
            while self._events:
                event, size = self._events.popleft()
                count += 1
                taken += size
                await self._emit_inside(event)
                if count >= MAX_EVENTS // 2:
                    self._to_agent.post(self.grant, count, taken)
                    count = taken = 0
        finally:
            if count and not self._is_done:
                self._to_agent.post(self.grant, count, taken)

    async def _emit_inside(self, event: Event) -> None:
        if self._error is not None:
            return  # what came behind a refused event would hide that it is missing
        try:
            await self._turn.emit(event)
        except Exception as error:
            # kept for the agent, which is elsewhere by now
            self._error = error

    def _arrive(self, event: Event, size: int) -> None:
        if not self._is_abandoned:
            self._events.append((event, size))
            self._signal.set()

    def _finish(self, outcome: BaseException | None) -> None:
        self._outcome = outcome
        self._is_done = True
        self._signal.set()


class ThreadAgent:
    """Runs another agent in a thread."""

    def __init__(self, inner: Agent, *, stop_timeout: float = STOP_TIMEOUT):
        self.name = inner.name
        self._inner = inner
        self._stop_timeout = stop_timeout
        self._thread: threading.Thread | None = None
        self._passages: set[Passage] = set()
        self._pulse = Pulse(self._ask)
        self._to_agent: Mailbox
        self._to_core: Mailbox
        self._leave: asyncio.Event
        self._gone: asyncio.Event

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._to_core = Mailbox(loop)
        self._gone = asyncio.Event()
        ready: asyncio.Future[None] = loop.create_future()
        # daemon: an agent that never returns must not hold the process
        self._thread = threading.Thread(
            target=self._main, args=(ready,), name=f"agent-{self.name}", daemon=True
        )
        self._thread.start()
        try:
            await ready
        except BaseException:
            self._thread = None
            raise

    async def stop(self) -> None:
        """Returns within the timeout, also where the agent blocks its thread for ever."""
        if self._thread is None:
            return
        self._thread = None
        self._to_agent.post(self._leave.set)
        try:
            await asyncio.wait_for(self._gone.wait(), self._stop_timeout)
        except TimeoutError:
            logger.warning(
                "agent %s did not leave its thread within %g s; going on without it",
                self.name,
                self._stop_timeout,
            )

    @property
    def fault(self) -> str:
        """Why no turn can run now. For readiness."""
        return "the agent's thread has ended" if self._thread is None else self._pulse.fault

    def _ask(self) -> None:
        self._to_agent.post(self._to_core.post, self._pulse.answer)

    async def run(self, turn: Turn) -> None:
        await self._pass(turn, self._inner.run)

    async def cancel(self, turn: Turn) -> None:
        await self._pass(turn, self._inner.cancel)

    async def _pass(self, turn: Turn, work: Work) -> None:
        if self._thread is None:
            raise AgentError(f"agent {self.name} is not started, or its thread has ended")
        passage = Passage(turn, self._to_agent, self._to_core)
        self._passages.add(passage)
        try:
            await self._escort(passage, work)
        finally:
            self._passages.discard(passage)
        passage.raise_outcome()

    async def _escort(self, passage: Passage, work: Work) -> None:
        self._to_agent.post(passage.begin, work, contextvars.copy_context())
        try:
            await passage.carry()
        except asyncio.CancelledError:
            self._to_agent.post(passage.interrupt)
            try:
                await passage.carry()
            except asyncio.CancelledError:
                passage.abandon()
                raise

    def _main(self, ready: "asyncio.Future[None]") -> None:
        try:
            with asyncio.Runner(loop_factory=_new_loop) as runner:
                self._turn_loop(runner.get_loop(), ready)
        except BaseException as error:
            logger.error("the thread of agent %s broke off", self.name, exc_info=error)
        finally:
            self._to_core.post(self._lose_all)

    def _turn_loop(self, loop: asyncio.AbstractEventLoop, ready: "asyncio.Future[None]") -> None:
        life = loop.create_task(self._live(ready))
        life.add_done_callback(lambda _: loop.stop())
        while not life.done():
            try:
                loop.run_forever()
            except (SystemExit, KeyboardInterrupt) as error:
                # the loop gives these up to its caller; what waits in it is untouched
                logger.error(
                    "a job that agent %s left in its loop ended", self.name, exc_info=error
                )
        life.result()

    def _lose_all(self) -> None:
        self._thread = None
        self._gone.set()
        for passage in self._passages:
            passage.lose()

    async def _live(self, ready: "asyncio.Future[None]") -> None:
        self._to_agent = Mailbox(asyncio.get_running_loop())
        self._leave = asyncio.Event()
        try:
            await self._inner.start()
        except BaseException as error:
            self._to_core.post(_settle, ready, error)
            return
        self._to_core.post(_settle, ready, None)
        await self._leave.wait()
        try:
            await self._inner.stop()
        except Exception:
            logger.exception("agent %s failed to stop", self.name)


def _settle(future: "asyncio.Future[None]", error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:  # not built for this platform
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
