"""A disk that is full: clear errors, nothing wrong is stored, and all is well once there is room
(D28; ST16). The limit on the size of files stands for the disk."""

import asyncio
import resource
import time
from pathlib import Path

from gateway.errors import Code, Failure, FailureError
from gateway.pb import TaskState
from tests.conftest import run
from tests.faults.callers import DOORS, TERMINAL, Caller
from tests.faults.ledger import Ledger
from tests.faults.test_kills import back
from tests.faults.victim import Victim, victim


def test_a_full_disk(tmp_path: Path) -> None:
    """Sends are refused as UNAVAILABLE and reads go on; a task that was at work when the disk
    filled up ends as FAILED, also where the disk stays full for longer than the callers wait."""
    with victim(tmp_path) as gateway:
        run(_fill_and_empty(gateway, tmp_path))


async def _fill_and_empty(gateway: Victim, folder: Path) -> None:
    ledger = Ledger()
    async with Caller(gateway.addresses, "jsonrpc") as http:
        done = (await http.send("echo before")).task
        asked = (await http.send("ask")).task
        path = folder / "go"
        working = [
            (await http.send(text, immediate=True)).task.id
            for text in (f"wait {path}", "slow 900 100")
        ]
        _limit(gateway, folder)
        stored = begun = 4
        for door in DOORS:
            taken, refused = await _refuses(gateway, door)
            stored += taken
            begun += taken + refused
        path.write_text("go")
        assert await http.get(done.id) == done
        assert stored <= (await http.list()).total_size <= begun
        await asyncio.sleep(5.0)  # beyond all attempts to store what became of the two
        assert (await http.get(asked.id)) == asked
        _limit(gateway, None)
        await back(gateway)
        await _goes_on(http)
        answer = await http.send("blue", asked.id)
        assert answer.task.status.state == TaskState.TASK_STATE_COMPLETED
        await _ended(http, working)
        for task_id in (done.id, asked.id, *working):
            ledger.known(task_id, "disk")
            await ledger.check_log(http, task_id)
        assert not ledger.complaints, ledger.complaints
        for task_id in working:
            assert (await http.get(task_id)).status.state == TaskState.TASK_STATE_FAILED
    text = gateway.server.text()
    assert "disk" in text
    assert str(folder / "state" / "tasks.db") in text


def _limit(gateway: Victim, folder: Path | None) -> None:
    """Let the files of the core grow no further; with None without end."""
    pid = gateway.pid("core")
    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    size = hard
    if folder is not None:
        # what is in the log already may be written over; nothing may come behind it
        size = (folder / "state" / "tasks.db-wal").stat().st_size
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, hard))


async def _refuses(gateway: Victim, door: str) -> tuple[int, int]:
    """Soon no send is taken any more: the log has some room still. How many were taken, and how
    many had begun when there was no more room."""
    end = time.monotonic() + 20.0
    refusals: list[Failure] = []
    taken = begun = 0
    async with Caller(gateway.addresses, door) as caller:
        while len(refusals) < 3:
            assert time.monotonic() < end, "sends are still taken"
            try:
                await caller.send("echo " + "x" * 4096)
            except FailureError as error:
                refusals.append(error.failure)
                begun += error.failure.row.code is Code.INTERNAL
            else:
                refusals.clear()
                taken += 1
    for failure in refusals:
        # INTERNAL where the turn had begun and its end could not be stored
        assert failure.row.code in (Code.UNAVAILABLE, Code.INTERNAL), failure
        assert "stored" in failure.message
    return taken, begun


async def _goes_on(caller: Caller) -> None:
    async with asyncio.timeout(10.0):
        while True:
            try:
                answer = await caller.send("echo after")
            except FailureError:
                await asyncio.sleep(0.1)
                continue
            assert answer.task.status.state == TaskState.TASK_STATE_COMPLETED
            return


async def _ended(caller: Caller, task_ids: list[str]) -> None:
    async with asyncio.timeout(15.0):
        for task_id in task_ids:
            while (await caller.get(task_id)).status.state not in TERMINAL:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
