"""The programs of docs/agents.md and of examples/command_agent do what their pages say."""

import re
from pathlib import Path

import pytest

from gateway.pb import Message, Part, Role, Task
from tests.conftest import run
from tests.doubles.recording import RecordingTurn
from tests.unit.agents.command.scene import play, started

ROOT = Path(__file__).parents[4]
BLOCK = re.compile(r"```sh\n(#!/bin/sh\n# (\S+)\n.*?)```", re.DOTALL)


def scripts() -> dict[str, str]:
    """The scripts of the guide, by their names."""
    return {name: text for text, name in BLOCK.findall((ROOT / "docs/agents.md").read_text())}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where a newcomer has written them all."""
    for name, text in scripts().items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    return tmp_path


def second(*parts: Part | str) -> RecordingTurn:
    """The turn of an answer to a question."""
    said = [Message(message_id=str(n), role=Role.ROLE_USER) for n in range(2)]
    task = Task(id="task-1", context_id="context-1", history=said)
    return RecordingTurn(*parts, task=task)


def test_every_script_is_tried() -> None:
    assert list(scripts()) == ["shout.sh", "greet.sh", "weather.sh"]


def test_shout(folder: Path) -> None:
    turn = play("./shout.sh", "hello", directory=folder)
    assert turn.text == "HELLO\n"
    assert turn.states[-1] == "COMPLETED"


def test_greet(folder: Path) -> None:
    turn = play("./greet.sh", "hello", directory=folder)
    assert turn.states[-1] == "INPUT_REQUIRED"
    assert turn.last_words == "What is your name?"
    turn = play("./greet.sh", turn=second("Ada"), directory=folder)
    assert turn.text == "Hello, Ada!\n"
    assert turn.states[-1] == "COMPLETED"


def test_weather(folder: Path) -> None:
    turn = play("./weather.sh", "today?", directory=folder, is_events=True)
    assert turn.parts[0].data.struct_value["sun"] is True
    assert turn.states == ["WORKING", "COMPLETED"]


PIZZA = "examples/command_agent/pizza.sh"
COUNT = "examples/command_agent/count_words.py"


@pytest.mark.parametrize(
    ("topping", "state", "words"),
    [("olives", "COMPLETED", "olives ...\ncheese ...\nYour pizza"), ("pineapple", "FAILED", "Not")],
)
def test_pizza(
    topping: str, state: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))

    async def main() -> None:
        async with started(PIZZA, directory=ROOT) as made:
            await made.run(first := RecordingTurn("a large one"))
            assert first.last_words == "Which topping?"
            await made.run(turn := second(topping))
        assert "You said first: a large one" in turn.text
        assert words in turn.text
        assert turn.states[-1] == state

    run(main())
    assert not list(tmp_path.glob("*/*"))


def test_count_words() -> None:
    file = Part(raw=b"one two three", filename="a.txt")
    turn = play(COUNT, "hello there", file, directory=ROOT, is_events=True)
    found = [part.data.struct_value for part in turn.parts]
    assert [(value["name"], value["words"]) for value in found] == [("message", 2), ("a.txt", 3)]
    assert turn.states == ["WORKING", "COMPLETED"]
    (answer,) = play(COUNT, " ", directory=ROOT, is_events=True).events
    assert isinstance(answer, Message)
