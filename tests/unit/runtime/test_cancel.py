"""Cancelling (S81, D29; ST04, ST14)."""

import asyncio

import pytest

from gateway.agents import Turn
from gateway.errors import TaskNotCancelableError, TaskNotFoundError
from gateway.pb import Task, TaskState
from tests.conftest import run
from tests.doubles.scripted import Gate, ScriptedAgent, ask, echo, status
from tests.unit.runtime.world import SCOPE, call, collect, parse, running, say, until

CANCELED = TaskState.TASK_STATE_CANCELED


async def forever(turn: Turn) -> None:
    await turn.emit(status(TaskState.TASK_STATE_WORKING))
    await asyncio.Event().wait()


def test_cancel_reaches_the_agent_and_ends_the_stream() -> None:
    """S81, ST14."""

    async def main() -> None:
        agent = ScriptedAgent(forever)
        async with running(agent) as runtime:
            sent = await runtime.send(call(), say())
            await sent.outcome(False)
            reading = asyncio.create_task(collect(sent.events()))
            task = await runtime.cancel(call(), sent.task_id)
            assert task.status.state == CANCELED
            assert agent.canceled == agent.turns
            seen = agent.canceled[0].task
            assert seen is not None
            assert seen.status.state == TaskState.TASK_STATE_WORKING
            assert parse(await reading)[-1].status_update.status.state == CANCELED
            assert runtime.running_turns == 0
            again = await (await runtime.send(call(), say(context_id=task.context_id))).outcome(
                False
            )
            assert again.task.context_id == task.context_id

    run(main())


def test_a_second_cancel_gives_the_same_task() -> None:
    """ST04; two at once as well."""

    async def main() -> None:
        agent = ScriptedAgent(forever)
        async with running(agent) as runtime:
            sent = await runtime.send(call(), say())
            await sent.outcome(False)
            tasks: list[Task] = await asyncio.gather(
                *(runtime.cancel(call(), sent.task_id) for _ in range(3))
            )
            tasks.append(await runtime.cancel(call(), sent.task_id))
            assert all(task == tasks[0] for task in tasks)
            assert len(agent.canceled) == 1

    run(main())


def test_an_ended_task_cannot_be_canceled() -> None:
    """ST04."""

    async def main() -> None:
        async with running(ScriptedAgent(echo)) as runtime:
            sent = await runtime.send(call(), say())
            await sent.outcome(True)
            with pytest.raises(TaskNotCancelableError):
                await runtime.cancel(call(), sent.task_id)
            with pytest.raises(TaskNotFoundError):
                await runtime.cancel(call(caller="b"), sent.task_id)

    run(main())


def test_an_interrupted_task_is_canceled_and_its_agent_told() -> None:
    """D29."""

    async def main() -> None:
        agent = ScriptedAgent(ask)
        async with running(agent) as runtime:
            sent = await runtime.send(call(), say())
            await sent.outcome(True)
            task = await runtime.cancel(call(), sent.task_id)
            assert task.status.state == CANCELED
            assert [t.task_id for t in agent.canceled] == [sent.task_id]
            assert (await runtime.task(SCOPE, sent.task_id)) == task

    run(main())


def test_an_agent_that_completes_while_it_is_canceled_wins() -> None:
    """Completion and cancel: one of them, cleanly."""

    async def finish(turn: Turn) -> None:
        await turn.emit(status(TaskState.TASK_STATE_COMPLETED))

    async def main() -> None:
        async with running(ScriptedAgent(forever, finish)) as runtime:
            sent = await runtime.send(call(), say())
            await sent.outcome(False)
            with pytest.raises(TaskNotCancelableError, match="COMPLETED"):
                await runtime.cancel(call(), sent.task_id)
            task = await runtime.task(SCOPE, sent.task_id)
            assert task.status.state == TaskState.TASK_STATE_COMPLETED

    run(main())


def test_an_agent_that_ignores_cancel_is_abandoned() -> None:
    async def main() -> None:
        gate = Gate()

        async def stubborn(turn: Turn) -> None:
            await turn.emit(status(TaskState.TASK_STATE_WORKING))
            for _ in range(3):
                try:
                    await gate.wait()
                except asyncio.CancelledError:
                    continue
            await turn.emit(status(TaskState.TASK_STATE_COMPLETED))

        async with running(ScriptedAgent(stubborn), cancel_timeout=0.05) as runtime:
            sent = await runtime.send(call(), say())
            await sent.outcome(False)
            await gate.reached.wait()
            task = await runtime.cancel(call(), sent.task_id)
            assert task.status.state == CANCELED
            gate.opened.set()
            await asyncio.sleep(0)
            assert (await runtime.task(SCOPE, sent.task_id)).status.state == CANCELED

    run(main())


def test_a_cancel_that_raises_still_cancels() -> None:
    async def broken(turn: Turn) -> None:
        raise RuntimeError("no")

    async def main() -> None:
        async with running(ScriptedAgent(forever, broken)) as runtime:
            sent = await runtime.send(call(), say())
            await sent.outcome(False)
            assert (await runtime.cancel(call(), sent.task_id)).status.state == CANCELED

    run(main())


def test_a_turn_that_waits_for_its_place_can_be_canceled() -> None:
    async def main() -> None:
        agent = ScriptedAgent(ask)
        gate = Gate()

        async def hold(turn: Turn) -> None:
            if turn.request.message.parts[0].text == "hold":
                await gate.wait()
            await ask(turn)

        agent = ScriptedAgent(hold)
        async with running(agent, running=1) as runtime:
            sent = await runtime.send(call(), say())
            await sent.outcome(True)
            await runtime.send(call(), say("hold"))
            await gate.reached.wait()
            await runtime.send(call(), say("later", task_id=sent.task_id))
            await until(lambda: runtime.waiting_turns == 1)
            assert (await runtime.cancel(call(), sent.task_id)).status.state == CANCELED
            assert runtime.waiting_turns == 0
            gate.opened.set()

    run(main())
