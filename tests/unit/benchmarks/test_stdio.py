"""The load generator of the stdio door counts good answers and nothing else."""

import sys

import pytest

from benchmarks.load import LoadError, count
from benchmarks.stdio import StdioLoad
from tests.conftest import run

ANSWERS = """
import json, sys
for line in sys.stdin:
    value = json.loads(line)
    answer = {"jsonrpc": "2.0", "id": value["id"]}
    if value["method"] == "$/initialize":
        answer["result"] = {"binding": ""}
    elif value["method"] == "SendMessage":
        answer["result"] = {"state": STATE}
    else:
        for number in range(3):
            print(json.dumps({**answer, "result": {"artifactUpdate": number}}))
        print(json.dumps({**answer, "result": {"state": STATE}}, separators=(",", ":")))
        answer["streamEnd"] = True
    sys.stdout.write(json.dumps(answer, separators=(",", ":"))[:9])
    sys.stdout.flush()
    print(json.dumps(answer, separators=(",", ":"))[9:], flush=True)
"""


def program(state: str) -> list[str]:
    script = ANSWERS.replace("STATE", repr(state))
    return [sys.executable, "-c", script]


async def _session(state: str, calls: int) -> tuple[float, int]:
    client = StdioLoad()
    await client.open(program(state))
    try:
        if calls:
            await count(client, 4, calls)
        return await client.stream("x")
    finally:
        client.close()


def test_calls_and_a_stream() -> None:
    """Answers are told from one another, also when they come in pieces."""
    took, chunks = run(_session("TASK_STATE_COMPLETED", 0))
    assert (took > 0, chunks) == (True, 3)


def test_a_wrong_answer_voids_the_load() -> None:
    """Whatever the figure was."""
    with pytest.raises(LoadError, match="a wrong answer"):
        run(_session("TASK_STATE_FAILED", 3))
    with pytest.raises(LoadError, match="did not complete"):
        run(_session("TASK_STATE_FAILED", 0))


def test_calls() -> None:
    """Each answer starts the next."""
    run(_calls())


async def _calls() -> None:
    client = StdioLoad()
    await client.open(program("TASK_STATE_COMPLETED"))
    try:
        await count(client, 4, 50)
    finally:
        client.close()
