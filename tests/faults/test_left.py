"""kill -9 of one process or of all at once, while the agent works in a process of its own or as a
program: no process is left, no socket, lock or port keeps the next start from working."""

import asyncio
import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from gateway.pb import TaskState
from tests.conftest import run
from tests.faults.callers import Caller
from tests.faults.conftest import IS_LONG
from tests.faults.test_kills import back
from tests.faults.victim import MARK, Victim, doors, eventually, victim

GONE_SECONDS = 20.0
REVIVE_SECONDS = 40.0
BACK_SECONDS = 20.0
GRACE = 1.0

PROCESS = {"spec": "tests.doubles.agents:agent", "isolation": "process"}
# it heeds no SIGTERM, and its child has a session of its own
PROGRAM = {
    "spec": """command:sh -c 'trap "" TERM; setsid sleep 300 & echo begun; sleep 300; sleep 300'""",
    "command": {"environment": [MARK]},
}
EVERYBODY = ["supervisor", "core", "adapter-http"]
CASES: dict[str, tuple[list[str], list[str]]] = {
    "all": (EVERYBODY, []),
    "core, agent frozen": (["core"], ["agent"]),
}
"""Who is killed, and who is frozen at that time."""
if IS_LONG:
    CASES["supervisor"] = (["supervisor"], [])
    CASES["core"] = (["core"], [])
    CASES["all and the agent"] = ([*EVERYBODY, "agent"], [])


@pytest.mark.parametrize("agent", [PROCESS, PROGRAM], ids=["process", "program"])
@pytest.mark.parametrize(("killed", "frozen"), CASES.values(), ids=CASES)
def test_nothing_is_left(
    tmp_path: Path, agent: dict[str, Any], killed: list[str], frozen: list[str]
) -> None:
    """SH07: the agent's processes end with what started them, and the gateway comes back: by
    itself where its supervisor lives, by the next start otherwise."""
    sockets = {"http": tmp_path / "http.sock", "grpc": tmp_path / "grpc.sock"}
    places = doors()
    for name, path in sockets.items():
        places[name]["address"] = [places[name]["address"], f"unix:{path}"]
    config = {"agent": agent, "grace": GRACE, "transports": places}
    with victim(tmp_path / "gateway", config) as gateway:
        run(_kill(gateway, killed, frozen))


async def _kill(gateway: Victim, killed: list[str], frozen: list[str]) -> None:
    task_id = await _begin(gateway)
    await eventually(lambda: len(_agents(gateway)) > 0, BACK_SECONDS, gateway.marked)
    agents = set(_agents(gateway))
    before = set(gateway.marked())
    for pid in agents if frozen else ():
        os.kill(pid, signal.SIGSTOP)
    names = {**gateway.pids(), "supervisor": gateway.supervisor}
    victims = [names[name] for name in killed if name in names]
    if "agent" in killed:
        victims += agents
    for pid in victims:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    expected = before if "supervisor" in killed else agents | set(victims)
    await eventually(
        lambda: not expected & set(gateway.marked()),
        GONE_SECONDS,
        lambda: {p: c for p, c in gateway.marked().items() if p in expected},
    )
    if "supervisor" in killed:
        await gateway.revive(REVIVE_SECONDS)
    await back(gateway, BACK_SECONDS)
    async with Caller(gateway.addresses, "grpc") as caller:
        task = await caller.get(task_id)
        assert task.status.state == TaskState.TASK_STATE_FAILED
    gateway.terminate()
    assert await gateway.exit_code(GRACE + 30.0) == 0, gateway.server.text()
    await eventually(lambda: not gateway.marked(), GONE_SECONDS, gateway.marked)


async def _begin(gateway: Victim) -> str:
    """A task that works on; its id."""
    async with Caller(gateway.addresses, "rest") as caller:
        task_id = (await caller.send("slow 9999 100", immediate=True)).task.id
        end = time.monotonic() + BACK_SECONDS
        while (await caller.get(task_id)).status.state == TaskState.TASK_STATE_SUBMITTED:
            assert time.monotonic() < end
            await asyncio.sleep(0.02)
    return task_id


def _agents(gateway: Victim) -> list[int]:
    """Processes that are the agent's, not the gateway's own."""
    own = {gateway.supervisor, *gateway.pids().values()} - {gateway.pids().get("agent", 0)}
    return [pid for pid in gateway.marked() if pid not in own]
