"""What `expire` takes and what it leaves, over every store: S117."""

import asyncio

import pytest

from gateway.call import Scope
from gateway.pb import TERMINAL_STATES, TaskState
from gateway.store import Query, Store, StoreError, Write
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


async def fill(store: Store, count: int, scope: Scope = ANNA) -> None:
    """Finished tasks t0, t1, ... of one scope, each a microsecond younger than the last."""
    name = "t" if scope == ANNA else scope.caller
    await store.commit(
        [
            put(task_row(f"{name}{n}", scope=scope, state=COMPLETED, status_us=n), log(1, 2))
            for n in range(count)
        ]
    )


@with_store
async def test_finished_tasks_go_by_age(store: Store) -> None:
    """S117: with their events; the place of the log is gone too."""
    await fill(store, 5)
    assert await store.expire(before_us=3, keep=None) == [(ANNA, f"t{n}") for n in range(3)]
    assert await store.task(ANNA, "t2") is None
    assert await store.events(ANNA, "t2", 0) == []
    assert await store.events(ANNA, "t3", 0) == log(1, 2)
    assert [row.id for row in (await store.tasks(ANNA, Query())).rows] == ["t4", "t3"]
    assert await store.expire(before_us=3, keep=None) == []


@with_store
async def test_finished_tasks_go_by_number(store: Store) -> None:
    """S117: the oldest of all scopes go first."""
    await fill(store, 4)
    await fill(store, 4, BERT)
    await store.commit([put(task_row("young", state=WORKING, status_us=-1))])
    gone = await store.expire(before_us=None, keep=3)
    oldest = {(scope, name + n) for scope, name in ((ANNA, "t"), (BERT, "bert")) for n in "01"}
    assert len(gone) == 5
    # one of the two that are next in age
    assert set(gone) - oldest in ({(ANNA, "t2")}, {(BERT, "bert2")})
    assert await store.expire(before_us=None, keep=3) == []
    assert await store.expire(before_us=None, keep=100) == []
    assert await store.task(ANNA, "young") is not None


@with_store
async def test_age_and_number_together(store: Store) -> None:
    await fill(store, 10)
    assert len(await store.expire(before_us=2, keep=5)) == 5
    assert len(await store.expire(before_us=8, keep=5)) == 3
    assert [row.id for row in (await store.tasks(ANNA, Query())).rows] == ["t9", "t8"]


@with_store
async def test_a_limit_bounds_one_call(store: Store) -> None:
    await fill(store, 200)
    names = [name for _, name in await store.expire(before_us=1_000, keep=None, limit=150)]
    assert names == [f"t{n}" for n in range(150)]
    names = [name for _, name in await store.expire(before_us=None, keep=0, limit=20)]
    assert names == [f"t{n}" for n in range(150, 170)]
    assert len(await store.expire(before_us=1_000, keep=10, limit=150)) == 30


@pytest.mark.parametrize("state", [int(state) for state in TaskState.values()])
def test_only_terminal_states_go(store: Store, state: int) -> None:
    @with_store
    async def body(store: Store) -> None:
        await store.commit([put(task_row("t", state=state, status_us=0))])
        gone = await store.expire(before_us=10, keep=0)
        assert bool(gone) == (state in TERMINAL_STATES)
        assert (await store.task(ANNA, "t") is None) == bool(gone)

    body(store)


@with_store
async def test_a_task_with_an_open_turn_stays(store: Store) -> None:
    await fill(store, 3)
    await store.commit([begin(turn_row("u", "t0"))])
    assert [name for _, name in await store.expire(before_us=2, keep=None)] == ["t1"]
    assert [name for _, name in await store.expire(before_us=None, keep=0)] == ["t2"]
    assert len(await store.open_turns()) == 1
    await store.commit([Write(ANNA, "t0", ended_turn="u")])
    assert [name for _, name in await store.expire(before_us=2, keep=None)] == ["t0"]


@with_store
async def test_ended_turns_go_with_their_task(store: Store) -> None:
    await fill(store, 2)
    await store.commit([begin(turn_row("u", "t0", key="k", is_open=False, created_us=0))])
    await store.expire(before_us=0, keep=None)
    assert await store.turn_by_key(ANNA, "k") is not None
    await store.expire(before_us=None, keep=1)
    assert await store.turn_by_key(ANNA, "k") is None
    assert await store.turns_of_task(ANNA, "t0") == []
    await store.commit([begin(turn_row("v", "t1", key="k"))])


@with_store
async def test_ended_turns_without_a_task_go_by_age(store: Store) -> None:
    """A turn that answered with a Message leaves no task."""
    await fill(store, 1)
    await store.commit(
        [
            begin(turn_row("old", "m1", key="k1", is_open=False, created_us=5)),
            begin(turn_row("young", "m2", key="k2", is_open=False, created_us=6)),
            begin(turn_row("open", "m3", key="k3", created_us=0)),
            begin(turn_row("held", "t0", key="k4", is_open=False, created_us=0)),
        ]
    )
    assert await store.expire(before_us=None, keep=5) == []
    assert await store.turn_by_key(ANNA, "k1") is not None
    await store.commit([put(task_row("t0", state=COMPLETED, status_us=50))])
    assert await store.expire(before_us=6, keep=None) == []
    held = [await store.turn_by_key(ANNA, f"k{n}") for n in range(1, 5)]
    assert [turn and turn.id for turn in held] == [None, "young", "open", "held"]


@with_store
async def test_a_changed_task_goes_by_its_last_status(store: Store) -> None:
    await fill(store, 2)
    await store.commit([put(task_row("t0", state=COMPLETED, status_us=100))])
    await store.commit([put(task_row("t1", state=WORKING, status_us=0))])
    assert await store.expire(before_us=50, keep=None) == []
    assert await store.expire(before_us=101, keep=None) == [(ANNA, "t0")]


@with_store
async def test_what_expired_stays_away(store: Store) -> None:
    """PR03: deleting beside writing, round after round; a late save is refused."""
    gone: list[tuple[Scope, str]] = []

    async def write() -> None:
        for number in range(300):
            row = task_row(f"t{number}", state=COMPLETED, status_us=number)
            await store.commit([put(row, log(1, 1))])

    writing = asyncio.create_task(write())
    while not writing.done():
        gone += await store.expire(before_us=None, keep=0, limit=7)
        await asyncio.sleep(0)
    await writing
    gone += await store.expire(before_us=None, keep=0)
    assert sorted(gone) == sorted((ANNA, f"t{n}") for n in range(300))
    assert (await store.tasks(ANNA, Query())).total == 0
    for late in (
        Write(ANNA, "t7", events=log(2, 1)),
        put(task_row("t7", state=COMPLETED, snapshot=None)),
    ):
        with pytest.raises(StoreError):
            await store.commit([late])
    assert await store.task(ANNA, "t7") is None
