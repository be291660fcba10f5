"""What a program can read around itself."""

import sys

import pytest

from tests.unit.agents.command.scene import play, sh


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /proc")
def test_its_parent_has_no_more_than_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """AU: keys of the gateway's environment stand in no process that exists for programs alone."""
    monkeypatch.setenv("A_KEY", "secret-123")
    monkeypatch.setenv("NAMED", "for programs")
    text = play(sh("tr '\\\\0' '\\\\n' < /proc/$PPID/environ"), environment=("NAMED",)).text
    assert "NAMED=for programs" in text
    assert "secret-123" not in text


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /proc")
def test_where_memory_runs_out_it_goes_before_the_gateway() -> None:
    """ML: a program that leaks takes nothing with it."""
    assert int(play("cat /proc/self/oom_score_adj").text) >= 500
