"""What survives kill -9, and who may hold a file: PR01 and PR03 primitives, S86."""

import random
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gateway.store import Query, StateInUseError, StoreError
from gateway.store.sqlite import SqliteStore
from tests.conftest import run
from tests.unit.store.making import ANNA, log
from tests.unit.store.writer import EVENTS, TASKS

ROOT = Path(__file__).parents[3]


@contextmanager
def writer(database: Path, owner: str = "") -> Iterator["subprocess.Popen[str]"]:
    """A process that writes to the store as fast as it can; it has opened it."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.unit.store.writer", str(database), owner],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "open\n"
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def kill_after(process: "subprocess.Popen[str]", commits: int) -> int:
    """Kill the writer once it has acknowledged so many commits; the last that it did."""
    assert process.stdout is not None
    for _ in range(commits):
        process.stdout.readline()
    process.kill()
    # what it said before it died counts; a cut line was never said
    said = process.stdout.read()
    numbers = re.findall(r"(\d+)\n", said)
    return int(numbers[-1]) if numbers else -1


@pytest.mark.parametrize("round_", range(4))
def test_what_was_acknowledged_survives_a_kill(database: Path, round_: int) -> None:
    """S86: all of it is there, and nothing half."""

    async def check(acknowledged: int) -> None:
        store = SqliteStore(str(database))
        await store.open()
        try:
            page = await store.tasks(ANNA, Query(limit=1_000_000))
            assert page.total % TASKS == 0
            assert page.total >= TASKS * (acknowledged + 1)
            for row in page.rows:
                assert row.snapshot == row.id.encode() * 1000
                assert await store.events(ANNA, row.id, 0) == log(1, EVENTS)
            # of the commit under way the turns may be there, all of them
            assert len(await store.open_turns()) in (0, TASKS)
            for turn in await store.open_turns():
                assert await store.task(ANNA, turn.task_id) is None
        finally:
            await store.close()

    for _ in range(2):
        with writer(database) as process:
            acknowledged = kill_after(process, random.randrange(1, 60))
        run(check(acknowledged))


def test_a_second_process_is_told_who_holds_the_store(database: Path) -> None:
    with writer(database, "http://127.0.0.1:41242") as process:
        store = SqliteStore(str(database))
        with pytest.raises(StateInUseError) as caught:
            run(store.open())
        assert str(database) in str(caught.value)
        assert f"process {process.pid} (http://127.0.0.1:41242)" in str(caught.value)
        with pytest.raises(StoreError, match="closed"):
            run(store.ping())
    # killed: its lock file is still there and no obstacle
    assert database.with_name("tasks.db.lock").exists()

    async def take() -> None:
        await store.open()
        await store.ping()
        await store.close()

    run(take())


def test_two_stores_of_one_process_exclude_each_other(database: Path) -> None:
    async def main() -> None:
        first, second = SqliteStore(str(database)), SqliteStore(str(database))
        await first.open()
        with pytest.raises(StateInUseError):
            await second.open()
        await first.close()
        await second.open()
        await second.close()

    run(main())
