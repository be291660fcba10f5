"""The supervisor with real child processes that do as they are told."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.config import load, to_wire
from gateway.family import ONE_SIGNAL

ROOT = Path(__file__).resolve().parents[3]
LIMIT = 20.0

Start = Callable[..., "Supervised"]


class Supervised:
    """One supervisor process and the trace that its children write."""

    def __init__(self, folder: Path, grace: float, fakes: dict[str, str]):
        self.trace_file = folder / "trace"
        self.trace_file.touch()
        config = json.loads(to_wire(load(environment={}, flags={"state_dir": ("", str(folder))})))
        config |= {"grace": grace, "metrics": {"core": None, "adapter": None}}
        config["transports"]["grpc"]["address"] = ["127.0.0.1:0"]
        names = {f"FAKE_{name.upper()}": words for name, words in fakes.items()}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.doubles.supervised", json.dumps(config)],
            cwd=ROOT,
            env={
                **os.environ,
                **names,
                "FAKE_TRACE": str(self.trace_file),
                "PYTHONPATH": str(ROOT),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def ready(self) -> dict[str, Any]:
        """Wait for the announcement; what the children reported."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("ready "), self.end()
        reports: dict[str, Any] = json.loads(line.removeprefix("ready "))
        return reports

    def end(self) -> tuple[int, str]:
        """Wait for the end; exit code and stderr."""
        _, errors = self.process.communicate(timeout=LIMIT)
        return self.process.returncode, errors

    def trace(self) -> list[str]:
        """The steps so far, without process ids."""
        lines = self.trace_file.read_text().splitlines()
        return [f"{name} {step}" for name, _, step in (line.split(" ", 2) for line in lines)]

    def wait_for(self, step: str, times: int = 1) -> None:
        """Until the trace holds a step so many times."""
        end = time.monotonic() + LIMIT
        while sum(line.startswith(step) for line in self.trace()) < times:
            assert time.monotonic() < end, f"no {step!r} in {self.trace()}, {self.process.poll()=}"
            time.sleep(0.02)

    def pids(self) -> dict[str, int]:
        """The newest process id of each child."""
        lines = self.trace_file.read_text().splitlines()
        return {name: int(pid) for name, pid, _ in (line.split(" ", 2) for line in lines)}


@pytest.fixture
def supervised(tmp_path: Path) -> Iterator[Start]:
    started: list[Supervised] = []

    def start(grace: float = 5.0, **fakes: str) -> Supervised:
        started.append(Supervised(tmp_path, grace, fakes))
        return started[-1]

    yield start
    for one in started:
        one.process.kill()
        one.process.communicate()


def test_stops_in_order(supervised: Start) -> None:
    """SIGTERM: the doors end first, while the core takes nothing new; then the core; exit 0."""
    one = supervised(adapter="slow", grace=1.0)
    assert one.ready()["core"] == {"doors": {"grpc": ["127.0.0.1:7"]}}
    one.process.send_signal(signal.SIGTERM)
    code, errors = one.end()
    assert code == 0, errors
    trace = one.trace()
    assert trace.index("core drain") < trace.index("adapter end 0")
    assert trace.index("adapter end 0") < trace.index("core stop 0") < trace.index("core end 0")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_other_signals_stop_as_well(supervised: Start, number: signal.Signals) -> None:
    """SIGINT (Ctrl-C) and SIGHUP (the terminal went) stop in the same way."""
    one = supervised()
    one.ready()
    one.process.send_signal(number)
    assert one.end()[0] == 0


def test_second_signal_hurries(supervised: Start) -> None:
    """A second signal cuts the grace short; one right after the first is the same one, delivered
    twice, as by a process group and by whoever started the supervisor."""
    one = supervised(adapter="slow", grace=60.0)
    one.ready()
    started = time.monotonic()
    one.process.send_signal(signal.SIGTERM)
    one.process.send_signal(signal.SIGTERM)
    one.wait_for("adapter stop 60")
    time.sleep(ONE_SIGNAL + 0.1)
    assert "adapter stop 0" not in one.trace()
    one.process.send_signal(signal.SIGTERM)
    one.end()
    assert time.monotonic() - started < 30
    assert "adapter stop 0" in one.trace()


def test_a_signal_to_all_processes_is_no_haste(supervised: Start) -> None:
    """As a service manager sends it to a whole control group: the grace holds."""
    one = supervised(adapter="slow", core="slow", grace=1.5)
    one.ready()
    for pid in one.pids().values():
        os.kill(pid, signal.SIGTERM)
    one.process.send_signal(signal.SIGTERM)
    code, errors = one.end()
    assert code == 0, errors
    assert not any(line.endswith("stop 0") for line in one.trace())


def test_kills_what_does_not_end(supervised: Start) -> None:
    """A child that ignores its orders is killed after the grace, and the exit code says so."""
    one = supervised(adapter="stubborn", grace=0.2)
    one.ready()
    one.process.send_signal(signal.SIGTERM)
    code, errors = one.end()
    assert code == 1
    assert "adapter does not end; it is killed" in errors


@pytest.mark.parametrize("name", ["core", "adapter"])
def test_restarts_what_dies(supervised: Start, name: str) -> None:
    """SH07: kill -9 of one process: it alone comes back, at the addresses that it had."""
    one = supervised()
    one.ready()
    before = one.pids()
    os.kill(before[name], signal.SIGKILL)
    one.wait_for(f"{name} ready", times=2)
    after = one.pids()
    assert {n for n in before if before[n] != after[n]} == {name}
    if name == "core":
        assert one.trace()[-1] == "core ready 127.0.0.1:7"
    one.process.send_signal(signal.SIGTERM)
    code, errors = one.end()
    assert code == 0
    assert f"{name} was ended by SIGKILL; starting it again in 0.1 s" in errors


def test_start_error_is_one_line(supervised: Start) -> None:
    """A child that cannot start ends the whole with its reason and its exit code."""
    one = supervised(core="fail")
    code, errors = one.end()
    assert code == 4
    assert [line for line in errors.splitlines() if line.startswith("a2a-gateway")] == [
        "a2a-gateway: core cannot start"
    ]
    assert "Traceback" not in errors


def test_start_error_after_a_death_is_tried_again(supervised: Start) -> None:
    """Once it has been ready, a start that fails is one more death, not the end."""
    one = supervised(core="once die")
    one.ready()
    one.wait_for("core ready", times=2)
    one.process.send_signal(signal.SIGTERM)
    assert one.end()[0] == 0


def test_children_drain_when_the_supervisor_is_killed(supervised: Start) -> None:
    """kill -9 of the supervisor leaves nothing behind."""
    one = supervised()
    one.ready()
    one.process.kill()
    one.wait_for("core end 0")
    one.wait_for("adapter end 0")


def test_takes_the_end_of_those_it_does_not_know(supervised: Start, tmp_path: Path) -> None:
    """As process 1 of a container: none stays behind as a zombie."""
    one = supervised(orphan=str(tmp_path / "orphan"))
    one.ready()
    pid = int((tmp_path / "orphan").read_text())
    os.kill(pid, signal.SIGKILL)
    end = time.monotonic() + LIMIT
    while _is_there(pid):
        assert time.monotonic() < end, "a zombie is left"
        time.sleep(0.02)
    one.process.send_signal(signal.SIGTERM)
    assert one.end()[0] == 0


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
