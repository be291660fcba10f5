"""The runtime: takes messages, gives answers, reads tasks. `gateway.service` has authenticated
and validated what comes in here.

Walk of a message: `send` makes a turn and its record; `LiveTask.begin` stores the record;
`Runner` starts the agent; `LiveTask.accept` applies each event; `Journal` stores them in groups;
readers (`reading`) see what is stored.
"""

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Coroutine
from threading import get_ident

from gateway.agents import Agent, AgentError
from gateway.agents.containment import contained
from gateway.call import Call, Scope
from gateway.errors import (
    InternalError,
    ResourceExhaustedError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnavailableError,
    UnsupportedOperationError,
    ValidationError,
)
from gateway.ids import new_id
from gateway.pb import TERMINAL_STATES, Event, SendMessageRequest, Task, TaskState
from gateway.runtime.contexts import Contexts
from gateway.runtime.journal import Journal
from gateway.runtime.keys import Keys
from gateway.runtime.live import LiveTask
from gateway.runtime.options import RuntimeObserver, RuntimeOptions, SilentObserver
from gateway.runtime.reading import Repeated, Sent, subscription
from gateway.runtime.recovery import fail_open_turns, load
from gateway.runtime.repair import Repairs, not_stored
from gateway.runtime.retention import Retention
from gateway.runtime.runner import Runner
from gateway.runtime.turn import LiveTurn
from gateway.store import LogEvent, Query, Store, StoreError, TurnRow, Write

logger = logging.getLogger(__name__)

MAX_RELATED = 16
"""Referenced tasks that are loaded for the agent."""
BUSY = "Task is already working."
UNWIND_SECONDS = 0.3
"""Beyond the grace, for what is cancelled at the end, and for the agent to stop."""


class Runtime:
    """One agent, one store, all tasks. Lives in one event loop."""

    def __init__(
        self,
        agent: Agent,
        store: Store,
        options: RuntimeOptions | None = None,
        observer: RuntimeObserver | None = None,
    ) -> None:
        self.options = options or RuntimeOptions()
        self.store = store
        self.agent = agent
        self._observer = observer or SilentObserver()
        self.contexts = Contexts(self.options.context_idle)
        self._live: dict[tuple[Scope, str], LiveTask] = {}
        self._loading: dict[tuple[Scope, str], asyncio.Future[LiveTask]] = {}
        self.repairs = Repairs(self)
        """Tasks whose failure is not stored yet: they take nothing new."""
        self.keys = Keys(self)
        self._queued = 0
        self._starting: set[LiveTurn] = set()
        """Turns whose record is being stored: they take a place as soon as it is."""
        self._background: set[asyncio.Task[None]] = set()
        self._is_stopping = False

    async def start(self) -> None:
        """Open the store, end what the last core left open, start the agent. Raises
        `StoreError` and `AgentError`."""
        self.loop = asyncio.get_running_loop()
        self.thread = get_ident()
        self.journal = Journal(self.store, self._observer.committed)
        self.runner = Runner(
            self.agent, self.options.running, self.options.cancel_timeout, self.turn_ended
        )
        self.retention = Retention(self.store, self.options, self._expired)
        await self.store.open()
        if count := await fail_open_turns(self.store):
            logger.warning("%d turns of the last run were cut off; their tasks are FAILED", count)
        await self._start_agent()
        self.retention.start()

    async def _start_agent(self) -> None:
        try:
            await contained(self.agent.start())
        except AgentError:
            raise
        except Exception as error:
            text = f"agent {self.agent.name}: its start failed: {type(error).__name__}: {error}"
            raise AgentError(text) from error

    async def stop(self, grace: float = 0.0) -> None:
        """Take no more messages, let turns end within `grace`, store what is left, close. Also
        after a start that was given up half-way."""
        end = self.loop.time() + grace
        self._is_stopping = True
        await self.runner.stop(grace)
        for live in self._live.values():
            live.wake()
        await self.retention.stop()
        background = list(self._background)
        for task in background:
            task.cancel()
        if background:
            await asyncio.wait(background, timeout=UNWIND_SECONDS)
        # what has just been ended is written in the loop's next round
        await asyncio.sleep(0)
        await self.journal.flush()
        try:
            async with asyncio.timeout(max(UNWIND_SECONDS, end - self.loop.time())):
                await contained(self.agent.stop())
        except TimeoutError:
            logger.warning("agent %s does not stop; ending without it", self.agent.name)
        except Exception:
            logger.exception("agent %s failed to stop", self.agent.name)
        finally:
            await self.store.close()

    # -- figures for metrics --------------------------------------------------------------

    @property
    def running_turns(self) -> int:
        """Turns whose agent runs."""
        return len(self.runner.running)

    @property
    def waiting_turns(self) -> int:
        """Turns that wait for their agent, or will when their record is stored."""
        free = max(0, self.options.running - len(self.runner.running))
        return self.runner.waiting + self._queued + max(0, len(self._starting) - free)

    @property
    def live_tasks(self) -> int:
        """Tasks in memory."""
        return len(self._live)

    @property
    def readers(self) -> int:
        """Open readers of logs."""
        return sum(live.readers for live in self._live.values())

    def tasks_by_state(self) -> Counter[int]:
        """Tasks in memory by TaskState number: those in which something goes on."""
        return Counter(live.head.state for live in self._live.values() if live.head is not None)

    def is_working(self, scope: Scope, task_id: str) -> bool:
        """Whether a turn of the task runs or waits, or the last events of one are not stored yet,
        so that events may still come."""
        live = self._live.get((scope, task_id))
        return live is not None and (live.turn is not None or live.saved_version != live.version)

    # -- sending --------------------------------------------------------------------------

    async def send(self, call: Call, request: SendMessageRequest) -> Sent | Repeated:
        """Start a turn for a message, or queue it behind the running one of its task. Under an
        idempotency key that has been used the first outcome is given. Raises `TaskNotFoundError`,
        `UnsupportedOperationError`, `ResourceExhaustedError`, `ValidationError`."""
        if self._is_stopping:
            raise UnavailableError("The gateway is stopping; send again to its successor")
        if not call.idempotency_key:
            return await self.begin(call, request, b"")
        return await self.keys.send(call, request)

    async def begin(self, call: Call, request: SendMessageRequest, digest: bytes) -> Sent:
        """Start or queue a turn, whatever its key; `digest` goes into its record."""
        message = request.message
        scope = call.scope
        if message.task_id:
            live = await self.live(scope, message.task_id)
            self._check_follow_up(live, request)
        else:
            context_id = message.context_id or new_id()
            self._check_context(scope, context_id)
            self._check_room()
            live = LiveTask(self, scope, new_id(), context_id)
        related = await self._related(live, request) if message.reference_task_ids else []
        message.task_id, message.context_id = live.id, live.context_id
        turn = LiveTurn(call, request, live, self._record(call, request, live, digest), related)
        if related and live.head is not None:
            # loading them took time
            self._check_follow_up(live, request)
        self._enter(live, turn)
        return Sent(turn)

    def _record(
        self, call: Call, request: SendMessageRequest, live: LiveTask, digest: bytes
    ) -> TurnRow:
        key = call.idempotency_key
        if not key and not live.is_stored and not self.store.is_durable:
            # it will never be written (`LiveTask.begin`)
            return TurnRow(live.scope, "", live.id, live.context_id, "", digest, b"", 0)
        return TurnRow(
            live.scope,
            new_id(),
            live.id,
            live.context_id,
            key,
            digest,
            request.SerializeToString(),
            time.time_ns() // 1000,
        )

    def _enter(self, live: LiveTask, turn: LiveTurn) -> None:
        self.attach(live)
        if self.options.exclusive:
            self.contexts.enter(live.scope, live.context_id)
        if live.turn is None:
            self._starting.add(turn)
            live.begin(turn)
            return
        live.queue.append(turn)
        self._queued += 1

        def done(error: StoreError | None) -> None:
            if error is not None:
                turn.failure = not_stored(error)
            turn.is_queued = error is None
            live.wake()

        self.journal.write(Write(live.scope, live.id, turn=turn.row), done)

    def _check_follow_up(self, live: LiveTask, request: SendMessageRequest) -> None:
        context_id = request.message.context_id
        if context_id and context_id != live.context_id:
            raise ValidationError(
                ("message.contextId", "is not the context of the task; leave it out or correct it")
            )
        if live.is_terminal:
            raise UnsupportedOperationError(
                f"Task {live.id} has ended; send a new message that refers to it"
            )
        if live.turn is not None:
            if self.options.exclusive:
                raise UnsupportedOperationError(BUSY)
            if len(live.queue) >= self.options.waiting_per_task:
                raise ResourceExhaustedError(
                    f"{len(live.queue)} messages wait for task {live.id} already; try again later"
                )
        else:
            self._check_context(live.scope, live.context_id)
        self._check_room(has_to_wait=live.turn is not None)

    def _check_context(self, scope: Scope, context_id: str) -> None:
        if self.options.exclusive and self.contexts.is_busy(scope, context_id):
            raise UnsupportedOperationError(BUSY)

    def _check_room(self, *, has_to_wait: bool = False) -> None:
        """Refuse a turn that would wait, for its task or for a place, where enough do."""
        taken = self.running_turns + len(self._starting)
        if not has_to_wait and taken < self.options.running:
            return
        waiting = self.waiting_turns
        if waiting >= self.options.waiting:
            raise ResourceExhaustedError(
                f"{self.running_turns} turns run and {waiting} wait; try again later"
            )

    async def _related(self, live: LiveTask, request: SendMessageRequest) -> list[Task]:
        related = []
        # a reader's hold: were the task to leave memory meanwhile, it could get a second writer
        live.readers += 1
        try:
            for task_id in request.message.reference_task_ids[:MAX_RELATED]:
                try:
                    related.append(await self.task(live.scope, task_id))
                except TaskNotFoundError:
                    # a reference is a hint; one that leads nowhere stops no message
                    continue
        finally:
            live.readers -= 1
            self.loop.call_soon(self.release, live)
        return related

    # -- turns ----------------------------------------------------------------------------

    def start_turn(self, turn: LiveTurn) -> None:
        """The turn's record is stored: its agent may start."""
        self._starting.discard(turn)
        self.runner.start(turn)

    def turn_ended(self, turn: LiveTurn) -> None:
        live = turn.live
        self._starting.discard(turn)
        if turn.row.key:
            _ = self.spawn(self.keys.forget(turn))
        if self.options.exclusive:
            self.contexts.leave(live.scope, live.context_id)
        live.turn = None
        while live.queue and live.turn is None:
            self._next_turn(live)
        # what the agent did last need not wait for the loop to come round
        live.flush()
        live.wake()
        self.release(live)

    def _next_turn(self, live: LiveTask) -> None:
        turn = live.queue.popleft()
        self._queued -= 1
        if turn.failure is None and not live.is_terminal and not live.is_broken:
            self._starting.add(turn)
            live.begin(turn, is_row_stored=True)
            return
        turn.failure = turn.failure or UnsupportedOperationError(
            f"Task {live.id} has ended before the message's turn came"
        )
        # whoever was told that it waits, and waits no longer, hears nothing of it
        logger.info("a message was not taken: %s", turn.failure)
        if self.options.exclusive:
            self.contexts.leave(live.scope, live.context_id)

        def done(error: StoreError | None) -> None:
            self.keys.drop(turn)
            if error is not None:
                logger.error("the end of a turn was not stored", exc_info=error)

        self.journal.write(Write(live.scope, live.id, ended_turn=turn.row.id), done)

    # -- reading --------------------------------------------------------------------------

    async def live(self, scope: Scope, task_id: str) -> LiveTask:
        """The task in memory, loaded where it is not. The caller has to use it before it awaits
        anything else. Raises `TaskNotFoundError`."""
        key = (scope, task_id)
        if key in self.repairs.mending:
            raise UnavailableError("The task's last change is being stored; try again later")
        while True:
            live = self._live.get(key)
            if live is not None:
                if live.head is None or not live.is_stored:
                    break  # only its agent knows of it so far
                return live
            loading = self._loading.get(key)
            if loading is None:
                return await self._load(key)
            await asyncio.wait([loading])
            # where its loader was cancelled somebody else loads it
            if not loading.cancelled() and (error := loading.exception()) is not None:
                raise error
        raise TaskNotFoundError(f"Task not found: {task_id}")

    async def _load(self, key: tuple[Scope, str]) -> LiveTask:
        future: asyncio.Future[LiveTask] = self.loop.create_future()
        self._loading[key] = future
        try:
            stored = await load(self.store, *key)
            if stored is None:
                raise TaskNotFoundError(f"Task not found: {key[1]}")
            live = LiveTask.from_row(self, *stored)
        except asyncio.CancelledError:
            future.cancel()
            raise
        except Exception as error:
            future.set_exception(error)
            future.exception()  # nobody else may be waiting for it
            raise
        finally:
            del self._loading[key]
        self._live[key] = live
        # nobody may want it after all: look again when the caller has had its turn
        self.loop.call_soon(self.release, live)
        future.set_result(live)
        return live

    async def task(self, scope: Scope, task_id: str) -> Task:
        """The task as stored. Raises `TaskNotFoundError`."""
        live = self._live.get((scope, task_id))
        if live is not None and live.head is not None and live.is_stored:
            return (await live.snapshot())[1]
        if live is None:
            stored = await load(self.store, scope, task_id)
            if stored is not None:
                return stored[1].task
        raise TaskNotFoundError(f"Task not found: {task_id}")

    async def tasks(self, scope: Scope, query: Query) -> tuple[list[Task], bool, int]:
        """One page of the scope's tasks, whether more follow, and how many there are in all."""
        page = await self.store.tasks(scope, query)
        tasks: list[Task] = []
        left = query.limit_bytes
        for row in page.rows:
            if left <= 0:
                # what is in memory has grown beyond what is stored
                return tasks, True, page.total
            live = self._live.get((scope, row.id))
            if live is None or live.head is None:
                assert row.snapshot is not None
                left -= len(row.snapshot)
                tasks.append(Task.FromString(row.snapshot))
            else:
                # also where the store is ahead of what this loop has heard of it
                with contextlib.suppress(InternalError):
                    tasks.append((await live.snapshot())[1])
                    left -= tasks[-1].ByteSize()
        return tasks, page.has_more, page.total

    async def subscribe(
        self, scope: Scope, task_id: str, after: int | None = None
    ) -> AsyncIterator[list[LogEvent]]:
        """The task, then its events to its end; with `after` the events above it, of an ended
        task too. Raises `TaskNotFoundError`, `UnsupportedOperationError`."""
        live = await self.live(scope, task_id)
        if after is None and live.is_terminal:
            raise UnsupportedOperationError(f"Task {task_id} has ended; read it with GetTask")
        return subscription(live, after)

    # -- cancelling -----------------------------------------------------------------------

    async def cancel(self, call: Call, task_id: str) -> Task:
        """Cancel a task and return it; a canceled one is returned as it is. Raises
        `TaskNotFoundError`, `TaskNotCancelableError`."""
        live = await self.live(call.scope, task_id)
        # a reader's hold: the task stays in memory until it has been looked at
        live.readers += 1
        repairs = live.repairs
        try:
            while not live.is_ended and live.repairs == repairs:
                work = None if live.is_terminal else self._start_cancel(call, live)
                await (live.changed() if work is None else asyncio.shield(work))
            _, task = await live.snapshot()
            if task.status.state not in TERMINAL_STATES:
                raise InternalError("The cancel could not be stored; try again later")
        finally:
            live.readers -= 1
            self.release(live)
        if task.status.state != TaskState.TASK_STATE_CANCELED:
            name = TaskState.Name(task.status.state)
            raise TaskNotCancelableError(f"Task {task_id} has ended already ({name})")
        return task

    def _start_cancel(self, call: Call, live: LiveTask) -> asyncio.Task[None] | None:
        """Begin to cancel; None where another cancel is under way or the turn begins just now."""
        turn = live.turn
        if turn is None:
            return self.spawn(self._cancel_interrupted(self._cancel_turn(call, live)))
        if turn.is_cancelling or not turn.is_running:
            return None
        turn.is_cancelling = True
        return self.spawn(self.runner.cancel(turn))

    def _cancel_turn(self, call: Call, live: LiveTask) -> LiveTurn:
        """A turn that runs no agent: it holds the task while its agent is told."""
        assert live.head is not None
        row = TurnRow(live.scope, "", live.id, live.context_id, "", b"", b"", 0, is_open=False)
        turn = LiveTurn(call, SendMessageRequest(), live, row, [])
        turn.request.message.task_id = live.id
        turn.request.message.context_id = live.context_id
        turn.task = Task()
        turn.task.CopyFrom(live.head.task)
        turn.is_running = turn.is_cancelling = True
        live.turn = turn
        if self.options.exclusive:
            self.contexts.enter(live.scope, live.context_id)
        return turn

    async def _cancel_interrupted(self, turn: LiveTurn) -> None:
        try:
            await self.runner.cancel_interrupted(turn, turn.live)
        finally:
            self.turn_ended(turn)

    # -- what the parts tell --------------------------------------------------------------

    def attach(self, live: LiveTask) -> LiveTask:
        """Put a task back that may have left memory since it was looked up."""
        return self._live.setdefault((live.scope, live.id), live)

    def release(self, live: LiveTask) -> None:
        """Let a task leave memory when nothing goes on in it."""
        key = (live.scope, live.id)
        if live.is_idle and self._live.get(key) is live:
            del self._live[key]

    def note_state(self, state: int) -> None:
        """A task entered a state."""
        self._observer.state_entered(state)
        if state in TERMINAL_STATES:
            self.retention.note_finished()

    def note_dropped(self, turn: LiveTurn, event: Event) -> None:
        """An event came too late (D28)."""
        self._observer.event_dropped()
        if turn.is_late:
            return  # told once: an agent that goes on for long would fill the log
        turn.is_late = True
        logger.info(
            "%s of task %s came after its end; dropped, as what follows",
            type(event).__name__,
            turn.task_id,
        )

    def _expired(self, scope: Scope, task_id: str) -> None:
        live = self._live.pop((scope, task_id), None)
        if live is not None:
            live.is_deleted = True
            live.wake()

    def forget(self, key: tuple[Scope, str]) -> None:
        """Take a task out of memory, whatever goes on in it."""
        self._live.pop(key, None)

    def spawn(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        """Do some work beside everything else; the stop ends it."""
        task = self.loop.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task
