"""Limits, exclusive contexts, deadlines, and agents that do not stop when they are told to."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path

import pytest

from gateway.errors import Failure
from gateway.pb import Part, SendMessageRequest, Task
from tests.conftest import run
from tests.contract.doors import DOORS, Door, Places
from tests.contract.everywhere import everywhere, talk, talks
from tests.contract.serving import serving
from tests.contract.talking import Talk, failure_of, outcome_of, request, state, text_of, until

LIMITS = {"running": 2, "waiting": 2, "waiting_per_task": 1, "message_bytes": 65536}


@pytest.fixture(scope="module")
def tight(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Places]:
    """A gateway with very small limits."""
    config = {"limits": LIMITS, "agent": {"cancel_timeout": 0.3}}
    with serving(tmp_path_factory.mktemp("tight"), config) as found:
        yield found


@pytest.fixture(scope="module")
def exclusive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Places]:
    """A gateway whose contexts take one turn at a time."""
    config = {"contexts": {"exclusive": True}}
    with serving(tmp_path_factory.mktemp("exclusive"), config) as found:
        yield found


# -- limits ------------------------------------------------------------------------------


@pytest.mark.parametrize("door", DOORS, ids=str)
def test_running_and_waiting(tight: Places, door: Door, tmp_path: Path) -> None:
    """S114, D34, S185: two turns run, two wait, more are refused at once and never silently, with
    when to come again; what waited runs in its turn."""

    async def main() -> None:
        async with talk(door, tight) as caller:
            path = tmp_path / "go"
            sends = [asyncio.create_task(outcome_of(caller.send(f"wait {path}"))) for _ in range(6)]
            ended = asyncio.as_completed(sends)
            refused = [await next(ended), await next(ended)]
            for method in ("SendMessage", "SendStreamingMessage"):
                refused.append(await failure_of(caller.call(method, request("echo"))))
            for failure in refused:
                assert isinstance(failure, Failure)
                assert failure.row.reason == "RESOURCE_EXHAUSTED"
                assert failure.retry_after == 1.0
            # reading goes on; what waits is no task yet
            await busy(caller, 2)
            assert (await caller.list()).total_size == 2
            path.write_text("done")
            tasks = [await task for task in ended]
            assert [state(task) for task in tasks if isinstance(task, Task)] == ["COMPLETED"] * 4
            assert state(await caller.send("echo")) == "COMPLETED"

    run(main())


async def busy(caller: Talk, number: int) -> None:
    """Wait until so many tasks are at work."""

    async def is_busy() -> bool:
        return (await caller.list()).total_size >= number

    await until(is_busy)


@pytest.mark.parametrize("door", DOORS, ids=str)
def test_waiting_for_one_task(tight: Places, door: Door, tmp_path: Path) -> None:
    """D32, D34: one message waits for a task's turn, the next one is refused."""

    async def main() -> None:
        async with talk(door, tight) as caller:
            path = tmp_path / "go"
            task = await caller.send(f"ask-when {path}", immediate=True)
            waits = await caller.send("red", task_id=task.id, immediate=True)
            failure = await failure_of(caller.send("blue", task_id=task.id))
            assert failure.row.reason == "RESOURCE_EXHAUSTED"
            assert waits.id == task.id
            path.write_text("now")
            assert text_of(await ended(caller, task.context_id)) == "You said: red"

    run(main())


def test_a_smaller_message_limit(tight: Places) -> None:
    """GR07: the limit is the core's, as configured, and the same at every door."""

    async def behaviour(caller: Talk) -> list[str]:
        answer = await caller.answer(request("message ok", Part(raw=bytes(60_000))))
        reasons = []
        for size in (65_536, 100_000):
            failure = await failure_of(caller.answer(request("x", Part(raw=bytes(size)))))
            reasons.append(failure.row.reason)
        # far beyond it gRPC's own library refuses, with a code of its own
        failure = await failure_of(caller.answer(request("x", Part(raw=bytes(1_000_000)))))
        assert failure.row.reason in ("INVALID_PARAMS", "RESOURCE_EXHAUSTED")
        assert not (await caller.list()).tasks
        return [answer.message.parts[0].text, *reasons]

    assert everywhere(tight, behaviour) == ["ok", "INVALID_PARAMS", "INVALID_PARAMS"]


def test_an_agent_that_ignores_cancel(tight: Places) -> None:
    """S81, ST14: it is abandoned after the configured time, and its task is CANCELED; its late
    completion changes nothing."""

    async def main() -> None:
        async with talks(tight) as callers:
            # one after another: two turns at once are all that this gateway runs
            for caller in callers:
                task = await caller.send("stubborn 1", immediate=True)
                started = time.monotonic()
                canceled = await caller.cancel(task.id)
                assert state(canceled) == "CANCELED"
                assert 0.2 < time.monotonic() - started < 2
            await asyncio.sleep(1)  # the agents end only now
            for listed in (await callers[0].list()).tasks:
                assert state(listed) == "CANCELED"

    run(main())


# -- exclusive contexts ------------------------------------------------------------------


def test_exclusive_contexts(exclusive: Places, tmp_path: Path) -> None:
    """D26, S92: while a turn of a context runs, another message of it is refused with a typed
    error; other contexts run side by side; afterwards it is served."""

    async def behaviour(caller: Talk) -> list[Failure]:
        path = tmp_path / str(caller.door)
        task = await caller.send(f"ask-when {path}", context_id="one", immediate=True)
        refused = [
            request("echo", context_id="one"),
            request("echo", task_id=task.id),
            request("echo", task_id=task.id, context_id="one"),
        ]
        failures = [
            await failure_of(caller.call(method, made))
            for made in refused
            for method in ("SendMessage", "SendStreamingMessage")
        ]
        assert state(await caller.send("echo", context_id="two")) == "COMPLETED"
        async with aclosing(caller.subscribe(task.id)) as events:
            await anext(events)
            path.write_text("now")
            async for event in events:
                if state(event.response.status_update) == "INPUT_REQUIRED":
                    break
        assert state(await served(caller, request("echo", context_id="one"))) == "COMPLETED"
        assert state(await served(caller, request("red", task_id=task.id))) == "COMPLETED"
        return failures

    failures = everywhere(exclusive, behaviour)
    assert {f.row.reason for f in failures} == {"UNSUPPORTED_OPERATION"}
    assert {f.message for f in failures} == {"Task is already working."}


async def served(caller: Talk, made: SendMessageRequest) -> Task:
    """A send that comes right after a turn's last event, while the turn may still be ending."""

    async def answered() -> Task | None:
        outcome = await outcome_of(caller.answer(made))
        if isinstance(outcome, Failure):
            assert "already working" in outcome.message
            return None
        return outcome.task

    task = await until(answered)
    assert task is not None
    return task


# -- deadlines and clients that leave ----------------------------------------------------

WITH_DEADLINE = [door for door in DOORS if door.has_deadline]


def test_deadlines(places: Places) -> None:
    """GR10: the call ends with DEADLINE_EXCEEDED on time, before the agent has answered and while
    it works; the task itself goes on and ends."""

    async def behaviour(caller: Talk) -> list[str]:
        reasons = []
        await caller.list()  # connecting takes time, too
        for kind in ("slow 4 100", "silent 0.4"):
            context = f"of-{kind.split()[0]}"
            started = time.monotonic()
            made = request(kind, context_id=context)
            failure = await failure_of(caller.reply("SendMessage", made, 0.15))
            assert 0.1 < time.monotonic() - started < 2
            reasons.append(failure.row.reason)
            reasons.append(state(await ended(caller, context)))
        return reasons

    seen = everywhere(places, behaviour, doors=WITH_DEADLINE)
    assert seen == ["DEADLINE_EXCEEDED", "COMPLETED"] * 2


async def ended(caller: Talk, context_id: str) -> Task:
    """The one task of a context, once it has ended."""

    async def done() -> list[Task]:
        tasks = (await caller.list(context_id=context_id, include_artifacts=True)).tasks
        return [t for t in tasks if state(t) in ("COMPLETED", "FAILED", "CANCELED")]

    [task] = await until(done)
    return task


def test_clients_that_leave(places: Places) -> None:
    """GR10, SS07: whoever gives up a blocking call, at any door, does not touch its task."""

    async def behaviour(caller: Talk) -> str:
        call = asyncio.create_task(caller.send("slow 4 60", context_id="left"))
        await busy(caller, 1)
        call.cancel()
        await asyncio.wait((call,))
        return text_of(await ended(caller, "left"))

    assert everywhere(places, behaviour) == "chunk 0 chunk 1 chunk 2 chunk 3 "
