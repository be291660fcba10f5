"""A disk that is full, read-only or broken: neutral words, nothing half, and service afterwards."""

import asyncio
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.store import Query, StoreError, Write
from gateway.store.sqlite import SqliteStore
from tests.conftest import run
from tests.unit.store.making import ANNA, begin, log, put, task_row, turn_row

ROOT = Path(__file__).parents[3]


async def opened(database: Path) -> SqliteStore:
    store = SqliteStore(str(database))
    await store.open()
    await store.commit([put(task_row("first"), log(1, 1))])
    return store


async def pragma(store: SqliteStore, text: str) -> None:
    await store._writer.run(lambda db: db.execute(f"PRAGMA {text}").fetchall())


@pytest.mark.parametrize(
    ("fault", "cure", "words"),
    [
        ("max_page_count = 1", "max_page_count = 1000000", "the disk is full"),
        ("query_only = ON", "query_only = OFF", "it is read-only"),
    ],
)
@pytest.mark.parametrize("count", [1, 400], ids=["one", "many"])
def test_a_fault_ends_with_its_cause(
    database: Path, fault: str, cure: str, words: str, count: int
) -> None:
    large = [put(task_row(f"t{n}", snapshot=b"x" * 10_000), log(1, 1)) for n in range(count)]

    async def main() -> None:
        store = await opened(database)
        await pragma(store, fault)
        for _ in range(2):
            with pytest.raises(StoreError) as caught:
                await store.commit(large)
            assert str(caught.value) == f"The store {database} cannot do this: {words}"
        # reads go on
        assert (await store.tasks(ANNA, Query())).total == 1
        await pragma(store, cure)
        await store.commit(large)
        assert (await store.tasks(ANNA, Query())).total == count + 1
        await store.close()

    run(main())


LIMITED = """
import asyncio, resource, sys
from gateway.store import Query, StoreError
from gateway.store.sqlite import SqliteStore
from tests.unit.store.making import ANNA, put, task_row

def limit(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

async def main():
    store = SqliteStore(sys.argv[1])
    await store.open()
    await store.commit([put(task_row("first"))])
    limit(256 * 1024)
    stored = 1
    try:
        while True:
            await store.commit([put(task_row(f"t{stored}", snapshot=b"x" * 20_000))])
            stored += 1
    except StoreError as error:
        print(error)
    limit(resource.RLIM_INFINITY)
    await store.commit([put(task_row("last"))])
    print(stored + 1 == (await store.tasks(ANNA, Query())).total)
    await store.close()

asyncio.run(main())
"""


def test_an_input_output_error_ends_with_its_cause(database: Path) -> None:
    """The kernel refuses a write in the middle of a commit."""
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(database)], capture_output=True, text=True, cwd=ROOT
    )
    assert done.stderr == ""
    words = "reading or writing the disk failed"
    assert done.stdout.splitlines() == [f"The store {database} cannot do this: {words}", "True"]


def test_a_program_that_holds_the_file_is_waited_for(database: Path) -> None:
    async def main() -> None:
        store = await opened(database)
        await pragma(store, "busy_timeout = 10")
        other = sqlite3.connect(database, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="another program holds it"):
            await store.commit([put(task_row("t"))])
        other.execute("COMMIT")
        other.close()
        await store.commit([put(task_row("t"))])
        await store.close()

    run(main())


@pytest.mark.parametrize(
    "write",
    [
        pytest.param(put(task_row("\ud800")), id="surrogate"),
        pytest.param(put(task_row("t", status_us=2**64)), id="large-number"),
        pytest.param(put(task_row("t", context_id=None)), id="none"),  # type: ignore[arg-type]
    ],
)
def test_what_does_not_fit_is_refused(database: Path, write: Write) -> None:
    async def main() -> None:
        store = await opened(database)
        with pytest.raises(StoreError) as caught:
            await store.commit([put(task_row("t2")), write])
        assert "surrogate" not in str(caught.value)
        assert await store.task(ANNA, "t2") is None
        await store.commit([put(task_row("t2"))])
        await store.close()

    run(main())


def test_a_damaged_file_is_reported_in_words(database: Path) -> None:
    async def fill() -> None:
        store = await opened(database)
        await store.commit([put(task_row(f"t{n}", snapshot=b"x" * 3000)) for n in range(200)])
        await store.close()

    async def read() -> None:
        store = SqliteStore(str(database))
        try:
            await store.open()
            for n in range(200):
                await store.task(ANNA, f"t{n}")
        finally:
            await store.close()

    run(fill())
    with database.open("r+b") as file:
        file.seek(4096 * 3)
        file.write(b"\xff" * 4096 * 100)
    with pytest.raises(StoreError, match="it is damaged; restore it from a backup"):
        run(read())


def test_closing_waits_for_the_commit_under_way(database: Path) -> None:
    async def main() -> None:
        store = await opened(database)
        large = [put(task_row(f"t{n}", snapshot=b"x" * 10_000)) for n in range(1000)]
        commit = asyncio.create_task(store.commit(large))
        await asyncio.sleep(0)
        await store.close()
        await commit
        with pytest.raises(StoreError, match="closed"):
            await store.commit([begin(turn_row("u", "t"))])
        await store.open()
        assert (await store.tasks(ANNA, Query())).total == 1001
        await store.close()

    run(main())


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_file_that_was_taken_away_is_noticed(database: Path, is_replaced: bool) -> None:
    """Writes go on into a file without a name, and are gone at the end: probes have to see it."""
    away = database.with_suffix(".away")

    async def main() -> None:
        store = SqliteStore(str(database))
        await store.open()
        await store.ping()
        os.rename(database, away)
        if is_replaced:
            os.mknod(database)
        with pytest.raises(StoreError, match=r"tasks\.db was removed or replaced .* restart"):
            await store.ping()
        os.replace(away, database)
        await store.ping()
        await store.close()

    run(main())
