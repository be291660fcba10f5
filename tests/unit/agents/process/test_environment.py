"""What an agent in a process of its own can read around itself."""

import sys
from pathlib import Path

import pytest

from gateway.agents.loader import load
from tests.conftest import run
from tests.doubles.recording import RecordingTurn, run_once

AGENT = """
import os

async def agent(input):
    if input.text == "score":
        yield open("/proc/self/oom_score_adj").read()
        return
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


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /proc")
def test_where_memory_runs_out_it_goes_before_the_gateway(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ML: an agent that leaks takes nothing with it."""
    (tmp_path / "surroundings.py").write_text(AGENT)
    monkeypatch.chdir(tmp_path)
    agent = load("surroundings:agent", isolation="process")
    assert int(run(run_once(agent, RecordingTurn("score"))).text) >= 500
