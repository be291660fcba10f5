"""What an agent in a process of its own can read around itself."""

from pathlib import Path

import pytest

from gateway.agents.loader import load
from tests.conftest import run
from tests.doubles.recording import RecordingTurn, run_once

AGENT = """
import os

async def agent(input):
    yield " ".join(f"{name}={text}" for name, text in os.environ.items())
"""


def test_the_gateway_s_configuration_is_not_for_agents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AU: it may have tokens; the rest of the environment is the agent's as it is the gateway's."""
    (tmp_path / "surroundings.py").write_text(AGENT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("A2A_GATEWAY_ACCESS__TOKENS", "secret-123")
    monkeypatch.setenv("MODEL_KEY", "the agent's own")
    agent = load("surroundings:agent", isolation="process")
    text = run(run_once(agent, RecordingTurn("hi"))).text
    assert "MODEL_KEY=the agent's own" in text
    assert "A2A_GATEWAY" not in text
