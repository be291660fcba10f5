"""Turns from message to answer (S48, S64, S89, R19, R22, R23, D32)."""

import asyncio

import pytest

from gateway.agents import Turn
from gateway.errors import (
    ResourceExhaustedError,
    TaskNotFoundError,
    UnavailableError,
    UnsupportedOperationError,
    ValidationError,
)
from gateway.pb import Message, Part, SendMessageResponse, TaskState
from gateway.runtime import Runtime
from gateway.store.memory import MemoryStore
from tests.conftest import run
from tests.doubles.scripted import Gate, ScriptedAgent, ask, echo, status
from tests.unit.runtime.world import SCOPE, call, collect, parse, running, say, until


def test_a_blocking_send_returns_the_finished_task() -> None:
    """S48, S63, LC07: ids agree everywhere; the user's message opens the history."""

    async def main() -> None:
        async with running(ScriptedAgent(echo)) as runtime:
            sent = await runtime.send(call(), say("hello"))
            task = (await sent.outcome(True)).task
            assert task.status.state == TaskState.TASK_STATE_COMPLETED
            assert task.artifacts[0].parts[0].text == "hello"
            assert task.history[0].message_id == "m1"
            assert {task.context_id} == {m.context_id for m in task.history}
            assert {task.id} == {m.task_id for m in task.history}
            assert await runtime.task(SCOPE, task.id) == task
            assert runtime.live_tasks == 0

    run(main())


def test_the_stream_begins_with_the_task_and_numbers_have_no_gap() -> None:
    """S68, R17."""

    async def main() -> None:
        async with running(ScriptedAgent(echo)) as runtime:
            sent = await runtime.send(call(), say())
            events = await collect(sent.events())
            assert [e.seq for e in events] == [1, 2, 3, 4]
            kinds = [r.WhichOneof("payload") for r in parse(events)]
            assert kinds == ["task", "status_update", "artifact_update", "status_update"]

    run(main())


def test_return_immediately_gives_the_task_while_the_agent_works() -> None:
    """S64, S65, R19."""

    async def main() -> None:
        gate = Gate()

        async with running(ScriptedAgent(gate.work)) as runtime:
            sent = await runtime.send(call(), say())
            task = (await sent.outcome(False)).task
            assert task.status.state == TaskState.TASK_STATE_WORKING
            gate.opened.set()
            done = (await sent.outcome(True)).task
            assert done.status.state == TaskState.TASK_STATE_COMPLETED

    run(main())


def test_a_direct_message_makes_no_task() -> None:
    """S63, R17."""

    async def reply(turn: Turn) -> None:
        await turn.emit(Message(parts=[Part(text="hello")]))

    async def main() -> None:
        async with running(ScriptedAgent(reply)) as runtime:
            sent = await runtime.send(call(), say(context_id="ctx"))
            message = (await sent.outcome(True)).message
            assert message.parts[0].text == "hello"
            assert message.context_id == "ctx"
            events = parse(await collect((await runtime.send(call(), say())).events()))
            assert [e.WhichOneof("payload") for e in events] == ["message"]
            with pytest.raises(TaskNotFoundError):
                await runtime.task(SCOPE, sent.task_id)

    run(main())


@pytest.mark.parametrize(
    "state", [TaskState.TASK_STATE_INPUT_REQUIRED, TaskState.TASK_STATE_AUTH_REQUIRED]
)
def test_interrupted_states_end_a_blocking_send(state: int) -> None:
    """ST12, S99."""

    async def interrupt(turn: Turn) -> None:
        await turn.emit(status(state))

    async def main() -> None:
        async with running(ScriptedAgent(interrupt)) as runtime:
            sent = await runtime.send(call(), say())
            assert (await sent.outcome(True)).task.status.state == state
            events = parse(await collect((await runtime.send(call(), say())).events()))
            assert events[-1].status_update.status.state == state

    run(main())


def test_a_stream_stays_open_while_the_agent_waits_for_authentication() -> None:
    """D31: AUTH_REQUIRED with the turn still running."""

    async def main() -> None:
        gate = Gate()

        async def auth(turn: Turn) -> None:
            await turn.emit(status(TaskState.TASK_STATE_AUTH_REQUIRED))
            await gate.wait()
            await turn.emit(status(TaskState.TASK_STATE_COMPLETED))

        async with running(ScriptedAgent(auth)) as runtime:
            sent = await runtime.send(call(), say())
            state = (await sent.outcome(True)).task.status.state
            assert state == TaskState.TASK_STATE_AUTH_REQUIRED
            reading = asyncio.create_task(collect(sent.events()))
            await gate.reached.wait()
            gate.opened.set()
            last = parse(await reading)[-1]
            assert last.status_update.status.state == TaskState.TASK_STATE_COMPLETED

    run(main())


def test_a_follow_up_continues_its_task() -> None:
    """LC03, S99, R22: same ids, whole history, the stream begins with the Task."""

    async def main() -> None:
        agent = ScriptedAgent(ask)
        async with running(agent) as runtime:
            first = (await (await runtime.send(call(), say("buy"))).outcome(True)).task
            sent = await runtime.send(call(), say("this", task_id=first.id, mid="m2"))
            events = parse(await collect(sent.events()))
            assert events[0].task.id == first.id
            assert [m.parts[0].text for m in events[0].task.history] == [
                "buy",
                "Which one?",
                "this",
            ]
            assert agent.turns[1].context_id == first.context_id
            task = await runtime.task(SCOPE, first.id)
            assert task.status.state == TaskState.TASK_STATE_COMPLETED
            with pytest.raises(UnsupportedOperationError):
                await runtime.send(call(), say(task_id=first.id))

    run(main())


def test_the_stream_of_a_follow_up_holds_the_whole_turn_however_late_it_is_read() -> None:
    """R16, R17: the Task as the turn found it, then each event of the turn."""

    async def main() -> None:
        async with running(ScriptedAgent(ask)) as runtime:
            first = (await (await runtime.send(call(), say("buy"))).outcome(True)).task
            sent = await runtime.send(call(), say("this", task_id=first.id, mid="m2"))
            await sent.outcome(True)
            opening, end = parse(await collect(sent.events()))
            assert opening.task.status.state == TaskState.TASK_STATE_INPUT_REQUIRED
            assert opening.task.history[-1].message_id == "m2"
            assert end.status_update.status.state == TaskState.TASK_STATE_COMPLETED

    run(main())


def test_what_does_not_fit_the_task_is_refused() -> None:
    """LC01, R22."""

    async def main() -> None:
        async with running(ScriptedAgent(ask)) as runtime:
            with pytest.raises(TaskNotFoundError, match="Task not found: no-such"):
                await runtime.send(call(), say(task_id="no-such"))
            task = (await (await runtime.send(call(), say())).outcome(True)).task
            with pytest.raises(ValidationError, match="contextId"):
                await runtime.send(call(), say(task_id=task.id, context_id="other"))
            with pytest.raises(TaskNotFoundError):
                await runtime.send(call(caller="b"), say(task_id=task.id))

    run(main())


def test_a_follow_up_to_a_running_turn_waits_for_it() -> None:
    """D32."""

    async def main() -> None:
        gate = Gate()

        async def work(turn: Turn) -> None:
            if turn.task is None:
                await turn.emit(status(TaskState.TASK_STATE_WORKING))
                await gate.wait()
                await turn.emit(status(TaskState.TASK_STATE_INPUT_REQUIRED))
            else:
                await turn.emit(status(TaskState.TASK_STATE_COMPLETED))

        agent = ScriptedAgent(work)
        async with running(agent, waiting_per_task=1) as runtime:
            first = await runtime.send(call(), say())
            task = (await first.outcome(False)).task
            second = await runtime.send(call(), say("more", task_id=task.id, mid="m2"))
            assert (await second.outcome(False)).task.id == task.id
            assert runtime.waiting_turns == 1
            with pytest.raises(ResourceExhaustedError):
                await runtime.send(call(), say(task_id=task.id))
            gate.opened.set()
            done = (await second.outcome(True)).task
            assert done.status.state == TaskState.TASK_STATE_COMPLETED
            assert [t.request.message.message_id for t in agent.turns] == ["m1", "m2"]

    run(main())


def test_a_waiting_follow_up_is_refused_when_the_task_ends_first() -> None:
    """D32."""

    async def main() -> None:
        gate = Gate()

        async with running(ScriptedAgent(gate.work)) as runtime:
            first = await runtime.send(call(), say())
            task = (await first.outcome(False)).task
            second = await runtime.send(call(), say(task_id=task.id, mid="m2"))
            gate.opened.set()
            with pytest.raises(UnsupportedOperationError, match="has ended"):
                await second.outcome(True)

    run(main())


def test_an_acknowledged_follow_up_that_the_end_overtakes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """D32: its sender, who does not wait, sees that it is not in the history of the ended task;
    sent again, it is refused, also under its key."""

    async def main() -> None:
        gate = Gate()

        async with running(ScriptedAgent(gate.work)) as runtime:
            first = await runtime.send(call(), say())
            task = (await first.outcome(False)).task
            again = say(task_id=task.id, mid="m2")
            second = await runtime.send(call("key"), again)
            assert (await second.outcome(False)).task.id == task.id
            gate.opened.set()
            done = (await first.outcome(True)).task
            assert [message.message_id for message in done.history] == ["m1"]
            await until(lambda: not runtime.live_tasks)
            with pytest.raises(UnsupportedOperationError, match="has ended"):
                await runtime.send(call("key"), again)

    with caplog.at_level("INFO"):
        run(main())
    assert "has ended before the message's turn came" in caplog.text


def test_an_exclusive_context_takes_one_turn_at_a_time() -> None:
    """D26, S92, S93."""

    async def main() -> None:
        gate = Gate()

        async with running(ScriptedAgent(gate.work), exclusive=True) as runtime:
            first = await runtime.send(call(), say(context_id="c"))
            with pytest.raises(UnsupportedOperationError, match=r"Task is already working\."):
                await runtime.send(call(), say(context_id="c"))
            other = await runtime.send(call(), say(context_id="d"))
            gate.opened.set()
            await first.outcome(True)
            await other.outcome(True)
            await (await runtime.send(call(), say(context_id="c"))).outcome(True)

    run(main())


def test_limits_refuse_and_never_lose() -> None:
    """S114, S185: over the limit turns wait, over that they are refused."""

    async def main() -> None:
        gate = Gate()

        async def work(turn: Turn) -> None:
            await gate.wait()
            await echo(turn)

        async with running(ScriptedAgent(work), running=1, waiting=1) as runtime:
            first = await runtime.send(call(), say())
            await gate.reached.wait()
            second = await runtime.send(call(), say())
            await until(lambda: runtime.waiting_turns == 1)
            with pytest.raises(ResourceExhaustedError):
                await runtime.send(call(), say())
            gate.opened.set()
            for sent in (first, second):
                assert (await sent.outcome(True)).task.id == sent.task_id

    run(main())


def test_limits_hold_for_messages_that_come_together() -> None:
    """S114, S185: what is being recorded counts; who needs not wait is not refused because others
    do, and no room to wait in does not mean no room at all."""

    async def main() -> None:
        for waiting in (0, 2):
            gate = Gate()

            async def work(turn: Turn, gate: Gate = gate) -> None:
                await gate.wait()
                await echo(turn)

            async with running(ScriptedAgent(work), running=2, waiting=waiting) as runtime:
                sends = [runtime.send(call(), say(mid=f"m{n}")) for n in range(6)]
                sent = await asyncio.gather(*sends, return_exceptions=True)
                taken = [one for one in sent if not isinstance(one, BaseException)]
                refused = [one for one in sent if isinstance(one, ResourceExhaustedError)]
                assert (len(taken), len(refused)) == (2 + waiting, 4 - waiting)
                await until(lambda: runtime.running_turns == 2)
                gate.opened.set()
                for one in taken:
                    await one.outcome(True)

    run(main())


def test_referenced_tasks_reach_the_agent_when_the_caller_may_see_them() -> None:
    """S60, S100."""

    async def main() -> None:
        agent = ScriptedAgent(echo)
        async with running(agent) as runtime:
            own = (await (await runtime.send(call(), say("own"))).outcome(True)).task
            foreign = await runtime.send(call(caller="b"), say("foreign"))
            await foreign.outcome(True)
            request = say("again")
            request.message.reference_task_ids.extend([own.id, foreign.task_id, "unknown"])
            await (await runtime.send(call(), request)).outcome(True)
            assert [t.id for t in agent.turns[-1].related] == [own.id]

    run(main())


def test_a_stopping_runtime_takes_no_message() -> None:
    async def main() -> None:
        async with running(ScriptedAgent(echo)) as runtime:
            await runtime.stop(0.0)
            with pytest.raises(UnavailableError):
                await runtime.send(call(), say())

    run(main())


def test_stopping_lets_turns_end_and_fails_those_that_do_not() -> None:
    """S184 and the ordered stop."""

    async def main() -> None:
        gate = Gate()

        async def work(turn: Turn) -> None:
            await turn.emit(status(TaskState.TASK_STATE_WORKING))
            await gate.wait()

        async with running(ScriptedAgent(work)) as runtime:
            sent = await runtime.send(call(), say())
            await gate.reached.wait()
            reading = asyncio.create_task(sent.outcome(True))
            await runtime.stop(0.05)
            response: SendMessageResponse = await reading
            assert response.task.status.state == TaskState.TASK_STATE_FAILED

    run(main())


def test_a_start_that_is_given_up_can_be_stopped() -> None:
    """A signal may come while the agent still makes itself ready."""

    class Slow(ScriptedAgent):
        async def start(self) -> None:
            await asyncio.Event().wait()

    async def main() -> None:
        runtime = Runtime(Slow(echo), MemoryStore())
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await runtime.start()
        await runtime.stop()

    run(main())
