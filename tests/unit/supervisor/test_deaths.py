"""Back-off and giving up, with a clock of our own and no process."""

from typing import Any

import pytest

from gateway import child, supervisor
from gateway.child import (
    FIRST_PAUSE,
    LONGEST_PAUSE,
    LONGEST_PAUSE_IF_READY,
    MOST_FAILED_STARTS,
    Child,
)
from gateway.family import EXIT_DYING
from gateway.supervisor import Supervisor


class Clock:
    """Stands still unless it is moved."""

    now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for module in (child, supervisor):
        monkeypatch.setattr(module, "time", clock)
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
    for _ in range(MOST_FAILED_STARTS):
        core.started_at = clock.now
        running._restart_later(core, 1)
        assert core.restart_at is not None
        pauses.append(core.restart_at - clock.now)
    assert pauses[:4] == pytest.approx([FIRST_PAUSE, 0.2, 0.4, 0.8])
    assert pauses[-1] == LONGEST_PAUSE


def test_gives_up(
    clock: Clock, core: Child, running: Supervisor, capsys: pytest.CaptureFixture[str]
) -> None:
    """Starts that fail in a row end the gateway, with a line that says so."""
    for _ in range(MOST_FAILED_STARTS + 1):
        core.started_at = clock.now
        running._restart_later(core, 1)
    assert running._exit_code == EXIT_DYING
    assert core.restart_at is None
    assert "core ended with code 1; it could not start 11 times" in capsys.readouterr().err


def test_a_long_life_forgives(clock: Clock, core: Child, running: Supervisor) -> None:
    """After a steady time the count begins anew."""
    for _ in range(MOST_FAILED_STARTS):
        core.started_at = clock.now
        running._restart_later(core, 1)
    core.started_at = clock.now
    core.report = {}
    clock.now += 60
    running._restart_later(core, 1)
    assert core.restart_at == pytest.approx(clock.now + FIRST_PAUSE)
    assert core.failed_starts == 0


def test_one_failed_start_costs_no_more_than_a_death(
    clock: Clock, core: Child, running: Supervisor
) -> None:
    """SH07: a process killed while it starts, after others that did start, is back soon."""
    reports: list[dict[str, Any] | None] = [*[{}] * 8, None]
    for report in reports:
        core.started_at = clock.now
        core.report = report
        running._restart_later(core, -9)
    assert core.restart_at is not None
    assert core.restart_at - clock.now <= LONGEST_PAUSE_IF_READY


def test_never_gives_up_on_what_did_start(clock: Clock, core: Child, running: Supervisor) -> None:
    """A process that is killed again and again from outside comes back, soon, each time."""
    for _ in range(3000):
        core.started_at = clock.now
        core.report = {}
        running._restart_later(core, -9)
        assert core.restart_at is not None
        assert core.restart_at - clock.now <= LONGEST_PAUSE_IF_READY
    assert running._exit_code == 0


def test_each_process_has_its_own_count(clock: Clock, core: Child) -> None:
    """SH07: a door that cannot open is no reason to wait for another one."""
    doors = [Child(f"adapter-{name}", ["never.started"], doors=[name]) for name in ("a", "b")]
    running = Supervisor({"grace": 1.0}, core, doors, lambda reports, config: None)
    for _ in range(MOST_FAILED_STARTS):
        running._restart_later(doors[0], 1)
    doors[1].report = {}
    running._restart_later(doors[1], -9)
    assert doors[1].restart_at == pytest.approx(clock.now + FIRST_PAUSE)
    assert running._exit_code == 0
