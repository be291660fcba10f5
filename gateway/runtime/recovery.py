"""Bringing tasks back to what is stored: after a restart, and where the store refused a write."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from gateway.call import Scope
from gateway.errors import InternalError
from gateway.pb import (
    SendMessageRequest,
    StreamResponse,
    Task,
    TaskState,
)
from gateway.runtime.head import TASK_TAG, Head, pack, stamp, status_event
from gateway.store import LogEvent, Store, StoreError, TaskRow, TurnRow, Write

logger = logging.getLogger(__name__)

StoreWrite = Callable[[Write], Awaitable[None]]

RESTARTED = "The gateway was restarted while the agent was working on this task"
NOT_STORED = "The task's progress could not be stored"
REPAIR_DELAYS = (0.0, 0.05, 0.2, 1.0, 3.0)
"""Seconds before each try to store the failure of a task."""


async def load(store: Store, scope: Scope, task_id: str) -> tuple[TaskRow, Head, int] | None:
    """A stored task: its row, its head with the whole log folded in, its last sequence number."""
    row = await store.task(scope, task_id)
    while row is not None:
        assert row.snapshot is not None
        head = Head(Task.FromString(row.snapshot))
        seq = row.snapshot_seq
        while batch := await store.events(scope, task_id, seq):
            for event in batch:
                head.replay(StreamResponse.FromString(event.payload))
            seq = batch[-1].seq
        if seq == row.snapshot_seq:
            return row, head, seq
        # where a turn ran between the two reads, its message is in the newer snapshot alone
        again = await store.task(scope, task_id)
        if again is not None and again.snapshot == row.snapshot:
            return row, head, seq
        row = again
    return None


async def fail_open_turns(store: Store) -> int:
    """End every turn that the last core left open: its task becomes FAILED and says so. Returns
    how many there were."""
    turns = await store.open_turns()
    for turn in turns:
        stored = await load(store, turn.scope, turn.task_id)
        await store.commit([failed_write(turn, stored, RESTARTED)])
    return len(turns)


def failed_write(turn: TurnRow, stored: tuple[TaskRow, Head, int] | None, text: str) -> Write:
    """What stores the end of `turn`, and of its task where that has not ended by itself."""
    if stored is None:
        row, head, seq = _new_task(turn)
        events = [LogEvent(seq, pack(TASK_TAG, head.task.SerializeToString()))]
    else:
        row, head, seq = stored
        events = []
    if not head.is_terminal:
        status = status_event(TaskState.TASK_STATE_FAILED, turn.task_id, turn.context_id, text)
        head.apply_status(status)
        seq += 1
        payload = StreamResponse(status_update=status).SerializeToString()
        events.append(LogEvent(seq, payload))
    row.state, row.status_us = head.state, head.status_us
    row.seq = row.snapshot_seq = seq
    row.snapshot = head.task.SerializeToString()
    write = Write(turn.scope, turn.task_id, row, events)
    if turn.key:
        turn.is_open = False
        write.turn = turn
    else:
        write.ended_turn = turn.id
    return write


def _new_task(turn: TurnRow) -> tuple[TaskRow, Head, int]:
    message = SendMessageRequest.FromString(turn.request).message
    task = Task(id=turn.task_id, context_id=turn.context_id, history=[message])
    task.status.state = TaskState.TASK_STATE_SUBMITTED
    stamp(task.status)
    head = Head(task)
    row = TaskRow(
        turn.scope,
        turn.task_id,
        turn.context_id,
        head.state,
        head.status_us,
        head.status_us,
        1,
        None,
        0,
    )
    return row, head, 1


async def store_failure(
    store_write: StoreWrite, store: Store, turn: TurnRow, text: str
) -> tuple[TaskRow, Head, int]:
    """Store that `turn` has failed, with several tries; the task as it then stands. Raises
    `InternalError` where the store keeps refusing."""
    for delay in REPAIR_DELAYS:
        await asyncio.sleep(delay)
        try:
            stored = await load(store, turn.scope, turn.task_id)
            write = failed_write(turn, stored, text)
            await store_write(write)
            stored = await load(store, turn.scope, turn.task_id)
        except StoreError:
            logger.exception("the failure of task %s is not stored yet", turn.task_id)
            continue
        assert stored is not None
        return stored
    raise InternalError("The task could not be stored; try again later")
