"""Pages of tasks, over every store: S77 order, S78 filters, S79 a page after each but the last,
R21 cursor paging."""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.store import Query, Store, TaskRow, open_store
from tests.unit.store.making import ANNA, BERT, COMPLETED, WORKING, put, task_row
from tests.unit.store.opened import with_store

STATES = [1, WORKING, COMPLETED, 6, 8]


def matching(rows: list[TaskRow], query: Query) -> list[TaskRow]:
    """What the filters let through, in order: said as plainly as can be."""
    found = [
        row
        for row in rows
        if (not query.context_id or row.context_id == query.context_id)
        and (not query.state or row.state == query.state)
        and (query.status_from_us is None or row.status_us >= query.status_from_us)
    ]
    return sorted(found, key=lambda row: (row.status_us, row.id), reverse=True)


async def walk(store: Store, query: Query) -> tuple[list[TaskRow], set[int]]:
    """All pages of a query, and the totals that they gave."""
    rows: list[TaskRow] = []
    totals = set()
    while True:
        page = await store.tasks(ANNA, query)
        assert len(page.rows) <= query.limit
        rows += page.rows
        totals.add(page.total)
        if not page.has_more:
            return rows, totals
        assert len(page.rows) == query.limit
        query = query._replace(before=(rows[-1].status_us, rows[-1].id))


@with_store
async def test_newest_status_first_then_highest_id(store: Store) -> None:
    """S77."""
    places = [(5, "a"), (9, "b"), (5, "c"), (-1, "d"), (9, "a9"), (5, "b1")]
    await store.commit([put(task_row(name, status_us=status_us)) for status_us, name in places])
    page = await store.tasks(ANNA, Query())
    assert [(row.status_us, row.id) for row in page.rows] == sorted(places, reverse=True)


@with_store
async def test_a_page_is_bounded_in_bytes(store: Store) -> None:
    """R30, ML02: a page of large tasks is short, and says that more follow."""
    sizes = [1, 40, 59, 1, 101, 100, 200, 1]
    rows = [task_row(f"t{n}", status_us=-n, snapshot=b"x" * size) for n, size in enumerate(sizes)]
    await store.commit([put(row) for row in rows])
    query = Query(limit_bytes=100)
    pages = []
    while True:
        page = await store.tasks(ANNA, query)
        assert page.total == len(sizes)
        pages.append([int(row.id[1:]) for row in page.rows])
        if not page.has_more:
            break
        query = query._replace(before=(page.rows[-1].status_us, page.rows[-1].id))
    assert pages == [[0, 1, 2], [3], [4], [5], [6], [7]]
    assert len((await store.tasks(ANNA, Query(limit=2, limit_bytes=100))).rows) == 2


@with_store
async def test_a_task_moves_when_its_status_changes(store: Store) -> None:
    await store.commit([put(task_row(name, status_us=10)) for name in "abc"])
    await store.commit([put(task_row("a", status_us=20, state=COMPLETED, context_id="c2"))])
    assert [row.id for row in (await store.tasks(ANNA, Query())).rows] == ["a", "c", "b"]
    assert (await store.tasks(ANNA, Query(state=WORKING))).total == 2
    assert [row.id for row in (await store.tasks(ANNA, Query(context_id="c2"))).rows] == ["a"]
    assert [row.id for row in (await store.tasks(ANNA, Query(status_from_us=11))).rows] == ["a"]


@pytest.mark.parametrize("limit", [1, 2, 3, 6, 7])
def test_pages_join_without_loss(store: Store, limit: int) -> None:
    """S79: another page is announced where there is one, and only there."""

    @with_store
    async def body(store: Store) -> None:
        rows = [task_row(f"t{n}", status_us=n // 3) for n in range(6)]
        theirs = [task_row(f"x{n}", status_us=n // 3, scope=BERT) for n in range(6)]
        await store.commit([put(row) for row in rows + theirs])
        read, totals = await walk(store, Query(limit=limit))
        assert read == matching(rows, Query())
        assert totals == {6}

    body(store)


@with_store
async def test_new_tasks_do_not_disturb_a_walk(store: Store) -> None:
    await store.commit([put(task_row(f"t{n}", status_us=n)) for n in range(10)])
    first = await store.tasks(ANNA, Query(limit=4))
    await store.commit([put(task_row("new", status_us=99)), put(task_row("t3", status_us=100))])
    last = first.rows[-1]
    second = await store.tasks(ANNA, Query(limit=4, before=(last.status_us, last.id)))
    assert [row.id for row in second.rows] == ["t5", "t4", "t2", "t1"]
    assert second.total == 11


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_every_query_gives_what_a_plain_search_gives(kind: str) -> None:
    """S78: filters and paging, for any tasks and any query."""
    tasks = st.lists(
        st.builds(
            task_row,
            st.uuids(version=4).map(str),
            context_id=st.sampled_from(["c1", "c2", "c3"]),
            state=st.sampled_from(STATES),
            status_us=st.integers(0, 12),
        ),
        max_size=25,
        unique_by=lambda row: row.id,
    )
    queries = st.builds(
        Query,
        context_id=st.sampled_from(["", "c1", "c2", "none"]),
        state=st.sampled_from([0, *STATES]),
        status_from_us=st.none() | st.integers(-1, 13),
        limit=st.integers(1, 10),
        before=st.none(),
        limit_bytes=st.just(1 << 20),
    )

    @settings(max_examples=40)
    @given(tasks, st.lists(queries, min_size=1, max_size=4))
    def search(rows: list[TaskRow], asked: list[Query]) -> None:
        async def main() -> None:
            with TemporaryDirectory() as directory:
                url = "memory:" if kind == "memory" else f"sqlite://{Path(directory, 'tasks.db')}"
                store = open_store(url)
                await store.open()
                try:
                    await store.commit([put(row) for row in rows])
                    for query in asked:
                        expected = matching(rows, query)
                        read, totals = await walk(store, query)
                        assert read == expected
                        assert totals == {len(expected)}
                finally:
                    await store.close()

        asyncio.run(main())

    search()
