"""kill -9 of the supervisor: its children drain and leave nothing behind, and the same state
directory serves again at once (design: "Processes")."""

import asyncio
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path

from gateway.pb import TaskState
from tests.conftest import run
from tests.faults.callers import DOORS, Caller
from tests.faults.test_kills import back
from tests.faults.test_stop import CUT, Stream
from tests.faults.victim import Victim, relaunch, victim

GRACE = 30.0
"""Nothing here takes as long: whoever waited for it would be late."""


def test_children_end_with_their_supervisor(tmp_path: Path) -> None:
    """Idle: at once. What they held is free: ports, locks, the link's socket."""

    async def orphan(gateway: Victim) -> str:
        async with Caller(gateway.addresses, "grpc") as caller:
            task_id = (await caller.send("ask")).task.id
        gateway.server.process.kill()
        await gateway.gone(GRACE / 2)
        return task_id

    async def look(gateway: Victim, task_id: str) -> None:
        async with Caller(gateway.addresses, "rest") as caller:
            state = (await caller.get(task_id)).status.state
            assert state == TaskState.TASK_STATE_INPUT_REQUIRED

    with victim(tmp_path, {"grace": GRACE}) as gateway:
        task_id = run(orphan(gateway))
        with relaunch(tmp_path) as again:
            assert again.addresses[:2] == gateway.addresses[:2]
            run(look(again, task_id))


def test_a_start_beside_orphans_that_still_drain(tmp_path: Path) -> None:
    """The one who starts again does not wait for anything: the orphans have closed their doors,
    finish their calls and go; the new one takes over when they have."""

    async def orphan(gateway: Victim, stack: ExitStack) -> None:
        async with AsyncExitStack() as callers:
            working = []
            for door in DOORS:
                caller = await callers.enter_async_context(Caller(gateway.addresses, door))
                working.append(await Stream.open(caller.stream("slow 15 100")))
            gateway.server.process.kill()
            launching = asyncio.create_task(
                asyncio.to_thread(stack.enter_context, relaunch(tmp_path))
            )
            ends = [await stream.end for stream in working]
            assert ends == [TaskState.TASK_STATE_COMPLETED] * len(DOORS)
            again = await launching
        await gateway.gone(GRACE / 2)
        await back(again)

    with ExitStack() as stack:
        gateway = stack.enter_context(victim(tmp_path, {"grace": GRACE}))
        run(orphan(gateway, stack))


def test_the_orphans_of_a_stubborn_agent_end_too(tmp_path: Path) -> None:
    """Nobody is there to kill them."""

    async def orphan(gateway: Victim) -> None:
        async with Caller(gateway.addresses, "jsonrpc") as caller:
            stream = await Stream.open(caller.stream("stubborn 60"))
            gateway.server.process.kill()
            await gateway.gone(20.0)
            assert await stream.end == CUT

    with victim(tmp_path, {"grace": 1.0}) as gateway:
        run(orphan(gateway))
