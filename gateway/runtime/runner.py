"""Running turns: starting agents within the limit, ending turns by the rules, cancelling."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable

from gateway import logs
from gateway.agents import Agent
from gateway.agents.containment import contained
from gateway.errors import A2AError, InvalidAgentResponseError, UnavailableError, judge
from gateway.pb import Task, TaskState
from gateway.runtime.live import LiveTask
from gateway.runtime.turn import LiveTurn

logger = logging.getLogger(__name__)

UNFINISHED = "The agent ended its turn without finishing the task"
STOPPED = "The gateway stopped while the agent was working on this task"
CANCELED = "The task was canceled"
UNWIND_SECONDS = 0.3
"""For agents to end once the grace is over; those that do not are left behind."""


class Runner:
    """Runs the agent. `ended` is called once for each turn, after its last change."""

    def __init__(
        self, agent: Agent, running: int, cancel_timeout: float, ended: Callable[[LiveTurn], None]
    ) -> None:
        self._agent = agent
        self._limit = running
        self._cancel_timeout = cancel_timeout
        self._ended = ended
        self._ready: deque[LiveTurn] = deque()
        self.running: set[LiveTurn] = set()
        self._abandoned: set[asyncio.Task[None]] = set()
        self._is_stopping = False

    @property
    def waiting(self) -> int:
        """Turns that are ready and wait for a place."""
        return len(self._ready)

    def start(self, turn: LiveTurn) -> None:
        """Start the agent, or queue the turn until there is a place for it."""
        turn.is_running = True
        if len(self.running) < self._limit and not self._is_stopping:
            self._spawn(turn)
        else:
            self._ready.append(turn)

    def _spawn(self, turn: LiveTurn) -> None:
        self.running.add(turn)
        turn.run_task = turn.live.runtime.loop.create_task(self._run(turn))

    async def _run(self, turn: LiveTurn) -> None:
        logs.begin_turn(turn.task_id)
        try:
            await contained(self._agent.run(turn))
        except asyncio.CancelledError:
            assert turn.run_task is not None
            if turn.run_task.cancelling():
                self._conclude(turn, UnavailableError(STOPPED))
                raise
            # nobody cancelled the turn: something that the agent waited for was
            self._conclude(turn, RuntimeError("the agent gave its turn up (CancelledError)"))
        except Exception as error:
            self._conclude(turn, error)
        else:
            self._conclude(turn, None)
        finally:
            if not turn.is_cancelling:
                self._leave(turn)

    def _leave(self, turn: LiveTurn) -> None:
        if turn not in self.running:
            return
        self.running.discard(turn)
        self._ended(turn)
        while self._ready and len(self.running) < self._limit and not self._is_stopping:
            self._spawn(self._ready.popleft())

    def _conclude(self, turn: LiveTurn, error: BaseException | None) -> None:
        """Put an end to a turn whose agent has ended, by `error` or by returning."""
        live = turn.live
        if turn.is_closed or turn.is_cancelling:
            return
        if error is None:
            self._conclude_quietly(turn)
        elif live.head is None:
            turn.failure = error
            live.end_turn(turn)
        elif live.is_terminal:
            logger.warning("agent failed after the end of its task", exc_info=error)
            live.end_turn(turn)
        else:
            # the text of an exception that is not A2A's stays in the log
            failure = judge(error)
            prefix = "" if isinstance(error, A2AError) else "The agent failed. "
            live.fail(turn, prefix + failure.message)

    def _conclude_quietly(self, turn: LiveTurn) -> None:
        live = turn.live
        head = live.head
        if head is None:
            turn.failure = InvalidAgentResponseError("The agent gave no answer")
            live.end_turn(turn)
        elif head.is_settled:
            live.end_turn(turn)
        else:
            live.fail(turn, UNFINISHED)

    # -- cancelling -----------------------------------------------------------------------

    async def cancel(self, turn: LiveTurn) -> None:
        """Reach the agent of a running turn, which the caller has marked as cancelling; when it
        returns the turn has ended and its task is terminal. Completion that comes first wins."""
        live = turn.live
        run_task = turn.run_task
        if live.head is not None:
            # what the agent's cancel sees is the task as it stands, in its first turn too
            turn.task = Task()
            turn.task.CopyFrom(live.head.task)
        if run_task is not None:
            run_task.cancel()
        elif turn in self._ready:
            self._ready.remove(turn)
            self.running.add(turn)
        try:
            await self._tell(turn)
        finally:
            if live.head is not None and not live.is_terminal and not turn.is_closed:
                live.set_status(TaskState.TASK_STATE_CANCELED, CANCELED, turn)
            live.end_turn(turn)
            self._leave(turn)

    async def _tell(self, turn: LiveTurn) -> None:
        waits: list[asyncio.Task[None]] = [asyncio.create_task(self._call_cancel(turn))]
        if turn.run_task is not None:
            waits.append(turn.run_task)
        _, late = await asyncio.wait(waits, timeout=self._cancel_timeout)
        for task in late:
            logger.warning("the agent ignores the cancel of task %s; abandoned", turn.task_id)
            self._abandon(task)

    async def _call_cancel(self, turn: LiveTurn) -> None:
        try:
            await contained(self._agent.cancel(turn))
        except Exception:
            logger.warning("the agent's cancel failed", exc_info=True)

    def _abandon(self, task: asyncio.Task[None]) -> None:
        task.cancel()
        self._abandoned.add(task)
        task.add_done_callback(self._abandoned.discard)

    async def cancel_interrupted(self, turn: LiveTurn, live: LiveTask) -> None:
        """Tell the agent of the cancel of a task that has no running turn, and cancel it."""
        call = asyncio.create_task(self._call_cancel(turn))
        _, late = await asyncio.wait([call], timeout=self._cancel_timeout)
        for task in late:
            self._abandon(task)
        if not live.is_terminal:
            live.set_status(TaskState.TASK_STATE_CANCELED, CANCELED, turn)
        live.end_turn(turn)

    # -- stopping -------------------------------------------------------------------------

    async def stop(self, grace: float) -> None:
        """Let running turns end within `grace` seconds; then end them, and those that still wait
        for a place, as FAILED."""
        self._is_stopping = True
        tasks = [turn.run_task for turn in self.running if turn.run_task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=grace)
        for turn in [*self.running, *self._ready]:
            if turn.is_cancelling:
                continue  # becomes CANCELED
            if turn.live.head is not None and not turn.is_closed:
                turn.live.fail(turn, STOPPED)
            elif turn.run_task is None:
                turn.failure = UnavailableError(STOPPED)
                turn.live.end_turn(turn)
        late = [turn.run_task for turn in self.running if turn.run_task is not None]
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late, timeout=UNWIND_SECONDS)
