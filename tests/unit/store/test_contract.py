"""What every store does: tasks, logs and turns (the same tests over all of them)."""

import asyncio

import pytest

from gateway.ids import new_id
from gateway.store import KeyConflictError, LogEvent, Query, Store, StoreError, Write
from tests.unit.store.making import (
    ANNA,
    BERT,
    COMPLETED,
    WORKING,
    begin,
    log,
    put,
    task_row,
    turn_row,
)
from tests.unit.store.opened import with_store

NAMES = ["a", "ü€😀", "x" * 128, "a\x00b", "%_'\"\\", " ", "\ufeff"]


@with_store
async def test_absent_rows_are_none_or_nothing(store: Store) -> None:
    await store.ping()
    await store.commit([])
    assert await store.task(ANNA, "t") is None
    assert await store.tasks(ANNA, Query()) == ([], False, 0)
    assert await store.events(ANNA, "t", 0) == []
    assert await store.turn_by_key(ANNA, "k") is None
    assert await store.turns_of_task(ANNA, "t") == []
    assert await store.open_turns() == []
    assert await store.expire(before_us=10**18, keep=0) == []


@with_store
async def test_a_task_reads_as_written(store: Store) -> None:
    """S86: the state is read from the store, whatever happened to a stream."""
    row = task_row("t", status_us=-5, snapshot=b"\x00\xff")
    await store.commit([put(row)])
    assert await store.task(ANNA, "t") == row


@with_store
async def test_rows_are_the_stores_own(store: Store) -> None:
    row, turn = task_row("t"), turn_row("u", "t", key="k")
    await store.commit([Write(ANNA, "t", row, turn=turn)])
    row.state = turn.created_us = 99
    read, read_turn = await store.task(ANNA, "t"), await store.turn_by_key(ANNA, "k")
    assert read is not None
    assert read_turn is not None
    read.state = read_turn.created_us = 98
    assert await store.task(ANNA, "t") == task_row("t")
    assert await store.turn_by_key(ANNA, "k") == turn_row("u", "t", key="k")


@with_store
async def test_a_later_row_replaces_an_earlier_one(store: Store) -> None:
    await store.commit([put(task_row("t"), log(1, 2))])
    changed = task_row("t", context_id="c2", state=COMPLETED, status_us=7, snapshot=b"new")
    changed.created_us, changed.seq, changed.snapshot_seq = 3, 2, 1
    await store.commit([put(changed)])
    assert await store.task(ANNA, "t") == changed
    assert await store.events(ANNA, "t", 0) == log(1, 2)


@with_store
async def test_a_row_without_a_snapshot_keeps_the_stored_one(store: Store) -> None:
    await store.commit([put(task_row("t", snapshot=b"first"), log(1, 3))])
    await store.commit([put(task_row("t", seq=3, state=COMPLETED, snapshot=None))])
    row = await store.task(ANNA, "t")
    assert row is not None
    assert (row.snapshot, row.snapshot_seq, row.seq, row.state) == (b"first", 0, 3, COMPLETED)


@with_store
async def test_writes_of_one_task_in_one_commit_apply_in_order(store: Store) -> None:
    await store.commit(
        [
            put(task_row("t"), log(1, 2)),
            begin(turn_row("u", "t")),
            Write(ANNA, "t", events=log(3, 1)),
            put(task_row("t", seq=3, state=COMPLETED, snapshot=None)),
            Write(ANNA, "t", ended_turn="u"),
        ]
    )
    row = await store.task(ANNA, "t")
    assert row is not None
    assert row.state == COMPLETED
    assert await store.events(ANNA, "t", 0) == log(1, 3)
    assert await store.open_turns() == []


@pytest.mark.parametrize("name", NAMES)
def test_any_text_names_a_row(store: Store, name: str) -> None:
    @with_store
    async def body(store: Store) -> None:
        row = task_row(name, context_id=name)
        turn = turn_row(name, name, key=name)
        await store.commit([Write(ANNA, name, row, log(1, 1), turn)])
        assert await store.task(ANNA, name) == row
        assert (await store.tasks(ANNA, Query(context_id=name))).rows == [row]
        assert await store.events(ANNA, name, 0) == log(1, 1)
        assert await store.turn_by_key(ANNA, name) == turn
        await store.commit([Write(ANNA, name, ended_turn=name)])
        assert await store.turns_of_task(ANNA, name) == []

    body(store)


@with_store
async def test_scopes_do_not_see_each_other(store: Store) -> None:
    """R21: a caller's tasks only; the same ids and keys in two scopes are two rows."""
    others = [ANNA._replace(agent="other"), ANNA._replace(tenant="t2"), BERT]
    await store.commit([Write(ANNA, "t", task_row("t"), log(1, 1), turn_row("u", "t", key="k"))])
    for scope in others:
        assert await store.task(scope, "t") is None
        assert await store.tasks(scope, Query()) == ([], False, 0)
        assert await store.tasks(scope, Query(context_id="context")) == ([], False, 0)
        assert await store.events(scope, "t", 0) == []
        assert await store.turn_by_key(scope, "k") is None
        assert await store.turns_of_task(scope, "t") == []
    theirs = task_row("t", scope=BERT, snapshot=b"theirs")
    turn = turn_row("v", "t", scope=BERT, key="k")
    await store.commit([Write(BERT, "t", theirs, log(1, 2), turn)])
    await store.commit([Write(BERT, "t", ended_turn="v")])
    assert await store.task(ANNA, "t") == task_row("t")
    assert await store.task(BERT, "t") == theirs
    assert len(await store.events(ANNA, "t", 0)) == 1
    assert [turn.id for turn in await store.open_turns()] == ["u"]


# -- logs


@with_store
async def test_events_follow_a_place(store: Store) -> None:
    await store.commit([put(task_row("t"), log(1, 1))])
    await store.commit([Write(ANNA, "t", events=log(2, 3)), put(task_row("t2"), log(1, 1))])
    await store.commit([Write(ANNA, "t", events=log(5, 1))])
    for after in range(-1, 6):
        expected = log(max(after, 0) + 1, 5 - max(after, 0))
        assert await store.events(ANNA, "t", after) == expected
    assert await store.events(ANNA, "t", 10**12) == []
    first = await store.events(ANNA, "t", 0, limit=1)
    assert first == log(1, 1)


@with_store
async def test_a_long_log_is_read_in_pages(store: Store) -> None:
    for first in range(1, 10_001, 500):
        writes = [put(task_row("t"))] if first == 1 else []
        # some alone, some in one row
        writes += [Write(ANNA, "t", events=log(first + n, 1)) for n in range(100)]
        writes += [Write(ANNA, "t", events=log(first + 100, 400))]
        await store.commit(writes)
    read: list[LogEvent] = []
    while page := await store.events(ANNA, "t", len(read), limit=256):
        assert len(page) <= 2 * 256
        read += page
    assert read == log(1, 10_000)


@with_store
async def test_payloads_of_any_size_come_back(store: Store) -> None:
    sizes = [0, 1, 70_000, 0, 65_536, 3, 5_000_000, 2]
    events = [LogEvent(n, bytes([n]) * size) for n, size in enumerate(sizes, 1)]
    turn = turn_row("u", "t")
    await store.commit([Write(ANNA, "t", task_row("t"), events, turn, "other")])
    read: list[LogEvent] = []
    while page := await store.events(ANNA, "t", len(read)):
        read += page
    assert read == events
    assert await store.turns_of_task(ANNA, "t") == [turn]


@pytest.mark.parametrize(
    "events",
    [
        pytest.param(log(5, 1), id="gap"),
        pytest.param(log(3, 1), id="again"),
        pytest.param(log(3, 2), id="overlap"),
        pytest.param(log(4, 1) + log(6, 1), id="gap-inside"),
        pytest.param(log(0, 1), id="zero"),
    ],
)
def test_a_log_has_no_gap(store: Store, events: list[LogEvent]) -> None:
    @with_store
    async def body(store: Store) -> None:
        await store.commit([put(task_row("t"), log(1, 3))])
        with pytest.raises(StoreError):
            await store.commit([put(task_row("t2")), Write(ANNA, "t", events=events)])
        assert await store.task(ANNA, "t2") is None
        assert await store.events(ANNA, "t", 0) == log(1, 3)
        await store.commit([Write(ANNA, "t", events=log(4, 1))])
        assert await store.events(ANNA, "t", 0) == log(1, 4)

    body(store)


@pytest.mark.parametrize(
    "write",
    [
        pytest.param(Write(ANNA, "gone", events=log(1, 1)), id="events"),
        pytest.param(put(task_row("gone", snapshot=None)), id="row"),
    ],
)
def test_updates_of_a_task_that_is_not_stored_are_refused(store: Store, write: Write) -> None:
    """PR03: a save beside a delete does not bring the task back."""

    @with_store
    async def body(store: Store) -> None:
        with pytest.raises(StoreError):
            await store.commit([put(task_row("t")), write])
        assert await store.tasks(ANNA, Query()) == ([], False, 0)

    body(store)


# -- turns


@with_store
async def test_a_turn_lives_from_its_start_to_its_end(store: Store) -> None:
    """PR01: what was under way is known after a restart."""
    turn = turn_row("u", "t")
    await store.commit([begin(turn)])
    assert await store.open_turns() == [turn]
    assert await store.turns_of_task(ANNA, "t") == [turn]
    assert await store.task(ANNA, "t") is None
    await store.commit([Write(ANNA, "t", task_row("t"), log(1, 1), ended_turn="u")])
    assert await store.open_turns() == []
    assert await store.turns_of_task(ANNA, "t") == []
    await store.commit([Write(ANNA, "t", ended_turn="u")])


@with_store
async def test_a_turn_with_a_key_stays_with_its_outcome(store: Store) -> None:
    await store.commit([begin(turn_row("u", "t", key="k"))])
    ended = turn_row("u", "t", key="k", is_open=False)
    ended.request = b""
    await store.commit([begin(ended)])
    assert await store.open_turns() == []
    assert await store.turn_by_key(ANNA, "k") == ended
    assert await store.turns_of_task(ANNA, "t") == [ended]
    assert await store.turn_by_key(ANNA, "") is None


@with_store
async def test_turns_come_oldest_first(store: Store) -> None:
    turns = [turn_row(f"u{n}", "t", created_us=10 - n // 2) for n in range(6)]
    theirs = turn_row("v", "t", scope=BERT, created_us=9)
    await store.commit([begin(turn) for turn in turns] + [begin(theirs)])
    expected = sorted(turns, key=lambda turn: (turn.created_us, turn.id))
    assert await store.turns_of_task(ANNA, "t") == expected
    everywhere = sorted([*turns, theirs], key=lambda turn: (turn.created_us, turn.id))
    assert await store.open_turns() == everywhere


@with_store
async def test_a_key_belongs_to_one_turn(store: Store) -> None:
    await store.commit([begin(turn_row("u1", "t1", key="k"))])
    batch = [
        put(task_row("t2")),
        begin(turn_row("u2", "t2", key="k")),
        begin(turn_row("u3", "t3", key="other")),
        begin(turn_row("u4", "t4", key="other")),
    ]
    with pytest.raises(KeyConflictError) as caught:
        await store.commit(batch)
    assert caught.value.writes[0] == 1
    assert await store.task(ANNA, "t2") is None
    assert await store.turn_by_key(ANNA, "other") is None
    with pytest.raises(KeyConflictError) as caught:
        await store.commit(batch[2:])
    assert caught.value.writes == (1,)
    await store.commit([batch[0], batch[2]])
    held = await store.turn_by_key(ANNA, "k")
    assert held is not None
    assert held.id == "u1"
    # in another scope it is another key
    await store.commit([begin(turn_row("u5", "t5", scope=BERT, key="k"))])


@with_store
async def test_the_key_of_a_dropped_turn_is_free(store: Store) -> None:
    await store.commit([begin(turn_row("u1", "t", key="k"))])
    again = turn_row("u2", "t", key="k")
    await store.commit([Write(ANNA, "t", ended_turn="u1"), begin(again)])
    assert await store.turn_by_key(ANNA, "k") == again


# -- commits


@with_store
async def test_a_large_commit_is_one(store: Store) -> None:
    """More rows than one statement takes: all of them or none."""
    names = [new_id() for _ in range(700)]
    writes = [put(task_row(name), log(1, 1)) for name in names]
    with pytest.raises(StoreError):
        await store.commit([*writes, Write(ANNA, "gone", events=log(1, 1))])
    assert (await store.tasks(ANNA, Query())).total == 0
    with pytest.raises(KeyConflictError) as caught:
        await store.commit([*writes, *[begin(turn_row(u, "t", key="k")) for u in "uv"]])
    assert caught.value.writes == (701,)
    assert (await store.tasks(ANNA, Query())).total == 0
    await store.commit(writes)
    assert (await store.tasks(ANNA, Query())).total == 700
    assert await store.events(ANNA, names[-1], 0) == log(1, 1)


@with_store
async def test_readers_see_all_of_a_commit_or_nothing(store: Store) -> None:
    async def write() -> None:
        for number in range(1, 60):
            rows = [task_row(name, status_us=number) for name in "abc"]
            await store.commit([put(row) for row in rows])

    writing = asyncio.create_task(write())
    seen = set()
    while not writing.done():
        page = await store.tasks(ANNA, Query())
        seen.add(len({row.status_us for row in page.rows}))
        await asyncio.sleep(0)
    await writing
    assert seen <= {0, 1}


@with_store
async def test_a_cancelled_caller_harms_nothing(store: Store) -> None:
    for number in range(20):
        row = task_row(f"t{number}")
        caller = asyncio.create_task(store.commit([put(row, log(1, 1))]))
        reader = asyncio.create_task(store.task(ANNA, row.id))
        await asyncio.sleep(0)
        caller.cancel()
        reader.cancel()
        await asyncio.gather(caller, reader, return_exceptions=True)
        # done by now, or refused whole
        await store.commit([])
    await store.commit([put(task_row("last"))])
    page = await store.tasks(ANNA, Query(limit=100))
    assert page.total == len(page.rows)
    for row in page.rows:
        if row.id != "last":
            assert await store.events(ANNA, row.id, 0) == log(1, 1)
    assert "last" in {row.id for row in page.rows}


@with_store
async def test_totals_follow_each_change(store: Store) -> None:
    async def totals() -> list[int]:
        queries = (Query(), Query(state=WORKING), Query(state=COMPLETED), Query(context_id="c2"))
        return [(await store.tasks(ANNA, query)).total for query in queries]

    await store.commit([put(task_row("t1")), put(task_row("t2", context_id="c2"))])
    assert await totals() == [2, 2, 0, 1]
    await store.commit([put(task_row("t1", state=COMPLETED))])
    assert await totals() == [2, 1, 1, 1]
    await store.expire(before_us=None, keep=0)
    assert await totals() == [1, 1, 0, 1]
    await store.commit([put(task_row("t3"))])
    assert await totals() == [2, 2, 0, 1]


def test_close_may_be_called_twice_and_before_open(store: Store) -> None:
    async def main() -> None:
        await store.close()
        for _ in range(2):
            await store.open()
            await store.commit([put(task_row("t"))])
            await asyncio.gather(store.close(), store.close())
            await store.close()

    asyncio.run(main())
