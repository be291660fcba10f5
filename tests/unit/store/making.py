"""Rows for tests of the stores."""

from gateway.call import Scope
from gateway.pb import TaskState
from gateway.store import LogEvent, TaskRow, TurnRow, Write

ANNA = Scope("default", "", "anna")
BERT = Scope("default", "", "bert")
WORKING = int(TaskState.TASK_STATE_WORKING)
COMPLETED = int(TaskState.TASK_STATE_COMPLETED)
FAILED = int(TaskState.TASK_STATE_FAILED)


def task_row(
    task_id: str,
    *,
    scope: Scope = ANNA,
    context_id: str = "context",
    state: int = WORKING,
    status_us: int = 1_000,
    seq: int = 0,
    snapshot: bytes | None = b"snapshot",
) -> TaskRow:
    return TaskRow(
        scope=scope,
        id=task_id,
        context_id=context_id,
        state=state,
        status_us=status_us,
        created_us=500,
        seq=seq,
        snapshot=snapshot,
        snapshot_seq=seq,
    )


def turn_row(
    turn_id: str,
    task_id: str,
    *,
    scope: Scope = ANNA,
    key: str = "",
    created_us: int = 500,
    is_open: bool = True,
) -> TurnRow:
    return TurnRow(
        scope=scope,
        id=turn_id,
        task_id=task_id,
        context_id="context",
        key=key,
        digest=b"digest",
        request=b"request",
        created_us=created_us,
        is_open=is_open,
        outcome=b"" if is_open else b"outcome",
    )


def put(row: TaskRow, events: list[LogEvent] | None = None) -> Write:
    return Write(row.scope, row.id, row, events or [])


def begin(turn: TurnRow) -> Write:
    return Write(turn.scope, turn.task_id, turn=turn)


def log(first: int, count: int) -> list[LogEvent]:
    return [LogEvent(seq, b"event %d" % seq) for seq in range(first, first + count)]
