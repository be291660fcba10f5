"""A task in memory: its head, the tail of its log, its turns. The one writer of its events.

Every change gets a version; `saved_version` is the last one that is stored. Nothing is shown
before it is stored. One write per task is under way at a time; what comes meanwhile gathers into
the next, so that all events that are ready together share one row of the store.
"""

import asyncio
import logging
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING

from gateway.call import Scope
from gateway.errors import InternalError, InvalidAgentResponseError
from gateway.pb import (
    Event,
    Message,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatusUpdateEvent,
)
from gateway.runtime.head import (
    ARTIFACT_TAG,
    STATUS_TAG,
    TASK_TAG,
    Head,
    pack,
    status_event,
)
from gateway.runtime.incoming import (
    check_artifact,
    check_status,
    check_task,
    new_task,
    to_body,
    to_reply,
)
from gateway.runtime.tail import Tail
from gateway.runtime.turn import LiveTurn
from gateway.store import LogEvent, StoreError, TaskRow, Write

if TYPE_CHECKING:
    from gateway.runtime.engine import Runtime

logger = logging.getLogger(__name__)


class LiveTask:
    """One task while something is going on with it: a turn, a reader, a write."""

    __slots__ = (
        "_flight_bytes",
        "_flight_version",
        "_flush_due",
        "_in_flight",
        "_is_snapshot_due",
        "_is_status_due",
        "_pending",
        "_pending_bytes",
        "_row_due",
        "_row_ended",
        "_waiters",
        "context_id",
        "created_us",
        "head",
        "id",
        "is_broken",
        "is_deleted",
        "is_lost",
        "is_stored",
        "queue",
        "readers",
        "repairs",
        "runtime",
        "saved_state",
        "saved_version",
        "scope",
        "seq",
        "snapshot_seq",
        "tail",
        "turn",
        "turns",
        "version",
    )

    def __init__(self, runtime: "Runtime", scope: Scope, task_id: str, context_id: str) -> None:
        self.runtime = runtime
        self.scope = scope
        self.id = task_id
        self.context_id = context_id
        self.head: Head | None = None
        self.created_us = 0
        self.turn: LiveTurn | None = None
        self.turns: list[LiveTurn] = []
        """Turns with changes that are not stored yet, the running one among them."""
        self.queue: deque[LiveTurn] = deque()
        self.readers = 0
        self.repairs = 0
        """How often the store refused a write: what was not stored by then never will be."""
        self.is_stored = False
        self.is_broken = False
        """The store refused a write; the head is being brought back to what is stored."""
        self.is_lost = False
        """The store kept refusing; what is in memory is not what is stored."""
        self.is_deleted = False
        self.version = self.saved_version = 1
        self.seq = self.snapshot_seq = 0
        self.saved_state = 0
        self.tail = Tail()
        self._pending: list[LogEvent] = []
        self._pending_bytes = 0
        self._in_flight: Write | None = None
        self._flight_version = 0
        self._flight_bytes = 0
        self._flush_due = False
        self._is_status_due = self._is_snapshot_due = False
        self._row_due: LiveTurn | None = None
        self._row_ended = ""
        self._waiters: set[asyncio.Future[None]] = set()

    @classmethod
    def from_row(cls, runtime: "Runtime", row: TaskRow, head: Head, seq: int) -> "LiveTask":
        """A stored task back in memory; `head` includes all events up to `seq`."""
        live = cls(runtime, row.scope, row.id, row.context_id)
        live.restore(row, head, seq)
        return live

    def restore(self, row: TaskRow, head: Head, seq: int) -> None:
        """Forget what is not stored and stand where the store stands."""
        self.head = head
        self.created_us = row.created_us
        self.is_stored = True
        self.seq = seq
        self.tail = Tail(seq)
        self.snapshot_seq = row.snapshot_seq
        self.saved_state = head.state
        self.saved_version = self.version
        self._drop_unsaved()

    def _drop_unsaved(self) -> None:
        self._pending = []
        self._pending_bytes = 0
        self._is_status_due = self._is_snapshot_due = False
        self._row_due = None
        self._row_ended = ""

    @property
    def is_terminal(self) -> bool:
        """Whether the head, saved or not, has reached its end."""
        return self.head is not None and self.head.is_terminal

    @property
    def is_ended(self) -> bool:
        """Whether the task is stored in a terminal state."""
        return self.is_terminal and self.saved_version == self.version

    @property
    def is_idle(self) -> bool:
        """Whether nothing goes on any more, so that the task may leave memory."""
        return (
            self.turn is None
            and not self.readers
            and not self.queue
            and self._in_flight is None
            and not self._flush_due
            and not self.is_broken
        )

    # -- events in ------------------------------------------------------------------------

    def accept(self, turn: LiveTurn, event: Event) -> bool:
        """Apply one event of the agent. True where the agent should wait for the store.
        Raises `InvalidAgentResponseError` for an event that does not fit."""
        if turn.is_closed or self.is_terminal:
            self.runtime.note_dropped(turn, event)
            return False
        kind = type(event)
        if kind is TaskArtifactUpdateEvent:
            self._accept_artifact(turn, event)  # type: ignore[arg-type]
        elif kind is TaskStatusUpdateEvent:
            self._accept_status(turn, event)  # type: ignore[arg-type]
        elif kind is Task:
            self._accept_task(turn, event)  # type: ignore[arg-type]
        elif kind is Message:
            self._accept_reply(turn, event)  # type: ignore[arg-type]
        else:
            raise InvalidAgentResponseError(
                f"an agent emits Task, Message, TaskStatusUpdateEvent or "
                f"TaskArtifactUpdateEvent, not {kind.__name__}"
            )
        options = self.runtime.options
        return (
            len(self._pending) >= options.unsaved_events
            or self._pending_bytes >= options.unsaved_bytes
        )

    def _accept_artifact(self, turn: LiveTurn, event: TaskArtifactUpdateEvent) -> None:
        check_artifact(event, self.id, self.context_id)
        body = to_body(event, self.runtime.options.event_bytes)
        head = self.head or self._create(turn)
        head.apply_artifact(event)
        self._append(pack(ARTIFACT_TAG, body))

    def _accept_status(self, turn: LiveTurn, event: TaskStatusUpdateEvent) -> None:
        check_status(event, self.id, self.context_id)
        body = to_body(event, self.runtime.options.event_bytes)
        head = self.head or self._create(turn)
        head.apply_status(event)
        self._append(pack(STATUS_TAG, body))
        self._note_status(turn)

    def _accept_task(self, turn: LiveTurn, event: Task) -> None:
        check_task(event, self.id, self.context_id)
        to_body(event, self.runtime.options.event_bytes)
        if self.head is None:
            self._create(turn, event)
            return
        is_new_status = self.head.apply_task(event)
        self._append(pack(TASK_TAG, self.head.task.SerializeToString()))
        if is_new_status:
            self._note_status(turn)

    def _accept_reply(self, turn: LiveTurn, event: Message) -> None:
        if self.head is not None:
            raise InvalidAgentResponseError(
                "the turn has a task: put the message into a status update, not beside the task"
            )
        turn.reply = to_reply(event, self.context_id, self.runtime.options.event_bytes)
        self.end_turn(turn)

    def _create(self, turn: LiveTurn, event: Task | None = None) -> Head:
        """The task comes into being."""
        task = new_task(event, turn.request.message)
        self.head = Head(task)
        self.created_us = self.head.status_us
        self._is_snapshot_due = True
        self._append(pack(TASK_TAG, task.SerializeToString()))
        self._note_status(turn)
        return self.head

    def _append(self, payload: bytes) -> None:
        self.seq += 1
        self._pending.append(LogEvent(self.seq, payload))
        self._pending_bytes += len(payload)
        self._touch()

    def _note_status(self, turn: LiveTurn | None) -> None:
        self._is_status_due = True
        head = self.head
        assert head is not None
        self.runtime.note_state(head.state)
        if turn is None:
            self._is_snapshot_due = True
        elif head.is_settled:
            # a turn whose task is settled needs no recovery: its record may go
            self._is_snapshot_due = True
            turn.settled_version = self.version
            self._close_row(turn)
        elif turn.settled_version:
            turn.settled_version = 0
            self._open_row(turn)

    # -- turns ----------------------------------------------------------------------------

    def begin(self, turn: LiveTurn, *, is_row_stored: bool = False) -> None:
        """Make `turn` the running one; its agent starts when its record is stored."""
        self.turn = turn
        self.turns.append(turn)
        if self.head is not None:
            self.head.add_user_message(turn.request.message)
            found = self.head.task.SerializeToString()
            turn.task = Task.FromString(found)
            turn.opening = LogEvent(self.seq, pack(TASK_TAG, found))
            self._is_snapshot_due = True
        if not is_row_stored and self._needs_row(turn):
            self._row_due = turn
        elif self.head is None:
            # there is nothing to store before the agent starts
            turn.row.is_open = False
            turn.begin_version = self.version
            self.runtime.start_turn(turn)
            return
        self._touch()
        turn.begin_version = self.version
        self.flush()

    def _needs_row(self, turn: LiveTurn) -> bool:
        return bool(turn.row.key) or self.runtime.store.is_durable

    def end_turn(self, turn: LiveTurn) -> None:
        """The turn gives no more events; called once its agent is done, or early."""
        turn.is_closed = True
        if turn.ended_version:
            return
        if self.head is not None and self.seq > self.snapshot_seq:
            self._is_snapshot_due = True
        self._touch()
        turn.ended_version = self.version
        turn.end_seq = self.seq
        self._close_row(turn)

    def _close_row(self, turn: LiveTurn) -> None:
        row = turn.row
        if not row.is_open:
            return
        if self._in_flight is not None and self._in_flight.turn is row:
            # what is on its way to the store must not change on the way
            turn.row = row = replace(row)
        row.is_open = False
        if row.key and turn.failure is None:
            row.outcome = turn.reply.SerializeToString() if turn.reply is not None else b""
            self._row_due = turn
        elif self._row_due is turn:
            # not stored yet, so there is nothing to drop
            self._row_due = None
        else:
            self._row_ended = row.id

    def _open_row(self, turn: LiveTurn) -> None:
        if not self._needs_row(turn):
            return
        turn.row.is_open = True
        self._row_due = turn
        if self._row_ended == turn.row.id:
            self._row_ended = ""

    def set_status(self, state: int, text: str, turn: LiveTurn | None = None) -> None:
        """A status of the runtime's own; the task has to exist."""
        event = status_event(state, self.id, self.context_id, text)
        assert self.head is not None
        self.head.apply_status(event)
        self._append(pack(STATUS_TAG, event.SerializeToString()))
        self._note_status(turn)

    def fail(self, turn: LiveTurn, text: str) -> None:
        """End the turn with a FAILED task, made for the purpose where there is none yet."""
        if self.head is None:
            self._create(turn)
        if not self.is_terminal:
            self.set_status(TaskState.TASK_STATE_FAILED, text, turn)
        self.end_turn(turn)

    # -- storing --------------------------------------------------------------------------

    def _touch(self) -> None:
        self.version += 1
        if not self._flush_due and self._in_flight is None:
            self._flush_due = True
            self.runtime.loop.call_soon(self.flush)

    def flush(self) -> None:
        """Write what has changed, unless a write is under way: then it follows that one."""
        self._flush_due = False
        if self._in_flight is not None or self.saved_version == self.version or self.is_broken:
            return
        write = Write(
            self.scope,
            self.id,
            self._row() if self._is_status_due or self._is_snapshot_due else None,
            self._pending,
            self._row_due.row if self._row_due is not None else None,
            self._row_ended,
        )
        self._drop_unsaved()
        if write.task or write.events or write.turn or write.ended_turn:
            self._in_flight = write
            self._flight_version = self.version
            self.runtime.journal.write(write, self._saved)
        else:
            # a mark alone, such as the end of a turn whose task had settled: all is stored
            self._note_saved(self.version)

    def _row(self) -> TaskRow | None:
        head = self.head
        if head is None:
            return None
        snapshot = None
        if self._is_snapshot_due:
            snapshot = head.task.SerializeToString()
            self.snapshot_seq = self.seq
        return TaskRow(
            self.scope,
            self.id,
            self.context_id,
            head.state,
            head.status_us,
            self.created_us,
            self.seq,
            snapshot,
            self.snapshot_seq,
        )

    def _saved(self, error: StoreError | None) -> None:
        write, self._in_flight = self._in_flight, None
        assert write is not None
        if error is not None:
            self.is_broken = True
            self.repairs += 1
            self.runtime.repairs.begin(self, error)
            return
        if write.task is not None:
            self.is_stored = True
            self.saved_state = write.task.state
        if write.events:
            self.tail.extend(write.events, self._flight_bytes)
        self._note_saved(self._flight_version)

    def _note_saved(self, version: int) -> None:
        self.saved_version = version
        self._drop_stored_turns()
        turn = self.turn
        if turn is not None and not turn.is_running and turn.begin_version <= self.saved_version:
            self.runtime.start_turn(turn)
        self.wake()
        if self.saved_version != self.version:
            self.flush()
        elif self.turn is None:
            self.runtime.release(self)

    def _drop_stored_turns(self) -> None:
        saved = self.saved_version
        self.turns = [t for t in self.turns if not 0 < t.ended_version <= saved]

    @property
    def saved_seq(self) -> int:
        """The last event that is stored."""
        return self.tail.last

    # -- waiting --------------------------------------------------------------------------

    def wake(self) -> None:
        """Let everything that waits on this task look again."""
        waiters, self._waiters = self._waiters, set()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def changed(self) -> None:
        """Wait for the next stored change."""
        waiter: asyncio.Future[None] = self.runtime.loop.create_future()
        self._waiters.add(waiter)
        try:
            await waiter
        finally:
            # a waiter that gives up must not stay behind on a task that never changes
            self._waiters.discard(waiter)

    async def drained(self, turn: LiveTurn) -> None:
        """Wait until the store has caught up with the agent."""
        options = self.runtime.options
        while not turn.is_closed and (
            len(self._pending) >= options.unsaved_events
            or self._pending_bytes >= options.unsaved_bytes
        ):
            await self.changed()

    async def snapshot(self) -> tuple[int, Task]:
        """The last sequence number and a copy of the task that includes it, once that is stored.
        Raises `InternalError` where it could not be stored."""
        while True:
            while self.is_broken:
                await self.changed()
            self.check_lost()
            head = self.head
            assert head is not None
            version, seq, repairs = self.version, self.seq, self.repairs
            copy = Task()
            copy.CopyFrom(head.task)
            while self.saved_version < version and self.repairs == repairs:
                await self.changed()
            if self.repairs == repairs:
                return seq, copy
            # what was copied was never stored, and never will be

    def check_lost(self) -> None:
        """Raise `InternalError` where what is in memory cannot become what is stored."""
        if self.is_lost:
            raise InternalError("The task could not be stored; try again later")
