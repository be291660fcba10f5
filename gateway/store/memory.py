"""Store in memory: nothing outlives the process. Part of the core's storage layer.

Tasks of one scope lie in lists sorted by (status_us, id), one list for each (context, state), so
that a page, a total and an insert cost no more with many tasks than with few. A finished task
costs its bytes and about 700 bytes more. Rows are copied on the way in and out.
"""

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from heapq import heapify, heappop, heappush, merge
from itertools import islice

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

Place = tuple[int, str, Scope]
"""(status_us, id, scope): where a task stands in every list."""

ANY_CONTEXT = ""


class _Record:
    """A stored task with its log; the payload at index n has sequence number n + 1."""

    __slots__ = (
        "context_id",
        "created_us",
        "log",
        "place",
        "seq",
        "snapshot",
        "snapshot_seq",
        "state",
    )

    def __init__(self, snapshot: bytes) -> None:
        self.place: Place | None = None
        self.context_id = ""
        self.state = 0
        self.created_us = 0
        self.seq = 0
        self.snapshot = snapshot
        self.snapshot_seq = 0
        self.log: list[bytes] = []


class _Room:
    """The tasks of one scope."""

    __slots__ = ("lists", "tasks")

    def __init__(self) -> None:
        self.tasks: dict[str, _Record] = {}
        self.lists: dict[tuple[str, int], list[Place]] = {}
        """By (context id or ANY_CONTEXT, state); no list is empty."""

    def insert(self, record: _Record, place: Place) -> None:
        record.place = place
        for key in ((ANY_CONTEXT, record.state), (record.context_id, record.state)):
            places = self.lists.get(key)
            if places is None:
                self.lists[key] = [place]
            elif place > places[-1]:
                places.append(place)
            else:
                insort(places, place)

    def remove(self, record: _Record) -> None:
        assert record.place is not None
        for key in ((ANY_CONTEXT, record.state), (record.context_id, record.state)):
            places = self.lists[key]
            del places[bisect_left(places, record.place)]
            if not places:
                del self.lists[key]

    def remove_oldest(self, state: int, places: list[Place]) -> None:
        """Remove tasks of one state; `places` ascend. A prefix goes in one move."""
        everything = self.lists[ANY_CONTEXT, state]
        if everything[: len(places)] == places:
            del everything[: len(places)]
        else:
            for place in places:
                del everything[bisect_left(everything, place)]
        if not everything:
            del self.lists[ANY_CONTEXT, state]
        for place in places:
            record = self.tasks.pop(place[1])
            key = (record.context_id, state)
            of_context = self.lists[key]
            del of_context[bisect_left(of_context, place)]
            if not of_context:
                del self.lists[key]

    def matching(self, query: Query) -> list[list[Place]]:
        """The lists that hold what the filters on context and state let through."""
        states = (query.state,) if query.state else range(_STATES)
        found = (self.lists.get((query.context_id, state)) for state in states)
        return [places for places in found if places]


_STATES = max(TERMINAL_STATES) + 2
"""States are numbered from 0; TASK_STATE_AUTH_REQUIRED is the highest."""


class MemoryStore(Store):
    """Implements `gateway.store.Store` in dictionaries; no method ever waits."""

    def __init__(self) -> None:
        self._rooms: dict[Scope, _Room] = {}
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
        self._check(writes)
        for write in writes:
            if write.turn is not None:
                self._put_turn(write.turn)
            if write.task is not None:
                self._put_task(write.task)
            if write.events:
                log = self._rooms[write.scope].tasks[write.task_id].log
                log.extend([event.payload for event in write.events])
            if write.ended_turn:
                self._drop_turn(write.ended_turn)

    def _check(self, writes: Sequence[Write]) -> None:
        """Refuse what cannot be stored before anything is changed."""
        ends: dict[tuple[Scope, str], int] = {}
        keys: dict[tuple[Scope, str], str] = {}
        for index, write in enumerate(writes):
            turn, task = write.turn, write.task
            if turn is not None and turn.key:
                place = (turn.scope, turn.key)
                held_by = keys[place] if place in keys else self._keys.get(place)
                if held_by and held_by != turn.id:
                    raise KeyConflictError(writes=(index,))
                keys[place] = turn.id
            if write.ended_turn:
                ended = self._turns.get(write.ended_turn)
                if ended is not None and ended.key:
                    keys[ended.scope, ended.key] = ""  # free again
            if task is None and not write.events:
                continue
            name = (write.scope, write.task_id)
            end = ends.get(name)
            if end is None:
                record = self._record(*name)
                if record is not None:
                    end = len(record.log)
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

    def _put_task(self, row: TaskRow) -> None:
        room = self._rooms.get(row.scope)
        if room is None:
            room = self._rooms[row.scope] = _Room()
        record = room.tasks.get(row.id)
        if record is None:
            record = room.tasks[row.id] = _Record(row.snapshot or b"")
        elif row.snapshot is not None:
            record.snapshot = row.snapshot
        if row.snapshot is not None:
            record.snapshot_seq = row.snapshot_seq
        record.seq = row.seq
        record.created_us = row.created_us
        place = record.place
        if (
            place is None
            or record.state != row.state
            or place[0] != row.status_us
            or record.context_id != row.context_id
        ):
            if place is not None:
                room.remove(record)
                self._finished_count -= record.state in TERMINAL_STATES
            record.state = row.state
            record.context_id = row.context_id
            place = (row.status_us, row.id, row.scope)
            room.insert(record, place)
            if row.state in TERMINAL_STATES:
                self._finished_count += 1
                heappush(self._finished, place)

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

    def _record(self, scope: Scope, task_id: str) -> _Record | None:
        room = self._rooms.get(scope)
        return None if room is None else room.tasks.get(task_id)

    async def task(self, scope: Scope, task_id: str) -> TaskRow | None:
        record = self._record(scope, task_id)
        return None if record is None else _row(record)

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
        rows = [_row(room.tasks[place[1]]) for place in found[: query.limit]]
        return Page(rows, len(found) > query.limit, total)

    async def events(
        self, scope: Scope, task_id: str, after: int, limit: int = 256
    ) -> list[LogEvent]:
        record = self._record(scope, task_id)
        if record is None:
            return []
        after = max(after, 0)
        payloads = record.log[after : after + limit]
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
        excess = 0 if keep is None else max(0, self._finished_count - keep)
        victims = self._pop_finished(
            lambda place, taken: (before_us is not None and place[0] < before_us) or taken < excess,
            limit,
        )
        by_list: defaultdict[tuple[Scope, int], list[Place]] = defaultdict(list)
        for place in victims:
            state = self._rooms[place[2]].tasks[place[1]].state
            by_list[place[2], state].append(place)
        for (scope, state), places in by_list.items():
            room = self._rooms[scope]
            room.remove_oldest(state, places)
            if not room.tasks:
                del self._rooms[scope]
        self._finished_count -= len(victims)
        self._tidy()
        names = [(place[2], place[1]) for place in victims]
        for name in names:
            for turn_id in tuple(self._turns_of_task.get(name, ())):
                self._drop_turn(turn_id)
        if before_us is not None:
            self._drop_orphans(before_us, limit)
        return names

    def _pop_finished(self, is_due: Callable[[Place, int], bool], limit: int) -> list[Place]:
        """The oldest finished tasks without an open turn, while they are due."""
        heap = self._finished
        taken: list[Place] = []
        spared: list[Place] = []
        while heap and len(taken) < limit and is_due(heap[0], len(taken)):
            place = heappop(heap)
            record = self._record(place[2], place[1])
            if record is None or record.place is not place:
                continue
            turns = self._turns_of_task.get((place[2], place[1]), ())
            if any(self._turns[turn_id].is_open for turn_id in turns):
                spared.append(place)
            else:
                taken.append(place)
        for place in spared:
            heappush(heap, place)
        return taken

    def _tidy(self) -> None:
        """Rebuild a heap that is mostly places of what is gone."""
        if len(self._finished) > 2 * self._finished_count + 1000:
            records = ((place, self._record(place[2], place[1])) for place in self._finished)
            self._finished = [p for p, record in records if record and record.place is p]
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


def _row(record: _Record) -> TaskRow:
    assert record.place is not None
    status_us, task_id, scope = record.place
    return TaskRow(
        scope=scope,
        id=task_id,
        context_id=record.context_id,
        state=record.state,
        status_us=status_us,
        created_us=record.created_us,
        seq=record.seq,
        snapshot=record.snapshot,
        snapshot_seq=record.snapshot_seq,
    )


def _oldest_first(turns: Iterable[TurnRow]) -> list[TurnRow]:
    return [replace(turn) for turn in sorted(turns, key=lambda turn: (turn.created_us, turn.id))]
