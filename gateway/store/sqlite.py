"""Store in one SQLite file: the default. Part of the core's storage layer.

One writer connection and a few readers, each in a thread of its own (WAL: readers see the state
of the last commit and wait for nobody). A commit is one statement and one fsync. Reasons and
figures: docs/decisions/0003-stores.md.
"""

import asyncio
import contextlib
import os
import re
import sqlite3
from collections.abc import Iterable, Sequence
from functools import partial

from gateway.call import Scope
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
from gateway.store.sqlite_lock import OwnerLock
from gateway.store.sqlite_log import lengthen
from gateway.store.sqlite_rows import (
    TASK_COLUMNS,
    TURN_COLUMNS,
    flatten,
    insert,
    to_task,
    to_turn,
    unpack_events,
)
from gateway.store.sqlite_schema import (
    FINISHED,
    INBOX_SQL,
    KEY_CONFLICT,
    MAX_SEQ,
    SEQ_BITS,
    migrate,
)
from gateway.store.sqlite_worker import Workers

READERS = 2
PAGE_BYTES = 4 * 1024 * 1024
"""Payloads after which `events` ends a page early."""
EXPIRE_STEP = 64
"""Tasks deleted in one transaction: bounds how long a commit waits behind it."""
MAX_CACHED = 10_000
"""Scopes whose numbers are kept in memory, and whose totals."""

CHECKPOINT_PAGES = 4000
LOG_BYTES = CHECKPOINT_PAGES * (4096 + 24)
"""Of the log when it is copied into the database and begun anew: pages with their headers."""
JOURNAL_BYTES = 64 * 1024 * 1024

_EVENTS = f"""
    SELECT e.pos & {MAX_SEQ}, e.count, e.body
    FROM task AS t CROSS JOIN event AS e
    WHERE t.scope = ? AND t.id = ?
        AND e.pos > (t.num << {SEQ_BITS}) + ? AND e.pos < (t.num + 1) << {SEQ_BITS}
    ORDER BY e.pos LIMIT ?"""  # noqa: S608, numbers of the code only

_VICTIMS = f"""
    SELECT t.num, t.scope, t.id FROM task AS t INDEXED BY task_finished
    WHERE {FINISHED} AND t.status_us < ? AND NOT EXISTS (
        SELECT 1 FROM turn AS u WHERE u.scope = t.scope AND u.task_id = t.id AND u.is_open)
    ORDER BY t.status_us, t.id LIMIT ?"""  # noqa: S608, numbers of the code only
_DELETE = f"DELETE FROM task WHERE num IN ({', '.join('?' * EXPIRE_STEP)})"  # noqa: S608

_DELETE_ORPHANS = """
    DELETE FROM turn WHERE (scope, task_id, id) IN (
        SELECT u.scope, u.task_id, u.id FROM turn AS u INDEXED BY turn_ended
        WHERE u.is_open = 0 AND u.created_us < ?
            AND NOT EXISTS (SELECT 1 FROM task AS t WHERE t.scope = u.scope AND t.id = u.task_id)
        ORDER BY u.created_us LIMIT ?)"""

_LATEST_US = (1 << 63) - 1


class SqliteStore(Store):
    """Implements `gateway.store.Store`; `owner` is what a second process is told of this one."""

    is_durable = True

    def __init__(self, path: str, *, owner: str = "") -> None:
        self.path = re.sub("^//+", "/", os.path.abspath(path))
        self._lock = OwnerLock(f"{self.path}.lock", owner)
        self._writer = Workers("store-writer", self.path, self._connect_writer)
        self._readers = Workers("store-reader", self.path, self._connect_reader, READERS)
        self._file = (0, 0)
        """Device and inode."""
        self._lengthening: asyncio.Task[None] | None = None
        self._scopes: dict[Scope, int] = {}
        self._totals: dict[Scope, dict[tuple[object, ...], int]] = {}
        """Totals of ListTasks filters; those of a scope go with its next change."""

    # -- opening and closing

    async def open(self) -> None:
        await self._writer.start()
        try:
            await self._readers.start()
        except BaseException:
            await self.close()
            raise
        self._lengthening = asyncio.create_task(self._lengthen_log())

    async def _lengthen_log(self) -> None:
        # in steps, so that commits get in between
        while await self._writer.run(lambda db: lengthen(self.path, LOG_BYTES)):
            pass

    async def close(self) -> None:
        if self._lengthening is not None:
            self._lengthening.cancel()
            await asyncio.wait([self._lengthening])
        await self._readers.stop()
        await self._writer.stop()
        self._lock.release()

    async def ping(self) -> None:
        await self._readers.run(self._ping)

    def _ping(self, db: sqlite3.Connection) -> None:
        db.execute("SELECT num FROM scope LIMIT 1").fetchone()
        try:
            found = os.stat(self.path)
        except OSError:
            found = None
        if found is None or (found.st_dev, found.st_ino) != self._file:
            # what is written now goes with this process
            raise StoreError(
                f"{self.path} was removed or replaced under the running gateway; restart it"
            )

    def _connect_writer(self) -> sqlite3.Connection:
        """Lock, create and migrate the file; in the writer's thread."""
        try:
            os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)
        except OSError as error:
            raise StoreError(
                f"The directory of {self.path} cannot be created: {error.strerror}"
            ) from error
        self._lock.acquire(self.path)
        try:
            # SQLite gives the files beside it the same mode
            with contextlib.suppress(OSError):
                os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            db = self._prepare(_connect(self.path))
            found = os.stat(self.path)
            self._file = (found.st_dev, found.st_ino)
            return db
        except BaseException:
            self._lock.release()
            raise

    def _prepare(self, db: sqlite3.Connection) -> sqlite3.Connection:
        try:
            migrate(db, self.path)
            (mode,) = db.execute("PRAGMA journal_mode = WAL").fetchone()
            if mode != "wal":
                raise StoreError(
                    f"{self.path} lies on a file system that SQLite's WAL does not work on;"
                    " name a file on a local disk"
                )
            db.executescript(
                f"""
                PRAGMA synchronous = FULL;
                PRAGMA fullfsync = ON;
                PRAGMA checkpoint_fullfsync = ON;
                PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES};
                PRAGMA journal_size_limit = {JOURNAL_BYTES};
                PRAGMA secure_delete = FAST;
                PRAGMA temp_store = MEMORY;
                PRAGMA cache_size = -8000;
                {INBOX_SQL}
                """
            )
        except BaseException:
            db.close()
            raise
        return db

    def _connect_reader(self) -> sqlite3.Connection:
        db = _connect(self.path)
        db.execute("PRAGMA query_only = ON")
        db.execute("PRAGMA cache_size = -2000")
        return db

    # -- writing

    async def commit(self, writes: Sequence[Write]) -> None:
        if not writes:
            return
        numbers = self._scopes
        if not all(write.scope in numbers for write in writes):
            scopes = {write.scope for write in writes}
            numbers = await self._writer.run(partial(self._number_scopes, scopes))
        values = flatten(writes, numbers)
        await self._writer.run(partial(self._commit, writes, values))

    def _number_scopes(self, scopes: Iterable[Scope], db: sqlite3.Connection) -> dict[Scope, int]:
        """Number scopes in transactions of their own: what follows may be rolled back."""
        add = "INSERT OR IGNORE INTO scope (agent, tenant, caller) VALUES (?, ?, ?)"
        numbers = {}
        for scope in scopes:
            number = self._find_scope(scope, db)
            if number is None:
                db.execute(add, scope)
                number = self._find_scope(scope, db)
            assert number is not None
            numbers[scope] = number
        return numbers

    def _commit(
        self, writes: Sequence[Write], values: list[object], db: sqlite3.Connection
    ) -> None:
        try:
            insert(db, values)
        except sqlite3.IntegrityError as error:
            if KEY_CONFLICT not in str(error):
                raise StoreError(str(error)) from error
            if db.in_transaction:
                db.rollback()
            raise KeyConflictError(self._conflicts(writes, db)) from error
        for write in writes:
            if write.task is not None:
                self._totals.pop(write.scope, None)

    def _conflicts(self, writes: Sequence[Write], db: sqlite3.Connection) -> tuple[int, ...]:
        found = []
        seen: dict[tuple[Scope, str], str] = {}
        for index, write in enumerate(writes):
            turn = write.turn
            if turn is None or not turn.key:
                continue
            place = (write.scope, turn.key)
            held_by = seen.setdefault(place, turn.id)
            stored = self._turn_by_key(write.scope, turn.key, db)
            if held_by != turn.id or (stored is not None and stored.id != turn.id):
                found.append(index)
        return tuple(found)

    # -- reading

    def _find_scope(self, scope: Scope, db: sqlite3.Connection) -> int | None:
        number = self._scopes.get(scope)
        if number is None:
            row = db.execute(
                "SELECT num FROM scope WHERE agent = ? AND tenant = ? AND caller = ?", scope
            ).fetchone()
            if row is not None:
                if len(self._scopes) >= MAX_CACHED:
                    self._scopes = {}
                number = self._scopes[scope] = row[0]
        return number

    async def task(self, scope: Scope, task_id: str) -> TaskRow | None:
        def read(db: sqlite3.Connection) -> TaskRow | None:
            row = db.execute(
                f"SELECT {TASK_COLUMNS} FROM task WHERE scope = ? AND id = ?",  # noqa: S608
                (self._find_scope(scope, db), task_id),
            ).fetchone()
            return None if row is None else to_task(scope, row)

        return await self._readers.run(read)

    async def tasks(self, scope: Scope, query: Query) -> Page:
        return await self._readers.run(partial(self._page, scope, query))

    def _page(self, scope: Scope, query: Query, db: sqlite3.Connection) -> Page:
        totals = self._totals.setdefault(scope, {})
        where, values = _filters(self._find_scope(scope, db), query)
        filters = (query.context_id, query.state, query.status_from_us)
        total = totals.get(filters)
        if total is None:
            (total,) = db.execute(f"SELECT count(*) {where}", values).fetchone()
            self._remember_total(totals, filters, total)
        if not total:
            return Page([], False, 0)
        if query.before is not None:
            where += " AND status_us <= ? AND (status_us < ? OR id < ?)"
            values += (query.before[0], *query.before)
        place = f"{where} ORDER BY status_us DESC, id DESC LIMIT ?"
        sizes = db.execute(
            f"SELECT length(snapshot) {place}",
            (*values, query.limit + 1),
        ).fetchall()
        count = query.fitting(size for (size,) in sizes)
        # numbers first, so that only the rows of the page are read whole and sorted
        found = db.execute(
            f"""SELECT {TASK_COLUMNS} FROM task WHERE num IN (SELECT num {place})
                ORDER BY status_us DESC, id DESC""",  # noqa: S608, clauses of the code only
            (*values, count),
        ).fetchall()
        return Page([to_task(scope, row) for row in found], len(sizes) > count, total)

    def _remember_total(
        self, totals: dict[tuple[object, ...], int], filters: tuple[object, ...], total: int
    ) -> None:
        if len(self._totals) > MAX_CACHED:
            self._totals.clear()
        if len(totals) > 100:
            totals.clear()
        totals[filters] = total

    async def events(
        self, scope: Scope, task_id: str, after: int, limit: int = 256
    ) -> list[LogEvent]:
        after = min(max(after, 0), MAX_SEQ)

        def read(db: sqlite3.Connection) -> list[LogEvent]:
            events: list[LogEvent] = []
            size = 0
            number = self._find_scope(scope, db)
            rows = db.execute(_EVENTS, (number, task_id, after, limit))
            for last, count, body in rows:
                events += unpack_events(last, count, body)
                size += len(body)
                if len(events) >= limit or size >= PAGE_BYTES:
                    break
            rows.close()
            # the first row may begin before the place asked for
            return [event for event in events if event.seq > after]

        return await self._readers.run(read)

    async def turn_by_key(self, scope: Scope, key: str) -> TurnRow | None:
        return await self._readers.run(partial(self._turn_by_key, scope, key))

    def _turn_by_key(self, scope: Scope, key: str, db: sqlite3.Connection) -> TurnRow | None:
        row = db.execute(
            f"SELECT {TURN_COLUMNS} FROM turn WHERE scope = ? AND key = ? AND key <> ''",  # noqa: S608
            (self._find_scope(scope, db), key),
        ).fetchone()
        return None if row is None else to_turn(scope, row)

    async def turns_of_task(self, scope: Scope, task_id: str) -> list[TurnRow]:
        def read(db: sqlite3.Connection) -> list[TurnRow]:
            rows = db.execute(
                f"SELECT {TURN_COLUMNS} FROM turn WHERE scope = ? AND task_id = ?"  # noqa: S608
                " ORDER BY created_us, id",
                (self._find_scope(scope, db), task_id),
            ).fetchall()
            return [to_turn(scope, row) for row in rows]

        return await self._readers.run(read)

    async def open_turns(self) -> list[TurnRow]:
        def read(db: sqlite3.Connection) -> list[TurnRow]:
            # a scan: read once, and an index would cost two writes a turn
            rows = db.execute(
                f"SELECT scope, {TURN_COLUMNS} FROM turn WHERE is_open ORDER BY created_us, id"  # noqa: S608
            ).fetchall()
            scopes = _scopes_by_number({row[0] for row in rows}, db)
            return [to_turn(scopes[number], row) for number, *row in rows]

        return await self._readers.run(read)

    # -- retention

    async def expire(
        self, *, before_us: int | None, keep: int | None, limit: int = 1000
    ) -> list[tuple[Scope, str]]:
        excess = 0
        if keep is not None:
            excess = await self._readers.run(_count_finished) - keep
        gone: list[tuple[Scope, str]] = []
        while len(gone) < limit:
            count = min(EXPIRE_STEP, limit - len(gone))
            status_us = before_us
            if excess > len(gone):
                status_us = _LATEST_US
                count = min(count, excess - len(gone))
            if status_us is None:
                break
            taken = await self._writer.run(partial(self._delete_oldest, status_us, count))
            gone += taken
            if len(taken) < count:
                break
        if before_us is not None:
            await self._writer.run(lambda db: db.execute(_DELETE_ORPHANS, (before_us, limit)))
        return gone

    def _delete_oldest(
        self, before_us: int, count: int, db: sqlite3.Connection
    ) -> list[tuple[Scope, str]]:
        victims = db.execute(_VICTIMS, (before_us, count)).fetchall()
        if not victims:
            return []
        numbers = [number for number, _, _ in victims]
        db.execute(_DELETE, numbers + [None] * (EXPIRE_STEP - len(numbers)))
        scopes = _scopes_by_number({number for _, number, _ in victims}, db)
        for scope in scopes.values():
            self._totals.pop(scope, None)
        return [(scopes[number], task_id) for _, number, task_id in victims]


def _connect(path: str) -> sqlite3.Connection:
    # None: no transactions behind our back
    return sqlite3.connect(path, isolation_level=None, cached_statements=64)


def _filters(scope: int | None, query: Query) -> tuple[str, list[object]]:
    """FROM and WHERE of a ListTasks query, and the values."""
    clauses = ["scope = ?"]
    values: list[object] = [scope]
    if query.context_id:
        clauses.append("context_id = ?")
        values.append(query.context_id)
    if query.state:
        clauses.append("state = ?")
        values.append(query.state)
    if query.status_from_us is not None:
        clauses.append("status_us >= ?")
        values.append(query.status_from_us)
    index = "task_context" if query.context_id else "task_status"
    return f"FROM task INDEXED BY {index} WHERE {' AND '.join(clauses)}", values


def _count_finished(db: sqlite3.Connection) -> int:
    count: int
    (count,) = db.execute(
        f"SELECT count(*) FROM task INDEXED BY task_finished WHERE {FINISHED}"  # noqa: S608
    ).fetchone()
    return count


def _scopes_by_number(numbers: set[int], db: sqlite3.Connection) -> dict[int, Scope]:
    find = "SELECT agent, tenant, caller FROM scope WHERE num = ?"
    return {number: Scope(*db.execute(find, (number,)).fetchone()) for number in numbers}
