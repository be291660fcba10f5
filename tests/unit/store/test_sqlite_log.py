"""The write-ahead log's length."""

import asyncio
import shutil
from pathlib import Path

from gateway.store.sqlite import LOG_BYTES, SqliteStore
from gateway.store.sqlite_log import STEP_BYTES, lengthen
from tests.conftest import run
from tests.unit.store.making import ANNA, log, put, task_row


def _wal(database: Path) -> Path:
    return database.with_name(f"{database.name}-wal")


async def _open(database: Path) -> SqliteStore:
    store = SqliteStore(str(database))
    await store.open()
    return store


async def _is_long(store: SqliteStore) -> None:
    assert store._lengthening is not None
    await asyncio.wait([store._lengthening])


def test_commits_find_a_log_of_full_length(database: Path) -> None:
    """No commit makes the file longer, and none loses anything to the zeros."""

    async def main() -> None:
        store = await _open(database)
        await store.commit([put(task_row("early"), log(1, 2))])
        await _is_long(store)
        assert _wal(database).stat().st_size == LOG_BYTES
        await store.commit([put(task_row("late"), log(1, 3))])
        assert _wal(database).stat().st_size == LOG_BYTES
        # what a kill leaves behind: the files as they are
        copy = database.with_name("copy.db")
        for name in ("", "-wal"):
            shutil.copy(f"{database}{name}", f"{copy}{name}")
        await store.close()
        again = await _open(copy)
        assert len(await again.events(ANNA, "early", 0)) == 2
        assert len(await again.events(ANNA, "late", 0)) == 3
        await again.commit([put(task_row("after"), log(1, 1))])
        await _is_long(again)
        assert len(await again.events(ANNA, "after", 0)) == 1
        await again.close()

    run(main())


def test_closing_does_not_wait_for_the_length(database: Path) -> None:
    """A store that is closed at once is closed."""

    async def main() -> None:
        store = await _open(database)
        await store.close()
        assert not _wal(database).exists()
        await store.close()

    run(main())


def test_steps(tmp_path: Path) -> None:
    """A step adds zeros at the end and says whether more are wanted; no log, no step."""
    database = tmp_path / "tasks.db"
    assert not lengthen(str(database), STEP_BYTES)
    wal = _wal(database)
    wal.write_bytes(b"frames")
    assert lengthen(str(database), STEP_BYTES + 10)
    assert wal.read_bytes() == b"frames" + bytes(STEP_BYTES)
    assert not lengthen(str(database), STEP_BYTES + 10)
    assert wal.stat().st_size == STEP_BYTES + 10
    assert not lengthen(str(database), STEP_BYTES)
