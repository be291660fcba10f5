"""Agents behind gRPC in a whole gateway, as a newcomer makes them: the examples, and the
JavaScript of docs/agents.md in a directory of its own."""

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import javascript
from tests.agents.elsewhere import CONTRACT, EXAMPLES, Command, node, python
from tests.processes import Server, gateway

GUIDE = Path(__file__).parents[2] / "docs" / "agents.md"
SECONDS = 20.0


@contextmanager
def agent(
    arguments: Sequence[str], environment: Mapping[str, str], folder: Path
) -> Iterator[subprocess.Popen[str]]:
    """An agent that says that it serves; it is ended in order."""
    process = subprocess.Popen(
        arguments,
        cwd=folder,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("serving at")
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=SECONDS)


def say(server: Server, text: str, path: str = "message:send", **more: str) -> Any:
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}], **more}
    request = urllib.request.Request(
        f"{server.addresses.http}/{path}",
        json.dumps({"message": message}).encode(),
        {"Content-Type": "application/json", "A2A-Version": "1.0"},
    )
    with urllib.request.urlopen(request, timeout=SECONDS) as response:
        return json.load(response)


def texts(task: Any) -> list[str]:
    return [part["text"] for made in task["artifacts"] for part in made["parts"]]


@pytest.mark.parametrize(
    ("command", "script"), [(python, "python/agent.py"), (node, "javascript/agent.mjs")]
)
def test_the_examples(command: Any, script: str, tmp_path: Path) -> None:
    """They stream, ask and answer directly; a SIGTERM ends them in order."""
    with tempfile.TemporaryDirectory() as folder:
        address = f"unix:{folder}/agent.sock"
        made: Command = command(EXAMPLES / script)
        arguments, environment = made
        arguments = [*arguments, address, str(CONTRACT)]
        with agent(arguments, environment, tmp_path) as process:
            config = {"store": "memory:"}
            with gateway(f"grpc:{address}", tmp_path / "gateway", config) as server:
                talk(server)
        assert process.returncode == 0


def talk(server: Server) -> None:
    assert say(server, "hello")["message"]["parts"][0]["text"] == "Hello, anonymous!"
    assert texts(say(server, "stream one two")["task"]) == ["one ", "two "]
    asked = say(server, "ask")["task"]
    assert asked["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    answered = say(server, "blue", taskId=asked["id"])["task"]
    assert texts(answered) == ["You answered: blue"]
    assert answered["status"]["state"] == "TASK_STATE_COMPLETED"


def test_the_javascript_of_the_guide(tmp_path: Path) -> None:
    """What stands on the page is all that it needs, beside two packages and one file."""
    (script,) = re.findall(r"```js\n// agent.mjs\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    (tmp_path / "agent.mjs").write_text(script)
    shutil.copy(CONTRACT, tmp_path)
    javascript.install(EXAMPLES / "javascript")
    (tmp_path / "node_modules").symlink_to(EXAMPLES / "javascript" / "node_modules")
    with tempfile.TemporaryDirectory() as folder:
        address = f"unix:{folder}/agent.sock"
        with (
            agent([str(javascript.NODE), "agent.mjs", address], {}, tmp_path),
            gateway(f"grpc:{address}", tmp_path / "gateway", {"store": "memory:"}) as server,
        ):
            assert texts(say(server, "hello big world")["task"]) == ["HELLO ", "BIG ", "WORLD "]
