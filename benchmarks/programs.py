"""An agent that is a program: what a call costs beyond running the program."""

import subprocess
import time
from functools import partial
from statistics import median

from benchmarks import requests, servers
from benchmarks.load import LoadError
from benchmarks.scenario import Figure, Scenario, Settings, no_more_than
from benchmarks.sse import exchange

PROGRAM = "cat"
TEXT = "hello"


async def overhead(settings: Settings) -> Figure:
    """Milliseconds: the median of JSON-RPC SendMessage, a connection each, less the median of the
    program alone, with the same input over pipes. One at a time, by turns."""
    count = 30 if settings.quick else 200
    through, alone = [], []
    with servers.ours(agent=f"command:{PROGRAM}") as server:
        await _call(server.http)
        for _ in range(count):
            through.append(await _call(server.http))
            alone.append(_run())
    return Figure((median(through) - median(alone)) * 1e3)


async def _call(port: int) -> float:
    request = requests.http_send(TEXT).fill()
    before = time.perf_counter()
    result = await exchange(port, request)
    seconds = time.perf_counter() - before
    state = result["task"]["status"]["state"]
    if state != "TASK_STATE_COMPLETED":
        raise LoadError(f"a task in state {state} where a completed one was due")
    return seconds


def _run() -> float:
    before = time.perf_counter()
    done = subprocess.run([PROGRAM], input=TEXT.encode(), capture_output=True, check=True)
    seconds = time.perf_counter() - before
    if done.stdout != TEXT.encode():
        raise LoadError(f"the program printed {done.stdout!r}")
    return seconds


_scenario = partial(Scenario, unit="ms")

SCENARIOS = [
    _scenario(
        "command-overhead",
        "a call of a command agent, beyond running the program",
        target=no_more_than(15),
        ours=overhead,
        against="the program alone",
    ),
]
