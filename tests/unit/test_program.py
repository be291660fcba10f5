"""The name by which the command is called."""

import sys
from pathlib import Path

import pytest

from gateway.program import program


def test_by_name_where_path_leads_to_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Who has not activated the environment, or has another one in PATH, gets a path that works
    from where they are."""
    folders = [tmp_path / "own" / "bin", tmp_path / "other"]
    for folder in folders:
        folder.mkdir(parents=True)
        (folder / "a2a-gateway").touch(mode=0o755)
    own, other = folders
    monkeypatch.setattr(sys, "executable", str(own / "python"))
    for path, here, expected in (
        (own, tmp_path, "a2a-gateway"),
        (other, tmp_path, "own/bin/a2a-gateway"),
        ("", other, str(own / "a2a-gateway")),
    ):
        monkeypatch.setenv("PATH", str(path))
        monkeypatch.chdir(here)
        program.cache_clear()
        assert program() == expected
    # run from a checkout, without an installation
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    program.cache_clear()
    assert program() == "a2a-gateway"
    program.cache_clear()
