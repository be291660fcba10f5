"""From writes to the rows of one statement, and from rows back to what the store gives."""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from struct import Struct, pack
from typing import Any

from gateway.call import Scope
from gateway.store import LogEvent, StoreError, TaskRow, TurnRow, Write
from gateway.store.sqlite_schema import INBOX_COLUMNS, MAX_SEQ

MAX_ROW_EVENTS = 256
MAX_ROW_BYTES = 64 * 1024
"""Events are put together into one row up to these; a larger event has a row of its own."""

SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
"""Rows of a statement. A small set keeps them in the statement cache; what is missing to the next
size is padded with empty rows."""

_WIDTH = len(INBOX_COLUMNS)
_ROW = f"({', '.join('?' * _WIDTH)})"
_STATEMENTS = {
    size: "INSERT INTO inbox VALUES " + ", ".join([_ROW] * size)  # noqa: S608
    for size in SIZES
}
_NO_TASK = (None,) * 7
_NO_EVENTS = (None,) * 3
_NO_TURN = (None,) * 8
_REST = (*_NO_TURN, None)
_PADDING = (None,) * _WIDTH

TASK_COLUMNS = "id, context_id, state, status_us, created_us, seq, snapshot, snapshot_seq"
TURN_COLUMNS = "id, task_id, context_id, key, digest, request, created_us, is_open, outcome"


def flatten(writes: Sequence[Write], scopes: Mapping[Scope, int]) -> list[Any]:
    """All values of the inbox rows, one row after the other."""
    values: list[Any] = []
    for write in writes:
        scope = scopes[write.scope]
        task, turn, events = write.task, write.turn, write.events
        values += (scope, write.task_id)
        if task is None:
            values += _NO_TASK
        else:
            values += (
                task.context_id,
                task.state,
                task.status_us,
                task.created_us,
                task.seq,
                task.snapshot_seq,
                task.snapshot,
            )
        if not events:
            values += _NO_EVENTS
        elif len(events) == 1:
            values += (events[0].seq, 1, events[0].payload)
        else:
            first, *others = _packed(events)
            values += first
            for more in others:
                # the rest of this row is empty; the events and what follows go in one more
                values += _REST
                values += (scope, write.task_id, *_NO_TASK, *more)
        if turn is None:
            values += _NO_TURN
        else:
            values += (
                turn.id,
                turn.is_open,
                turn.created_us,
                turn.context_id,
                turn.key,
                turn.digest,
                turn.outcome,
                turn.request,
            )
        values.append(write.ended_turn or None)
        if events and events[-1].seq > MAX_SEQ:
            raise StoreError(f"A task has more than {MAX_SEQ} events")
    return values


def insert(connection: sqlite3.Connection, values: list[Any]) -> None:
    """Write flattened rows in one transaction; up to the largest size in one statement."""
    rows = len(values) // _WIDTH
    if rows <= SIZES[-1]:
        _insert_some(connection, values, rows)
        return
    step = SIZES[-1]
    connection.execute("BEGIN IMMEDIATE")
    for at in range(0, rows, step):
        some = values[at * _WIDTH : (at + step) * _WIDTH]
        _insert_some(connection, some, len(some) // _WIDTH)
    connection.execute("COMMIT")


def _insert_some(connection: sqlite3.Connection, values: list[Any], rows: int) -> None:
    if not rows:
        return
    size = next(size for size in SIZES if size >= rows)
    values += _PADDING * (size - rows)
    connection.execute(_STATEMENTS[size], values)


def _packed(events: Sequence[LogEvent]) -> Iterator[tuple[int, int, bytes]]:
    """Rows (last sequence number, count, body) for events; raises `StoreError` for a gap."""
    seq = events[0].seq
    payloads: list[bytes] = []
    size = 0
    for event in events:
        if event.seq != seq:
            raise StoreError(f"Event {event.seq} does not follow event {seq - 1}")
        if payloads and (
            len(payloads) == MAX_ROW_EVENTS or size + len(event.payload) > MAX_ROW_BYTES
        ):
            yield seq - 1, len(payloads), _join(payloads)
            payloads, size = [], 0
        payloads.append(event.payload)
        size += len(event.payload)
        seq += 1
    yield seq - 1, len(payloads), _join(payloads)


def _join(payloads: list[bytes]) -> bytes:
    """One payload stands alone; several follow their lengths."""
    if len(payloads) == 1:
        return payloads[0]
    return pack(f"<{len(payloads)}I", *map(len, payloads)) + b"".join(payloads)


def unpack_events(last: int, count: int, body: bytes) -> list[LogEvent]:
    """The events of one row."""
    if count == 1:
        return [LogEvent(last, body)]
    lengths = Struct(f"<{count}I")
    at = lengths.size
    events = []
    for seq, length in enumerate(lengths.unpack_from(body), last - count + 1):
        events.append(LogEvent(seq, body[at : at + length]))
        at += length
    return events


def to_task(scope: Scope, row: tuple[Any, ...]) -> TaskRow:
    """A task of TASK_COLUMNS."""
    return TaskRow(scope, *row)


def to_turn(scope: Scope, row: tuple[Any, ...]) -> TurnRow:
    """A turn of TURN_COLUMNS."""
    turn = TurnRow(scope, *row)
    turn.is_open = bool(turn.is_open)
    return turn
