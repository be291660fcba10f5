"""kill -9 at random moments under load: what was acknowledged stays (design: "What has to stay
true", 2; SH07, PR01, S65, S182).

The moments come from a seed, which is printed: `FAULTS_SEED=N make faults` draws them again. The
short form always has the same.
"""

import asyncio
import random
import time
from collections.abc import Iterator
from pathlib import Path

from gateway.errors import FailureError
from gateway.pb import TaskState
from tests.conftest import run
from tests.faults.callers import DOORS, Caller
from tests.faults.conftest import IS_LONG, seed
from tests.faults.ledger import Ledger
from tests.faults.load import Load
from tests.faults.victim import Victim, victim

KILLS = 500 if IS_LONG else 50
BURST = 5
"""Kills in a row; then the service has to be back, and a sample is looked at."""
BACK_SECONDS = 5.0 if IS_LONG else 20.0
"""The design's limit, where nothing else runs; the short form runs on machines that are busy."""
SAMPLE = 40
QUIET_SECONDS = 60.0
CHECKERS = 4


def test_nothing_acknowledged_is_lost_by_kills(tmp_path: Path) -> None:
    """SH07, PR01: core, adapter or both, also while they start; no log with a gap, no task
    without an end, nothing run twice, the service back in time."""
    config = {"logs": {"level": "warning"}}
    with victim(tmp_path / "gateway", config) as gateway:
        run(_rounds(gateway, tmp_path / "runs", random.Random(seed())), KILLS * 8.0 + 60)


async def _rounds(gateway: Victim, folder: Path, chance: random.Random) -> None:
    ledger = Ledger()
    with Load(gateway.addresses, ledger, folder, chance) as load:
        load.start()
        kills = 0
        slowest = 0.0
        while kills < KILLS and not ledger.complaints:
            for _ in range(min(BURST, KILLS - kills)):
                await asyncio.sleep(chance.uniform(0.05, 0.6))
                kills += _kill(gateway, chance)
            slowest = max(slowest, await back(gateway))
            async with Caller(gateway.addresses, chance.choice(DOORS)) as caller:
                ids = list(ledger.tasks)
                await ledger.check_found(caller, chance.sample(ids, min(SAMPLE, len(ids))))
        await load.stop()
        await back(gateway)
        await check(gateway, ledger)
        print(
            f"{kills} kills, {load.answered} calls answered, {load.refused} refused, "
            f"{len(ledger.tasks)} tasks; back within {slowest:.1f} s"
        )
    assert not ledger.complaints, "\n".join(
        [f"{len(ledger.complaints)} complaints", *ledger.complaints[:20], gateway.server.text()]
    )


def _kill(gateway: Victim, chance: random.Random) -> int:
    names = chance.choice([["core"], ["core"], ["adapter-http"], ["core", "adapter-http"]])
    return min(1, sum([gateway.kill(name) for name in names]))


async def back(gateway: Victim, seconds: float = BACK_SECONDS) -> float:
    """Wait until every door answers; the seconds that it took. Fails after `seconds`."""
    started = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for door in DOORS:
            group.create_task(_answers(gateway, door, started + seconds))
    return time.monotonic() - started


async def _answers(gateway: Victim, door: str, end: float) -> None:
    async with Caller(gateway.addresses, door) as caller:
        while True:
            try:
                await caller.list(page_size=1)
                return
            except FailureError as error:
                late = f"{door} is not back: {error}\n{gateway.server.text()}"
                assert time.monotonic() < end, late
            await asyncio.sleep(0.02)


async def check(gateway: Victim, ledger: Ledger) -> None:
    """Once nothing runs any more, all logs and all that ran is looked at."""
    async with Caller(gateway.addresses, "jsonrpc") as caller, asyncio.timeout(QUIET_SECONDS):
        for state in (TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING):
            # another process has to come to its end
            while (await caller.list(page_size=1, status=state)).total_size:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
    rest = iter(list(ledger.tasks))
    async with asyncio.TaskGroup() as group:
        for number in range(CHECKERS):
            group.create_task(_check_logs(gateway, ledger, DOORS[number % 2], rest))
    ledger.check_counters()


async def _check_logs(gateway: Victim, ledger: Ledger, door: str, rest: Iterator[str]) -> None:
    async with Caller(gateway.addresses, door) as caller:
        for task_id in rest:
            await ledger.check_log(caller, task_id)
