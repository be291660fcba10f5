"""The stdio door's processes: who starts the core, who joins it, and what is left when one of
them ends or dies (design: "Processes")."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from gateway.lock import open_lock, try_lock
from gateway.pb import AgentCard
from gateway.state_dir import read_invitation
from tests.conftest import run
from tests.framed import Program, gone, kill, program, stdio_command
from tests.processes import core_of, gateway, is_alive
from transports.core import CoreClient
from transports.stdio import BINDING

AGENT = "tests.doubles.agents:agent"
GRACE = {"A2A_GATEWAY_GRACE": "3"}
LONG_GRACE = {"A2A_GATEWAY_GRACE": "60"}
"""Whoever ends sooner has not waited for it."""
SOON = 15.0
"""Seconds for what takes a fraction of one, on a machine that is slow."""


@pytest.fixture
def peer(tmp_path: Path) -> Iterator[Program]:
    """A process with a core of its own."""
    with program(command(tmp_path), environment=GRACE) as found:
        yield found
    assert is_free(tmp_path)


def command(folder: Path, agent: str = AGENT) -> list[str]:
    """A short folder keeps the link's socket in it."""
    return stdio_command(folder / "state", agent)


def is_free(folder: Path, seconds: float = 3.0 + SOON) -> bool:
    """Whether the state directory has no core, within so many seconds."""
    lock = open_lock(str(folder / "state"))
    try:
        end = time.monotonic() + seconds
        while not try_lock(lock):
            if time.monotonic() > end:
                return False
            time.sleep(0.02)
        return True
    finally:
        os.close(lock)


def ready(peer: Program) -> int:
    """The core of a process that has answered."""
    peer.works()
    core = core_of(peer.pid)
    assert core is not None
    return core


# The end


def test_the_end_of_the_input(peer: Program, tmp_path: Path) -> None:
    """What runs is answered; then the process, and its core, end in order."""
    core = ready(peer)
    peer.message("slow 10 50", 1)
    peer.message("slow 10 50", 2, "SendStreamingMessage")
    assert peer.answer(2)["result"]["task"]
    peer.end_input()
    assert peer.answer(1)["result"]["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert len(list(peer.events(2))) >= 10
    assert peer.is_at_end()
    assert peer.exit_code() == 0
    assert not is_alive(core)
    assert read_invitation(tmp_path / "state") is None
    assert list((tmp_path / "state" / "link").iterdir()) == []


def test_what_does_not_end_in_time_is_told_so(peer: Program) -> None:
    """SH02, SH03: idle streams and slow calls get UNAVAILABLE once the grace is over."""
    core = ready(peer)
    peer.message("ask", 1)
    task_id = peer.answer(1)["result"]["task"]["id"]
    peer.call("SubscribeToTask", {"id": task_id}, 2)
    peer.message("silent", 3)
    assert peer.answer(2)["result"]["task"]["id"] == task_id
    began = time.monotonic()
    peer.end_input()
    for call_id in (2, 3):
        assert _reason(peer.answer(call_id)) == "UNAVAILABLE"
    assert peer.exit_code() == 0
    assert 2.5 < time.monotonic() - began < 3.0 + SOON
    assert not is_alive(core)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_stop_in_order(peer: Program, number: signal.Signals) -> None:
    """SH03: a stream with work left ends it, new calls are refused, the exit code is 0."""
    core = ready(peer)
    peer.message("slow 10 50", 1, "SendStreamingMessage")
    assert peer.answer(1)["result"]["task"]
    kill(peer.pid, number)
    assert peer.read_until(lambda value: value.get("method") == "$/goaway")
    assert len(list(peer.events(1))) >= 10
    assert peer.exit_code() == 0
    assert not is_alive(core)


def test_a_second_signal_means_haste(tmp_path: Path) -> None:
    """Nobody waits for an agent that says nothing."""
    with program(command(tmp_path), environment=LONG_GRACE) as peer:
        core = ready(peer)
        peer.message("silent", 1)
        kill(peer.pid, signal.SIGTERM)
        time.sleep(0.7)  # signals of one moment count as one
        kill(peer.pid, signal.SIGTERM)
        assert peer.exit_code(SOON) == 0
        assert not is_alive(core)


def test_a_signal_before_it_is_ready(tmp_path: Path) -> None:
    """No core is left behind, and no traceback is shown."""
    for pause in (0.05, 0.15, 0.3):
        with program(command(tmp_path)) as peer:
            time.sleep(pause)
            kill(peer.pid, signal.SIGTERM)
            assert peer.exit_code() in (0, -signal.SIGTERM)
            assert is_free(tmp_path)
            assert "Traceback" not in peer.text()


def test_the_client_closes_its_end_of_the_output(peer: Program) -> None:
    """Nobody can be answered: it ends at once, whatever runs, and its core after the grace."""
    core = ready(peer)
    peer.message("slow 9999 10", 1, "SendStreamingMessage")
    assert peer.answer(1)
    peer.hang_up()
    assert peer.exit_code() == 0
    assert is_alive(core)
    assert gone(core, 3.0 + SOON)
    assert "Traceback" not in peer.text()


def test_streams_that_are_closed(tmp_path: Path) -> None:
    """Without an input or an output there is nothing to serve; without standard error there is."""
    words = " ".join(command(tmp_path))
    for closed in ("<&-", ">&-"):
        done = subprocess.run(["sh", "-c", f"{words} {closed}"], capture_output=True, timeout=20)
        assert done.returncode == 2
        assert b"must both be open" in done.stderr
    request = b'{"jsonrpc":"2.0","id":1,"method":"$/ping"}'
    done = subprocess.run(
        ["sh", "-c", f"{words} 2>&-"], input=request, stdout=subprocess.PIPE, timeout=20
    )
    assert (done.returncode, done.stdout) == (0, b'{"jsonrpc":"2.0","id":1,"result":{}}\n')


# Deaths


def test_kill_leaves_nothing_behind(peer: Program, tmp_path: Path) -> None:
    """kill -9 of the process: its core ends by itself, and with it what the agent started."""
    core = ready(peer)
    peer.message("slow 500 10", 1, "SendStreamingMessage")
    assert peer.answer(1)
    kill(peer.pid)
    assert gone(core, 3.0 + SOON)
    assert list((tmp_path / "state" / "link").iterdir()) == []


def test_the_core_dies(peer: Program) -> None:
    """SH07: what ran is told that its outcome is not known; the session goes on with the next
    core, and what was acknowledged is there."""
    core = ready(peer)
    peer.message("ask", 1)
    task_id = peer.answer(1)["result"]["task"]["id"]
    peer.message("silent", 2)
    peer.call("GetTask", {"id": task_id}, 3)
    peer.answer(3)
    kill(core)
    error = peer.answer(2)
    assert _reason(error) == "UNAVAILABLE"
    assert "outcome unknown" in error["error"]["message"]
    peer.call("GetTask", {"id": task_id}, 4)
    assert peer.answer(4)["result"]["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    again = core_of(peer.pid)
    assert again not in (None, core)
    peer.works()


def test_the_core_dies_again_and_again(peer: Program) -> None:
    """It is started again each time; calls wait for it."""
    for number in range(4):
        kill(ready(peer))
        peer.call("ListTasks", {}, f"list {number}")
        assert "result" in peer.answer(f"list {number}")
    peer.end_input()
    assert peer.exit_code() == 0


def test_an_agent_that_ends_its_process(peer: Program) -> None:
    """One client's mistake does not end its session."""
    ready(peer)
    peer.message("die", 1)
    assert _reason(peer.answer(1)) == "UNAVAILABLE"
    peer.works()


# Several processes on one state directory


def test_many_start_at_once(tmp_path: Path) -> None:
    """One of them starts the core, the others join it."""
    with ExitStack() as stack:
        peers = [stack.enter_context(program(command(tmp_path))) for _ in range(5)]
        for number, peer in enumerate(peers):
            peer.message(f"echo {number}", number)
        for number, peer in enumerate(peers):
            assert "result" in peer.answer(number)
        cores = [core for peer in peers if (core := core_of(peer.pid)) is not None]
        assert len(cores) == 1
        for peer in peers:
            peer.end_input()
        for peer in peers:
            assert peer.exit_code() == 0, peer.text()
        assert not is_alive(cores[0])
    assert is_free(tmp_path)


@pytest.mark.parametrize("way", ["end", "kill"])
def test_the_one_who_keeps_the_core_ends(tmp_path: Path, way: str) -> None:
    """The other starts a core of its own, and goes on: the tasks are the same, a call that comes
    meanwhile waits, one that ran is told that its outcome is not known."""
    with program(command(tmp_path), environment=GRACE) as first:
        core = ready(first)
        with program(command(tmp_path), environment=GRACE) as second:
            second.works()
            assert core_of(second.pid) is None
            second.message("ask", 1)
            task_id = second.answer(1)["result"]["task"]["id"]
            second.message("silent", 2)
            second.call("GetTask", {"id": task_id}, 3)
            second.answer(3)
            if way == "end":
                first.end_input()
            else:
                kill(first.pid)
            second.call("GetTask", {"id": task_id}, 4)
            assert second.answer(4)["result"]["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
            assert _reason(second.answer(2)) == "UNAVAILABLE"
            second.works()
            second.works()
            assert first.exit_code() == (0 if way == "end" else -signal.SIGKILL)
            assert gone(core, SOON)
            assert core_of(second.pid) is not None
            second.end_input()
            assert second.exit_code() == 0
    assert is_free(tmp_path)


def test_a_gateway_whose_core_dies_keeps_its_directory(tmp_path: Path) -> None:
    """A process that had joined `serve` waits for its core; it takes nothing over while the
    supervisor lives."""
    with gateway(AGENT, tmp_path) as server, program(command(tmp_path, "")) as peer:
        peer.works()
        children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children")
        (core,) = (
            int(pid)
            for pid in children.read_text().split()
            if b"gateway.core" in Path(f"/proc/{pid}/cmdline").read_bytes()
        )
        kill(core)
        peer.call("ListTasks", {}, 1)
        assert "result" in peer.answer(1)
        assert core_of(peer.pid) is None
        peer.works()
        peer.end_input()
        assert peer.exit_code() == 0


def test_a_gateway_ends_under_a_process_that_had_joined(tmp_path: Path) -> None:
    """It goes on with a core of its own, if it was told which agent."""
    with ExitStack() as stack:
        with gateway(AGENT, tmp_path, {"grace": 2}):
            peer = stack.enter_context(program(command(tmp_path), environment=GRACE))
            peer.works()
            assert core_of(peer.pid) is None
        peer.works()
        assert core_of(peer.pid) is not None


def test_a_process_without_an_agent_waits_for_the_next_core(tmp_path: Path) -> None:
    """It cannot start one; calls that come meanwhile fail in time, and the session goes on."""
    with ExitStack() as stack:
        with gateway(AGENT, tmp_path, {"grace": 2}):
            peer = stack.enter_context(program(command(tmp_path, "")))
            peer.works()
        peer.message("echo", 1)
        with gateway(AGENT, tmp_path, {"grace": 2}):
            assert "result" in peer.answer(1)
            peer.works()


def test_a_client_that_is_gone_takes_nothing_from_others(tmp_path: Path) -> None:
    """Its process ends at once. The core that it kept lets the calls of others end, and goes."""
    with program(command(tmp_path), environment=GRACE) as first:
        core = ready(first)
        with program(command(tmp_path), environment=GRACE) as second:
            second.works()
            second.message("slow 15 100", 1)
            first.message("slow 500 10", 1, "SendStreamingMessage")
            assert first.answer(1)
            first.hang_up()
            assert first.exit_code() == 0
            assert is_alive(core)
            answer = second.answer(1)
            assert answer["result"]["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
            assert gone(core, 3.0 + SOON)
            second.works()


def test_the_card_of_a_core_of_its_own(peer: Program, tmp_path: Path) -> None:
    """R51, R59: the entry stands in the card while the process keeps the core, once, however many
    have joined; of a core that others keep the card is left alone."""

    async def card() -> list[tuple[str, str]]:
        invitation = read_invitation(tmp_path / "state")
        assert invitation is not None
        client = CoreClient(invitation.address, door="test", secret=invitation.secret.encode())
        await client.start()
        assert client.card is not None
        found = AgentCard.FromString(client.card.agent_card)
        await client.stop(0)
        return [(entry.url, entry.protocol_binding) for entry in found.supported_interfaces]

    ready(peer)
    with program(command(tmp_path)) as other:
        other.works()
        assert run(card()) == [("stdio:", BINDING)]


def test_secrets_are_for_this_user_alone(peer: Program, tmp_path: Path) -> None:
    """How to join is in a file that nobody else can read, in a folder that nobody else can open,
    and on no command line and in no environment."""
    core = ready(peer)
    path = tmp_path / "state" / "link" / "core.json"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    invitation = read_invitation(tmp_path / "state")
    assert invitation is not None
    assert len(invitation.secret) >= 32
    for pid in (peer.pid, core):
        for name in ("cmdline", "environ"):
            assert invitation.secret.encode() not in Path(f"/proc/{pid}/{name}").read_bytes()
    assert invitation.secret not in peer.text()


# What else is written


def test_whatever_else_is_written(peer: Program) -> None:
    """SD03: prints of the agent, of its children and of libraries go to standard error; a child
    that reads gets nothing of the client's input."""
    ready(peer)
    peer.message("print", 1)
    assert "result" in peer.answer(1)
    peer.works()
    peer.end_input()
    assert peer.is_at_end()
    text = peer.text()
    for line in ("line from the agent", "bytes from the agent", "line from a child ''"):
        assert f"stray {line}" in text


def test_no_listener_is_opened(peer: Program) -> None:
    """A program that an editor starts opens no port."""
    core = ready(peer)
    for pid in (peer.pid, core):
        assert _listening(pid) == set()


def _listening(pid: int) -> set[str]:
    inodes = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            inodes.add(os.readlink(entry))
        except OSError:
            continue
    found = set()
    for name in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and f"socket:[{words[9]}]" in inodes:
                found.add(words[1])
    return found


def _reason(value: Any) -> str:
    reason: str = value["error"]["data"][0]["reason"]
    return reason
