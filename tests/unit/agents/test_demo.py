"""The built-in agent shows each thing that an agent can do."""

import asyncio
import re

import pytest

from gateway.agents import demo
from gateway.agents.loader import load
from gateway.pb import Message, Part, Task, TaskState, TaskStatus, Value
from tests.conftest import run
from tests.doubles.recording import RecordingTurn, run_once


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "PAUSE", 0)


def play(*parts: Part | str, task: Task | None = None) -> RecordingTurn:
    return run(run_once(load("demo"), RecordingTurn(*parts, task=task)))


@pytest.mark.parametrize(
    ("text", "states"),
    [
        ("help", ["WORKING", "COMPLETED"]),
        ("stream", ["WORKING", "COMPLETED"]),
        ("data", ["WORKING", "COMPLETED"]),
        ("file", ["WORKING", "COMPLETED"]),
        ("link", ["WORKING", "COMPLETED"]),
        ("status", ["WORKING", "WORKING", "WORKING", "COMPLETED"]),
        ("ask", ["INPUT_REQUIRED"]),
        ("auth", ["AUTH_REQUIRED"]),
        ("reject", ["REJECTED"]),
        ("fail", ["WORKING", "FAILED"]),
        ("count 1", ["WORKING", "COMPLETED"]),
        ("anything else", ["WORKING", "COMPLETED"]),
        ("", ["COMPLETED"]),
    ],
)
def test_commands(text: str, states: list[str]) -> None:
    assert play(text).states == states


def test_every_command_is_in_the_help() -> None:
    assert set(demo.COMMANDS) - {"help", "slow"} <= set(re.findall(r"\w+", demo.HELP))


def test_hello_is_a_direct_message() -> None:
    (answer,) = play("hello").events
    assert isinstance(answer, Message)


def test_stream_comes_word_by_word() -> None:
    assert [p.text for p in play("stream one two").parts] == ["one ", "two "]


def test_an_answer_completes_the_task() -> None:
    status = TaskStatus(state=TaskState.TASK_STATE_INPUT_REQUIRED)
    turn = play("blue", task=Task(id="task-1", context_id="context-1", status=status))
    assert "blue" in turn.text
    assert turn.states == ["WORKING", "COMPLETED"]


def test_crash_raises() -> None:
    with pytest.raises(RuntimeError):
        play("crash")


def test_other_parts_come_back() -> None:
    data = Value(number_value=5)
    turn = play("hi", Part(data=data), Part(raw=b"x", filename="x"))
    assert [p.WhichOneof("content") for p in turn.parts] == ["text", "data", "raw"]


def test_count_is_cancelled_at_once() -> None:
    async def main() -> RecordingTurn:
        turn = RecordingTurn("count 100")
        task = asyncio.create_task(load("demo").run(turn))
        while not turn.events:  # noqa: ASYNC110 - a turn has no event to wait on
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return turn

    assert run(main()).text == "1\n"
