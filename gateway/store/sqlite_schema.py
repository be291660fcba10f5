"""Tables of the SQLite store, the steps that bring older files up to date, and the temporary
view through which a whole commit is one statement.

The view exists because of Python's global lock: `sqlite3` gives it up and takes it again around
each statement, and beside a busy event loop each taking waits. One INSERT into the view carries
all rows of a commit; its trigger spreads them over the tables; in autocommit mode the statement
is its own transaction. See docs/decisions/0003-stores.md.
"""

import sqlite3
from collections.abc import Sequence

from gateway.pb import TERMINAL_STATES
from gateway.store import StoreError

APPLICATION_ID = 0x41324147
"""`A2AG`; tells our files from those of other programs."""

SEQ_BITS = 28
MAX_SEQ = (1 << SEQ_BITS) - 1
"""Events of one task. An event row's key is task number << SEQ_BITS | sequence number, so that a
log is one range of one tree."""

FINISHED = f"state IN ({', '.join(str(int(state)) for state in sorted(TERMINAL_STATES))})"

STEPS: Sequence[str] = (
    # 0 -> 1. The predicate on state is spelt out: an index must not change with the code.
    """
    CREATE TABLE scope (
        num INTEGER PRIMARY KEY,
        agent TEXT NOT NULL,
        tenant TEXT NOT NULL,
        caller TEXT NOT NULL,
        UNIQUE (agent, tenant, caller)
    );
    CREATE TABLE task (
        num INTEGER PRIMARY KEY,
        scope INTEGER NOT NULL,
        id TEXT NOT NULL,
        context_id TEXT NOT NULL,
        state INTEGER NOT NULL,
        status_us INTEGER NOT NULL,
        created_us INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        snapshot_seq INTEGER NOT NULL,
        snapshot BLOB NOT NULL
    );
    CREATE UNIQUE INDEX task_id ON task (scope, id);
    CREATE INDEX task_status ON task (scope, status_us, state);
    CREATE INDEX task_context ON task (scope, context_id, status_us, state);
    CREATE INDEX task_finished ON task (status_us) WHERE state IN (3, 4, 5, 7);
    CREATE TABLE event (
        pos INTEGER PRIMARY KEY,
        count INTEGER NOT NULL,
        body BLOB NOT NULL
    );
    CREATE TABLE turn (
        scope INTEGER NOT NULL,
        task_id TEXT NOT NULL,
        id TEXT NOT NULL,
        is_open INTEGER NOT NULL,
        created_us INTEGER NOT NULL,
        context_id TEXT NOT NULL,
        key TEXT NOT NULL,
        digest BLOB NOT NULL,
        outcome BLOB NOT NULL,
        request BLOB NOT NULL,
        PRIMARY KEY (scope, task_id, id)
    ) WITHOUT ROWID;
    CREATE UNIQUE INDEX turn_key ON turn (scope, key) WHERE key <> '';
    CREATE INDEX turn_ended ON turn (created_us) WHERE is_open = 0;
    """,
)

KEY_CONFLICT = "turn.key"
"""Part of SQLite's text for a broken turn_key."""

INBOX_COLUMNS = (
    *("scope", "task_id"),
    *("context_id", "state", "status_us", "created_us", "seq", "snapshot_seq", "snapshot"),
    *("last", "count", "body"),
    *("turn_id", "is_open", "turn_created_us", "turn_context_id"),
    *("key", "digest", "outcome", "request"),
    "ended_turn",
)

_ADD_EVENTS = f"""
    INSERT INTO event (pos, count, body)
        SELECT t.num << {SEQ_BITS} | new.last, new.count, new.body FROM task AS t
        WHERE new.count IS NOT NULL AND t.scope = new.scope AND t.id = new.task_id
            AND new.last - new.count = coalesce((
                SELECT pos & {MAX_SEQ} FROM event
                WHERE pos > t.num << {SEQ_BITS} AND pos < (t.num + 1) << {SEQ_BITS}
                ORDER BY pos DESC LIMIT 1), 0);
    SELECT RAISE(ABORT, 'Events do not follow the log of a stored task')
        WHERE new.count IS NOT NULL AND changes() = 0;
"""  # noqa: S608, numbers of the code only

# Each trigger acts only where its columns are set; a row without a scope is padding. SQLite does
# not promise an order of triggers, so what depends on order stands in one of them.
INBOX_SQL = f"""
CREATE TEMP VIEW inbox ({", ".join(INBOX_COLUMNS)})
    AS SELECT {", ".join("0" for _ in INBOX_COLUMNS)};

CREATE TEMP TRIGGER inbox_task INSTEAD OF INSERT ON inbox
WHEN new.snapshot IS NOT NULL
BEGIN
    INSERT INTO task (scope, id, context_id, state, status_us, created_us, seq,
            snapshot_seq, snapshot)
        VALUES (new.scope, new.task_id, new.context_id, new.state, new.status_us,
            new.created_us, new.seq, new.snapshot_seq, new.snapshot)
        ON CONFLICT (scope, id) DO UPDATE SET
            context_id = excluded.context_id, state = excluded.state,
            status_us = excluded.status_us, created_us = excluded.created_us,
            seq = excluded.seq, snapshot_seq = excluded.snapshot_seq,
            snapshot = excluded.snapshot;
    {_ADD_EVENTS}
END;

CREATE TEMP TRIGGER inbox_update INSTEAD OF INSERT ON inbox
WHEN new.snapshot IS NULL AND (new.state IS NOT NULL OR new.count IS NOT NULL)
BEGIN
    UPDATE task SET context_id = new.context_id, state = new.state, status_us = new.status_us,
            created_us = new.created_us, seq = new.seq
        WHERE new.state IS NOT NULL AND scope = new.scope AND id = new.task_id;
    SELECT RAISE(ABORT, 'A task without a snapshot is not stored')
        WHERE new.state IS NOT NULL AND changes() = 0;
    {_ADD_EVENTS}
END;

CREATE TEMP TRIGGER inbox_turn INSTEAD OF INSERT ON inbox
WHEN new.turn_id IS NOT NULL
BEGIN
    INSERT INTO turn (scope, task_id, id, is_open, created_us, context_id, key, digest,
            outcome, request)
        VALUES (new.scope, new.task_id, new.turn_id, new.is_open, new.turn_created_us,
            new.turn_context_id, new.key, new.digest, new.outcome, new.request)
        ON CONFLICT (scope, task_id, id) DO UPDATE SET
            is_open = excluded.is_open, created_us = excluded.created_us,
            context_id = excluded.context_id, key = excluded.key, digest = excluded.digest,
            outcome = excluded.outcome, request = excluded.request;
    DELETE FROM turn WHERE new.ended_turn IS NOT NULL
        AND scope = new.scope AND task_id = new.task_id AND id = new.ended_turn;
END;

CREATE TEMP TRIGGER inbox_end INSTEAD OF INSERT ON inbox
WHEN new.ended_turn IS NOT NULL AND new.turn_id IS NULL
BEGIN
    DELETE FROM turn
        WHERE scope = new.scope AND task_id = new.task_id AND id = new.ended_turn;
END;

CREATE TEMP TRIGGER task_delete AFTER DELETE ON main.task
BEGIN
    DELETE FROM event WHERE pos > old.num << {SEQ_BITS} AND pos < (old.num + 1) << {SEQ_BITS};
    DELETE FROM turn WHERE scope = old.scope AND task_id = old.id;
END;
"""  # noqa: S608, names and numbers of the code only


def migrate(connection: sqlite3.Connection, path: str) -> None:
    """Bring a file to version `len(STEPS)`; each step is one transaction. Raises `StoreError`
    for a file of another program and for one of a newer version."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application != APPLICATION_ID and (application or version or tables):
        raise StoreError(
            f"{path} is a database of another program; name another file for the store"
        )
    if version > len(STEPS):
        raise StoreError(
            f"{path} has schema version {version}, and this release knows versions up to"
            f" {len(STEPS)}: start the newer release that wrote it, or name another file"
        )
    for number, step in enumerate(STEPS[version:], version + 1):
        # executescript ends an open transaction first, so the script begins its own
        connection.executescript(
            f"BEGIN IMMEDIATE; {step};"
            f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {number}; COMMIT;"
        )
