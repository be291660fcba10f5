"""Races between ends, cancels, refused writes, retention and the stop of the runtime (S65, S182,
D28; ST16, PR01, PR03)."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from gateway.agents import Turn
from gateway.call import Scope
from gateway.errors import InternalError, TaskNotFoundError, UnavailableError
from gateway.pb import Message, Part, TaskState
from gateway.runtime import Runtime, RuntimeOptions, recovery, repair
from gateway.store import LogEvent, StoreError, TaskRow, TurnRow, Write
from gateway.store.memory import MemoryStore
from tests.conftest import run
from tests.doubles.scripted import Gate, ScriptedAgent, ask, echo, status
from tests.doubles.store import FaultyStore
from tests.unit.runtime.world import SCOPE, call, collect, parse, running, say, until

WORKING = TaskState.TASK_STATE_WORKING
COMPLETED = TaskState.TASK_STATE_COMPLETED
FAILED = TaskState.TASK_STATE_FAILED


def _is_terminal(write: Write) -> bool:
    return write.task is not None and write.task.state == COMPLETED


def test_an_agent_that_returns_late_does_not_bring_a_deleted_task_back() -> None:
    """PR03: the task ends, retention deletes it, and then the agent's turn ends."""

    async def main() -> None:
        gate = Gate()

        async def dawdle(turn: Turn) -> None:
            await echo(turn)
            await gate.wait()

        async with running(ScriptedAgent(dawdle), finished_count=0, expire_interval=60) as runtime:
            sent = await runtime.send(call("key"), say())
            await sent.outcome(True)
            assert await runtime.retention.expire() == 1
            gate.opened.set()
            await until(lambda: runtime.running_turns == 0 and runtime.live_tasks == 0)
            await asyncio.sleep(0.01)  # for a write that must not come there is nothing to wait on
            await runtime.journal.flush()
            with pytest.raises(TaskNotFoundError):
                await runtime.task(SCOPE, sent.task_id)

    run(main())


def test_the_end_of_a_settled_turn_costs_no_write() -> None:
    async def main() -> None:
        store = FaultyStore(MemoryStore())
        gate = Gate()

        async def dawdle(turn: Turn) -> None:
            await echo(turn)
            await gate.wait()

        async with running(ScriptedAgent(dawdle), store) as runtime:
            await (await runtime.send(call(), say())).outcome(True)
            writes = len(store.committed)
            gate.opened.set()
            await until(lambda: runtime.live_tasks == 0)
            assert len(store.committed) == writes

    run(main())


def test_a_read_beside_a_refused_write_shows_what_is_stored() -> None:
    """ST16: the reader copied the task while its end was on its way to the store."""

    async def main() -> None:
        store = FaultyStore(MemoryStore())
        gate = Gate()

        async def work(turn: Turn) -> None:
            await turn.emit(status(WORKING))
            await gate.wait()
            await turn.emit(status(COMPLETED))

        async with running(ScriptedAgent(work), store) as runtime:
            sent = await runtime.send(call(), say())
            await sent.outcome(False)
            store.fail_next(1, _is_terminal)
            store.pause()
            gate.opened.set()
            await until(lambda: store.commits_waiting == 1)
            reading = asyncio.create_task(runtime.task(SCOPE, sent.task_id))
            await asyncio.sleep(0)
            store.go_on()
            task = await reading
            assert task.status.state == FAILED
            assert await runtime.task(SCOPE, sent.task_id) == task

    run(main())


def test_a_task_that_was_given_up_gets_its_failure_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """PR01: no task stays WORKING without a runner, however long the store refused."""

    async def main() -> None:
        monkeypatch.setattr(recovery, "REPAIR_DELAYS", (0.0, 0.0))
        monkeypatch.setattr(repair, "MEND_INTERVAL", 0.01)
        store = FaultyStore(MemoryStore())
        gate = Gate()

        async def work(turn: Turn) -> None:
            await turn.emit(status(WORKING))
            await gate.wait()
            await turn.emit(status(COMPLETED))

        async with running(ScriptedAgent(work), store) as runtime:
            sent = await runtime.send(call(), say())
            await sent.outcome(False)
            stream = await runtime.subscribe(SCOPE, sent.task_id)
            first = parse(await anext(stream))[0]
            assert first.task.status.state == WORKING
            store.fail_next(4, lambda write: write.task is not None)
            gate.opened.set()
            with pytest.raises(InternalError):
                await sent.outcome(True)
            with pytest.raises(InternalError):
                await collect(stream)
            with pytest.raises(UnavailableError):
                await runtime.send(call(), say(task_id=sent.task_id))
            await until(lambda: not runtime.repairs.mending)
            task = await runtime.task(SCOPE, sent.task_id)
            assert task.status.state == FAILED
            assert "could not be stored" in task.status.message.parts[0].text
            assert await store.open_turns() == []
            assert runtime.live_tasks == 0

    run(main())


def test_a_cancel_that_cannot_be_stored_says_so() -> None:
    async def main() -> None:
        store = FaultyStore(MemoryStore())
        async with running(ScriptedAgent(ask), store) as runtime:
            sent = await runtime.send(call(), say())
            asked = (await sent.outcome(True)).task
            await until(lambda: runtime.live_tasks == 0)
            store.fail_next()
            with pytest.raises(InternalError):
                await runtime.cancel(call(), sent.task_id)
            assert await runtime.task(SCOPE, sent.task_id) == asked
            task = await runtime.cancel(call(), sent.task_id)
            assert task.status.state == TaskState.TASK_STATE_CANCELED

    run(main())


class SlowReads(FaultyStore):
    """Reads of one task, or of one key, wait for the test."""

    slow_id = slow_key = ""
    failure: StoreError | None = None

    def __init__(self) -> None:
        super().__init__(MemoryStore())
        self.gate = Gate()

    async def task(self, scope: Scope, task_id: str) -> TaskRow | None:
        if task_id == self.slow_id:
            await self.gate.wait()
            if self.failure is not None:
                raise self.failure
        return await super().task(scope, task_id)

    async def turn_by_key(self, scope: Scope, key: str) -> TurnRow | None:
        if key == self.slow_key:
            await self.gate.wait()
        return await super().turn_by_key(scope, key)


def test_a_task_has_one_writer_while_its_references_are_read() -> None:
    """A follow-up that refers to another task waits for it; meanwhile a second one comes."""

    async def main() -> None:
        store = SlowReads()
        async with running(ScriptedAgent(ask), store) as runtime:
            ended = await runtime.send(call(), say("other"))
            await ended.outcome(True)
            asked = await runtime.send(call(), say("question"))
            await asked.outcome(True)
            await until(lambda: runtime.live_tasks == 0)
            store.slow_id = ended.task_id
            referring = say("a", task_id=asked.task_id)
            referring.message.reference_task_ids.append(ended.task_id)
            first = asyncio.create_task(runtime.send(call(), referring))
            await store.gate.reached.wait()
            second = await runtime.send(call(), say("b", task_id=asked.task_id, mid="m2"))
            assert runtime.live_tasks == 1
            store.gate.opened.set()
            outcomes = await asyncio.gather(
                (await first).outcome(True), second.outcome(True), return_exceptions=True
            )
            task = await runtime.task(SCOPE, asked.task_id)
            assert task.status.state == COMPLETED
            assert any(not isinstance(outcome, Exception) for outcome in outcomes)
            assert store.failed == 0
            events = await collect(await runtime.subscribe(SCOPE, asked.task_id, 0))
            assert [e.seq for e in events] == list(range(1, len(events) + 1))
            assert runtime.live_tasks == 0

    run(main())


def test_an_agent_that_gives_itself_up_has_failed() -> None:
    """CancelledError that nobody asked for: a task or a scope of the agent's own."""

    async def main() -> None:
        async def work(turn: Turn) -> None:
            await turn.emit(status(WORKING))
            raise asyncio.CancelledError

        async with running(ScriptedAgent(work)) as runtime:
            task = (await (await runtime.send(call(), say())).outcome(True)).task
            assert task.status.state == FAILED
            assert "The agent failed" in task.status.message.parts[0].text
            assert runtime.running_turns == 0

    run(main())


def test_a_stop_stores_the_end_of_turns_that_wait() -> None:
    """PR01: nothing is left for the next start to find."""

    async def main() -> None:
        store = FaultyStore(MemoryStore())
        gate = Gate()

        async def work(turn: Turn) -> None:
            await turn.emit(status(WORKING))
            await gate.wait()

        runtime = Runtime(ScriptedAgent(work), store, RuntimeOptions(running=1))
        await runtime.start()
        first = await runtime.send(call(), say())
        await first.outcome(False)
        second = await runtime.send(call(), say())
        await until(lambda: runtime.runner.waiting == 1)
        await runtime.stop(0.0)
        assert await store.inner.open_turns() == []
        row = await store.inner.task(SCOPE, first.task_id)
        assert row is not None
        assert row.state == FAILED
        assert await store.inner.task(SCOPE, second.task_id) is None

    run(main())


def test_a_stop_waits_for_no_agent() -> None:
    """SH02: one that ignores its cancel, and one whose own stop hangs."""

    async def main() -> None:
        is_over = asyncio.Event()

        async def ignore(turn: Turn) -> None:
            await turn.emit(status(WORKING))
            while not is_over.is_set():
                try:
                    await is_over.wait()
                except asyncio.CancelledError:
                    continue

        class Hanging(ScriptedAgent):
            async def stop(self) -> None:
                await asyncio.Event().wait()

        store = FaultyStore(MemoryStore())
        runtime = Runtime(Hanging(ignore), store)
        await runtime.start()
        sent = await runtime.send(call(), say())
        await sent.outcome(False)
        async with asyncio.timeout(5):
            await runtime.stop(0.1)
        row = await store.inner.task(SCOPE, sent.task_id)
        assert row is not None
        assert row.state == FAILED
        assert await store.inner.open_turns() == []
        is_over.set()

    run(main())


def test_a_cancel_under_way_at_the_stop_is_a_cancel() -> None:
    async def main() -> None:
        store = FaultyStore(MemoryStore())
        reached = asyncio.Event()

        async def work(turn: Turn) -> None:
            await turn.emit(status(WORKING))
            await asyncio.Event().wait()

        async def linger(turn: Turn) -> None:
            reached.set()
            await asyncio.Event().wait()

        runtime = Runtime(ScriptedAgent(work, linger), store, RuntimeOptions(cancel_timeout=60))
        await runtime.start()
        sent = await runtime.send(call(), say())
        await sent.outcome(False)
        canceling = asyncio.create_task(runtime.cancel(call(), sent.task_id))
        await reached.wait()
        await runtime.stop(0.0)
        row = await store.inner.task(SCOPE, sent.task_id)
        assert row is not None
        assert row.state == TaskState.TASK_STATE_CANCELED
        canceling.cancel()
        await asyncio.wait([canceling])

    run(main())


def test_a_refused_reply_is_no_reply() -> None:
    """A direct answer under a key: what could not be kept for the repeat is not given."""

    async def main() -> None:
        async def reply(turn: Turn) -> None:
            await turn.emit(Message(parts=[Part(text="hello")]))

        store = FaultyStore(MemoryStore())
        async with running(ScriptedAgent(reply), store) as runtime:
            store.fail_next(
                1, lambda write: write.turn is not None and not write.turn.is_open, StoreError("no")
            )
            answer = await (await runtime.send(call("key"), say())).outcome(True)
            assert answer.task.status.state == FAILED
            again = await (await runtime.send(call("key"), say())).outcome(True)
            assert again == answer

    run(main())


def test_a_reader_that_leaves_while_it_loads_takes_nobody_along() -> None:
    """SS09: several come for one stored task; the first, who loads it, breaks off."""

    async def main() -> None:
        store = SlowReads()
        async with running(ScriptedAgent(ask), store) as runtime:
            task_id = (await runtime.send(call(), say())).task_id
            await until(lambda: runtime.live_tasks == 1)
            await until(lambda: runtime.live_tasks == 0)
            store.slow_id = task_id
            first = asyncio.create_task(runtime.subscribe(SCOPE, task_id))
            await store.gate.reached.wait()
            others = [asyncio.create_task(runtime.subscribe(SCOPE, task_id)) for _ in range(3)]
            await asyncio.sleep(0)
            first.cancel()
            await asyncio.wait([first])
            store.gate.opened.set()
            for stream in await asyncio.gather(*others):
                assert parse(await anext(stream))[0].task.id == task_id

    run(main())


def test_a_store_that_fails_is_not_a_task_that_is_missing() -> None:
    async def main() -> None:
        store = SlowReads()
        async with running(ScriptedAgent(ask), store) as runtime:
            task_id = (await runtime.send(call(), say())).task_id
            await until(lambda: runtime.live_tasks == 1)
            await until(lambda: runtime.live_tasks == 0)
            store.slow_id = task_id
            reads = [asyncio.create_task(runtime.live(SCOPE, task_id)) for _ in range(2)]
            await store.gate.reached.wait()
            store.failure = StoreError("the disk failed")
            store.gate.opened.set()
            for outcome in await asyncio.gather(*reads, return_exceptions=True):
                assert isinstance(outcome, StoreError)

    run(main())


def test_a_first_send_that_is_given_up_leaves_its_key_to_the_second() -> None:
    """The client of the first vanishes before the turn begins; its retry is there already."""

    async def main() -> None:
        store = SlowReads()
        agent = ScriptedAgent(echo)
        async with running(agent, store) as runtime:
            store.slow_key = "key"
            first = asyncio.create_task(runtime.send(call("key"), say()))
            await store.gate.reached.wait()
            second = asyncio.create_task(runtime.send(call("key"), say()))
            await asyncio.sleep(0)
            first.cancel()
            await asyncio.wait([first])
            store.gate.opened.set()
            answer = await (await second).outcome(True)
            assert answer.task.status.state == COMPLETED
            assert len(agent.turns) == 1

    run(main())


class Interrupted(FaultyStore):
    """Does something once between the two reads of a task."""

    between: Callable[[], Awaitable[None]] | None = None

    async def events(
        self, scope: Scope, task_id: str, after: int, limit: int = 256
    ) -> list[LogEvent]:
        between, self.between = self.between, None
        if between is not None:
            await between()
        return await super().events(scope, task_id, after, limit)


def test_a_turn_between_the_reads_of_a_task_is_seen_whole() -> None:
    """S65: the row is read, a follow-up runs to its end, then the events are read."""

    async def main() -> None:
        store = Interrupted(MemoryStore())
        async with running(ScriptedAgent(ask), store) as runtime:
            task_id = (await runtime.send(call(), say())).task_id
            await until(lambda: runtime.live_tasks == 1)
            await until(lambda: runtime.live_tasks == 0)

            async def answer() -> None:
                await (await runtime.send(call(), say("b", task_id=task_id, mid="m2"))).outcome(
                    True
                )
                await until(lambda: runtime.live_tasks == 0)

            store.between = answer
            seen = await runtime.task(SCOPE, task_id)
            assert seen.status.state == COMPLETED
            assert seen == await runtime.task(SCOPE, task_id)
            assert "m2" in [message.message_id for message in seen.history]

    run(main())


def test_a_record_on_its_way_to_the_store_does_not_change() -> None:
    """PR01: a turn goes on after AUTH_REQUIRED, and ends while the record of that is not stored:
    a crash between the two writes has to find it open."""

    async def main() -> None:
        store = FaultyStore(MemoryStore())
        gate = Gate()

        async def work(turn: Turn) -> None:
            await turn.emit(status(TaskState.TASK_STATE_AUTH_REQUIRED))
            await gate.wait()
            await turn.emit(status(WORKING))
            await until(lambda: store.commits_waiting == 1)
            await turn.emit(status(COMPLETED))

        async with running(ScriptedAgent(work), store) as runtime:
            sent = await runtime.send(call(), say())
            await sent.outcome(True)
            store.pause()
            gate.opened.set()
            await until(lambda: runtime.running_turns == 0)
            store.go_on()
            await collect(sent.events())
            going_on = next(
                write
                for write in store.committed
                if write.task is not None and write.task.state == WORKING
            )
            assert going_on.turn is not None
            assert going_on.turn.is_open
            assert await store.open_turns() == []

    run(main())
