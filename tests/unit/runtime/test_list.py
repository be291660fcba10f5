"""ListTasks beside running tasks (A2A 3.1.4; S65)."""

import asyncio

from gateway.store import Query
from gateway.store.memory import MemoryStore
from tests.conftest import run
from tests.doubles.scripted import ScriptedAgent, echo
from tests.doubles.store import FaultyStore
from tests.unit.runtime.world import SCOPE, call, running, say


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
