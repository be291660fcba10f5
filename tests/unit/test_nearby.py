"""Finding a core: the decisions. Processes that die are in `tests/faults/test_stdio.py`."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.config import Config, load
from gateway.link.frames import LinkError
from gateway.nearby import Nearby, NoCoreError, Place
from gateway.own_core import OwnCore
from gateway.state_dir import Invitation, StateDir
from tests.conftest import run


@pytest.fixture
def held(tmp_path: Path) -> Iterator[StateDir]:
    """A directory that another process has."""
    state = StateDir(tmp_path / "state")
    state.acquire()
    yield state
    state.release()


def config(folder: Path, agent: str) -> Config:
    flags = {"state_dir": ("--state-dir", str(folder / "state")), "agent.spec": ("--agent", agent)}
    return load(environment={}, flags=flags, has_doors=False)


def nearby(folder: Path, agent: str = "demo") -> Nearby:
    own = OwnCore(folder / "state")
    found = config(folder, agent) if agent else replace_agent(config(folder, "demo"))
    own.configure(found)
    return Nearby(found, own)


def replace_agent(given: Config) -> Config:
    return replace(given, agent=replace(given.agent, spec=""))


def invitation(agent: str = "demo", home: str = "") -> Invitation:
    return Invitation(os.getpid(), "unix:/run/x.sock", "secret", agent, home)


@pytest.mark.parametrize("agent", ["demo", ""])
def test_joins_the_core_that_runs(tmp_path: Path, held: StateDir, agent: str) -> None:
    """With the same agent, or with any where none is asked for."""
    held.invite(invitation())
    place = run(nearby(tmp_path, agent).find())
    assert place == Place("unix:/run/x.sock", "secret", is_own=False)


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (invitation("other:agent"), "runs another agent, other:agent; give another directory"),
        (invitation("demo", "/srv/other"), "runs another agent, demo of /srv/other"),
    ],
)
def test_another_agent_is_not_joined(
    tmp_path: Path, held: StateDir, found: Invitation, text: str
) -> None:
    """Its user's messages are for the agent that was asked for."""
    held.invite(found)
    with pytest.raises(NoCoreError, match=text) as error:
        run(nearby(tmp_path).find())
    assert error.value.code == 2
    assert not error.value.can_retry


def test_a_core_that_cannot_be_joined(
    tmp_path: Path, held: StateDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At first that is the end; once it had joined, the next core may come at any time."""
    monkeypatch.setattr("gateway.nearby.LOOK_LIMIT", 0.05)
    found = nearby(tmp_path)
    with pytest.raises(NoCoreError, match="cannot be joined; its log has the reason"):
        run(found.find())
    held.invite(invitation())
    run(found.find())
    held.describe((), is_leaving=True)
    with pytest.raises(LinkError, match="cannot be joined") as error:
        run(found.find())
    assert not isinstance(error.value, NoCoreError)


def test_without_an_agent_and_a_core(tmp_path: Path) -> None:
    """Says what to do, and leaves no process behind."""
    found = nearby(tmp_path, "")

    async def main() -> None:
        with pytest.raises(NoCoreError, match="no agent is named") as error:
            await found.find()
        assert error.value.code == 2
        await found.stop(0)

    run(main())
    state = StateDir(tmp_path / "state")
    state.acquire()
    state.release()


def test_a_directory_that_cannot_be_used(tmp_path: Path) -> None:
    """Exit code 5, as everywhere."""
    (tmp_path / "state").touch()
    with pytest.raises(NoCoreError, match="cannot be used") as error:
        run(nearby(tmp_path).find())
    assert error.value.code == 5


def test_a_core_of_its_own(tmp_path: Path) -> None:
    """Started, found again, ended; its secret is new."""

    async def main() -> None:
        found = nearby(tmp_path)
        place = await found.find()
        assert place.is_own
        assert place.address == f"unix:{tmp_path}/state/link/core.sock"
        assert len(place.secret) == 64
        assert await found.find() == place
        joined = await nearby(tmp_path).find()
        assert joined == place._replace(is_own=False)
        await found.stop(1.0)
        await found.stop(1.0)

    run(main())


def test_an_agent_that_cannot_be_loaded(tmp_path: Path) -> None:
    """The core's own words, and its exit code."""

    async def main() -> None:
        found = nearby(tmp_path, "no_such_module:agent")
        with pytest.raises(NoCoreError, match="no_such_module") as error:
            await found.find()
        assert error.value.code == 3
        await found.stop(0)

    run(main())
