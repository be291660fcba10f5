"""The state directory is held by one core (design: "Processes")."""

import json
import os
from pathlib import Path

import pytest

from gateway.agents.home import home_of
from gateway.lock import LOCK_VARIABLE, inherited_lock, open_lock
from gateway.state_dir import (
    Invitation,
    StateDir,
    StateDirError,
    StateDirInUseError,
    read_invitation,
)

INVITATION = Invitation(7, "unix:/run/core.sock", "a secret", "demo", "")


def test_a_second_core_is_told_who_holds_it(tmp_path: Path) -> None:
    first = StateDir(tmp_path / "state")
    first.acquire()
    first.describe(["grpc 127.0.0.1:7"])
    with pytest.raises(StateDirError, match=r"in use by process \d+, which listens on grpc") as e:
        StateDir(tmp_path / "state").acquire()
    assert not e.value.is_passing
    first.release()
    second = StateDir(tmp_path / "state")
    second.acquire()
    second.release()


def test_a_holder_that_is_stopping_is_worth_waiting_for(tmp_path: Path) -> None:
    first = StateDir(tmp_path)
    first.acquire()
    first.describe((), is_leaving=True)
    with pytest.raises(StateDirError, match="which is stopping") as e:
        StateDir(tmp_path).acquire()
    assert e.value.is_passing
    first.release()
    first.describe(())  # says nothing once it is given back


def test_a_lock_that_says_nothing_is_still_a_lock(tmp_path: Path) -> None:
    first = StateDir(tmp_path)
    first.acquire()
    (tmp_path / "core.lock").write_text("[]")
    with pytest.raises(StateDirError, match="another core"):
        StateDir(tmp_path).acquire()
    first.release()


# The lock is shared by a core and whoever keeps it


def test_a_lock_that_is_lent_outlives_its_core(tmp_path: Path) -> None:
    """The keeper has the directory between two cores; when both are gone it is free."""
    kept = open_lock(str(tmp_path))
    first = StateDir(tmp_path, os.dup(kept))
    first.acquire()
    first.release()
    with pytest.raises(StateDirInUseError):
        StateDir(tmp_path).acquire()
    again = StateDir(tmp_path, os.dup(kept))
    again.acquire()
    os.close(kept)
    with pytest.raises(StateDirInUseError):
        StateDir(tmp_path).acquire()
    again.release()
    last = StateDir(tmp_path)
    last.acquire()
    last.release()


def test_a_lock_that_is_lent_while_another_has_it(tmp_path: Path) -> None:
    """Lending is no way around it."""
    holder = StateDir(tmp_path)
    holder.acquire()
    lent = open_lock(str(tmp_path))
    with pytest.raises(StateDirInUseError):
        StateDir(tmp_path, lent).acquire()
    os.close(lent)
    holder.release()


def test_the_lent_lock_is_handed_no_further(monkeypatch: pytest.MonkeyPatch) -> None:
    """Children of a core must not hold the directory when it is gone."""
    reading, writing = os.pipe()
    os.set_inheritable(reading, True)
    monkeypatch.setenv(LOCK_VARIABLE, str(reading))
    assert inherited_lock() == reading
    assert not os.get_inheritable(reading)
    assert LOCK_VARIABLE not in os.environ
    assert inherited_lock() is None
    os.close(reading)
    os.close(writing)


# How to join


def test_an_invitation(tmp_path: Path) -> None:
    """It can be read while the core takes calls, by this user alone."""
    state = StateDir(tmp_path)
    state.acquire()
    assert read_invitation(tmp_path) is None
    state.invite(INVITATION)
    state.invite(INVITATION)
    assert read_invitation(tmp_path) == INVITATION
    path = tmp_path / "link" / "core.json"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert [entry.name for entry in path.parent.iterdir()] == ["core.json"]
    state.describe((), is_leaving=True)
    assert read_invitation(tmp_path) is None
    state.invite(INVITATION)
    state.release()
    assert read_invitation(tmp_path) is None


def test_an_invitation_of_a_core_that_was_killed(tmp_path: Path) -> None:
    """The next core takes it away before it does anything else."""
    first = StateDir(tmp_path)
    first.acquire()
    first.invite(INVITATION)
    assert first.lock is not None
    os.close(first.lock)
    StateDir(tmp_path).acquire()
    assert read_invitation(tmp_path) is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"pid": 7}', "\xff"])
def test_what_is_no_invitation(tmp_path: Path, text: str) -> None:
    """A file of another version, or none of ours."""
    (tmp_path / "link").mkdir()
    path = tmp_path / "link" / "core.json"
    path.write_text(text, "latin-1")
    path.chmod(0o600)
    assert read_invitation(tmp_path) is None


def test_an_invitation_that_others_could_have_written(tmp_path: Path) -> None:
    """It would send a client's messages to whoever wrote it."""
    (tmp_path / "link").mkdir()
    path = tmp_path / "link" / "core.json"
    path.write_text(json.dumps(INVITATION._asdict()))
    path.chmod(0o600)
    assert read_invitation(tmp_path) == INVITATION
    path.chmod(0o620)
    assert read_invitation(tmp_path) is None


def test_a_folder_that_others_can_open(tmp_path: Path) -> None:
    """No secret is written there."""
    state = StateDir(tmp_path)
    state.acquire()
    (tmp_path / "link").mkdir(0o755)
    with pytest.raises(StateDirError, match="mode 0700"):
        state.invite(INVITATION)
    assert list((tmp_path / "link").iterdir()) == []
    state.release()


def test_where_an_agent_is_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One spec in two directories may be two agents."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").touch()
    (tmp_path / "package").mkdir()
    here = str(tmp_path)
    for spec in ("mine:agent", "package.part:agent", "command:./run.sh 1", "command:bin/run"):
        assert home_of(spec) == here, spec
    for spec in ("demo", "json:agent", "grpc:127.0.0.1:7", "command:cat -u", "command:/bin/cat"):
        assert home_of(spec) == "", spec
    for spec in ("", "command:", "command:a 'b"):
        assert home_of(spec) == "", spec
