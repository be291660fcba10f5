"""Kills and freezes at random of every process under load: the supervisor, the core, two
adapters, the agent's process, programs on pipes. Nothing acknowledged is lost, nothing is left
behind (design: "What has to stay true", 2; SH07, PR01).

The blows come from a seed, which is printed: `FAULTS_SEED=N make faults` draws them again. The
short form always has the same.
"""

import asyncio
import os
import random
import shlex
import signal
import socket
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.conftest import run
from tests.doubles.pigeon import install
from tests.faults.callers import DOORS, Caller
from tests.faults.conftest import IS_LONG, seed
from tests.faults.ledger import Ledger
from tests.faults.load import Load
from tests.faults.test_kills import SAMPLE, back, check
from tests.faults.victim import Victim, doors, eventually, victim
from tests.processes import ROOT, free_ports

BLOWS = 200 if IS_LONG else 24
BURST = 4
"""Blows in a row; then all is thawed, the service has to be back, and a sample is looked at."""
GRACE = 1.0
REVIVE_SECONDS = 40.0
BACK_SECONDS = 30.0
"""The core waits for the agent's process, and all have to share the CPU with the load."""
GONE_SECONDS = 20.0
FROZEN = (0.1, 1.5)
LONG_FROZEN = (8.0, 13.0)
"""Past the patience of the link."""
VICTIMS = {
    "core": 4,
    "adapter-http": 4,
    "adapter-carrier-pigeon": 2,
    "agent": 4,
    "stdio": 3,
    "supervisor": 2,
}


def test_nothing_is_lost_and_nothing_is_left(tmp_path: Path) -> None:
    """PR01, SH07: 200 blows in the long form. In the end the gateway stops in order, with code 0,
    and no process, no socket is left of it or of those that were killed."""
    sockets = [tmp_path / "http.sock", tmp_path / "gateway" / "state" / "link" / "core.sock"]
    environment = {
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(install(tmp_path / "package"))]),
        "PYTHONWARNINGS": "ignore",
    }
    with victim(tmp_path / "gateway", _config(sockets[0]), environment=environment) as gateway:
        chaos = Chaos(gateway, tmp_path, random.Random(seed()))
        run(chaos.run(sockets), BLOWS * 12.0 + 90)


def _config(http: Path) -> dict[str, Any]:
    places = doors()
    (pigeon,) = free_ports(1)
    places["http"]["address"] = [places["http"]["address"], f"unix:{http}"]
    places["carrier-pigeon"] = {"address": f"127.0.0.1:{pigeon}"}
    return {
        "agent": {"isolation": "process"},
        "grace": GRACE,
        "logs": {"level": "warning"},
        "transports": places,
    }


class Chaos:
    """One run."""

    def __init__(self, gateway: Victim, folder: Path, chance: random.Random) -> None:
        self._gateway = gateway
        self._chance = chance
        self._ledger = Ledger()
        state = folder / "gateway" / "state"
        words = [sys.executable, "-m", "gateway.cli", "stdio", "--state-dir", str(state)]
        mark = [f"{name}={value}" for name, value in gateway.environment.items()]
        self._load = Load(
            gateway.addresses,
            self._ledger,
            folder / "runs",
            chance,
            stdio=shlex.join(["env", *mark, *words]),
        )
        self._frozen: set[asyncio.Task[None]] = set()
        self._blows: Counter[str] = Counter()

    async def run(self, sockets: list[Path]) -> None:
        """The blows, the checks, the end."""
        with self._load:
            slowest = await self._beat()
        await check(self._gateway, self._ledger)
        print(
            f"{dict(self._blows)}, {self._load.answered} calls answered, {self._load.refused} "
            f"refused, {len(self._ledger.tasks)} tasks; back within {slowest:.1f} s"
        )
        await self._end(sockets)
        assert not self._ledger.complaints, "\n".join(
            [
                f"{len(self._ledger.complaints)} complaints",
                *self._ledger.complaints[:20],
                self._gateway.server.text(),
            ]
        )

    async def _beat(self) -> float:
        """The blows under load; the longest that the service was away for, in seconds."""
        self._load.start()
        slowest = 0.0
        while self._blows.total() < BLOWS and not self._ledger.complaints:
            for _ in range(BURST):
                await asyncio.sleep(self._chance.uniform(0.05, 0.6))
                await self._blow()
            slowest = max(slowest, await self._recover())
        await self._load.stop()
        await self._recover()
        return slowest

    async def _blow(self) -> None:
        names, weights = zip(*VICTIMS.items(), strict=True)
        (name,) = self._chance.choices(names, weights)
        is_kill = self._chance.random() < 0.6
        pid = self._pid(name)
        if pid is None:
            return
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL if is_kill else signal.SIGSTOP)
            self._blows[f"{name} {'killed' if is_kill else 'frozen'}"] += 1
        if not is_kill:
            self._frozen.add(asyncio.create_task(self._thaw(pid)))
        elif name == "supervisor":
            # nobody starts a gateway again beside the frozen remains of another
            await self._all_thawed()
            await self._gateway.revive(REVIVE_SECONDS)

    def _pid(self, name: str) -> int | None:
        if name == "supervisor":
            return self._gateway.supervisor
        if name == "stdio":
            found = [p for p, c in self._gateway.marked().items() if "gateway.cli stdio" in c]
            return self._chance.choice(found) if found else None
        return self._gateway.pids().get(name)

    async def _thaw(self, pid: int) -> None:
        is_long = IS_LONG and self._chance.random() < 0.05
        await asyncio.sleep(self._chance.uniform(*(LONG_FROZEN if is_long else FROZEN)))
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)

    async def _all_thawed(self) -> None:
        if self._frozen:
            await asyncio.wait(self._frozen)
            self._frozen.clear()

    async def _recover(self) -> float:
        """Every door answers again; the seconds that it took."""
        await self._all_thawed()
        started = time.monotonic()
        await back(self._gateway, BACK_SECONDS)
        async with Caller(self._gateway.addresses, self._chance.choice(DOORS)) as caller:
            ids = list(self._ledger.tasks)
            some = self._chance.sample(ids, min(SAMPLE, len(ids)))
            await self._ledger.check_found(caller, some)
        return time.monotonic() - started

    async def _end(self, sockets: list[Path]) -> None:
        gateway = self._gateway
        assert all(map(_is_answered, sockets))
        gateway.terminate()
        assert await gateway.exit_code(GRACE + 30.0) == 0, gateway.server.text()
        await eventually(lambda: not gateway.marked(), GONE_SECONDS, gateway.marked)
        assert not gateway.left()
        assert not [path for path in sockets if path.exists()]


def _is_answered(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0
