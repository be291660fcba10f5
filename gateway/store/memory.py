"""Store in memory: nothing outlives the process. Part of the core's storage layer.

Tasks of one scope lie in lists sorted by (status_us, id), one list for each (context, state), so
that a page, a total and an insert cost no more with many tasks than with few. Rows are copied on
the way in and out.

What stays of a finished task is plain tuples of numbers, text and bytes: the garbage collector
stops looking at those, so that its pauses do not grow with the number of tasks kept.
"""

import asyncio
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from heapq import heapify, heappop, heappush, merge
from itertools import count, islice

from gateway.call import Scope
from gateway.pb import TERMINAL_STATES
from gateway.store import (
    KeyConflictError,
    LogEvent,
    Page,
    Query,
    Store,
    StoreError,
    TaskRow,
    TurnRow,
    Write,
)

Place = tuple[int, str, int]
"""(status_us, task id, number of the room): where a task stands in every list."""

Log = list[bytes] | tuple[bytes, ...]
"""Payloads; the one at index n has sequence number n + 1. A tuple once the task has ended."""

Record = tuple[Place, str, int, int, int, bytes, int, Log]
"""A stored task: place, context_id, state, created_us, seq, snapshot, snapshot_seq, log."""

ANY_CONTEXT = ""

EXPIRE_STEP = 64
"""Tasks deleted before the loop may turn to something else."""

_STATES = max(TERMINAL_STATES) + 2
"""States are numbered from 0; TASK_STATE_AUTH_REQUIRED is the highest."""


class _Room:
    """The tasks of one scope."""

    __slots__ = ("lists", "number", "scope", "tasks")

    def __init__(self, scope: Scope, number: int) -> None:
        self.scope = scope
        self.number = number
        self.tasks: dict[str, Record] = {}
        self.lists: dict[tuple[str, int], Place | list[Place]] = {}
        """By (context id or ANY_CONTEXT, state): ascending, or the only place itself."""

    def insert(self, context_id: str, state: int, place: Place) -> None:
        for key in ((ANY_CONTEXT, state), (context_id, state)):
            places = self.lists.get(key)
            if places is None:
                self.lists[key] = place
            elif isinstance(places, tuple):
                self.lists[key] = [places, place] if places < place else [place, places]
            elif place > places[-1]:
                places.append(place)
            else:
                insort(places, place)

    def remove(self, context_id: str, state: int, places: Sequence[Place]) -> None:
        """Take ascending places out of both lists."""
        self._take((ANY_CONTEXT, state), places)
        self._take((context_id, state), places)

    def _take(self, key: tuple[str, int], places: Sequence[Place]) -> None:
        held = self.lists[key]
        if isinstance(held, tuple) or len(held) == len(places):
            del self.lists[key]
        elif held[: len(places)] == places:
            # the oldest: in one move
            del held[: len(places)]
        else:
            for place in places:
                del held[bisect_left(held, place)]

    def remove_finished(self, state: int, places: list[Place]) -> None:
        """Forget tasks of one state; `places` ascend."""
        self._take((ANY_CONTEXT, state), places)
        for place in places:
            context_id = self.tasks.pop(place[1])[1]
            self._take((context_id, state), [place])

    def matching(self, query: Query) -> list[list[Place]]:
        """The lists that hold what the filters on context and state let through."""
        states = (query.state,) if query.state else range(_STATES)
        found = (self.lists.get((query.context_id, state)) for state in states)
        return [[places] if isinstance(places, tuple) else places for places in found if places]


class MemoryStore(Store):
    """Implements `gateway.store.Store` in dictionaries; no method ever waits."""

    is_durable = False

    def __init__(self) -> None:
        self._rooms: dict[Scope, _Room] = {}
        self._numbered: dict[int, _Room] = {}
        self._numbers = count(1)
        self._turns: dict[str, TurnRow] = {}
        self._keys: dict[tuple[Scope, str], str] = {}
        self._turns_of_task: dict[tuple[Scope, str], list[str]] = {}
        self._finished: list[Place] = []
        """Heap of tasks in a terminal state; places of changed or deleted tasks are skipped."""
        self._finished_count = 0
        self._ended: list[tuple[int, str]] = []
        """Heap of (created_us, id) of ended turns."""

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        pass

    async def ping(self) -> None:
        pass

    # -- writing

    async def commit(self, writes: Sequence[Write]) -> None:
        self.commit_now(writes)

    def commit_now(self, writes: Sequence[Write]) -> bool:
        self._check(writes)
        for write in writes:
            if write.turn is not None:
                self._put_turn(write.turn)
            payloads = [event.payload for event in write.events]
            if write.task is not None:
                self._put_task(write.task, payloads)
            elif payloads:
                self._add_events(write.scope, write.task_id, payloads)
            if write.ended_turn:
                self._drop_turn(write.ended_turn)
        return True

    def _check(self, writes: Sequence[Write]) -> None:
        """Refuse what cannot be stored before anything is changed."""
        ends: dict[tuple[Scope, str], int] = {}
        keys: dict[tuple[Scope, str], str] = {}
        turns: dict[str, TurnRow] = {}
        for index, write in enumerate(writes):
            turn, task = write.turn, write.task
            if turn is not None and turn.key:
                place = (turn.scope, turn.key)
                held_by = keys[place] if place in keys else self._keys.get(place)
                if held_by and held_by != turn.id:
                    raise KeyConflictError(writes=(index,))
                keys[place] = turn.id
                turns[turn.id] = turn
            if write.ended_turn:
                # of an earlier commit, or made by this one
                ended = turns.get(write.ended_turn) or self._turns.get(write.ended_turn)
                if ended is not None and ended.key:
                    place = (ended.scope, ended.key)
                    held_by = keys[place] if place in keys else self._keys.get(place)
                    if held_by == ended.id:
                        keys[place] = ""  # free again
            if task is None and not write.events:
                continue
            name = (write.scope, write.task_id)
            end = ends.get(name)
            if end is None:
                record = self._record(*name)
                if record is not None:
                    end = len(record[-1])
                elif task is None or task.snapshot is None:
                    raise StoreError(f"Task {write.task_id!r} is not stored")
                else:
                    end = 0
            for event in write.events:
                end += 1
                if event.seq != end:
                    raise StoreError(
                        f"Event {event.seq} of task {write.task_id!r} does not follow its log"
                    )
            ends[name] = end

    def _put_task(self, row: TaskRow, payloads: list[bytes]) -> None:
        room = self._rooms.get(row.scope)
        if room is None:
            room = self._rooms[row.scope] = _Room(row.scope, next(self._numbers))
            self._numbered[room.number] = room
        record = room.tasks.get(row.id)
        log: Log = payloads
        snapshot, snapshot_seq = row.snapshot, row.snapshot_seq
        place = None
        if record is not None:
            place, context_id, state, _, _, old_snapshot, old_snapshot_seq, old_log = record
            log = _extended(old_log, payloads)
            if snapshot is None:
                snapshot, snapshot_seq = old_snapshot, old_snapshot_seq
            if place[0] != row.status_us or state != row.state or context_id != row.context_id:
                room.remove(context_id, state, [place])
                self._finished_count -= state in TERMINAL_STATES
                place = None
        is_finished = row.state in TERMINAL_STATES
        if place is None:
            place = (row.status_us, row.id, room.number)
            room.insert(row.context_id, row.state, place)
            if is_finished:
                self._finished_count += 1
                heappush(self._finished, place)
        room.tasks[row.id] = (
            place,
            row.context_id,
            row.state,
            row.created_us,
            row.seq,
            snapshot or b"",
            snapshot_seq,
            tuple(log) if is_finished else log,
        )

    def _add_events(self, scope: Scope, task_id: str, payloads: list[bytes]) -> None:
        tasks = self._rooms[scope].tasks
        record = tasks[task_id]
        log = _extended(record[-1], payloads)
        if log is not record[-1]:
            tasks[task_id] = (*record[:-1], log)

    def _put_turn(self, turn: TurnRow) -> None:
        if turn.id in self._turns:
            self._drop_turn(turn.id)
        self._turns[turn.id] = replace(turn)
        self._turns_of_task.setdefault((turn.scope, turn.task_id), []).append(turn.id)
        if turn.key:
            self._keys[turn.scope, turn.key] = turn.id
        if not turn.is_open:
            heappush(self._ended, (turn.created_us, turn.id))

    def _drop_turn(self, turn_id: str) -> None:
        turn = self._turns.pop(turn_id, None)
        if turn is None:
            return
        if turn.key:
            del self._keys[turn.scope, turn.key]
        name = (turn.scope, turn.task_id)
        turns = self._turns_of_task[name]
        turns.remove(turn_id)
        if not turns:
            del self._turns_of_task[name]

    # -- reading

    def _record(self, scope: Scope, task_id: str) -> Record | None:
        room = self._rooms.get(scope)
        return None if room is None else room.tasks.get(task_id)

    async def task(self, scope: Scope, task_id: str) -> TaskRow | None:
        record = self._record(scope, task_id)
        return None if record is None else _row(scope, record)

    async def tasks(self, scope: Scope, query: Query) -> Page:
        room = self._rooms.get(scope)
        if room is None:
            return Page([], False, 0)
        slices = []
        total = 0
        for places in room.matching(query):
            first = 0
            if query.status_from_us is not None:
                first = bisect_left(places, (query.status_from_us,))
            end = len(places)
            total += end - first
            if query.before is not None:
                end = bisect_left(places, query.before)
            # one more than a page holds, newest first
            slices.append(places[max(first, end - query.limit - 1) : end][::-1])
        found = list(islice(merge(*slices, reverse=True), query.limit + 1))
        rows = [_row(scope, room.tasks[place[1]]) for place in found]
        count = query.fitting(len(row.snapshot or b"") for row in rows)
        return Page(rows[:count], len(found) > count, total)

    async def events(
        self, scope: Scope, task_id: str, after: int, limit: int = 256
    ) -> list[LogEvent]:
        record = self._record(scope, task_id)
        if record is None:
            return []
        after = max(after, 0)
        payloads = record[-1][after : after + limit]
        return [LogEvent(seq, payload) for seq, payload in enumerate(payloads, after + 1)]

    async def turn_by_key(self, scope: Scope, key: str) -> TurnRow | None:
        turn_id = self._keys.get((scope, key))
        return None if turn_id is None else replace(self._turns[turn_id])

    async def turns_of_task(self, scope: Scope, task_id: str) -> list[TurnRow]:
        return _oldest_first(self._turns[i] for i in self._turns_of_task.get((scope, task_id), ()))

    async def open_turns(self) -> list[TurnRow]:
        return _oldest_first(turn for turn in self._turns.values() if turn.is_open)

    # -- retention

    async def expire(
        self, *, before_us: int | None, keep: int | None, limit: int = 1000
    ) -> list[tuple[Scope, str]]:
        gone: list[tuple[Scope, str]] = []
        while len(gone) < limit:
            count = min(EXPIRE_STEP, limit - len(gone))
            some = self._expire_some(before_us, keep, count)
            gone += some
            if len(some) < count:
                break
            await asyncio.sleep(0)
        if before_us is not None:
            self._drop_orphans(before_us, limit)
        self._tidy()
        return gone

    def _expire_some(
        self, before_us: int | None, keep: int | None, limit: int
    ) -> list[tuple[Scope, str]]:
        excess = 0 if keep is None else self._finished_count - keep
        victims = self._pop_finished(
            lambda place, taken: (before_us is not None and place[0] < before_us) or taken < excess,
            limit,
        )
        by_list: defaultdict[tuple[int, int], list[Place]] = defaultdict(list)
        names = []
        for place in victims:
            room = self._numbered[place[2]]
            by_list[place[2], room.tasks[place[1]][2]].append(place)
            names.append((room.scope, place[1]))
        for (number, state), places in by_list.items():
            room = self._numbered[number]
            room.remove_finished(state, places)
            if not room.tasks:
                del self._rooms[room.scope], self._numbered[number]
        self._finished_count -= len(victims)
        for name in names:
            for turn_id in tuple(self._turns_of_task.get(name, ())):
                self._drop_turn(turn_id)
        return names

    def _pop_finished(self, is_due: Callable[[Place, int], bool], limit: int) -> list[Place]:
        """The oldest finished tasks without an open turn, while they are due."""
        heap = self._finished
        taken: list[Place] = []
        spared: list[Place] = []
        while heap and len(taken) < limit and is_due(heap[0], len(taken)):
            place = heappop(heap)
            room = self._holder(place)
            if room is None:
                continue
            turns = self._turns_of_task.get((room.scope, place[1]), ())
            if any(self._turns[turn_id].is_open for turn_id in turns):
                spared.append(place)
            else:
                taken.append(place)
        for place in spared:
            heappush(heap, place)
        return taken

    def _holder(self, place: Place) -> _Room | None:
        """The room of the task that stands there; None where it moved or is gone."""
        room = self._numbered.get(place[2])
        record = room.tasks.get(place[1]) if room is not None else None
        return room if record is not None and record[0] is place else None

    def _tidy(self) -> None:
        """Rebuild a heap that is mostly places of what is gone."""
        if len(self._finished) > 2 * self._finished_count + 1000:
            self._finished = [place for place in self._finished if self._holder(place)]
            heapify(self._finished)
        if len(self._ended) > 2 * len(self._turns) + 1000:
            self._ended = [(t.created_us, t.id) for t in self._turns.values() if not t.is_open]
            heapify(self._ended)

    def _drop_orphans(self, before_us: int, limit: int) -> None:
        """Drop ended turns without a task; those with one go when their task goes."""
        while self._ended and self._ended[0][0] < before_us and limit:
            turn_id = heappop(self._ended)[1]
            turn = self._turns.get(turn_id)
            if turn is None or turn.is_open or self._record(turn.scope, turn.task_id) is not None:
                continue
            self._drop_turn(turn_id)
            limit -= 1


def _extended(log: Log, payloads: list[bytes]) -> Log:
    """A log that is open grows in place: an event costs the same however many there are."""
    if isinstance(log, tuple):
        return (*log, *payloads)
    log += payloads
    return log


def _row(scope: Scope, record: Record) -> TaskRow:
    place, context_id, state, created_us, seq, snapshot, snapshot_seq, _ = record
    return TaskRow(
        scope=scope,
        id=place[1],
        context_id=context_id,
        state=state,
        status_us=place[0],
        created_us=created_us,
        seq=seq,
        snapshot=snapshot,
        snapshot_seq=snapshot_seq,
    )


def _oldest_first(turns: Iterable[TurnRow]) -> list[TurnRow]:
    return [replace(turn) for turn in sorted(turns, key=lambda turn: (turn.created_us, turn.id))]
