"""Stored before shown; restarts; a store that refuses (S65, S182, D28; ST10, ST16, PR01, PR03)."""

import asyncio
from pathlib import Path

import pytest

from gateway.agents import Turn
from gateway.errors import InternalError, TaskNotFoundError, UnavailableError
from gateway.pb import TaskState
from gateway.runtime import Runtime, recovery
from gateway.store import Query, Write
from gateway.store.memory import MemoryStore
from gateway.store.sqlite import SqliteStore
from tests.conftest import run
from tests.doubles.scripted import Gate, ScriptedAgent, ask, chunk, echo, status
from tests.doubles.store import FaultyStore
from tests.unit.runtime.world import SCOPE, call, collect, parse, running, say, until


def _is_terminal(write: Write) -> bool:
    return write.task is not None and write.task.state == TaskState.TASK_STATE_COMPLETED


def test_nothing_is_seen_before_it_is_stored() -> None:
    """ST10, S65: with a store that takes its time a read after any event agrees with it."""

    async def main() -> None:
        store = FaultyStore(MemoryStore(), commit_delay=0.005)
        async with running(ScriptedAgent(echo), store) as runtime:
            for _ in range(20):
                sent = await runtime.send(call(), say())
                async for batch in sent.events():
                    row = await store.inner.task(SCOPE, sent.task_id)
                    stored = await store.inner.events(SCOPE, sent.task_id, 0)
                    assert row is not None
                    assert stored[-1].seq >= batch[-1].seq
                row = await store.inner.task(SCOPE, sent.task_id)
                assert row is not None
                assert row.state == TaskState.TASK_STATE_COMPLETED

    run(main())


def test_the_record_of_a_turn_is_stored_before_its_agent_starts() -> None:
    async def main() -> None:
        store = FaultyStore(MemoryStore())
        agent = ScriptedAgent(echo)
        async with running(agent, store) as runtime:
            store.pause()
            sent = await runtime.send(call(), say())
            await until(lambda: store.commits_waiting > 0)
            assert not agent.turns
            store.go_on()
            await sent.outcome(True)
            assert store.committed[0].turn is not None

    run(main())


def test_a_task_is_working_until_its_end_is_stored() -> None:
    """SH03: a stop has to let the last events out."""

    async def main() -> None:
        gate = Gate()

        store = FaultyStore(MemoryStore())
        async with running(ScriptedAgent(gate.work), store) as runtime:
            sent = await runtime.send(call(), say())
            await sent.outcome(False)
            store.pause()
            gate.opened.set()
            await until(lambda: store.commits_waiting > 0)
            assert not runtime.running_turns
            assert runtime.is_working(SCOPE, sent.task_id)
            store.go_on()
            await sent.outcome(True)
            await until(lambda: not runtime.is_working(SCOPE, sent.task_id))

    run(main())


def test_events_that_are_ready_together_are_stored_together() -> None:
    async def main() -> None:
        store = FaultyStore(MemoryStore())
        async with running(ScriptedAgent(echo), store) as runtime:
            await (await runtime.send(call(), say())).outcome(True)
            assert [len(write.events) for write in store.committed] == [0, 4]

    run(main())


def test_an_agent_waits_when_the_store_falls_behind() -> None:
    async def flood(turn: Turn) -> None:
        for _ in range(50):
            await turn.emit(chunk("x"))
        await turn.emit(status(TaskState.TASK_STATE_COMPLETED))

    async def main() -> None:
        store = FaultyStore(MemoryStore())
        async with running(ScriptedAgent(flood), store, unsaved_events=10) as runtime:
            await (await runtime.send(call(), say())).outcome(True)
            assert max(len(write.events) for write in store.committed) <= 11

    run(main())


def test_a_refused_record_refuses_the_message() -> None:
    async def main() -> None:
        store = FaultyStore(MemoryStore())
        agent = ScriptedAgent(ask)
        async with running(agent, store) as runtime:
            store.fail_next()
            with pytest.raises(UnavailableError, match="nothing was done"):
                await (await runtime.send(call(), say())).outcome(True)
            assert not agent.turns
            task = (await (await runtime.send(call(), say())).outcome(True)).task
            store.fail_next()
            with pytest.raises(UnavailableError):
                await (await runtime.send(call(), say("this", task_id=task.id))).outcome(True)
            assert await runtime.task(SCOPE, task.id) == task
            done = await (await runtime.send(call(), say("this", task_id=task.id))).outcome(True)
            assert done.task.status.state == TaskState.TASK_STATE_COMPLETED
            assert runtime.live_tasks == 0

    run(main())


def test_a_refused_end_is_seen_as_failed_by_all() -> None:
    """ST16."""

    async def main() -> None:
        store = FaultyStore(MemoryStore())
        async with running(ScriptedAgent(echo), store) as runtime:
            store.fail_next(1, _is_terminal)
            sent = await runtime.send(call(), say())
            streaming = asyncio.create_task(collect(sent.events()))
            task = (await sent.outcome(True)).task
            assert task.status.state == TaskState.TASK_STATE_FAILED
            events = await streaming
            last = parse(events)[-1]
            assert last.status_update.status.state == TaskState.TASK_STATE_FAILED
            assert [e.seq for e in events] == list(range(1, len(events) + 1))
            assert await runtime.task(SCOPE, sent.task_id) == task
            assert runtime.live_tasks == 0

    run(main())


def test_a_store_that_keeps_refusing_gives_an_error_and_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """ST16."""
    monkeypatch.setattr(recovery, "REPAIR_DELAYS", (0.0, 0.0))

    async def main() -> None:
        store = FaultyStore(MemoryStore())
        async with running(ScriptedAgent(echo), store) as runtime:
            sent = await runtime.send(call(), say())
            store.fail_next(9, lambda write: write.task is not None)
            with pytest.raises(InternalError):
                await sent.outcome(True)
            with pytest.raises(InternalError):
                await collect(sent.events())
            assert runtime.live_tasks == 0

    run(main())


def _crash(runtime: Runtime) -> None:
    """What kill -9 leaves: the file, and nobody who holds it."""
    for task in asyncio.all_tasks():
        if task is not asyncio.current_task():
            task.cancel()


def test_after_a_crash_running_tasks_are_failed_and_questions_stay(tmp_path: Path) -> None:
    """PR01, ST07, S182."""
    path = str(tmp_path / "tasks.db")

    async def first() -> list[str]:
        gate = Gate()

        async def work(turn: Turn) -> None:
            if turn.request.message.parts[0].text == "ask":
                await ask(turn)
                return
            await turn.emit(status(TaskState.TASK_STATE_WORKING))
            await turn.emit(chunk("half", append=False))
            await gate.wait()

        store = SqliteStore(path)
        runtime = Runtime(ScriptedAgent(work), store)
        await runtime.start()
        working = await runtime.send(call("key"), say("work"))
        await gate.reached.wait()
        await working.outcome(False)
        asked = await runtime.send(call(), say("ask"))
        await asked.outcome(True)
        answered = await runtime.send(call(), say("ask"))
        await answered.outcome(True)
        gate.reached.clear()
        await runtime.send(call(), say("work", task_id=answered.task_id))
        await gate.reached.wait()
        _crash(runtime)
        await store.close()
        return [working.task_id, asked.task_id, answered.task_id]

    async def second(ids: list[str]) -> None:
        working, asked, answered = ids
        store = SqliteStore(path)
        async with running(ScriptedAgent(ask), store) as runtime:
            for task_id in (working, answered):
                task = await runtime.task(SCOPE, task_id)
                assert task.status.state == TaskState.TASK_STATE_FAILED
                assert "restarted" in task.status.message.parts[0].text
            half = await runtime.task(SCOPE, working)
            assert half.artifacts[0].parts[0].text == "half"
            events = await collect(await runtime.subscribe(SCOPE, working, 0))
            assert [e.seq for e in events] == list(range(1, len(events) + 1))
            repeat = await (await runtime.send(call("key"), say("work"))).outcome(True)
            assert repeat.task == half
            stream = await runtime.subscribe(SCOPE, asked)
            state = parse(await anext(stream))[0].task.status.state
            assert state == TaskState.TASK_STATE_INPUT_REQUIRED
            done = await (await runtime.send(call(), say("x", task_id=asked))).outcome(True)
            assert done.task.status.state == TaskState.TASK_STATE_COMPLETED
            assert len(await collect(stream)) > 0
            tasks, _, total = await runtime.tasks(SCOPE, Query())
            assert total == len(tasks) == 3

    run(second(run(first())))


def test_retention_deletes_finished_tasks_for_good() -> None:
    """PR03, S117: what is deleted stays deleted; its readers hear of it."""

    async def main() -> None:
        async with running(ScriptedAgent(echo), finished_count=2, expire_interval=60) as runtime:
            ids = []
            for _ in range(5):
                sent = await runtime.send(call(), say())
                await sent.outcome(True)
                ids.append(sent.task_id)
            stream = await runtime.subscribe(SCOPE, ids[0], 0)
            first = await anext(stream)
            assert first
            assert await runtime.retention.expire() == 3
            with pytest.raises(TaskNotFoundError):
                await runtime.task(SCOPE, ids[0])
            assert (await runtime.task(SCOPE, ids[4])).id == ids[4]
            with pytest.raises(TaskNotFoundError):
                await runtime.subscribe(SCOPE, ids[0], 0)

    run(main())


def test_running_tasks_are_never_expired() -> None:
    """PR03."""

    async def main() -> None:
        gate = Gate()

        async with running(
            ScriptedAgent(gate.work), finished_count=0, expire_interval=60
        ) as runtime:
            sent = await runtime.send(call(), say())
            await gate.reached.wait()
            await sent.outcome(False)
            assert await runtime.retention.expire() == 0
            gate.opened.set()
            await sent.outcome(True)
            assert await runtime.retention.expire() == 1

    run(main())
