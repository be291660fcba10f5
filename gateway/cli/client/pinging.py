"""`ping`: which interfaces of an agent answer, and how fast.

An interface answers when it answers a call at all: a read of a task that cannot be there tells an
A2A server from anything else, and costs it nothing.
"""

import asyncio
import json
import time
from typing import NoReturn

from gateway.cli.client import exits
from gateway.cli.client.calling import run
from gateway.cli.client.options import Settings
from gateway.cli.client.output import Output, one_line
from gateway.errors import Code, Failure, FailureError
from gateway.pb import GetTaskRequest
from transports.client import ConnectError, Connection, Way

TIMEOUT = 10.0
NOWHERE = "a2a-gateway-ping"
_DEAD = (Code.UNAVAILABLE, Code.DEADLINE_EXCEEDED, Code.UNIMPLEMENTED, Code.INTERNAL)


def ping(settings: Settings) -> NoReturn:
    """Try each interface, side by side."""

    async def work(connection: Connection, output: Output) -> int:
        timeout = settings.timeout or TIMEOUT
        found = await asyncio.gather(
            *(_try(connection.only(way), way, timeout) for way in connection.ways)
        )
        for way, (milliseconds, problem) in zip(connection.ways, found, strict=True):
            _print(output, way, milliseconds, problem)
        if not output.as_json:
            for reason in connection.passed_over:
                output.hint(f"not tried: {one_line(reason)}")
        return 0 if all(not problem for _, problem in found) else exits.UNREACHABLE

    run(settings, work, asks_for_card=True)


async def _try(connection: Connection, way: Way, timeout: float) -> tuple[float, str]:
    """Milliseconds to the second answer, on a connection that stands; or what is wrong."""
    took = 0.0
    try:
        async with connection:
            for _ in range(2):
                started = time.perf_counter()
                problem = await _answer(connection, timeout)
                took = (time.perf_counter() - started) * 1000
                if problem:
                    return took, problem
    except ConnectError as error:
        return took, str(error)
    return took, ""


async def _answer(connection: Connection, timeout: float) -> str:
    try:
        await connection.unary("GetTask", GetTaskRequest(id=NOWHERE), None, timeout)
    except FailureError as error:
        return _problem(error.failure)
    return ""


def _problem(failure: Failure) -> str:
    """Why an answer is none; a task that is not there, and a caller who may not ask, are answers
    of an agent that lives."""
    return failure.message if failure.row.code in _DEAD else ""


def _print(output: Output, way: Way, milliseconds: float, problem: str) -> None:
    entry = way.interface
    if output.as_json:
        about = {"protocolBinding": entry.protocol_binding, "url": entry.url, "ok": not problem}
        about |= {"error": problem} if problem else {"milliseconds": round(milliseconds, 2)}
        output.line(json.dumps(about, ensure_ascii=False))
        return
    said = one_line(problem) if problem else f"{milliseconds:.1f} ms"
    output.line(f"{one_line(entry.protocol_binding):<10} {one_line(entry.url)}  {said}")
