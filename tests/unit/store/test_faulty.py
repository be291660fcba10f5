"""The store with faults does what tests rely on, and is a store otherwise."""

import asyncio

import pytest

from gateway.store import StoreError
from gateway.store.memory import MemoryStore
from tests.conftest import run
from tests.doubles.store import FaultyStore
from tests.unit.store.making import ANNA, COMPLETED, put, task_row


def test_commits_that_match_fail_so_many_times() -> None:
    async def main() -> None:
        store = FaultyStore(MemoryStore())
        store.fail_next(2, lambda write: write.task is not None and write.task.state == COMPLETED)
        await store.commit([put(task_row("t"))])
        for _ in range(2):
            with pytest.raises(StoreError):
                await store.commit([put(task_row("u")), put(task_row("t", state=COMPLETED))])
            assert await store.task(ANNA, "u") is None
        await store.commit([put(task_row("t", state=COMPLETED))])
        assert store.failed == 2
        assert [write.task_id for write in store.committed] == ["t", "t"]

    run(main())


def test_commits_are_held_back() -> None:
    async def main() -> None:
        store = FaultyStore(MemoryStore(), commit_delay=0.001, read_delay=0.001)
        store.pause()
        commit = asyncio.create_task(store.commit([put(task_row("t"))]))
        assert await store.task(ANNA, "t") is None
        assert store.commits_waiting == 1
        store.go_on()
        await commit
        assert await store.task(ANNA, "t") == task_row("t")
        assert store.reads == 2

    run(main())
