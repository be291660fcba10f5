"""Clients that work while processes die: each loop is one of them, and tells the ledger."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path
from typing import Self

from gateway.errors import Code, FailureError
from gateway.pb import TaskState
from tests.faults.callers import DOORS, TERMINAL, Caller
from tests.faults.ledger import Ledger
from tests.processes import Addresses

PASSING = {Code.UNAVAILABLE, Code.DEADLINE_EXCEEDED}
"""What a call may fail with while processes die."""
PAUSE = 0.15
"""Seconds between the calls of one client: the load must leave the restarts some of the CPU."""
PATIENCE = 0.15
"""Seconds before a client whose call was refused calls again."""

Loop = Callable[[Caller], Awaitable[None]]


class Load:
    """Client loops over all doors, from `start` to `stop`; what is left is given up at the end
    of the context, as where the test has failed."""

    def __init__(
        self,
        addresses: Addresses,
        ledger: Ledger,
        folder: Path,
        chance: random.Random,
        stdio: str = "",
    ) -> None:
        self._addresses = addresses
        self._stdio = stdio
        self._ledger = ledger
        self._folder = folder
        self._chance = chance
        self._numbers = count(1)
        self._is_over = False
        self._is_given_up = False
        self._tasks: list[asyncio.Task[None]] = []
        self.answered = 0
        """Calls that had an answer."""
        self.refused = 0
        """Calls that failed as they may."""

    def start(self) -> None:
        """Begin: two senders, a reader of streams, a dialogue, a canceller at each door, one who
        looks at what the others do, and two who have a program of ours each (`stdio`)."""
        folder = self._folder
        folder.mkdir(parents=True, exist_ok=True)
        kinds: list[Loop] = [
            self._send_plainly,
            self._send_with_key,
            self._read_stream,
            self._talk,
            self._cancel,
        ]
        for door in DOORS:
            for kind in kinds:
                self._tasks.append(asyncio.create_task(self._repeat(kind, door)))
        self._tasks.append(asyncio.create_task(self._repeat(self._look, "rest")))
        if self._stdio:
            for kind in (self._send_with_key, self._read_stream):
                self._tasks.append(asyncio.create_task(self._repeat(kind, f"stdio:{self._stdio}")))

    async def stop(self) -> None:
        """Let what is under way end. A client that waits for a key's answer gets it."""
        self._is_over = True
        await asyncio.gather(*self._tasks)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._is_over = self._is_given_up = True
        for task in self._tasks:
            task.cancel()

    async def _repeat(self, kind: Loop, door: str) -> None:
        async with Caller(self._addresses, door) as caller:
            while not self._is_over:
                try:
                    await kind(caller)
                except FailureError as error:
                    self._note_failure(error, caller, kind.__name__)
                    await asyncio.sleep(PATIENCE)
                except Exception as error:
                    self._ledger.complain(f"{kind.__name__} by {door}: {error!r}")
                await asyncio.sleep(PAUSE * self._chance.uniform(0.5, 1.5))

    def _note_failure(self, error: FailureError, caller: Caller, where: str) -> None:
        if error.failure.row.code in PASSING:
            self.refused += 1
        else:
            self._ledger.complain(
                f"{where} by {caller.door}: {error.failure.row.reason}: {error.failure.message}"
            )

    # -- the clients ----------------------------------------------------------------------

    async def _send_plainly(self, caller: Caller) -> None:
        text = self._chance.choice(["echo hello", "slow 3 20", "message hello", "burst 50", ""])
        path = self._folder / f"plain-{next(self._numbers)}"
        if not text:
            self._ledger.counters[path] = set()
        answer = await caller.send(text or f"counter {path}", immediate=self._chance.random() < 0.3)
        self.answered += 1
        task_id = self._ledger.note_answer(answer, f"send by {caller.door}")
        if not text:
            self._ledger.counters[path].add(task_id)

    async def _send_with_key(self, caller: Caller) -> None:
        """Repeats until there is an answer; then once more, which gives the same task."""
        key = f"key-{next(self._numbers)}"
        path = self._folder / key
        self._ledger.counters[path] = set()
        for _ in range(2):
            answer = await self._until_answered(caller, f"counter {path}", key)
            self._ledger.counters[path].add(answer)
        self._ledger.keyed.add(path)

    async def _until_answered(self, caller: Caller, text: str, key: str) -> str:
        while True:
            try:
                answer = await caller.send(text, key=key)
            except FailureError as error:
                if error.failure.row.code not in PASSING or self._is_given_up:
                    raise
                self.refused += 1
                await asyncio.sleep(PATIENCE)
                continue
            self.answered += 1
            return self._ledger.note_answer(answer, f"keyed send by {caller.door}")

    async def _read_stream(self, caller: Caller) -> None:
        """Comes back with the last number until it has seen the end."""
        text = self._chance.choice(["slow 10 20", "slow 40 10", "burst 200"])
        key = f"stream-{next(self._numbers)}" if self._chance.random() < 0.5 else ""
        source = f"stream by {caller.door}"
        reading = await self._ledger.follow(caller.stream(text, key=key), source)
        task_id, number = reading.task_id, reading.number
        while reading.failure is not None:
            self._note_failure(reading.failure, caller, "stream")
            if not task_id or self._ledger.tasks[task_id].end_state or self._is_given_up:
                return
            await asyncio.sleep(PATIENCE)
            # a door that shows no numbers gives the task and goes on from there
            again = number if number is not None and caller.door != "grpc" else None
            reading = await self._ledger.follow(
                caller.subscribe(task_id, again),
                f"resumed {source}",
                after=again,
                is_snapshot_first=again is None,
            )
            if reading.failure is not None and reading.failure.failure.row.reason == (
                "UNSUPPORTED_OPERATION"
            ):
                # it ended meanwhile, which is the answer of a subscription without a number
                self._ledger.note_task(await caller.get(task_id), source)
                return
            number = reading.number if reading.number is not None else number
        self.answered += 1
        if task_id and not self._ledger.tasks[task_id].end_state:
            self._ledger.complain(f"{source}: the stream of {task_id} ended before its task")

    async def _talk(self, caller: Caller) -> None:
        """A question and its answer."""
        answer = await caller.send("ask")
        task_id = self._ledger.note_answer(answer, f"question by {caller.door}")
        state: int = answer.task.status.state
        while state == TaskState.TASK_STATE_INPUT_REQUIRED and not self._is_over:
            try:
                if self._chance.random() < 0.5:
                    answer = await caller.send("blue", task_id)
                    self._ledger.note_answer(answer, f"answer by {caller.door}")
                else:
                    reading = await self._ledger.follow(
                        caller.stream("blue", task_id),
                        f"answer as stream by {caller.door}",
                        is_snapshot_first=True,
                    )
                    if reading.failure is not None:
                        raise reading.failure
            except FailureError as error:
                if error.failure.row.reason != "UNSUPPORTED_OPERATION":  # it had ended by then
                    self._note_failure(error, caller, "answer")
                await asyncio.sleep(PATIENCE)
            state = await self._state(caller, task_id)
        self.answered += 1

    async def _cancel(self, caller: Caller) -> None:
        answer = await caller.send("slow 200 20", immediate=True)
        task_id = self._ledger.note_answer(answer, f"start by {caller.door}")
        await asyncio.sleep(self._chance.uniform(0, 0.2))
        try:
            task = await caller.cancel(task_id)
        except FailureError as error:
            # a restart may have ended it
            if error.failure.row.reason != "TASK_NOT_CANCELABLE":
                raise
        else:
            self._ledger.note_task(task, f"cancel by {caller.door}")
        self.answered += 1

    async def _look(self, caller: Caller) -> None:
        """Reads and follows what others have made."""
        page = await caller.list(page_size=20)
        for task in page.tasks:
            self._ledger.known(task.id, "list")
        ids = list(self._ledger.tasks)[-50:]
        if not ids:
            return
        task_id = self._chance.choice(ids)
        asked = self._ledger.moment()
        task = await caller.get(task_id)
        self._ledger.note_task(task, "look", asked)
        is_ended = task.status.state in TERMINAL
        reading = await self._ledger.follow(
            caller.subscribe(task_id, 0), "look", after=0, limit=None if is_ended else 2
        )
        if reading.failure is not None:
            raise reading.failure
        self.answered += 1

    async def _state(self, caller: Caller, task_id: str) -> int:
        while True:
            asked = self._ledger.moment()
            try:
                task = await caller.get(task_id)
            except FailureError as error:
                self._note_failure(error, caller, "state")
                if error.failure.row.code not in PASSING or self._is_given_up:
                    return 0
                await asyncio.sleep(PATIENCE)
                continue
            self._ledger.note_task(task, f"look by {caller.door}", asked)
            return task.status.state
