"""Agents behind gRPC as processes of their own, started again when they end, as a pod does it."""

import asyncio
import functools
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from tests import javascript

ROOT = Path(__file__).resolve().parents[2]
CONTRACT = ROOT / "proto" / "agent.binpb"
EXAMPLES = ROOT / "examples" / "grpc_agent"
DOUBLES = ROOT / "tests" / "doubles" / "grpc_agent"
START_SECONDS = 30.0

Command = tuple[list[str], Mapping[str, str]]
"""Arguments, and what is added to the environment."""


@functools.cache
def stubs() -> tempfile.TemporaryDirectory[str]:
    """A folder with the modules that the guide has made from the contract."""
    folder = tempfile.TemporaryDirectory(prefix="stubs-")
    made = [f"--python_out={folder.name}", f"--grpc_python_out={folder.name}"]
    known = f"--descriptor_set_in={CONTRACT}"
    protoc = [sys.executable, "-m", "grpc_tools.protoc", known, *made, "a2a.proto", "agent.proto"]
    subprocess.run(protoc, check=True)
    return folder


def python(script: Path) -> Command:
    """An agent in Python; its address follows."""
    folders = [stubs().name, str(EXAMPLES / "python")]
    return [sys.executable, str(script)], {"PYTHONPATH": os.pathsep.join(folders)}


def node(script: Path) -> Command:
    """An agent in JavaScript; its address follows."""
    javascript.install(EXAMPLES / "javascript")
    return [str(javascript.NODE), str(script)], {}


@asynccontextmanager
async def running(command: Command) -> AsyncIterator[str]:
    """An agent that is there again soon after it has ended; its address."""
    with tempfile.TemporaryDirectory(prefix="agent-") as folder:
        address = f"unix:{folder}/agent.sock"
        arguments, environment = command
        arguments = [*arguments, address, str(CONTRACT)]
        started: list[asyncio.subprocess.Process] = []

        async def keep() -> None:
            while True:
                await _start(arguments, environment, started)
                is_up.set()
                await started[-1].wait()

        is_up = asyncio.Event()
        keeping = asyncio.create_task(keep())
        try:
            await is_up.wait()
            yield address
        finally:
            keeping.cancel()
            await asyncio.wait([keeping])
            for process in started:
                await _end(process)


async def _end(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        process.kill()
    # its output has to be read to the end
    await process.communicate()


async def _start(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    started: list[asyncio.subprocess.Process],
) -> None:
    process = await asyncio.create_subprocess_exec(
        *arguments,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    )
    started.append(process)
    assert process.stdout is not None
    async with asyncio.timeout(START_SECONDS):
        line = await process.stdout.readline()
    assert line.startswith(b"serving at"), line
