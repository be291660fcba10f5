"""Sends that can be retried: one outcome for one idempotency key (S183)."""

import asyncio

import pytest

from gateway.agents import Turn
from gateway.errors import ValidationError
from gateway.pb import Message, Part, TaskState
from gateway.store import StoreError
from gateway.store.memory import MemoryStore
from tests.conftest import run
from tests.doubles.scripted import Gate, ScriptedAgent, ask, chunk, echo, status
from tests.doubles.store import FaultyStore
from tests.unit.runtime.world import call, collect, running, say, until


def test_a_repeat_gives_the_first_outcome_and_runs_nothing() -> None:
    async def main() -> None:
        agent = ScriptedAgent(echo)
        async with running(agent) as runtime:
            first = await (await runtime.send(call("k"), say())).outcome(True)
            again = await (await runtime.send(call("k"), say())).outcome(True)
            assert again == first
            assert len(agent.turns) == 1
            other = await (await runtime.send(call("k", caller="b"), say())).outcome(True)
            assert other.task.id != first.task.id

    run(main())


def test_a_key_belongs_to_one_request() -> None:
    async def main() -> None:
        async with running(ScriptedAgent(echo)) as runtime:
            await (await runtime.send(call("k"), say("one"))).outcome(True)
            with pytest.raises(ValidationError, match="idempotency-key"):
                await runtime.send(call("k"), say("two"))

    run(main())


def test_repeats_while_the_turn_runs_join_it() -> None:
    async def main() -> None:
        gate = Gate()

        async def work(turn: Turn) -> None:
            await turn.emit(chunk("a", append=False))
            await gate.wait()
            await turn.emit(status(TaskState.TASK_STATE_COMPLETED))

        agent = ScriptedAgent(work)
        async with running(agent) as runtime:
            sends = await asyncio.gather(*(runtime.send(call("k"), say()) for _ in range(5)))
            await gate.reached.wait()
            with pytest.raises(ValidationError):
                await runtime.send(call("k"), say("another"))
            gate.opened.set()
            outcomes = [await sent.outcome(True) for sent in sends]
            assert len({o.task.id for o in outcomes}) == 1
            assert len(agent.turns) == 1

    run(main())


def test_a_repeated_stream_goes_on_behind_its_cursor() -> None:
    async def main() -> None:
        async with running(ScriptedAgent(echo)) as runtime:
            whole = await collect((await runtime.send(call("k"), say())).events())
            for after in (None, 0, 1, 3, 4):
                sent = await runtime.send(call("k"), say())
                assert await collect(sent.events(after)) == whole[after or 0 :]

    run(main())


def test_a_direct_message_is_kept_under_its_key() -> None:
    async def reply(turn: Turn) -> None:
        await turn.emit(Message(parts=[Part(text="hello")]))

    async def main() -> None:
        agent = ScriptedAgent(reply)
        async with running(agent) as runtime:
            first = await (await runtime.send(call("k"), say())).outcome(True)
            sent = await runtime.send(call("k"), say())
            assert await sent.outcome(True) == first
            assert len(await collect(sent.events())) == 1
            assert len(agent.turns) == 1

    run(main())


def test_a_repeat_of_a_question_gives_the_task_as_it_stands() -> None:
    async def main() -> None:
        agent = ScriptedAgent(ask)
        async with running(agent) as runtime:
            sent = await runtime.send(call("k"), say())
            first = await sent.outcome(True)
            again = await runtime.send(call("k"), say())
            assert (await again.outcome(True)).task == first.task
            events = await collect(again.events())
            assert [e.seq for e in events] == [1, 2]

    run(main())


def test_a_send_that_failed_may_be_tried_again() -> None:
    """What gave no answer at all leaves the key free."""
    tries = []

    async def second_time_lucky(turn: Turn) -> None:
        tries.append(turn)
        if len(tries) == 1:
            raise ValueError("first")
        await echo(turn)

    async def main() -> None:
        store = FaultyStore(MemoryStore())
        async with running(ScriptedAgent(second_time_lucky), store) as runtime:
            with pytest.raises(ValueError, match="first"):
                await (await runtime.send(call("k"), say())).outcome(True)
            await runtime.journal.flush()
            await until(lambda: not runtime.keys)
            task = (await (await runtime.send(call("k"), say())).outcome(True)).task
            assert task.status.state == TaskState.TASK_STATE_COMPLETED
            store.fail_next(1, error=StoreError("full"))
            with pytest.raises(Exception, match="could not be stored"):
                await (await runtime.send(call("k2"), say())).outcome(True)
            await until(lambda: not runtime.keys)
            await (await runtime.send(call("k2"), say())).outcome(True)

    run(main())
