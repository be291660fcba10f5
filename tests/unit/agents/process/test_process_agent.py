"""`isolation: process`: what an agent does to its process takes nothing with it."""

import asyncio
import logging
import os
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from gateway.agents import AgentError, pulse
from gateway.agents.kinds import Settings
from gateway.agents.loader import load
from gateway.agents.process import agent as process_agent
from gateway.agents.process import life
from gateway.agents.process.agent import NOT_RUNNING, ProcessAgent
from gateway.agents.process.frames import MAX_EVENTS
from gateway.agents.process.life import AgentFailureError
from gateway.call import Call
from gateway.errors import FailureError, InvalidAgentResponseError
from gateway.pb import Task
from tests.conftest import run
from tests.doubles.recording import RecordingTurn
from tests.processes import is_alive

SPEC = "tests.doubles.isolated:agent"


def make(spec: str = SPEC, secret_names: tuple[str, ...] = (), **settings: Any) -> ProcessAgent:
    options = Settings(**settings)
    agent = load(spec, isolation="process", secret_names=secret_names, settings=options)
    assert isinstance(agent, ProcessAgent)
    return agent


@asynccontextmanager
async def started(spec: str = SPEC, **settings: Any) -> AsyncIterator[ProcessAgent]:
    agent = make(spec, **settings)
    await agent.start()
    try:
        yield agent
    finally:
        await agent.stop()


async def say(agent: ProcessAgent, text: str, **turn: Any) -> RecordingTurn:
    said = RecordingTurn(text, **turn)
    await agent.run(said)
    return said


async def until(is_so: Callable[[], object], seconds: float = 10.0) -> None:
    async with asyncio.timeout(seconds):
        while not is_so():  # noqa: ASYNC110 - another process has no event of ours
            await asyncio.sleep(0.01)


# What it does


def test_turns_run_elsewhere() -> None:
    async def main() -> None:
        async with started() as agent:
            turn = await say(agent, "pid")
            assert turn.states == ["WORKING", "COMPLETED"]
            assert int(turn.text) != os.getpid()
            assert (await say(agent, "pid")).text == turn.text
            assert agent.fault == ""
            assert agent.card == {"name": "Isolated", "description": "Runs apart."}

    run(main())


def test_the_agent_sees_the_same_turn() -> None:
    call = Call(
        "http",
        {"authorization": "x", "x-key": "y", "traceparent": "z"},
        caller="alice",
        tenant="t",
        extensions=("urn:a",),
        deadline=time.monotonic() + 60,
    )

    async def main() -> Any:
        async with started(secret_names=("x-key",)) as agent:
            task = Task(id="task-1")
            turn = await say(agent, "seen", call=call, task=task, related=[Task(id="other")])
            return turn.parts[0].data.struct_value

    seen = run(main())
    assert seen["caller"] == "alice"
    assert seen["tenant"] == "t"
    assert list(seen["extensions"]) == ["urn:a"]
    assert dict(seen["metadata"].fields) == {"traceparent": seen["metadata"].fields["traceparent"]}
    assert (seen["task"], seen["context"]) == ("task-1", "context-1")
    assert list(seen["related"]) == ["other"]
    assert seen["left"] is True


def test_the_memory_of_a_context_stays_there() -> None:
    async def main() -> None:
        async with started() as agent:
            assert [(await say(agent, "remember")).text for _ in range(3)] == ["1", "2", "3"]
            other = Call("test", caller="bob")
            assert (await say(agent, "remember", call=other)).text == "1"

    run(main())


@pytest.mark.parametrize("count", [1, MAX_EVENTS, 20 * MAX_EVENTS + 1])
def test_events_come_in_order(count: int) -> None:
    async def main() -> RecordingTurn:
        async with started() as agent:
            return await say(agent, f"flood {count}")

    assert run(main()).text == "".join(f"{number} " for number in range(count))


def test_what_is_not_stored_holds_the_agent_up(tmp_path: Path) -> None:
    async def main() -> None:
        async with started() as agent:
            turn = RecordingTurn("flood 1000")
            turn.gate = asyncio.Event()
            running = asyncio.create_task(agent.run(turn))
            assert (await say(agent, "others go on")).text == "others go on"
            await asyncio.sleep(0.05)
            (passage,) = agent._process._passages.values()  # type: ignore[union-attr]
            assert len(passage._events) < MAX_EVENTS
            turn.gate.set()
            await running
            assert turn.text.endswith(" 999 ")

    run(main())


def test_many_at_once() -> None:
    async def main() -> None:
        async with started() as agent:
            turns = await asyncio.gather(*(say(agent, f"n{number}") for number in range(50)))
            assert [turn.text for turn in turns] == [f"n{number}" for number in range(50)]

    run(main())


def test_an_executor_of_the_sdk() -> None:
    async def main() -> None:
        async with started("tests.doubles.agents:agent") as agent:
            turn = await say(agent, "slow 3 1")
            assert turn.text == "chunk 0 chunk 1 chunk 2 "

    run(main())


def test_a_function_in_a_thread_emits_and_remembers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "plain.py").write_text(
        "def agent(input):\n"
        "    input.session['n'] = input.session.get('n', 0) + 1\n"
        "    yield f\"{input.session['n']} {input.text}\"\n"
    )
    monkeypatch.chdir(tmp_path)

    async def main() -> None:
        async with started("plain:agent") as agent:
            assert (await say(agent, "hi")).text == "1 hi"
            assert (await say(agent, "hi")).text == "2 hi"

    run(main())


# What it raises


def test_its_exceptions_are_for_the_log() -> None:
    async def main() -> None:
        async with started() as agent:
            turn = RecordingTurn("raise")
            with pytest.raises(AgentFailureError, match="ValueError: secret-123") as caught:
                await agent.run(turn)
            assert "tests/doubles/isolated.py" in str(caught.value)
            assert turn.text == "before"

    run(main())


def test_what_they_say_is_bounded() -> None:
    async def main() -> None:
        async with started(message_bytes=1 << 20) as agent:
            with pytest.raises(AgentFailureError, match="the end") as caught:
                await say(agent, "raise-much")
            assert len(str(caught.value)) <= 1 << 16
            assert (await say(agent, "and now")).text == "and now"

    run(main())


def test_an_error_of_a2a_is_for_the_client() -> None:
    async def main() -> None:
        async with started() as agent:
            with pytest.raises(FailureError) as caught:
                await say(agent, "refuse")
            assert caught.value.failure.row.reason == "CONTENT_TYPE_NOT_SUPPORTED"
            assert caught.value.failure.message == "no pictures, please"
            with pytest.raises(TimeoutError):
                await say(agent, "timeout")
            with pytest.raises(AgentFailureError, match="gave its turn up"):
                await say(agent, "give-up")
            with pytest.raises(AgentFailureError, match=r"SystemExit|sys\.exit"):
                await say(agent, "sys.exit")
            assert (await say(agent, "fail")).last_words == "as you wished"

    run(main())


def test_an_event_that_does_not_fit_is_raised_by_the_next_emit() -> None:
    async def main() -> None:
        async with started() as agent:
            turn = RecordingTurn("flood 1000000")
            turn.error = InvalidAgentResponseError("it does not fit")
            # raised by the agent's emit, and not caught there: the turn ends at once
            with pytest.raises(FailureError, match="it does not fit"):
                await agent.run(turn)
            assert turn.events == []

    run(main())


def test_a_refused_last_event_fails_the_turn() -> None:
    async def main() -> None:
        async with started() as agent:
            turn = RecordingTurn("ok")
            turn.error = InvalidAgentResponseError("it does not fit")
            with pytest.raises((InvalidAgentResponseError, FailureError), match="does not fit"):
                await agent.run(turn)

    run(main())


def test_an_event_beyond_all_limits_stays_there() -> None:
    async def main() -> None:
        async with started(message_bytes=1000) as agent:
            with pytest.raises(FailureError, match="send it in chunks"):
                await say(agent, "huge 100000")
            assert (await say(agent, "and now")).text == "and now"

    run(main())


# How it ends


@pytest.mark.parametrize(
    ("word", "how"),
    [
        ("os._exit", "ended with exit code 4"),
        ("segfault", "was killed by SIGSEGV"),
        ("killed", "was killed by SIGKILL"),
        ("exit-later", "ended with exit code 3"),
    ],
)
def test_its_death_fails_its_turns_and_no_others(word: str, how: str) -> None:
    async def main() -> None:
        async with started() as agent:
            other = RecordingTurn("wait")
            waiting = asyncio.create_task(agent.run(other))
            await until(lambda: other.events)
            turn = await say(agent, word)
            assert turn.states[-1] == "FAILED"
            assert how in turn.last_words
            await waiting
            assert other.states == ["WORKING", "FAILED"]
            # it is started again, and a turn that comes meanwhile waits for it
            assert (await say(agent, "and now")).text == "and now"

    run(main())


def test_a_death_after_the_question_is_no_failure() -> None:
    async def main() -> None:
        async with started() as agent:
            turn = await say(agent, "ask")
            assert turn.states == ["INPUT_REQUIRED"]

    run(main())


def test_one_that_keeps_dying_is_started_with_pauses(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_agent, "FIRST_PAUSE", 0.01)

    async def main() -> None:
        async with started() as agent:
            for _ in range(3):
                await say(agent, "killed")

    with caplog.at_level(logging.WARNING):
        run(main())
    assert "starting it again in 0.0 s" in caplog.text


def test_a_turn_that_finds_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_agent, "FIRST_PAUSE", 60)

    async def main() -> None:
        agent = ProcessAgent(SPEC, Settings(), name="x", ready_wait=0.05)
        await agent.start()
        await say(agent, "killed")
        assert agent.fault
        turn = await say(agent, "and now")
        assert turn.states == ["FAILED"]
        assert turn.last_words == NOT_RUNNING
        await agent.cancel(turn)
        await agent.stop()

    run(main())


def test_what_it_started_goes_with_it(tmp_path: Path) -> None:
    path = tmp_path / "pid"

    async def main() -> None:
        async with started() as agent:
            kept = int((await say(agent, "spawn")).text)
            assert is_alive(kept)
            await say(agent, f"spawn-and-die {path}")
            pid = int(path.read_text())
            await until(lambda: not is_alive(pid) and not is_alive(kept))
            stopped = int((await say(agent, "spawn")).text)
        await until(lambda: not is_alive(stopped))

    run(main())


@pytest.mark.parametrize("word", ["wait", "block", "hold"])
def test_it_goes_with_the_core(word: str, tmp_path: Path) -> None:
    """Also one whose interpreter stands still, and what it has started."""
    path = tmp_path / "begun"

    async def main() -> None:
        async with started() as agent:
            process = agent._process
            assert process is not None
            below = int((await say(agent, "spawn")).text)
            turn = RecordingTurn(f"{word} {path}")
            running = asyncio.create_task(agent.run(turn))
            await until(lambda: turn.events or path.exists())
            # what the end of this process does to the pipe
            life_end = process._worker._life
            process._worker._life = os.open(os.devnull, os.O_RDONLY)
            os.close(life_end)
            await running
            assert turn.states[-1] == "FAILED"
            await until(lambda: not is_alive(below))

    run(main())


def test_stop_is_bounded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(process_agent, "STOP_TIMEOUT", 0.1)

    async def main() -> None:
        agent = make()
        await agent.start()
        process = agent._process
        assert process is not None
        running = asyncio.create_task(agent.run(RecordingTurn(f"block {tmp_path}/b")))
        await until((tmp_path / "b").exists)
        before = time.monotonic()
        await agent.stop()
        assert time.monotonic() - before < 30  # it blocks for 60
        await running
        await until(lambda: not is_alive(process._worker.pid))
        await agent.stop()

    run(main())


# Cancelling


def test_a_cancel_reaches_the_agent() -> None:
    async def main() -> None:
        async with started() as agent:
            turn = RecordingTurn("wait")
            running = asyncio.create_task(agent.run(turn))
            await until(lambda: turn.events)
            running.cancel()
            await agent.cancel(turn)
            with pytest.raises(asyncio.CancelledError):
                await running

    run(main())


def test_an_agent_that_ignores_it_is_abandoned_and_its_process_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(life, "PING_WAIT", 30)

    async def main() -> None:
        async with started() as agent:
            pid = (await say(agent, "pid")).text
            turn = RecordingTurn("stubborn")
            await abandon(agent, turn, lambda: turn.events)
            assert agent._process is not None
            judging = agent._process._judging
            assert judging is not None
            await judging
            assert (await say(agent, "pid")).text == pid

    run(main())


def test_one_that_blocks_is_killed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(life, "PING_WAIT", 0.1)

    async def main() -> None:
        async with started() as agent:
            pid = int((await say(agent, "pid")).text)
            await abandon(agent, RecordingTurn(f"block {tmp_path}/b"), (tmp_path / "b").exists)
            await until(lambda: not is_alive(pid))
            assert int((await say(agent, "pid")).text) != pid

    run(main())


def test_readiness_says_that_one_blocks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Also where nobody can cancel it, because it has said nothing yet and has no task."""
    monkeypatch.setattr(pulse, "STILL_LIMIT", 0.05)

    async def main() -> None:
        async with started() as agent:
            for _ in range(3):
                assert agent.fault == ""
                await say(agent, "pid")
            blocked = asyncio.create_task(agent.run(RecordingTurn(f"block {tmp_path}/b")))
            await until(lambda: "blocks its loop" in agent.fault)
            assert agent._process is not None
            agent._process._worker.kill()
            await blocked
            await until(lambda: agent.fault == "")

    run(main())


def test_others_are_given_time_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The one that blocks may be the other one, at honest work."""
    monkeypatch.setattr(life, "PING_WAIT", 0.05)
    monkeypatch.setattr(life, "BLOCKED_LIMIT", 0.5)

    async def main() -> None:
        async with started() as agent:
            other = RecordingTurn("wait")
            waiting = asyncio.create_task(agent.run(other))
            await until(lambda: other.events)
            before = time.monotonic()
            await abandon(agent, RecordingTurn(f"block {tmp_path}/b"), (tmp_path / "b").exists)
            await waiting
            assert time.monotonic() - before >= 0.4
            assert "its loop stood still" in other.last_words

    run(main())


async def abandon(
    agent: ProcessAgent, turn: RecordingTurn, has_begun: Callable[[], object]
) -> None:
    """As the runtime does with an agent that ignores its cancel."""
    running = asyncio.create_task(agent.run(turn))
    await until(has_begun)
    running.cancel()
    await asyncio.sleep(0.02)
    assert not running.done()
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


# Starting


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ("tests.doubles.nothing_here", "no module named"),
        ("tests.doubles.isolated:agnet", "did you mean agent"),
    ],
)
def test_an_agent_that_cannot_be_loaded(spec: str, text: str) -> None:
    async def main() -> None:
        agent = make(spec)
        with pytest.raises(AgentError, match=text):
            await agent.start()
        await agent.stop()

    run(main())


def test_a_spec_that_is_none_needs_no_process() -> None:
    with pytest.raises(AgentError, match="is a path"):
        make("./my_agent.py")


def test_a_module_that_ends_its_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mean.py").write_text("import os\nos._exit(7)\n")
    monkeypatch.chdir(tmp_path)

    async def main() -> None:
        with pytest.raises(AgentError, match="ended with exit code 7 before it was ready"):
            await make("mean:agent").start()

    run(main())


def test_a_start_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own.py").write_text(
        "class Own:\n"
        "    async def start(self): raise OSError('no key')\n"
        "    async def stop(self): pass\n"
        "    async def run(self, turn): pass\n"
        "    async def cancel(self, turn): pass\n"
        "agent = Own()\n"
    )
    monkeypatch.chdir(tmp_path)

    async def main() -> None:
        with pytest.raises(AgentError, match="no key"):
            await make("own:agent").start()

    run(main())


def test_not_started() -> None:
    with pytest.raises(AgentError, match="not started"):
        run(make().run(RecordingTurn("x")))


def test_a_signal_for_the_process_alone_is_a_death() -> None:
    async def main() -> None:
        async with started() as agent:
            pid = int((await say(agent, "pid")).text)
            turn = RecordingTurn("wait")
            running = asyncio.create_task(agent.run(turn))
            await until(lambda: turn.events)
            os.kill(pid, signal.SIGTERM)
            await running
            assert "was killed by SIGTERM" in turn.last_words

    run(main())
