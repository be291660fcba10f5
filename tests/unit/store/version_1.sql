-- A store file of schema version 1, written by hand. Never change it: it stands for the files
-- that are out there.
PRAGMA application_id = 1093812551;
CREATE TABLE scope (
    num INTEGER PRIMARY KEY, agent TEXT NOT NULL, tenant TEXT NOT NULL, caller TEXT NOT NULL,
    UNIQUE (agent, tenant, caller)
);
CREATE TABLE task (
    num INTEGER PRIMARY KEY, scope INTEGER NOT NULL, id TEXT NOT NULL, context_id TEXT NOT NULL,
    state INTEGER NOT NULL, status_us INTEGER NOT NULL, created_us INTEGER NOT NULL,
    seq INTEGER NOT NULL, snapshot_seq INTEGER NOT NULL, snapshot BLOB NOT NULL
);
CREATE UNIQUE INDEX task_id ON task (scope, id);
CREATE INDEX task_status ON task (scope, status_us, state);
CREATE INDEX task_context ON task (scope, context_id, status_us, state);
CREATE INDEX task_finished ON task (status_us) WHERE state IN (3, 4, 5, 7);
CREATE TABLE event (pos INTEGER PRIMARY KEY, count INTEGER NOT NULL, body BLOB NOT NULL);
CREATE TABLE turn (
    scope INTEGER NOT NULL, task_id TEXT NOT NULL, id TEXT NOT NULL, is_open INTEGER NOT NULL,
    created_us INTEGER NOT NULL, context_id TEXT NOT NULL, key TEXT NOT NULL,
    digest BLOB NOT NULL, outcome BLOB NOT NULL, request BLOB NOT NULL,
    PRIMARY KEY (scope, task_id, id)
) WITHOUT ROWID;
CREATE UNIQUE INDEX turn_key ON turn (scope, key) WHERE key <> '';
CREATE INDEX turn_ended ON turn (created_us) WHERE is_open = 0;

INSERT INTO scope VALUES (1, 'default', '', 'anna');
INSERT INTO task VALUES (4, 1, 't1', 'context', 3, 1000, 500, 3, 3, CAST('snapshot' AS BLOB));
-- task 4, events up to 2 in one row: two lengths of 7 as 32-bit little-endian, then the payloads
INSERT INTO event VALUES (1073741826, 2, x'0700000007000000' || CAST('event 1event 2' AS BLOB));
INSERT INTO event VALUES (1073741827, 1, CAST('event 3' AS BLOB));
UPDATE event SET body = CAST(body AS BLOB);
INSERT INTO turn VALUES (1, 't1', 'u1', 0, 500, 'context', 'k', CAST('digest' AS BLOB),
    CAST('outcome' AS BLOB), CAST('request' AS BLOB));
INSERT INTO turn VALUES (1, 't2', 'u2', 1, 500, 'context', '', CAST('digest' AS BLOB),
    CAST('' AS BLOB), CAST('request' AS BLOB));
PRAGMA user_version = 1;
