"""`a2a-gateway stdio`: what it says before it serves; the rest is tried with real processes."""

import pytest
from click.testing import CliRunner

from gateway.cli import stdio
from gateway.cli.commands import cli


def test_not_on_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Out of scope, and says so with a way out, before anything of POSIX is needed."""
    monkeypatch.setattr(stdio, "IS_WINDOWS", True)
    result = CliRunner().invoke(cli, ["stdio", "--agent", "demo"])
    assert result.exit_code == 1
    assert "run it in WSL, or use: a2a-gateway serve" in result.output


def test_help() -> None:
    """It opens no door, so it has no option for one."""
    result = CliRunner().invoke(cli, ["stdio", "--help"])
    assert "--transport" not in result.output
    assert "Exit codes" in result.output


def test_it_is_no_door_of_serve() -> None:
    """Who tries is told what to do."""
    result = CliRunner().invoke(cli, ["serve", "--agent", "demo", "--transport", "stdio"])
    assert result.exit_code == 2
    assert "its client starts a2a-gateway stdio" in result.output
