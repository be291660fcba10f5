"""The end of tasks, under load and over two doors: an end that was shown is stored (ST10), and what
retention took stays away, whatever still ran or was read (PR03)."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, aclosing
from itertools import count
from pathlib import Path

from gateway.errors import FailureError
from gateway.pb import TaskState
from tests.conftest import run
from tests.faults.callers import DOORS, TERMINAL, Caller, Event, state_of, task_id_of
from tests.faults.conftest import IS_LONG
from tests.faults.ledger import Ledger
from tests.faults.victim import Victim, victim

RUNS = 5000 if IS_LONG else 1000
AT_ONCE = 8
CHUNKS = 3
WAVES = 10 if IS_LONG else 2
WAVE = 1100
"""Tasks that end in one wave: enough for retention to look."""
KEPT = 3
LIMIT = 200.0
COMPLETED = TaskState.TASK_STATE_COMPLETED


def test_an_end_that_was_shown_is_stored(tmp_path: Path) -> None:
    """ST10: on the terminal frame at one door the task is read at once at another."""

    async def runs(gateway: Victim) -> None:
        numbers = iter(range(RUNS))
        async with asyncio.TaskGroup() as group:
            for number in range(AT_ONCE):
                doors = DOORS[number % 3], DOORS[(number + 1 + number // 3 % 2) % 3]
                group.create_task(_ends(gateway, *doors, numbers))

    with victim(tmp_path, {"logs": {"level": "warning"}}) as gateway:
        run(runs(gateway), LIMIT)


async def _ends(gateway: Victim, one: str, other: str, numbers: Iterator[int]) -> None:
    async with Caller(gateway.addresses, one) as sender, Caller(gateway.addresses, other) as reader:
        for _ in numbers:
            async with aclosing(sender.stream(f"burst {CHUNKS} 8")) as events:  # type: ignore[type-var]
                async for _, event in events:
                    if state_of(event) in TERMINAL:
                        task = await reader.get(task_id_of(event))
                        assert task.status.state == COMPLETED, (one, other)
                        assert len(task.artifacts[0].parts) == CHUNKS


def test_what_retention_took_stays_away(tmp_path: Path) -> None:
    """PR03: thousands of tasks end, of which three are kept; agents return late, streams and reads
    go on. Running and interrupted tasks are spared."""
    config = {"retention": {"finished_count": KEPT}, "logs": {"level": "warning"}}
    with victim(tmp_path, config) as gateway:
        run(_waves(gateway), LIMIT)


async def _waves(gateway: Victim) -> None:
    ledger = Ledger()
    gone: set[str] = set()
    async with AsyncExitStack() as stack:
        callers = [
            await stack.enter_async_context(Caller(gateway.addresses, door, timeout=60.0))
            for door in DOORS
        ]
        asked = (await callers[0].send("ask")).task
        for _ in range(WAVES):
            long = [
                asyncio.create_task(ledger.follow(caller.stream("slow 30 50"), caller.door))
                for caller in callers
            ]
            ids = await _wave(callers)
            for reading in await asyncio.gather(*long):
                # deleted at its very end at the soonest: nothing is missing before
                assert reading.failure is None or "not found" in str(reading.failure)
                assert reading.count >= 30
            found = await _sweep(callers, ids, gone)
            assert len(gone) > 0
            assert len(found) < WAVE
        for task_id in gone:
            assert await _is_gone(callers[2], task_id), f"{task_id} came back"
        assert (await callers[1].get(asked.id)) == asked
        done = (await callers[2].send("blue", asked.id)).task
        assert done.status.state == COMPLETED
    assert not ledger.complaints, ledger.complaints


async def _wave(callers: list[Caller]) -> list[str]:
    """Run tasks whose agents end the task first and return 20 ms later; read some while they
    run."""
    ids: list[str] = []
    numbers = count()

    async def work(caller: Caller) -> None:
        while (number := next(numbers)) < WAVE:
            answer = await caller.send("late 20")
            ids.append(answer.task.id)
            if number % 10 == 0:
                await _read_through(caller.subscribe(answer.task.id, 0))

    await asyncio.gather(*(work(caller) for caller in callers for _ in range(16)))
    return ids


async def _read_through(events: AsyncIterator[Event]) -> None:
    """Complete, or ended by the deletion."""
    numbers = []
    async with aclosing(events):  # type: ignore[type-var]
        try:
            async for number, _ in events:
                numbers.append(number)
        except FailureError as error:
            assert error.failure.row.reason == "TASK_NOT_FOUND"  # noqa: PT017
    assert not any(numbers) or numbers == list(range(1, len(numbers) + 1))


async def _sweep(callers: list[Caller], ids: list[str], gone: set[str]) -> list[str]:
    """Wait for retention; what is gone goes into `gone`, what is left is returned."""
    async with asyncio.timeout(10.0):
        while not await _is_gone(callers[2], ids[0]):  # noqa: ASYNC110  another process
            await asyncio.sleep(0.05)
    found = []
    for task_id in ids:
        if await _is_gone(callers[2], task_id):
            gone.add(task_id)
        else:
            found.append(task_id)
    return found


async def _is_gone(caller: Caller, task_id: str) -> bool:
    try:
        await caller.get(task_id)
    except FailureError as error:
        if error.failure.row.reason == "TASK_NOT_FOUND":
            return True
        raise
    return False
