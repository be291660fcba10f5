"""Back-off and giving up, with a clock of our own and no process."""

from typing import Any

import pytest

from gateway import supervisor
from gateway.supervisor import (
    EXIT_DYING,
    FIRST_PAUSE,
    LONGEST_PAUSE,
    MOST_DEATHS,
    Child,
    Supervisor,
)


class Clock:
    """Stands still unless it is moved."""

    now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(supervisor, "time", clock)
    return clock


@pytest.fixture
def core() -> Child:
    return Child("core", ["never.started"])


@pytest.fixture
def running(core: Child) -> Supervisor:
    config: dict[str, Any] = {"grace": 1.0}
    return Supervisor(config, core, [], lambda reports, config: None)


def test_pauses_grow_to_a_bound(clock: Clock, core: Child, running: Supervisor) -> None:
    """0.1 s doubling to 5 s."""
    pauses = []
    for _ in range(MOST_DEATHS):
        core.started_at = clock.now
        running._restart_later(core, 1)
        assert core.restart_at is not None
        pauses.append(core.restart_at - clock.now)
    assert pauses[:4] == pytest.approx([FIRST_PAUSE, 0.2, 0.4, 0.8])
    assert pauses[-1] == LONGEST_PAUSE


def test_gives_up(
    clock: Clock, core: Child, running: Supervisor, capsys: pytest.CaptureFixture[str]
) -> None:
    """Quick deaths in a row end the gateway, with a line that says so."""
    for _ in range(MOST_DEATHS + 1):
        core.started_at = clock.now
        running._restart_later(core, 1)
    assert running._exit_code == EXIT_DYING
    assert core.restart_at is None
    assert "core ended with code 1, 11 times in a row" in capsys.readouterr().err


def test_a_long_life_forgives(clock: Clock, core: Child, running: Supervisor) -> None:
    """After a steady time the count begins anew."""
    for _ in range(MOST_DEATHS):
        core.started_at = clock.now
        running._restart_later(core, 1)
    core.started_at = clock.now
    clock.now += 60
    running._restart_later(core, 1)
    assert core.restart_at == pytest.approx(clock.now + FIRST_PAUSE)
