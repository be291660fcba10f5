"""A program that cannot be started is found out before any message comes, with the fix."""

from pathlib import Path

import pytest

from gateway.agents import AgentError
from gateway.agents.command.finding import check

PATH = "/usr/bin:/bin"


def write(path: Path, text: str, mode: int = 0o755) -> Path:
    path.write_bytes(text.encode())
    path.chmod(mode)
    return path


def test_programs_that_are_there(tmp_path: Path) -> None:
    check(["sh"], None, PATH)
    check(["/bin/sh"], None, PATH)
    check([str(write(tmp_path / "a.sh", "#!/bin/sh -e\n"))], None, PATH)
    check(["./a.sh"], tmp_path, PATH)


def test_a_name_that_is_not_in_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AgentError, match="no program 'no-such' in PATH; install it"):
        check(["no-such"], None, PATH)
    write(tmp_path / "agent.sh", "#!/bin/sh\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(AgentError, match=r"write command:\./agent\.sh"):
        check(["agent.sh"], None, PATH)


def test_a_path_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AgentError, match=r"there is no program .*/none\.sh"):
        check(["./none.sh"], None, PATH)
    write(tmp_path / "agent.sh", "#!/bin/sh\n")
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(AgentError, match="write the whole path"):
        check(["./agent.sh"], tmp_path / "below", PATH)


@pytest.mark.parametrize(
    ("text", "mode", "words"),
    [
        ("#!/bin/sh\n", 0o644, "not executable; run: chmod \\+x"),
        ("echo hi\n", 0o755, "names no interpreter; give it a first line"),
        ("#!/no/such/python\n", 0o755, "names '/no/such/python', which is not there"),
        ("#!/bin/sh\r\necho hi\r\n", 0o755, "line ends of Windows"),
        ("#!\n", 0o755, "which is not there"),
    ],
)
def test_files_that_cannot_be_started(tmp_path: Path, text: str, mode: int, words: str) -> None:
    path = write(tmp_path / "agent", text, mode)
    with pytest.raises(AgentError, match=words):
        check([str(path)], None, PATH)


def test_directories(tmp_path: Path) -> None:
    with pytest.raises(AgentError, match="is a directory"):
        check([str(tmp_path)], None, PATH)
    with pytest.raises(AgentError, match=r"agent\.command\.directory: .* is no directory"):
        check(["sh"], tmp_path / "none", PATH)


def test_what_the_system_refuses_to_look_for() -> None:
    with pytest.raises(AgentError, match="name too long"):
        check(["/" + "x" * 5000], None, None)
    with pytest.raises(AgentError, match="name too long"):
        check(["cat"], Path("/" + "x" * 5000), None)
