"""What becomes of a turn whose agent fails or breaks the rules (GR03, GR07, PR01, SS03, ST03)."""

import asyncio

import pytest

from gateway.agents import AgentError, Turn
from gateway.errors import (
    ContentTypeNotSupportedError,
    InvalidAgentResponseError,
    TaskNotFoundError,
)
from gateway.freeform import MAX_NESTING
from gateway.pb import Artifact, Event, Message, Part, Task, TaskArtifactUpdateEvent, TaskState
from tests.conftest import run
from tests.doubles.scripted import ScriptedAgent, chunk, echo, status
from tests.unit.runtime.world import SCOPE, call, collect, parse, running, say


def test_an_agent_that_raises_before_any_event_gives_an_error_and_no_task() -> None:
    """GR03: neutral text; an A2A error keeps its own."""

    async def fail(turn: Turn) -> None:
        raise ValueError("secret-123")

    async def refuse(turn: Turn) -> None:
        raise ContentTypeNotSupportedError("only text")

    async def main() -> None:
        async with running(ScriptedAgent(fail)) as runtime:
            sent = await runtime.send(call(), say())
            with pytest.raises(ValueError, match="secret"):
                await sent.outcome(True)
            with pytest.raises(ValueError, match="secret"):
                await collect((await runtime.send(call(), say())).events())
            with pytest.raises(TaskNotFoundError):
                await runtime.task(SCOPE, sent.task_id)
        async with running(ScriptedAgent(refuse)) as runtime:
            with pytest.raises(ContentTypeNotSupportedError):
                await (await runtime.send(call(), say())).outcome(True)

    run(main())


@pytest.mark.parametrize("error", [ValueError("no model"), SystemExit("no model")])
def test_an_agent_whose_start_raises(error: BaseException) -> None:
    """It is the agent's fault for the operator, and not the core's."""

    class Failing(ScriptedAgent):
        async def start(self) -> None:
            raise error

    async def main() -> None:
        with pytest.raises(AgentError, match=r"agent scripted: its start failed: .*no model"):
            async with running(Failing(echo)):
                pass

    run(main())


@pytest.mark.parametrize("error", [ValueError("stuck"), SystemExit("stuck")])
def test_an_agent_whose_stop_raises(error: BaseException, caplog: pytest.LogCaptureFixture) -> None:
    class Failing(ScriptedAgent):
        async def stop(self) -> None:
            raise error

    async def main() -> None:
        async with running(Failing(echo)) as runtime:
            await (await runtime.send(call(), say())).outcome(True)

    run(main())
    assert "agent scripted failed to stop" in caplog.text
    assert "stuck" in caplog.text


def test_an_agent_that_raises_later_fails_its_task_without_its_text() -> None:
    """SS03, S176, D30."""

    async def fail(turn: Turn) -> None:
        await turn.emit(chunk("one"))
        await turn.emit(chunk("two"))
        raise ValueError("secret-123")

    async def main() -> None:
        async with running(ScriptedAgent(fail)) as runtime:
            events = parse(await collect((await runtime.send(call(), say())).events()))
            last = events[-1].status_update.status
            assert last.state == TaskState.TASK_STATE_FAILED
            assert "secret" not in str(events)
            assert "reference" in last.message.parts[0].text

    run(main())


def test_an_agent_that_ends_without_finishing_fails_its_task() -> None:
    """PR01: no task is WORKING without a runner."""

    async def half(turn: Turn) -> None:
        await turn.emit(status(TaskState.TASK_STATE_WORKING))

    async def none(turn: Turn) -> None:
        return

    async def main() -> None:
        async with running(ScriptedAgent(half)) as runtime:
            task = (await (await runtime.send(call(), say())).outcome(True)).task
            assert task.status.state == TaskState.TASK_STATE_FAILED
        async with running(ScriptedAgent(none)) as runtime:
            with pytest.raises(InvalidAgentResponseError):
                await (await runtime.send(call(), say())).outcome(True)

    run(main())


def test_events_after_the_end_change_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """ST03, D28, S100; one line of the log for a turn, however long its agent goes on."""
    caplog.set_level("INFO", "gateway.runtime")

    async def late(turn: Turn) -> None:
        await turn.emit(status(TaskState.TASK_STATE_COMPLETED))
        await turn.emit(status(TaskState.TASK_STATE_WORKING))
        await turn.emit(status(TaskState.TASK_STATE_FAILED))
        await turn.emit(chunk("late"))

    async def main() -> None:
        async with running(ScriptedAgent(late)) as runtime:
            sent = await runtime.send(call(), say())
            events = await collect(sent.events())
            assert [e.seq for e in events] == [1, 2]
            task = await runtime.task(SCOPE, sent.task_id)
            assert task.status.state == TaskState.TASK_STATE_COMPLETED
            assert not task.artifacts

    run(main())
    assert sum("came after its end" in record.getMessage() for record in caplog.records) == 1


def test_events_that_do_not_fit_are_the_agents_fault() -> None:
    """R17 and the ids of events."""
    wrong = [
        Task(id="other"),
        chunk("x", artifact_id=""),
        status(TaskState.TASK_STATE_UNSPECIFIED),
        "text",
    ]

    async def main() -> None:
        for event in wrong:

            async def emit(turn: Turn, event: object = event) -> None:
                await turn.emit(event)  # type: ignore[arg-type]

            async with running(ScriptedAgent(emit)) as runtime:
                with pytest.raises(InvalidAgentResponseError):
                    await (await runtime.send(call(), say())).outcome(True)

    run(main())


def test_an_event_over_the_limit_fails_the_task_in_words() -> None:
    """GR07."""

    async def big(turn: Turn) -> None:
        await turn.emit(chunk("small"))
        await turn.emit(chunk("x" * 2000))

    async def main() -> None:
        async with running(ScriptedAgent(big), event_bytes=1000) as runtime:
            task = (await (await runtime.send(call(), say())).outcome(True)).task
            assert task.status.state == TaskState.TASK_STATE_FAILED
            assert "limit is 1000" in task.status.message.parts[0].text

    run(main())


class Outside(BaseException):
    """A kind that a library made up, as test tools and other loops do."""


BEYOND = [
    SystemExit(3),
    KeyboardInterrupt(),
    GeneratorExit(),
    Outside(),
    BaseExceptionGroup("several", [KeyboardInterrupt(), ValueError()]),
]


@pytest.mark.parametrize("error", BEYOND, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("has_begun", [False, True])
def test_an_agent_that_raises_more_than_an_exception_ends_its_turn_only(
    error: BaseException, has_begun: bool
) -> None:
    """GR03: the loop goes on, and nobody waits for ever."""

    async def leave(turn: Turn) -> None:
        if has_begun:
            await turn.emit(status(TaskState.TASK_STATE_WORKING))
        raise error

    async def main() -> None:
        async with running(ScriptedAgent(leave)) as runtime:
            sent = await runtime.send(call(), say())
            if has_begun:
                done = (await sent.outcome(True)).task
                assert done.status.state == TaskState.TASK_STATE_FAILED
            else:
                with pytest.raises(RuntimeError, match="more than its turn"):
                    await sent.outcome(True)
            assert runtime.running_turns == 0

    run(main())


@pytest.mark.parametrize("error", BEYOND, ids=lambda error: type(error).__name__)
def test_a_cancel_that_raises_more_than_an_exception_still_cancels(error: BaseException) -> None:
    async def work(turn: Turn) -> None:
        await turn.emit(status(TaskState.TASK_STATE_WORKING))
        await asyncio.Event().wait()

    async def leave(turn: Turn) -> None:
        raise error

    async def main() -> None:
        async with running(ScriptedAgent(work, leave)) as runtime:
            sent = await runtime.send(call(), say())
            await sent.outcome(False)
            task = await runtime.cancel(call(), sent.task_id)
            assert task.status.state == TaskState.TASK_STATE_CANCELED

    run(main())


def _holding(number: float, depth: int = 0) -> Part:
    part = Part()
    inner = part.data
    for _ in range(depth):
        inner = inner.list_value.values.add()
    inner.number_value = number
    return part


def _at(seconds: int) -> Event:
    event = status(TaskState.TASK_STATE_WORKING)
    event.status.timestamp.seconds = seconds
    return event


def _artifact(part: Part) -> Event:
    return TaskArtifactUpdateEvent(artifact=Artifact(artifact_id="a", parts=[part]))


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (_artifact(_holding(float("nan"))), "NaN"),
        (Message(parts=[_holding(float("inf"))]), "NaN"),
        (Task(artifacts=[Artifact(artifact_id="a", parts=[_holding(float("inf"))])]), "NaN"),
        (_artifact(_holding(1.0, MAX_NESTING + 1)), "nests"),
        (Message(parts=[_holding(1.0, MAX_NESTING + 1)]), "nests"),
        (status(99), "99 is no task state"),
        (Task(artifacts=[Artifact(parts=[Part(text="x")])]), "needs an artifact_id"),
        (Task(artifacts=[Artifact(artifact_id="a")] * 2), "the same artifact_id"),
        (Message(parts=[Part(text="x" * 2000)]), "the limit is 1000"),
        (_at(10**15), "years 1 to 9999"),
    ],
)
def test_what_not_every_door_could_give_back_is_refused(event: Event, reason: str) -> None:
    """PB08, S103: one such value would make every page of ListTasks that holds its task
    unreadable, and the log, too, at the next start; artifacts are told apart by their ids."""

    async def emit(turn: Turn) -> None:
        await turn.emit(event)

    async def main() -> None:
        async with running(ScriptedAgent(emit), event_bytes=1000) as runtime:
            with pytest.raises(InvalidAgentResponseError, match=reason):
                await (await runtime.send(call(), say())).outcome(True)

    run(main())


def test_values_as_deep_as_every_door_gives_back() -> None:
    async def emit(turn: Turn) -> None:
        await turn.emit(_artifact(_holding(1.0, MAX_NESTING)))
        await turn.emit(status(TaskState.TASK_STATE_COMPLETED))

    async def main() -> None:
        async with running(ScriptedAgent(emit)) as runtime:
            done = (await (await runtime.send(call(), say())).outcome(True)).task
            assert done.artifacts[0].parts[0] == _holding(1.0, MAX_NESTING)

    run(main())
