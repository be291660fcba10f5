"""All stores agree: any history of commits and deletions leaves the same behind in each."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from gateway.call import Scope
from gateway.store import Query, Store, StoreError, TurnRow, Write, open_store
from tests.unit.store.making import ANNA, BERT, COMPLETED, FAILED, WORKING, log, task_row

SCOPES = (ANNA, BERT)
NAMES = ("a", "b", "c")
KEYS = ("", "k1", "k2")

Step = list[Write] | dict[str, Any]


def turn(scope: Scope, task_id: str, key: str, is_open: bool, created_us: int) -> TurnRow:
    # one turn has one key for life, as the runtime's turns have
    name = f"{scope.caller}-{task_id}-{key}"
    return TurnRow(scope, name, task_id, "c", key, b"d", b"r", created_us, is_open)


@st.composite
def write(draw: st.DrawFn) -> Write:
    scope = draw(st.sampled_from(SCOPES))
    name = f"{scope.caller}-{draw(st.sampled_from(NAMES))}"
    made = Write(scope, name)
    if draw(st.booleans()):
        made.task = task_row(
            name,
            scope=scope,
            context_id=draw(st.sampled_from(["c1", "c2"])),
            state=draw(st.sampled_from([WORKING, COMPLETED, FAILED])),
            status_us=draw(st.integers(0, 9)),
            snapshot=draw(st.sampled_from([b"s1", b"s2", b"s2", None])),
        )
    if draw(st.booleans()):
        made.events = log(draw(st.sampled_from([1, 1, 2, 3, 4])), draw(st.integers(1, 3)))
    if draw(st.integers(0, 2)) == 0:
        key, is_open = draw(st.sampled_from(KEYS)), draw(st.booleans())
        made.turn = turn(scope, name, key, is_open, draw(st.integers(0, 9)))
    if draw(st.integers(0, 3)) == 0:
        made.ended_turn = f"{scope.caller}-{name}-{draw(st.sampled_from(KEYS))}"
    return made


deletions = st.fixed_dictionaries(
    {
        "before_us": st.none() | st.integers(0, 10),
        "keep": st.none() | st.integers(0, 4),
        "limit": st.integers(1, 5),
    }
)
histories: st.SearchStrategy[list[Step]] = st.lists(
    st.lists(write(), min_size=1, max_size=4) | deletions, max_size=12
)


async def apply(store: Store, step: Step) -> Any:
    if isinstance(step, dict):
        # tasks of one age go in any order
        return sorted(await store.expire(**step))
    try:
        await store.commit(step)
    except StoreError:
        # which of several reasons is named first is the store's own affair
        return "refused"
    return "stored"


async def everything(store: Store) -> list[Any]:
    found: list[Any] = [await store.open_turns()]
    for scope in SCOPES:
        found.append(await store.tasks(scope, Query()))
        found.append(await store.tasks(scope, Query(context_id="c1", state=COMPLETED)))
        found += [await store.turn_by_key(scope, key) for key in KEYS]
        for short in NAMES:
            name = f"{scope.caller}-{short}"
            found.append(await store.task(scope, name))
            found.append(await store.events(scope, name, 0))
            found.append(await store.turns_of_task(scope, name))
    return found


async def in_both(body: Callable[[Store, Store], Awaitable[None]]) -> None:
    with TemporaryDirectory() as directory:
        first, second = open_store("memory:"), open_store(f"sqlite://{Path(directory, 't.db')}")
        await first.open()
        await second.open()
        try:
            await body(first, second)
        finally:
            await first.close()
            await second.close()


MADE_AND_ENDED = Write(ANNA, "anna-a", turn=turn(ANNA, "anna-a", "k1", False, 0))
MADE_AND_ENDED.ended_turn = "anna-anna-a-k1"
SAME_KEY = Write(ANNA, "anna-b", turn=turn(ANNA, "anna-b", "k1", False, 0))
ENDED_TWICE = Write(ANNA, "anna-c", ended_turn="anna-anna-a-k1")
THIRD = Write(ANNA, "anna-c", turn=turn(ANNA, "anna-c", "k1", False, 0))


# a key is free again when its turn has ended, also in the commit that made it; once
@example([[MADE_AND_ENDED, SAME_KEY]])
@example([[MADE_AND_ENDED], [MADE_AND_ENDED, SAME_KEY, ENDED_TWICE, THIRD]])
@settings(max_examples=40)
@given(histories)
def test_every_history_ends_alike(history: list[Step]) -> None:
    async def body(first: Store, second: Store) -> None:
        for step in history:
            assert await apply(first, step) == await apply(second, step)
            assert await everything(first) == await everything(second)

    asyncio.run(in_both(body))
