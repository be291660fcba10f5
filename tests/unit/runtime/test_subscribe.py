"""Subscriptions and cursors (S71, S73, R16, R18; SS06, SS07, SS09, ST05, ST07, ML02)."""

import asyncio
from collections.abc import AsyncIterator
from typing import cast

import pytest

from gateway.agents import Turn
from gateway.errors import TaskNotFoundError, UnsupportedOperationError, ValidationError
from gateway.pb import TaskState
from gateway.store import LogEvent
from tests.conftest import run
from tests.doubles.scripted import Gate, ScriptedAgent, ask, chunk, echo, status
from tests.unit.runtime.world import SCOPE, call, collect, parse, running, say


def _flood(gate: Gate, count: int, size: int = 1) -> ScriptedAgent:
    """First one chunk; after the gate `count` more; completes."""

    async def work(turn: Turn) -> None:
        await turn.emit(chunk("x" * size, append=False))
        await gate.wait()
        for _ in range(count):
            await turn.emit(chunk("x" * size))
        await turn.emit(status(TaskState.TASK_STATE_COMPLETED))

    return ScriptedAgent(work)


def test_a_subscriber_gets_the_task_then_what_follows() -> None:
    """R18, S73: the snapshot names its place, events go on at the next number."""

    async def main() -> None:
        gate = Gate()
        async with running(_flood(gate, 3)) as runtime:
            sent = await runtime.send(call(), say())
            await sent.outcome(False)
            await gate.reached.wait()
            one = await runtime.subscribe(SCOPE, sent.task_id)
            first = await anext(one)
            assert first[0].seq == 2
            assert parse(first)[0].task.artifacts[0].parts[0].text == "x"
            two = await runtime.subscribe(SCOPE, sent.task_id)
            assert await anext(two) == first
            gate.opened.set()
            rest = await collect(one)
            assert [e.seq for e in rest] == [3, 4, 5, 6]
            assert await collect(two) == rest

    run(main())


def test_subscribing_to_an_ended_or_unknown_task() -> None:
    """ST05."""

    async def main() -> None:
        async with running(ScriptedAgent(echo)) as runtime:
            sent = await runtime.send(call(), say())
            await sent.outcome(True)
            with pytest.raises(UnsupportedOperationError):
                await runtime.subscribe(SCOPE, sent.task_id)
            for scope, task_id in ((SCOPE, "unknown"), (SCOPE._replace(caller="b"), sent.task_id)):
                with pytest.raises(TaskNotFoundError):
                    await runtime.subscribe(scope, task_id)

    run(main())


def test_a_cursor_replays_the_rest_of_an_ended_task() -> None:
    """T13: a stream that resumes without a gap."""

    async def main() -> None:
        async with running(ScriptedAgent(echo)) as runtime:
            sent = await runtime.send(call(), say())
            whole = await collect(sent.events())
            for after in range(5):
                rest = await collect(await runtime.subscribe(SCOPE, sent.task_id, after))
                assert rest == whole[after:]
            with pytest.raises(ValidationError, match="last-event-id"):
                await collect(await runtime.subscribe(SCOPE, sent.task_id, 99))

    run(main())


def test_a_subscriber_of_an_interrupted_task_sees_the_next_turn() -> None:
    """ST07, D31: the subscription outlives the turn."""

    async def main() -> None:
        async with running(ScriptedAgent(ask)) as runtime:
            sent = await runtime.send(call(), say())
            await sent.outcome(True)
            assert runtime.live_tasks == 0
            stream = await runtime.subscribe(SCOPE, sent.task_id)
            first = parse(await anext(stream))[0].task
            assert first.status.state == TaskState.TASK_STATE_INPUT_REQUIRED
            await runtime.send(call(), say("this", task_id=sent.task_id, mid="m2"))
            last = parse(await collect(stream))[-1]
            assert last.status_update.status.state == TaskState.TASK_STATE_COMPLETED
            assert runtime.live_tasks == 0

    run(main())


def test_a_slow_reader_gets_everything_and_slows_nobody() -> None:
    """SS06, ML02: what has left memory is read from the store, in order, without a gap."""

    async def main() -> None:
        gate = Gate()
        gate.opened.set()
        async with running(_flood(gate, 3000, 100)) as runtime:
            sent = await runtime.send(call(), say())
            slow = sent.events()
            begun = await anext(slow)
            assert begun[0].seq == 1
            fast = await collect(await runtime.subscribe(SCOPE, sent.task_id, 0))
            assert [e.seq for e in fast] == list(range(1, 3004))
            assert runtime.running_turns == 0
            assert begun + await collect(slow) == fast

    run(main())


def test_a_reader_that_leaves_touches_nothing() -> None:
    """SS07, SS09, S85: the task goes on, nothing of the reader stays."""

    async def main() -> None:
        gate = Gate()
        async with running(_flood(gate, 1)) as runtime:
            sent = await runtime.send(call(), say())
            await sent.outcome(False)
            for _ in range(200):
                stream = await runtime.subscribe(SCOPE, sent.task_id)
                await anext(stream)
                reading = asyncio.create_task(collect(stream))
                await asyncio.sleep(0)
                reading.cancel()
                await asyncio.wait([reading])
            assert runtime.readers == 0
            live = await runtime.live(SCOPE, sent.task_id)
            assert not live._waiters
            gate.opened.set()
            done = (await sent.outcome(True)).task
            assert done.status.state == TaskState.TASK_STATE_COMPLETED

    run(main())


def test_giving_up_a_blocking_send_does_not_touch_the_task() -> None:
    """GR10."""

    async def main() -> None:
        gate = Gate()
        async with running(_flood(gate, 1)) as runtime:
            sent = await runtime.send(call(), say())
            waiting = asyncio.create_task(sent.outcome(True))
            await gate.reached.wait()
            waiting.cancel()
            await asyncio.wait([waiting])
            gate.opened.set()
            done = (await sent.outcome(True)).task
            assert done.status.state == TaskState.TASK_STATE_COMPLETED

    run(main())


def test_an_abandoned_generator_is_cleaned_up() -> None:
    async def main() -> None:
        gate = Gate()
        async with running(_flood(gate, 1)) as runtime:
            sent = await runtime.send(call(), say())
            stream = cast(AsyncIterator[list[LogEvent]], sent.events())
            await anext(stream)
            await stream.aclose()  # type: ignore[attr-defined]
            assert runtime.readers == 0
            gate.opened.set()
            await sent.outcome(True)

    run(main())
