"""The process that starts programs: nothing is left behind, whoever is killed."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from gateway.agents import AgentError
from gateway.agents.command.agent import LOST, CommandAgent
from tests.conftest import run
from tests.doubles.recording import RecordingTurn
from tests.processes import is_alive
from tests.unit.agents.command.scene import appears, gone, play, sh, started

FAMILY = "trap '' TERM; sleep 60 & echo $$ $! > {path}; wait; sleep 60"
"""A program and its child; SIGTERM ends only the child."""

CORE = """
import asyncio, sys
from tests.doubles.recording import RecordingTurn
from tests.unit.agents.command.scene import sh, started

async def main():
    async with started(sh(sys.argv[1])) as made:
        await made.run(RecordingTurn("hi"))

asyncio.run(main())
"""


def keeper_of(process: psutil.Process) -> psutil.Process:
    """The keeper among a process's children."""
    return next(c for c in process.children() if "keeper_process" in " ".join(c.cmdline()))


async def begin(
    made: CommandAgent, path: Path
) -> tuple[RecordingTurn, "asyncio.Task[None]", list[int]]:
    """Start a family; its turn, and its processes."""
    turn = RecordingTurn("hi")
    running = asyncio.create_task(made.run(turn))
    return turn, running, [int(pid) for pid in (await appears(path)).split()]


@pytest.mark.parametrize("is_stopped", [False, True])
def test_a_core_that_is_killed_takes_its_programs_along(tmp_path: Path, is_stopped: bool) -> None:
    """SIGKILL: nothing in the core itself can do it. Also where keeper and program stand still."""
    path = tmp_path / "pids"
    root = Path(__file__).parents[4]
    argv = [sys.executable, "-c", CORE, FAMILY.format(path=path)]

    async def main() -> None:
        core = subprocess.Popen(argv, cwd=root)  # noqa: ASYNC220
        try:
            pids = [int(pid) for pid in (await appears(path)).split()]
            pids.append(keeper_of(psutil.Process(core.pid)).pid)
            for pid in pids if is_stopped else ():
                os.kill(pid, signal.SIGSTOP)
        finally:
            core.kill()
            core.wait()
        for pid in pids:
            await gone(pid)

    run(main())


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends children with their parent")
def test_a_core_and_a_keeper_that_are_killed_at_once(tmp_path: Path) -> None:
    """Then the program itself ends; what it started is nobody's."""
    path = tmp_path / "pids"
    root = Path(__file__).parents[4]
    argv = [sys.executable, "-c", CORE, f"echo $$ > {path}; exec sleep 60"]

    async def main() -> None:
        core = subprocess.Popen(argv, cwd=root)  # noqa: ASYNC220
        try:
            pid = int(await appears(path))
            keeper = keeper_of(psutil.Process(core.pid))
            keeper.suspend()
        finally:
            core.kill()
            core.wait()
        keeper.kill()
        await gone(pid)

    run(main())


def test_a_keeper_that_is_killed(tmp_path: Path) -> None:
    """Its turns fail and say so, their programs end, children too; the next makes another."""

    async def main() -> None:
        async with started(sh(FAMILY.format(path=tmp_path / "pids"))) as made:
            turn, running, pids = await begin(made, tmp_path / "pids")
            keeper_of(psutil.Process()).kill()
            await running
            assert (turn.states[-1], turn.last_words) == ("FAILED", LOST)
            for pid in pids:
                await gone(pid)
            (tmp_path / "pids").unlink()
            _, running, pids = await begin(made, tmp_path / "pids")
            running.cancel()
            await asyncio.wait((running,))
            for pid in pids:
                await gone(pid)

    run(main())


@pytest.mark.parametrize("is_told", [True, False])
def test_a_keeper_that_dies_at_once(is_told: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether it could still be told of the program or not."""

    async def main() -> None:
        async with started("true") as made:
            keeper_of(psutil.Process()).kill()
            while made._keeper._socket is not None:  # noqa: ASYNC110 - no event tells of it
                await asyncio.sleep(0.005)
            monkeypatch.setattr(sys, "executable", "/bin/false")
            if not is_told:
                monkeypatch.setattr(made._keeper, "_spawn", lambda: None)
            turn = RecordingTurn("hi")
            await made.run(turn)
            assert (turn.states[-1], turn.last_words) == ("FAILED", LOST)

    run(main())


def test_a_keeper_that_stands_still(tmp_path: Path) -> None:
    """A turn that is cancelled meanwhile ends in time; its program does when the keeper is back."""

    async def main() -> None:
        async with started(sh(FAMILY.format(path=tmp_path / "pids")), cancel_timeout=0.2) as made:
            _, running, pids = await begin(made, tmp_path / "pids")
            keeper = keeper_of(psutil.Process())
            keeper.suspend()
            try:
                before = time.monotonic()
                running.cancel()
                await asyncio.wait((running,))
                assert time.monotonic() - before < 30  # its child sleeps for 60
                assert is_alive(pids[0])
            finally:
                keeper.resume()
            for pid in pids:
                await gone(pid)

    run(main())


def test_nothing_is_left_open(tmp_path: Path) -> None:
    """Neither descriptors nor processes, over many runs that end in each way."""
    others = set(psutil.Process().children())  # of other tests

    async def main() -> None:
        async with started(sh("case $A2A_MESSAGE_ID in m1) read word; $word;; esac; cat")) as made:
            await made.run(RecordingTurn("true"))
            before = len(os.listdir("/dev/fd"))
            for _ in range(5):
                for word in ("true", "false", "yes"):
                    running = asyncio.create_task(made.run(RecordingTurn(word)))
                    await asyncio.wait((running,), timeout=0.05)
                    running.cancel()
                    await asyncio.wait((running,))
            assert len(os.listdir("/dev/fd")) == before
            keeper = keeper_of(psutil.Process())
            while keeper.children():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert set(psutil.Process().children()) <= others

    run(main())


def test_many_at_once() -> None:
    """More than the usual limit of open files would let through; programs keep that limit."""
    soft = 256
    script = (
        f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, 4096))\n"
        + CORE.replace(
            'await made.run(RecordingTurn("hi"))',
            'turns = [RecordingTurn("hi") for _ in range(120)]\n'
            "        await asyncio.gather(*map(made.run, turns))\n"
            "        print({turn.text for turn in turns})",
        )
    )
    argv = [sys.executable, "-c", script, "sleep 0.5; ulimit -n"]
    root = Path(__file__).parents[4]
    done = subprocess.run(argv, cwd=root, capture_output=True, text=True, timeout=30, check=False)
    assert done.stdout.strip() == f"{{'{soft}\\n'}}", done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_signals_do_not_reach_programs_by_inheritance() -> None:
    """A program starts with every signal as usual, whatever the keeper does with its own."""
    turn = play("cat /proc/self/status")
    found = dict(line.split(":\t") for line in turn.text.splitlines() if line.startswith("Sig"))
    usual = 2**31 - 1  # beyond are those of the C library itself
    assert {int(found[name], 16) & usual for name in ("SigIgn", "SigBlk")} == {0}


def test_an_interpreter_that_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        monkeypatch.setattr(sys, "executable", "/bin/false")
        with pytest.raises(AgentError, match="does not run"):
            async with started("true"):
                pass

    run(main())


def test_a_terminal_does_not_reach_it() -> None:
    """Ctrl-C is for the supervisor: the keeper leads a process group of its own, and ignores it."""

    async def main() -> None:
        async with started("cat") as made:
            keeper = keeper_of(psutil.Process())
            assert os.getpgid(keeper.pid) == keeper.pid
            keeper.send_signal(signal.SIGINT)
            turn = RecordingTurn("hi")
            await made.run(turn)
            assert turn.text == "hi\n"

    run(main())


def test_more_than_the_socket_takes_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"LARGE_{number}" for number in range(8)]
    for name in names:
        monkeypatch.setenv(name, "x" * 100_000)
    assert play(sh("echo ${#LARGE_7}"), environment=names).text == "100000\n"
