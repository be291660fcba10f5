"""The client's end: a program is started, called, and ended in order."""

import asyncio
import signal
import sys
import time
from pathlib import Path

import pytest

from gateway.errors import FailureError
from gateway.pb import GetTaskRequest
from tests.conftest import run
from transports.stdio.client import StdioClient, ended
from transports.stdio.connecting import directly, parse
from transports.wire import Options, UnreachableError, UrlError

ANSWERS = """
import json, sys
print("a word on stderr", file=sys.stderr, flush=True)
for line in sys.stdin:
    value = json.loads(line)
    if "id" in value:
        print(json.dumps({"jsonrpc": "2.0", "id": value["id"], "result": {"id": "t1"}}), flush=True)
"""
STUBBORN = """
import signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(file=sys.stderr, flush=True)
time.sleep(60)
"""


def python(script: str) -> list[str]:
    return [sys.executable, "-c", script]


def test_a_call_and_the_end() -> None:
    """The program ends by the end of its input, and is waited for."""

    async def main() -> None:
        async with StdioClient(python(ANSWERS), captures=True) as client:
            task = await client.unary("GetTask", GetTaskRequest(id="t1"))
            assert task.id == "t1"  # type: ignore[attr-defined]
        assert client.process.returncode == 0
        assert list(client.errors) == ["a word on stderr"]

    run(main())


def test_a_command_line() -> None:
    """A text is split as a shell would, and goes through no shell."""

    async def main() -> None:
        command = f"{sys.executable} -c 'import sys; sys.exit(sys.argv[1] == \"$HOME\")' '$HOME'"
        client = StdioClient(command)
        with pytest.raises(FailureError, match="ended with code 1"):
            await client.unary("GetTask", GetTaskRequest(id="t1"))
        await client.aclose()

    run(main())


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (["/no/such/program"], "/no/such/program cannot be started: No such file"),
        ([], "the command is empty"),
        ([__file__], "cannot be started: Permission denied"),
    ],
)
def test_a_program_that_cannot_be_started(command: list[str], text: str) -> None:
    """Nothing was sent: another way may be tried."""

    async def main() -> None:
        with pytest.raises(UnreachableError, match=text):
            StdioClient(command)

    run(main())


@pytest.mark.parametrize(
    ("script", "text"),
    [
        ("import sys; sys.exit(3)", "ended with code 3"),
        ("import os; os.kill(os.getpid(), 9)", "was ended by SIGKILL"),
        ("", "ended the connection"),
    ],
)
def test_a_program_that_ends(script: str, text: str) -> None:
    """Calls are told how it ended."""

    async def main() -> None:
        async with StdioClient(python(script)) as client:
            with pytest.raises(FailureError, match=text) as error:
                await client.unary("GetTask", GetTaskRequest(id="t1"))
            assert error.value.failure.row.reason == "UNAVAILABLE"

    run(main())


def test_a_program_that_does_not_end() -> None:
    """SIGTERM after the grace, SIGKILL after that."""

    async def main() -> int | None:
        client = StdioClient(python(STUBBORN), captures=True, grace=0.1)
        while not client.errors:  # noqa: ASYNC110 - it is another process
            await asyncio.sleep(0.01)
        began = time.monotonic()
        await client.aclose()
        assert time.monotonic() - began < 4
        return client.process.returncode

    assert run(main()) == -signal.SIGKILL


def test_words() -> None:
    """How a program ended."""
    assert ended(-9) == "it was ended by SIGKILL"
    assert ended(-250) == "it was ended by signal 250"


def test_urls() -> None:
    """`stdio:COMMAND`."""
    assert parse("stdio:a2a-gateway stdio --agent 'my agent:agent'") == [
        *("a2a-gateway", "stdio", "--agent", "my agent:agent")
    ]
    for url, text in (("stdio:", "names no program"), ("stdio:a 'b", "cannot be read")):
        with pytest.raises(UrlError, match=text):
            parse(url)


def test_a_connection(tmp_path: Path) -> None:
    """What `connect` gives for such a URL."""
    script = tmp_path / "agent.py"
    script.write_text(ANSWERS)

    async def main() -> None:
        url = f"stdio:{sys.executable} {script}"
        async with await directly(url, Options()) as connection:
            task = await connection.unary("GetTask", GetTaskRequest(id="t1"))
            assert task.id == "t1"  # type: ignore[attr-defined]

    run(main())
