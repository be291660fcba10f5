"""`isolation: thread`: order, back-pressure, cancellation and the end across the border."""

import asyncio
import contextvars
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from gateway.agents import AgentError, DistantAgent, Turn, pulse
from gateway.agents.thread import MAX_BYTES, MAX_EVENTS, Mailbox, ThreadAgent
from gateway.errors import InvalidAgentResponseError
from gateway.pb import Artifact, Event, Part, TaskArtifactUpdateEvent
from tests.conftest import run
from tests.doubles.recording import RecordingTurn, run_once

Body = Callable[[Turn], Awaitable[None]]


class Scripted:
    """An agent whose methods a test gives."""

    name = "scripted"

    def __init__(self, run: Body | None = None, cancel: Body | None = None) -> None:
        self._run, self._cancel = run, cancel
        self.log: list[tuple[str, threading.Thread]] = []

    def _note(self, word: str) -> None:
        self.log.append((word, threading.current_thread()))

    async def start(self) -> None:
        self._note("start")

    async def stop(self) -> None:
        self._note("stop")

    async def run(self, turn: Turn) -> None:
        self._note("run")
        if self._run:
            await self._run(turn)

    async def cancel(self, turn: Turn) -> None:
        self._note("cancel")
        if self._cancel:
            await self._cancel(turn)


def chunk(text: str) -> TaskArtifactUpdateEvent:
    return TaskArtifactUpdateEvent(artifact=Artifact(artifact_id="a", parts=[Part(text=text)]))


def play(body: Body, turn: RecordingTurn | None = None) -> RecordingTurn:
    return run(run_once(ThreadAgent(Scripted(body)), turn or RecordingTurn("x")))


async def started(body: Body, **options: Any) -> ThreadAgent:
    agent = ThreadAgent(Scripted(body), **options)
    await agent.start()
    return agent


def test_everything_runs_in_one_other_thread() -> None:
    inner = Scripted()

    async def main() -> None:
        agent = ThreadAgent(inner)
        await agent.start()
        await agent.run(RecordingTurn())
        await agent.cancel(RecordingTurn())
        await agent.stop()
        await agent.stop()

    run(main())
    assert [word for word, _ in inner.log] == ["start", "run", "cancel", "stop"]
    assert len({thread for _, thread in inner.log}) == 1
    assert inner.log[0][1] is not threading.main_thread()
    inner.log[0][1].join(5)
    assert not inner.log[0][1].is_alive()


@pytest.mark.parametrize("number", [1, MAX_EVENTS, 20 * MAX_EVENTS + 1])
def test_events_cross_in_order(number: int) -> None:
    async def body(turn: Turn) -> None:
        for i in range(number):
            await turn.emit(chunk(f"{i} "))

    assert play(body).text == "".join(f"{i} " for i in range(number))


def test_the_turn_is_the_same_on_the_other_side() -> None:
    seen = []

    async def body(turn: Turn) -> None:
        seen.append((turn.request, turn.task_id, turn.context_id, turn.call, turn.related))

    turn = RecordingTurn("x")
    play(body, turn)
    assert seen == [(turn.request, turn.task_id, turn.context_id, turn.call, turn.related)]


def test_an_event_may_be_changed_after_it_was_taken() -> None:
    async def body(turn: Turn) -> None:
        event = chunk("a")
        await turn.emit(event)
        event.artifact.parts[0].text = "b"
        await turn.emit(event)

    assert play(body).text == "ab"


def test_context_variables_come_along() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="")

    async def body(turn: Turn) -> None:
        await turn.emit(chunk(variable.get()))

    async def main() -> str:
        agent = await started(body)
        variable.set("trace")
        turn = RecordingTurn()
        await agent.run(turn)
        await agent.stop()
        return turn.text

    assert run(main()) == "trace"


@pytest.mark.parametrize(
    ("size", "most"), [(1, MAX_EVENTS), (MAX_BYTES // 4 - 100, 4), (2 * MAX_BYTES, 1)]
)
def test_back_pressure_reaches_the_agent(size: int, most: int) -> None:
    """Where the runtime takes nothing, the agent stops after a bounded number of events."""
    emitted: list[int] = []
    stuck = threading.Event()

    async def body(turn: Turn) -> None:
        for i in range(most + 3):
            if i == most:
                asyncio.get_running_loop().call_later(0.05, stuck.set)
            await turn.emit(chunk("x" * size))
            emitted.append(i)

    async def main() -> None:
        agent = await started(body)
        turn = RecordingTurn()
        turn.gate = asyncio.Event()
        task = asyncio.create_task(agent.run(turn))
        assert await asyncio.to_thread(stuck.wait, 10)
        assert len(emitted) <= most
        turn.gate.set()
        await task
        assert len(turn.events) == most + 3
        await agent.stop()

    run(main())


def test_many_turns_at_once() -> None:
    async def body(turn: Turn) -> None:
        for i in range(100):
            await turn.emit(chunk(f"{turn.request.message.parts[0].text}{i} "))

    async def main() -> None:
        agent = await started(body)
        turns = [RecordingTurn(name) for name in "abcdefgh"]
        await asyncio.gather(*(agent.run(turn) for turn in turns))
        for turn in turns:
            name = turn.request.message.parts[0].text
            assert turn.text == "".join(f"{name}{i} " for i in range(100))
        await agent.stop()

    run(main())


def test_an_exception_of_the_agent_comes_out() -> None:
    async def body(turn: Turn) -> None:
        await turn.emit(chunk("a"))
        raise ValueError("secret-123")

    turn = RecordingTurn()
    with pytest.raises(ValueError, match="secret-123"):
        play(body, turn)
    assert turn.text == "a"


def test_an_error_of_the_runtime_reaches_the_agent() -> None:
    caught: list[Exception] = []

    async def body(turn: Turn) -> None:
        try:
            while True:
                await turn.emit(chunk("a"))
                await asyncio.sleep(0)
        except InvalidAgentResponseError as error:
            caught.append(error)

    turn = RecordingTurn()
    turn.error = InvalidAgentResponseError("does not fit")
    with pytest.raises(InvalidAgentResponseError):
        play(body, turn)
    assert caught


def test_an_error_of_the_runtime_for_the_last_event_ends_the_turn() -> None:
    async def body(turn: Turn) -> None:
        await turn.emit(chunk("a"))

    turn = RecordingTurn()
    turn.error = InvalidAgentResponseError("does not fit")
    with pytest.raises(InvalidAgentResponseError):
        play(body, turn)


def test_events_behind_a_refused_one_do_not_hide_it() -> None:
    """They crossed before the agent could know: the turn fails, as it does in the loop."""

    class Refusing(RecordingTurn):
        async def emit(self, event: Event) -> None:
            if not self.events and self.error is None:
                self.error = InvalidAgentResponseError("does not fit")
                raise self.error
            self.events.append(event)

    async def body(turn: Turn) -> None:
        for text in "abc":
            await turn.emit(chunk(text))

    turn = Refusing()
    with pytest.raises(InvalidAgentResponseError):
        play(body, turn)
    assert turn.events == []


def test_cancelling_reaches_the_agent_and_what_it_says_then_arrives() -> None:
    begun = threading.Event()

    async def body(turn: Turn) -> None:
        try:
            begun.set()
            await asyncio.Event().wait()
        finally:
            await turn.emit(chunk("cleaned"))

    async def main() -> str:
        agent = await started(body)
        turn = RecordingTurn()
        task = asyncio.create_task(agent.run(turn))
        await asyncio.to_thread(begun.wait, 5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await agent.stop()
        return turn.text

    assert run(main()) == "cleaned"


def test_cancelling_an_agent_that_waits_for_the_runtime() -> None:
    async def body(turn: Turn) -> None:
        while True:
            await turn.emit(chunk("a"))

    async def main() -> None:
        agent = await started(body)
        turn = RecordingTurn()
        turn.gate = asyncio.Event()
        task = asyncio.create_task(agent.run(turn))
        await asyncio.sleep(0.02)
        task.cancel()
        await asyncio.sleep(0.02)
        turn.gate.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        await agent.stop()

    run(main())


def test_an_agent_that_ignores_cancel_is_left_by_the_second() -> None:
    begun, ends = threading.Event(), threading.Event()
    late: list[str] = []

    async def body(turn: Turn) -> None:
        begun.set()
        while not ends.is_set():
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                continue
        for _ in range(3 * MAX_EVENTS):
            await turn.emit(chunk("late"))
        late.append("all dropped")

    async def main() -> RecordingTurn:
        agent = await started(body)
        turn = RecordingTurn()
        task = asyncio.create_task(agent.run(turn))
        await asyncio.to_thread(begun.wait, 5)
        task.cancel()
        done, _ = await asyncio.wait([task], timeout=0.05)
        assert not done
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        ends.set()
        while not late:  # noqa: ASYNC110 - the other thread has no event of this loop
            await asyncio.sleep(0.01)
        await agent.stop()
        return turn

    assert run(main()).events == []


def test_a_blocked_agent_does_not_block_the_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the gateway's readiness says that it blocks."""
    monkeypatch.setattr(pulse, "STILL_LIMIT", 0.02)
    begun, ends = threading.Event(), threading.Event()

    async def body(turn: Turn) -> None:
        begun.set()
        ends.wait(10)

    async def main() -> None:
        agent = await started(body)
        task = asyncio.create_task(agent.run(RecordingTurn()))
        assert await asyncio.to_thread(begun.wait, 5)
        # the core's loop turns while the agent's stands still
        while "blocks its loop" not in agent.fault:  # noqa: ASYNC110 - asked as a monitor does
            await asyncio.sleep(0.005)
        assert not task.done()
        ends.set()
        await task
        while agent.fault:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        await agent.stop()

    run(main())


def test_stop_is_bounded(caplog: pytest.LogCaptureFixture) -> None:
    begun, ends = threading.Event(), threading.Event()

    async def body(turn: Turn) -> None:
        begun.set()
        ends.wait(10)

    async def main() -> None:
        agent = await started(body, stop_timeout=0.05)
        task = asyncio.create_task(agent.run(RecordingTurn()))
        await asyncio.to_thread(begun.wait, 5)
        before = time.monotonic()
        await agent.stop()
        assert time.monotonic() - before < 5
        ends.set()
        await task

    run(main())
    assert "scripted did not leave its thread" in caplog.text


def test_a_failed_start_comes_out_and_leaves_no_thread() -> None:
    class Failing(Scripted):
        async def start(self) -> None:
            self._note("start")
            raise AgentError("no key")

    inner = Failing()

    async def main() -> None:
        agent = ThreadAgent(inner)
        with pytest.raises(AgentError, match="no key"):
            await agent.start()
        inner.log[0][1].join(5)
        assert not inner.log[0][1].is_alive()
        with pytest.raises(AgentError, match="not started"):
            await agent.run(RecordingTurn())

    run(main())


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
def test_a_turn_that_raises_more_than_an_exception_leaves_the_thread_alone(
    error: BaseException,
) -> None:
    async def body(turn: Turn) -> None:
        if turn.request.message.parts[0].text == "bad":
            raise error

    async def main() -> None:
        agent = await started(body)
        with pytest.raises(RuntimeError, match="more than its turn"):
            await agent.run(RecordingTurn("bad"))
        await agent.run(RecordingTurn("good"))
        await agent.stop()

    run(main())


def _exit(code: int) -> None:
    raise SystemExit(code)


def _interrupt() -> None:
    raise KeyboardInterrupt


async def _exit_in_a_task() -> None:
    _exit(3)


@pytest.mark.parametrize("fault", ["callback", "task", "interrupt", "stop"])
def test_a_background_job_that_exits_takes_nothing_with_it(
    fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The turn that left it, the turns beside it and those after it go on."""
    jobs: list[object] = []

    async def body(turn: Turn) -> None:
        if turn.request.message.parts[0].text != "bad":
            await both.wait()
            return
        loop = asyncio.get_running_loop()
        match fault:
            case "callback":
                loop.call_soon(_exit, 3)
            case "task":
                jobs.append(loop.create_task(_exit_in_a_task()))
            case "interrupt":
                loop.call_soon(_interrupt)
            case "stop":
                loop.stop()
        for _ in range(3):
            await asyncio.sleep(0)
        both.set()

    async def main() -> None:
        agent = await started(body)
        for _ in range(2):
            both.clear()
            await asyncio.gather(
                agent.run(RecordingTurn("beside")),
                agent.run(RecordingTurn("bad")),
            )
        assert agent.fault == ""
        await agent.stop()

    both = asyncio.Event()
    run(main())
    assert fault == "stop" or "left in its loop ended" in caplog.text


def test_a_thread_that_ends_all_the_same_fails_its_turns() -> None:
    """Its turns, later ones, and the gateway's readiness."""

    async def body(turn: Turn) -> None:
        agents[0]._leave.set()
        await asyncio.Event().wait()

    agents: list[ThreadAgent] = []

    async def main() -> None:
        agent = await started(body)
        agents.append(agent)
        assert isinstance(agent, DistantAgent)
        assert agent.fault == ""
        with pytest.raises((AgentError, asyncio.CancelledError)):
            await agent.run(RecordingTurn())
        with pytest.raises(AgentError, match="ended"):
            await agent.run(RecordingTurn())
        assert "ended" in agent.fault
        await agent.stop()

    run(main())


def test_a_failing_stop_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    class Failing(Scripted):
        async def stop(self) -> None:
            raise OSError("stuck")

    async def main() -> None:
        agent = ThreadAgent(Failing())
        await agent.start()
        await agent.stop()

    run(main())
    assert "scripted failed to stop" in caplog.text


def test_a_mailbox_wakes_once_for_a_batch(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        wakes = []
        call_soon = loop.call_soon_threadsafe

        def counted(callback: Any, *args: Any, **options: Any) -> Any:
            wakes.append(callback)
            return call_soon(callback, *args, **options)

        loop.call_soon_threadsafe = counted  # type: ignore[assignment,method-assign]
        mailbox, end = Mailbox(loop), asyncio.Event()
        got: list[int] = []
        mailbox.post(lambda: 1 / 0)
        for i in range(100):
            mailbox.post(got.append, i)
        mailbox.post(end.set)
        await end.wait()
        assert got == list(range(100))
        assert len(wakes) == 1

    run(main())
    assert "ZeroDivisionError" in caplog.text


def test_a_mailbox_of_a_closed_loop_is_silent() -> None:
    loop = asyncio.new_event_loop()
    loop.close()
    Mailbox(loop).post(lambda: None)


def test_events_are_handed_over_as_events() -> None:
    kinds: list[type[Event]] = []

    class Noting(RecordingTurn):
        async def emit(self, event: Event) -> None:
            kinds.append(type(event))

    async def body(turn: Turn) -> None:
        await turn.emit(chunk("a"))

    play(body, Noting())
    assert kinds == [TaskArtifactUpdateEvent]
