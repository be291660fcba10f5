"""The operations behind the commands: one coroutine each, from a connection to an exit code."""

import asyncio
from contextlib import aclosing
from shlex import quote
from typing import Any

from gateway.call import CURSOR
from gateway.cli.client import exits, polling
from gateway.cli.client.output import Answers, Output, one_line, state_name
from gateway.errors import FailureError
from gateway.pb import (
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    ListTasksResponse,
    ProtoMessage,
    SendMessageRequest,
    SendMessageResponse,
    StreamResponse,
    SubscribeToTaskRequest,
    Task,
    TaskState,
)
from gateway.program import program
from transports.client import Connection

STATE_WIDTH = 14


async def call(
    connection: Connection,
    output: Output,
    request: SendMessageRequest,
    answers: Answers,
    *,
    metadata: dict[str, str],
    timeout: float | None,
) -> int:
    """SendMessage: the whole answer at once."""
    if task_id := request.message.task_id:
        before: Any = await connection.unary(
            "GetTask", GetTaskRequest(id=task_id, history_length=0)
        )
        answers.skip(before)
    response: Any = await connection.unary("SendMessage", request, metadata, timeout)
    assert isinstance(response, SendMessageResponse)
    if output.as_json:
        output.json(response)
    if response.WhichOneof("payload") == "message":
        answers.message(response.message)
        return 0
    if request.configuration.return_immediately:
        answers.note(response.task)
        if not output.as_json:
            output.line(answers.task_id)
        return 0
    answers.task(response.task)
    answers.end()
    return _code(answers)


async def follow(
    connection: Connection,
    method: str,
    request: ProtoMessage,
    answers: Answers,
    *,
    metadata: dict[str, str],
    timeout: float | None = None,
    cancel_on_interrupt: bool = False,
) -> int:
    """A stream to its end, or for so many seconds; then raises `TimeoutError`. Where the agent
    does not stream, its task is looked at instead."""
    try:
        async with asyncio.timeout(timeout):
            await _follow(connection, method, request, answers, metadata)
    except (asyncio.CancelledError, TimeoutError):
        answers.end()
        if cancel_on_interrupt and answers.task_id:
            await connection.unary("CancelTask", CancelTaskRequest(id=answers.task_id), None, 10.0)
        raise
    answers.end()
    return _code(answers)


async def _follow(
    connection: Connection,
    method: str,
    request: Any,
    answers: Answers,
    metadata: dict[str, str],
) -> None:
    try:
        async with aclosing(connection.stream(method, request, metadata)) as events:
            async for sequence, response in events:
                answers.event(sequence, response)
        return
    except FailureError as error:
        if error.failure.row.reason != "UNSUPPORTED_OPERATION" or answers.has_begun:
            raise
        if method == "SendStreamingMessage":
            if connection.card is not None and connection.card.capabilities.streaming:
                raise
            await polling.send(connection, request, answers, metadata)
            return
    # it does not stream, or the task has ended
    task: Any = await connection.unary("GetTask", GetTaskRequest(id=request.id))
    answers.event(0, StreamResponse(task=task))
    await polling.follow(connection, task, answers)


async def subscribe(
    connection: Connection,
    task_id: str,
    answers: Answers,
    *,
    after: int | None,
    timeout: float | None,
    cancel_on_interrupt: bool,
) -> int:
    """SubscribeToTask; a task that has ended is read instead."""
    return await follow(
        connection,
        "SubscribeToTask",
        SubscribeToTaskRequest(id=task_id),
        answers,
        metadata={} if after is None else {CURSOR: str(after)},
        timeout=timeout,
        cancel_on_interrupt=cancel_on_interrupt,
    )


async def get(
    connection: Connection,
    output: Output,
    request: GetTaskRequest,
    answers: Answers,
    timeout: float | None,
) -> int:
    """GetTask."""
    task: Any = await connection.unary("GetTask", request, None, timeout)
    assert isinstance(task, Task)
    if output.as_json:
        output.json(task)
    answers.task(task)
    answers.end()
    return 0


async def cancel(
    connection: Connection, output: Output, task_id: str, timeout: float | None
) -> int:
    """CancelTask."""
    task: Any = await connection.unary("CancelTask", CancelTaskRequest(id=task_id), None, timeout)
    if output.as_json:
        output.json(task)
    else:
        output.line(state_name(task.status.state))
    return 0


async def list_tasks(
    connection: Connection,
    output: Output,
    request: ListTasksRequest,
    *,
    has_all: bool,
    timeout: float | None,
) -> int:
    """ListTasks: one page, or all of them, printed as they come."""
    while True:
        response: Any = await connection.unary("ListTasks", request, None, timeout)
        assert isinstance(response, ListTasksResponse)
        _print_page(output, response, one_by_one=has_all)
        token = response.next_page_token
        if not token:
            return 0
        if not has_all:
            if not output.as_json:
                output.hint(
                    f"{len(response.tasks)} of {response.total_size}; the rest: --all, or "
                    f"--page {quote(token)}"
                )
            return 0
        request.page_token = token


def _print_page(output: Output, response: ListTasksResponse, *, one_by_one: bool) -> None:
    if output.as_json and not one_by_one:
        output.json(response)
        return
    for task in response.tasks:
        if output.as_json:
            output.json(task)
        else:
            when = task.status.timestamp.ToJsonString() if task.status.HasField("timestamp") else ""
            state = state_name(task.status.state).ljust(STATE_WIDTH)
            output.line(f"{one_line(task.id)}  {state}  {when}  {one_line(task.context_id)}")


def _code(answers: Answers) -> int:
    return 0 if answers.is_message else exits.of_state(answers.state)


def next_step(output: Output, answers: Answers, url: str, *, is_kept: bool) -> None:
    """How to go on with a task that waits for its client."""
    if answers.state not in (
        TaskState.TASK_STATE_INPUT_REQUIRED,
        TaskState.TASK_STATE_AUTH_REQUIRED,
    ):
        return
    how = "--continue" if is_kept else f"--task {quote(answers.task_id)}"
    output.hint(f"  answer by: {program()} call {how} {quote(url)} TEXT")
