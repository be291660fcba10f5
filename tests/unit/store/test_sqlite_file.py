"""The file of the SQLite store: where it lies, its version, and files that are not ours."""

import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import pytest

from gateway.store import Query, StoreError, Write, open_store, sqlite, sqlite_schema
from gateway.store.sqlite import SqliteStore
from tests.conftest import run
from tests.unit.store.making import ANNA, COMPLETED, log, put, task_row, turn_row

VERSION_1 = Path(__file__).with_name("version_1.sql")


def ask(database: Path, sql: str) -> object:
    with sqlite3.connect(database) as connection:
        (answer,) = connection.execute(sql).fetchone()
    connection.close()
    return answer


async def open_and_close(database: Path) -> None:
    store = SqliteStore(str(database))
    await store.open()
    await store.close()


def test_directory_and_file_are_the_owners_alone(database: Path) -> None:
    async def main() -> None:
        store = SqliteStore(str(database))
        await store.open()
        await store.commit([put(task_row("t"))])
        assert database.parent.stat().st_mode & 0o777 == 0o700
        files = sorted(os.listdir(database.parent))
        assert files == ["tasks.db", "tasks.db-shm", "tasks.db-wal", "tasks.db.lock"]
        for name in files:
            assert (database.parent / name).stat().st_mode & 0o777 == 0o600
        await store.close()

    run(main())


def test_an_existing_directory_keeps_its_mode(database: Path) -> None:
    database.parent.mkdir(mode=0o750)
    run(open_and_close(database))
    assert database.parent.stat().st_mode & 0o777 == 0o750


def test_commits_wait_for_the_disk(database: Path) -> None:
    async def main() -> None:
        store = SqliteStore(str(database))
        await store.open()
        try:
            read = store._writer.run
            assert await read(lambda db: db.execute("PRAGMA synchronous").fetchone()) == (2,)
            assert await read(lambda db: db.execute("PRAGMA journal_mode").fetchone()) == ("wal",)
        finally:
            await store.close()

    run(main())


@pytest.mark.parametrize("url", ["sqlite://{}", "sqlite:///{}"])
def test_a_url_with_three_or_four_slashes_is_the_same_path(database: Path, url: str) -> None:
    store = open_store(url.format(database))
    assert isinstance(store, SqliteStore)
    assert store.path == str(database)


@pytest.mark.parametrize("url", ["", "sqlite:", "sqlite:///", "postgres://x", "memory"])
def test_an_unknown_url_is_answered_with_the_forms(url: str) -> None:
    with pytest.raises(ValueError, match="use memory: or sqlite:///ABSOLUTE/PATH"):
        open_store(url)


def test_a_closed_store_says_so(database: Path) -> None:
    store = SqliteStore(str(database))
    with pytest.raises(StoreError, match="closed"):
        run(store.task(ANNA, "t"))


# -- versions


def test_a_new_file_has_the_current_version(database: Path) -> None:
    run(open_and_close(database))
    assert ask(database, "PRAGMA user_version") == len(sqlite_schema.STEPS)
    assert ask(database, "PRAGMA application_id") == sqlite_schema.APPLICATION_ID


def test_an_empty_file_becomes_a_store(database: Path) -> None:
    database.parent.mkdir()
    database.touch()
    run(open_and_close(database))
    assert ask(database, "PRAGMA user_version") == len(sqlite_schema.STEPS)


def test_a_file_of_version_1_is_read(database: Path) -> None:
    """A hand-made file of the first version: its rows come as this release gives them."""
    database.parent.mkdir()
    connection = sqlite3.connect(database)
    connection.executescript(VERSION_1.read_text())
    connection.close()

    async def main() -> None:
        store = SqliteStore(str(database))
        await store.open()
        try:
            row = task_row("t1", state=COMPLETED, seq=3)
            assert await store.task(ANNA, "t1") == row
            assert await store.events(ANNA, "t1", 0) == log(1, 3)
            assert await store.open_turns() == [turn_row("u2", "t2")]
            assert await store.turn_by_key(ANNA, "k") == turn_row(
                "u1", "t1", key="k", is_open=False
            )
            await store.commit([Write(ANNA, "t1", events=log(4, 1))])
            assert await store.events(ANNA, "t1", 2) == log(3, 2)
        finally:
            await store.close()

    run(main())


def test_steps_bring_an_older_file_up_to_date(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fill() -> None:
        store = SqliteStore(str(database))
        await store.open()
        await store.commit([put(task_row("t"), log(1, 2))])
        await store.close()

    run(fill())
    steps: Sequence[str] = (
        *sqlite_schema.STEPS,
        "CREATE TABLE note (text TEXT); INSERT INTO note VALUES ('second');",
        "UPDATE note SET text = text || ' and third';",
    )
    monkeypatch.setattr(sqlite_schema, "STEPS", steps)
    run(open_and_close(database))
    assert ask(database, "PRAGMA user_version") == len(steps)
    assert ask(database, "SELECT text FROM note") == "second and third"
    assert ask(database, "SELECT id FROM task") == "t"
    run(open_and_close(database))
    assert ask(database, "SELECT text FROM note") == "second and third"


def test_a_step_that_fails_leaves_the_version_before(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(open_and_close(database))
    good, version = sqlite_schema.STEPS, len(sqlite_schema.STEPS)
    bad = "CREATE TABLE note (text TEXT); INSERT INTO nowhere VALUES (1);"
    monkeypatch.setattr(sqlite_schema, "STEPS", (*good, bad))
    with pytest.raises(StoreError):
        run(open_and_close(database))
    assert ask(database, "PRAGMA user_version") == version
    assert ask(database, "SELECT count(*) FROM sqlite_master WHERE name = 'note'") == 0
    monkeypatch.setattr(sqlite_schema, "STEPS", good)
    run(open_and_close(database))


def test_a_newer_file_is_refused_with_what_to_do(database: Path) -> None:
    run(open_and_close(database))
    ask(database, "PRAGMA user_version")
    connection = sqlite3.connect(database)
    connection.execute("PRAGMA user_version = 77")
    connection.close()
    with pytest.raises(StoreError, match=r"version 77.*start the newer release"):
        run(open_and_close(database))
    assert ask(database, "PRAGMA user_version") == 77


def test_a_database_of_another_program_is_left_alone(database: Path) -> None:
    database.parent.mkdir()
    connection = sqlite3.connect(database)
    connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    before = database.read_bytes()
    with pytest.raises(StoreError, match="another program; name another file"):
        run(open_and_close(database))
    assert database.read_bytes() == before


def test_a_file_that_is_no_database_is_left_alone(database: Path) -> None:
    database.parent.mkdir()
    database.write_text("shopping list\n" * 100)
    with pytest.raises(StoreError, match="not an SQLite database; name another file"):
        run(open_and_close(database))
    assert database.read_text() == "shopping list\n" * 100


# -- places that cannot be used


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=r"directory of .* cannot be created"):
        run(open_and_close(tmp_path / "file" / "tasks.db"))


def test_a_path_that_is_a_directory_is_refused(database: Path) -> None:
    database.mkdir(parents=True)
    with pytest.raises(StoreError, match="cannot be opened"):
        run(open_and_close(database))
    database.rmdir()
    run(open_and_close(database))


def test_a_lock_file_of_another_user_is_explained(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(open_and_close(database))
    lock = f"{database}.lock"
    real = os.open

    def denied(path: str, flags: int, mode: int = 0o777) -> int:
        if path == lock:
            raise PermissionError(13, "Permission denied", path)
        return real(path, flags, mode)

    monkeypatch.setattr(os, "open", denied)
    with pytest.raises(StoreError, match=rf"{lock} .* belongs to user {os.getuid()} .* run as"):
        run(open_and_close(database))


# -- cost


@pytest.mark.parametrize(
    "call",
    [
        "task(ANNA, 't')",
        "tasks(ANNA, Query(state=3, status_from_us=5, before=(9, 'x')))",
        "tasks(ANNA, Query(context_id='c', state=3, before=(9, 'x')))",
        "events(ANNA, 't', 5)",
        "turn_by_key(ANNA, 'k')",
        "turns_of_task(ANNA, 't')",
        "expire(before_us=5, keep=3)",
    ],
)
def test_no_read_walks_a_table(database: Path, call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page of a long log or a long list costs the page: every step uses an index."""

    monkeypatch.setattr(sqlite, "READERS", 1)

    async def main() -> list[str]:
        store = SqliteStore(str(database))
        await store.open()
        await store.commit([put(task_row("t", state=COMPLETED, status_us=1))])
        statements: list[str] = []
        for workers in (store._readers, store._writer):
            await workers.run(lambda db: db.set_trace_callback(statements.append))
        await eval(f"store.{call}", {"store": store, "ANNA": ANNA, "Query": Query})
        plans = []
        for statement in set(statements):
            if statement.startswith(("--", "PRAGMA", "INSERT")):
                continue
            plan = await store._writer.run(
                lambda db, sql=statement: db.execute(f"EXPLAIN QUERY PLAN {sql}").fetchall()  # type: ignore[misc]
            )
            plans += [f"{row[3]}  <-  {statement}" for row in plan]
        await store.close()
        return plans

    plans = run(main())
    assert plans
    walks = [plan for plan in plans if plan.startswith("SCAN") and "task_finished" not in plan]
    assert walks == []
