"""The state directory is held by one core (design: "Processes")."""

from pathlib import Path

import pytest

from gateway.state_dir import StateDir, StateDirError


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
