"""Programs for the tests of this folder, and agents that run them."""

import asyncio
import shlex
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from gateway.agents.command.agent import CommandAgent, split
from gateway.agents.command.options import CommandOptions
from gateway.agents.kinds import Settings
from tests.conftest import run
from tests.doubles.recording import RecordingTurn, run_once
from tests.processes import is_alive


def sh(script: str) -> str:
    """The command for a shell script."""
    return f"sh -c {shlex.quote(script)}"


def python(script: str) -> str:
    """The command for a Python script."""
    return f"{sys.executable} -I -S -c {shlex.quote(script)}"


def agent(command: str, *, cancel_timeout: float = 1.0, **options: Any) -> CommandAgent:
    """The agent of a command."""
    settings = Settings(cancel_timeout=cancel_timeout, command=CommandOptions(**options))
    return CommandAgent(split(command), settings, name="program")


def play(command: str, *parts: Any, turn: RecordingTurn | None = None, **options: Any) -> Any:
    """Run a command once; the turn."""
    return run(run_once(agent(command, **options), turn or RecordingTurn(*(parts or ("hi",)))))


@asynccontextmanager
async def started(command: str, **options: Any) -> AsyncIterator[CommandAgent]:
    """An agent that is stopped at the end."""
    made = agent(command, **options)
    await made.start()
    try:
        yield made
    finally:
        await made.stop()


async def appears(path: Path) -> str:
    """Wait until a program has written a whole line; the text."""
    while not (path.exists() and path.read_text().endswith("\n")):  # noqa: ASYNC110, ASYNC240
        await asyncio.sleep(0.005)
    return path.read_text()  # noqa: ASYNC240


async def gone(pid: int, seconds: float = 20.0) -> None:
    """Wait for the end of a process."""
    end = time.monotonic() + seconds
    while is_alive(pid):
        assert time.monotonic() < end, f"process {pid} is left behind"
        await asyncio.sleep(0.01)
