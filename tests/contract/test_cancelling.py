"""CancelTask: what it does in each state, and that it reaches the agent (A2A 3.1.5)."""

import asyncio
import time
from contextlib import aclosing
from functools import partial
from pathlib import Path

from gateway.errors import Failure
from gateway.pb import Task
from tests.conftest import run
from tests.contract.doors import Places
from tests.contract.everywhere import everywhere, talks
from tests.contract.talking import Talk, failure_of, outcome_of, request, state, until
from tests.contract.test_streaming import kinds


def test_in_each_state(places: Places) -> None:
    """ST04, D29, S81, S110: what works or waits is CANCELED; a second cancel gives the same task;
    what has ended otherwise is not cancelable; what is unknown is not found."""

    async def behaviour(caller: Talk) -> dict[str, object]:
        seen: dict[str, object] = {}
        for kind in ("slow 100 100", "ask", "auth", "auth-wait 60", "wait /dev/null/never"):
            task = await caller.send(kind, immediate=True)
            canceled = await caller.cancel(task.id)
            assert await caller.cancel(task.id) == canceled == await caller.get(task.id)
            seen[kind] = state(canceled)
        for kind in ("echo", "raise 1", "reject"):
            task = await caller.send(kind)
            seen[kind] = await failure_of(caller.cancel(task.id))
            assert await caller.get(task.id) == task
        seen["unknown"] = await failure_of(caller.cancel("no-such-task"))
        return seen

    seen = everywhere(places, behaviour)
    assert list(seen.values())[:5] == ["CANCELED"] * 5
    assert [f.row.reason for f in list(seen.values())[5:]] == [  # type: ignore[attr-defined]
        *["TASK_NOT_CANCELABLE"] * 3,
        "TASK_NOT_FOUND",
    ]


def test_readers_see_it(places: Places) -> None:
    """S81, S87, R16: the stream that started the task and a subscription both end with the
    CANCELED state, and a blocking send returns with it."""

    async def behaviour(caller: Talk) -> list[object]:
        async with aclosing(
            caller.events("SendStreamingMessage", request("slow 100 100"))
        ) as events:
            first = await anext(events)
            task_id = first.response.task.id
            async with aclosing(caller.subscribe(task_id)) as others:
                opening = await anext(others)
                await caller.cancel(task_id)
                followed = [opening] + [event async for event in others]
            streamed = [first] + [event async for event in events]
        return [kinds(streamed)[0], kinds(streamed)[-1], kinds(followed)[-1]]

    assert everywhere(places, behaviour) == [
        "task SUBMITTED",
        "status_update CANCELED",
        "status_update CANCELED",
    ]


def test_a_blocking_send_returns(places: Places) -> None:
    """S64, S81: who waits for the answer gets the canceled task, whatever door canceled it."""

    async def main() -> None:
        async with talks(places) as callers:
            for sender in callers:
                for canceler in callers:
                    context = f"c-{sender.door}-{canceler.door}"
                    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
                        sent = group.create_task(sender.send("slow 600 100", context_id=context))
                        listed = await until(partial(tasks_of, canceler, context))
                        await canceler.cancel(listed[0].id)
                    assert state(sent.result()) == "CANCELED"

    run(main())


async def tasks_of(caller: Talk, context_id: str) -> list[Task]:
    """The tasks of a context."""
    return list((await caller.list(context_id=context_id)).tasks)


def test_the_agent_stops(places: Places, tmp_path: Path) -> None:
    """ST14: an agent that writes a line every 20 ms has stopped within a second of CancelTask; a
    new message of the same context is served."""

    async def behaviour(caller: Talk) -> list[str]:
        path = tmp_path / f"ticks-{caller.door}"
        task = await caller.send(f"tick {path} 20", immediate=True)
        await until(lambda: asyncio.to_thread(path.exists))
        started = time.monotonic()
        canceled = await caller.cancel(task.id)
        assert time.monotonic() - started < 1
        lines = len(path.read_text().splitlines())
        await asyncio.sleep(0.5)  # nothing may happen in that time
        assert len(path.read_text().splitlines()) - lines <= 1
        after = await caller.send("echo again", context_id=task.context_id)
        return [state(canceled), state(after)]

    assert everywhere(places, behaviour) == ["CANCELED", "COMPLETED"]


def test_agents_whose_cancel_fails(places: Places) -> None:
    """ST14, S81, S176: an agent whose `cancel` raises is stopped all the same, and the text of
    its exception is not shown."""

    async def behaviour(caller: Talk) -> Task:
        task = await caller.send("cancel-fails", immediate=True)
        canceled = await caller.cancel(task.id)
        assert "secret" not in str(canceled)
        return canceled

    assert state(everywhere(places, behaviour)) == "CANCELED"


def test_cancel_against_completion(places: Places) -> None:
    """ST04, S100: either the cancel or the completion wins, and all doors agree on which."""

    async def main() -> None:
        async with talks(places) as callers:
            await asyncio.gather(*(race(callers, n) for n in range(24)))

    async def race(callers: list[Talk], number: int) -> None:
        one, two = callers[number % len(callers)], callers[(number + 1) % len(callers)]
        task = await one.send(f"slow 1 {number * 2}", immediate=True)
        outcome = await outcome_of(two.cancel(task.id))
        if isinstance(outcome, Failure):
            assert outcome.row.reason == "TASK_NOT_CANCELABLE"
            expected = "COMPLETED"
        else:
            expected = state(outcome)
            assert expected == "CANCELED"
        for caller in callers:
            assert state(await caller.get(task.id)) == expected

    run(main())


def test_messages_that_wait(places: Places) -> None:
    """D32, S81, S100: a cancel ends the task for the messages that wait for it, too."""

    async def behaviour(caller: Talk) -> list[str]:
        task = await caller.send("wait /dev/null/never", immediate=True)
        waits = [
            asyncio.create_task(failure_of(caller.call(method, request("x", task_id=task.id))))
            for method in ("SendMessage", "SendStreamingMessage")
        ]
        queued = await caller.send("y", task_id=task.id, immediate=True)
        assert state(queued) in ("SUBMITTED", "WORKING")
        assert state(await caller.cancel(task.id)) == "CANCELED"
        return [(await failure).row.reason for failure in waits]

    assert everywhere(places, behaviour) == ["UNSUPPORTED_OPERATION"] * 2
