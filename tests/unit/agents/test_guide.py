"""The examples of docs/agents.md and of examples/ do what their pages say."""

import re
from pathlib import Path
from typing import Any

import pytest

from gateway.agents import Agent
from gateway.agents.function import FunctionAgent
from gateway.agents.loader import load
from gateway.pb import Message, Part, Task, Value
from tests.conftest import run
from tests.doubles.recording import RecordingTurn, run_once

GUIDE = Path(__file__).parents[3] / "docs" / "agents.md"


def example(name: str) -> Agent:
    blocks = re.findall(r"```python\n# (\S+)\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    namespace: dict[str, Any] = {}
    exec(compile(dict(blocks)[name], name, "exec"), namespace)
    return FunctionAgent(namespace["agent"])


def play(agent: Agent, *parts: Part | str, task: Task | None = None) -> RecordingTurn:
    return run(run_once(agent, RecordingTurn(*parts, task=task)))


def test_every_example_is_tried() -> None:
    names = re.findall(r"```python\n# (\S+)\n", GUIDE.read_text())
    assert names == ["shout.py", "pizza.py", "report.py"]


def test_streaming() -> None:
    turn = play(example("shout.py"), "hello world")
    assert [p.text for p in turn.parts] == ["HELLO ", "WORLD "]
    assert turn.states[-1] == "COMPLETED"


def test_asking() -> None:
    task = Task(id="task-1", context_id="context-1")
    assert play(example("pizza.py"), "pizza").states == ["INPUT_REQUIRED"]
    assert play(example("pizza.py"), "with pineapple", task=task).states == ["REJECTED"]
    turn = play(example("pizza.py"), "olives", task=task)
    assert turn.states == ["WORKING", "COMPLETED"]
    assert turn.parts[0].data.struct_value.fields["pizza"].string_value == "olives"


def test_in_a_thread() -> None:
    (answer,) = play(example("report.py"), "hi").events
    assert isinstance(answer, Message)
    rows = Value()
    rows.list_value.values.add().list_value.extend([1, "a"])
    rows.list_value.values.add().list_value.extend([2, "b"])
    (part,) = play(example("report.py"), Part(data=rows)).parts
    assert part.raw == b"1,a\r\n2,b\r\n"
    assert part.filename == "report.csv"


@pytest.mark.parametrize(
    "spec", ["examples.echo_function:agent", "examples.echo_executor:EchoExecutor"]
)
def test_the_echo_examples(spec: str) -> None:
    turn = play(load(spec), "hello world")
    assert turn.text.strip() == "hello world"
    assert turn.states[-1] == "COMPLETED"
