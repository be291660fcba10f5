"""What clients were told, and the check that it still holds.

A task is acknowledged once an answer or an event has named it (design: "A turn"). From then on it
is found, its log has no gap and says what was shown of it, and once it was shown ended it never
changes.
"""

import itertools
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path

from gateway.errors import FailureError
from gateway.pb import SendMessageResponse, StreamResponse, Task, TaskState
from tests.faults.callers import TERMINAL, Caller, Event, state_of, task_id_of

UNFINISHED = {TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING}


@dataclass
class Known:
    """What clients know of one task."""

    source: str
    """Who heard of it first, for the text of a complaint."""
    events: dict[int, bytes] = field(default_factory=dict)
    """Events that came with their numbers."""
    pieces: list[list[bytes]] = field(default_factory=list)
    """Events that came one after the other without numbers."""
    end: bytes = b""
    """The task as it was when it was first given as ended."""
    end_state: int = 0
    ended_at: int = 0
    """The moment at which a client was told of the end; 0 before it."""


class Ledger:
    """All that clients were told, and what was wrong with it."""

    def __init__(self) -> None:
        self.tasks: dict[str, Known] = {}
        self.complaints: list[str] = []
        self.counters: dict[Path, set[str]] = {}
        """Tasks that were given for a send, by the file in which each run leaves a line."""
        self.keyed: set[Path] = set()
        """Those of sends that were repeated until they had an answer."""
        self._moments = itertools.count(1)

    def moment(self) -> int:
        """Now, for a request that is about to be sent: answers overtake one another, and only
        what was known by then may not be contradicted."""
        return next(self._moments)

    def complain(self, text: str) -> None:
        """Note what must not be."""
        self.complaints.append(text)

    def known(self, task_id: str, source: str) -> Known:
        """The task is acknowledged from now on."""
        return self.tasks.setdefault(task_id, Known(source))

    def note_answer(self, answer: SendMessageResponse, source: str) -> str:
        """An answer to a send; the id of its task, if it has one."""
        if not answer.HasField("task"):
            return ""
        self.note_task(answer.task, source)
        return answer.task.id

    def note_task(self, task: Task, source: str, asked: int = 0) -> None:
        """A task in an answer to a request of the moment `asked`."""
        known = self.known(task.id, source)
        state = task.status.state
        self._note_state(task.id, known, state, source, asked)
        if state not in TERMINAL:
            return
        found = to_bytes(task)
        if known.end and known.end != found:
            self.complain(f"{source}: ended task {task.id} changed:\n{known.end!r}\n{found!r}")
        known.end = known.end or found

    def _note_state(self, task_id: str, known: Known, state: int, source: str, asked: int) -> None:
        if not state:
            return
        is_end = state in TERMINAL
        if known.ended_at and state != known.end_state and (is_end or known.ended_at < asked):
            self.complain(f"{source}: {task_id} was in state {known.end_state}, now in {state}")
        if is_end and not known.ended_at:
            known.end_state, known.ended_at = state, self.moment()

    def note_event(self, task_id: str, known: Known, event: Event, source: str) -> None:
        """An event of the task's log with its number."""
        number, payload = event
        found = to_bytes(payload)
        if known.events.setdefault(number, found) != found:
            self.complain(f"{source}: event {number} of task {task_id} is another one now")

    # -- streams --------------------------------------------------------------------------

    async def follow(
        self,
        events: AsyncIterator[Event],
        source: str,
        *,
        after: int | None = None,
        is_snapshot_first: bool = False,
        limit: int | None = None,
    ) -> "Reading":
        """Read a stream to its end, or to number `limit`. What came before it broke stands in
        the reading, too: its `failure` says how it broke."""
        reading = Reading(after, self.moment())
        async with aclosing(events):  # type: ignore[type-var]
            try:
                async for event in events:
                    self._take(reading, event, source, is_snapshot_first and not reading.count)
                    if limit is not None and event[0] >= limit:
                        break
            except FailureError as error:
                reading.failure = error
        return reading

    def _take(self, reading: "Reading", event: Event, source: str, is_snapshot: bool) -> None:
        number, payload = event
        reading.count += 1
        reading.task_id = task_id = reading.task_id or task_id_of(payload)
        if not task_id:
            return  # a direct message
        known = self.known(task_id, source)
        state = state_of(payload)
        reading.state = state or reading.state
        if is_snapshot or state in TERMINAL:
            self._note_state(task_id, known, state, source, reading.asked)
        if not number:
            if reading.piece is None:
                reading.piece = []
                known.pieces.append(reading.piece)
            if not is_snapshot:
                reading.piece.append(to_bytes(payload))
            return
        if reading.number is not None and number != reading.number + 1:
            self.complain(f"{source}: {task_id}: event {number} came after {reading.number}")
        reading.number = number
        if not is_snapshot:
            self.note_event(task_id, known, event, source)

    # -- checks ---------------------------------------------------------------------------

    async def check_found(self, caller: Caller, task_ids: list[str]) -> None:
        """Each of them is found."""
        for task_id in task_ids:
            asked = self.moment()
            try:
                self.note_task(await caller.get(task_id), f"check by {caller.door}", asked)
            except FailureError as error:
                known = self.tasks[task_id]
                self.complain(f"{task_id}, known from {known.source}, is not found: {error}")

    async def check_log(self, caller: Caller, task_id: str) -> None:
        """The log from its first event on, against the task and all that was shown of it. For
        a time when nothing runs."""
        known = self.tasks[task_id]
        source = f"replay by {caller.door}"
        asked = self.moment()
        task = await caller.get(task_id)
        self.note_task(task, source, asked)
        if task.status.state in UNFINISHED:
            self.complain(f"{task_id}, known from {known.source}, has no end: {task.status}")
            return
        limit = None
        if task.status.state not in TERMINAL:
            async for number, _ in caller.subscribe(task_id):
                limit = number
                break
        reading = await self.follow(caller.subscribe(task_id, 0), source, after=0, limit=limit)
        if reading.failure is not None:
            self.complain(f"{source}: {task_id}: {reading.failure}")
        self._check_replayed(task_id, known, reading, task)

    def _check_replayed(self, task_id: str, known: Known, reading: "Reading", task: Task) -> None:
        if sorted(known.events) != list(range(1, len(known.events) + 1)):
            self.complain(f"{task_id}: the log has the events {sorted(known.events)}")
        if reading.count != len(known.events):
            self.complain(
                f"{task_id}: {len(known.events)} events known, {reading.count} in the log"
            )
        if reading.state != task.status.state:
            self.complain(f"{task_id}: the log ends in {reading.state}, the task is {task.status}")
        log = [known.events[number] for number in sorted(known.events)]
        for piece in known.pieces:
            if not _contains(log, piece):
                self.complain(f"{task_id}: {len(piece)} events of a stream are not in its log")

    def check_counters(self) -> None:
        """Nothing ran twice; what was answered as completed did run."""
        for path, task_ids in self.counters.items():
            lines = path.read_text().splitlines() if path.exists() else []
            if len(lines) > 1:
                self.complain(f"{path.name} ran {len(lines)} times, for {lines}; {task_ids}")
            if len(task_ids) > 1:
                self.complain(f"{path.name}: one key, the tasks {task_ids}")
            if path in self.keyed and not task_ids:
                self.complain(f"{path.name}: acknowledged without a task")
            for task_id in task_ids:
                state = self.tasks[task_id].end_state
                if state == TaskState.TASK_STATE_COMPLETED and lines != [task_id]:
                    self.complain(f"{path.name}: {task_id} completed, but {lines} ran")


@dataclass
class Reading:
    """What one stream gave."""

    number: int | None
    """The last number, or the one after which it was asked for."""
    asked: int = 0
    """The moment of the request."""
    task_id: str = ""
    count: int = 0
    state: int = 0
    piece: list[bytes] | None = None
    failure: FailureError | None = None


def to_bytes(message: Task | StreamResponse) -> bytes:
    """Comparable: maps in order."""
    data: bytes = message.SerializeToString(deterministic=True)
    return data


def _contains(log: list[bytes], piece: list[bytes]) -> bool:
    width = len(piece)
    return any(log[start : start + width] == piece for start in range(len(log) - width + 1))
