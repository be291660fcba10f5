"""`isolation: process` in a whole gateway: what is killed takes nothing with it, and nothing is
left behind."""

import json
import os
import signal
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.processes import Server, core_of, gateway, is_alive, start, write_config

AGENT = "tests.doubles.isolated:agent"
CONFIG = {"agent": {"isolation": "process"}, "store": "memory:"}
SECONDS = 20.0


def say(server: Server, text: str, timeout: float = SECONDS) -> dict[str, Any]:
    """A message by REST; its task."""
    body = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}]}}
    request = urllib.request.Request(
        f"{server.addresses.http}/message:send",
        json.dumps(body).encode(),
        {"Content-Type": "application/json", "A2A-Version": "1.0"},
    )
    with urllib.request.urlopen(request, timeout=timeout) as response:
        task: dict[str, Any] = json.load(response)["task"]
    return task


def text_of(task: dict[str, Any]) -> str:
    return "".join(part["text"] for made in task["artifacts"] for part in made["parts"])


def until(is_so: Callable[[], object]) -> None:
    end = time.monotonic() + SECONDS
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_the_card_and_the_output(tmp_path: Path) -> None:
    """The agent's own words about it come from there; what it prints goes to stderr, and its
    stdin is empty."""
    with gateway(AGENT, tmp_path, CONFIG) as server:
        url = f"{server.addresses.http}/.well-known/agent-card.json"
        with urllib.request.urlopen(url, timeout=SECONDS) as response:
            card = json.load(response)
        assert card["name"] == "Isolated"
        assert text_of(say(server, "print")) == "''"
        until(lambda: "printed by the agent" in server.text())


def test_its_death_is_the_end_of_its_turns_alone(tmp_path: Path) -> None:
    with gateway(AGENT, tmp_path, CONFIG) as server:
        core = core_of(server.process.pid)
        task = say(server, "segfault")
        assert task["status"]["state"] == "TASK_STATE_FAILED"
        (part,) = task["status"]["message"]["parts"]
        assert "SIGSEGV" in part["text"]
        assert text_of(say(server, "and now")) == "and now"
        assert core_of(server.process.pid) == core


def test_a_stop_leaves_nothing(tmp_path: Path) -> None:
    with gateway(AGENT, tmp_path, CONFIG) as server:
        agent = int(text_of(say(server, "pid")))
        below = int(text_of(say(server, "spawn")))
        assert is_alive(agent)
        assert is_alive(below)
    until(lambda: not is_alive(agent) and not is_alive(below))


@pytest.mark.parametrize("word", ["idle", "block", "hold"])
def test_a_killed_core_leaves_nothing(word: str, tmp_path: Path) -> None:
    """Nor does one whose agent blocks its process, even with the interpreter's lock held."""
    server = start(write_config(AGENT, tmp_path, CONFIG))
    try:
        agent = int(text_of(say(server, "pid")))
        below = int(text_of(say(server, "spawn")))
        if word != "idle":
            path = tmp_path / "begun"
            with pytest.raises(TimeoutError):
                say(server, f"{word} {path}", timeout=1.0)
            until(path.exists)
        core = core_of(server.process.pid)
        assert core is not None
        os.kill(core, signal.SIGKILL)
        until(lambda: not is_alive(agent) and not is_alive(below))
        # the supervisor starts the core again, and that the agent
        until(lambda: is_served(server))
    finally:
        server.stop()


def is_served(server: Server) -> bool:
    try:
        return text_of(say(server, "again")) == "again"
    except (OSError, KeyError):
        return False
