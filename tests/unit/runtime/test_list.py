"""ListTasks beside running tasks (A2A 3.1.4; S65)."""

import asyncio
from typing import Any

from gateway.pb import TaskState
from gateway.store import Query
from gateway.store.memory import MemoryStore
from tests.conftest import run
from tests.doubles.scripted import ScriptedAgent, chunk, echo, status
from tests.doubles.store import FaultyStore
from tests.unit.runtime.world import SCOPE, call, running, say, until


def test_a_task_that_is_stored_just_now_is_listed() -> None:
    """A listing may read a row of which the runtime has not heard yet that it is stored."""

    async def main() -> None:
        store = FaultyStore(MemoryStore())
        async with running(ScriptedAgent(echo), store) as runtime:
            stored = asyncio.Event()
            heard = asyncio.Event()
            inner = store.inner.commit

            async def commit_and_dawdle(writes):  # type: ignore[no-untyped-def]
                await inner(writes)
                if any(write.task is not None for write in writes):
                    stored.set()
                    await heard.wait()

            store.inner.commit = commit_and_dawdle  # type: ignore[method-assign]
            sent = await runtime.send(call(), say())
            await stored.wait()
            listing = asyncio.create_task(runtime.tasks(SCOPE, Query()))
            await asyncio.sleep(0)
            heard.set()
            tasks, _, _ = await listing
            assert [task.id for task in tasks] == [sent.task_id]

    run(main())


def test_what_has_grown_in_memory_counts() -> None:
    """ML02: tasks whose events are not in their snapshots yet fill a page, too."""

    async def grow(turn: Any) -> None:
        await turn.emit(status(TaskState.TASK_STATE_WORKING))
        await until(lambda: turn.live.is_stored)
        for number in range(10):
            await turn.emit(chunk("x" * 1000, append=number > 0))
        await asyncio.Event().wait()

    async def main() -> None:
        async with running(ScriptedAgent(grow)) as runtime:
            for _ in range(3):
                sent = await runtime.send(call(), say())
                async for batch in sent.events():
                    if batch[-1].seq >= 12:
                        break
            tasks, has_more, total = await runtime.tasks(SCOPE, Query(limit_bytes=15_000))
            assert (len(tasks), has_more, total) == (2, True, 3)
            tasks, has_more, total = await runtime.tasks(SCOPE, Query())
            assert (len(tasks), has_more, total) == (3, False, 3)

    run(main())
