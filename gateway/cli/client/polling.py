"""Following a task of an agent that does not stream: looking again and again, ever more rarely, and
never sooner than the agent says."""

import asyncio
from contextlib import suppress
from typing import Any

from gateway.cli.client.output import Answers
from gateway.pb import (
    INTERRUPTED_STATES,
    TERMINAL_STATES,
    GetTaskRequest,
    SendMessageRequest,
    StreamResponse,
    Task,
)
from transports.client import Connection

FIRST_PAUSE = 0.25
LONGEST_PAUSE = 10.0

_SETTLED = TERMINAL_STATES | INTERRUPTED_STATES


async def send(
    connection: Connection,
    request: SendMessageRequest,
    answers: Answers,
    metadata: dict[str, str],
) -> None:
    """Send a message without waiting, and follow its task."""
    at_once = SendMessageRequest()
    at_once.CopyFrom(request)
    at_once.configuration.return_immediately = True
    response: Any = await connection.unary("SendMessage", at_once, metadata)
    if response.WhichOneof("payload") == "message":
        answers.event(0, StreamResponse(message=response.message))
        return
    answers.event(0, StreamResponse(task=response.task))
    await follow(connection, response.task, answers)


async def follow(connection: Connection, task: Task, answers: Answers) -> None:
    """Show each change of a task, until it has ended or waits for its client."""
    pause = FIRST_PAUSE
    while task.status.state not in _SETTLED:
        await asyncio.sleep(max(pause, _least_pause(connection)))
        pause = min(pause * 1.5, LONGEST_PAUSE)
        found: Any = await connection.unary("GetTask", GetTaskRequest(id=task.id))
        if found != task:
            pause = FIRST_PAUSE
            answers.event(0, StreamResponse(task=found))
        task = found


def _least_pause(connection: Connection) -> float:
    """What the last answer asked for."""
    with suppress(ValueError):
        return min(float(connection.metadata.get("retry-after", "")), LONGEST_PAUSE)
    return 0.0
