"""`subscribe`, `get`, `list`, `cancel`: commands about tasks that there are."""

from typing import NoReturn

from gateway.cli.client import operations
from gateway.cli.client.calling import run
from gateway.cli.client.options import Settings
from gateway.cli.client.output import Answers, Output
from gateway.cli.client.sending import left_by
from gateway.pb import GetTaskRequest, ListTasksRequest, TaskState
from transports.client import Connection


def subscribe(
    settings: Settings, task_id: str, *, after: int | None, cancel_on_interrupt: bool
) -> NoReturn:
    """Follow a task to its end."""
    kept: list[Answers] = []

    async def work(connection: Connection, output: Output) -> int:
        answers = Answers(output, save=settings.values["save"])
        kept.append(answers)
        code = await operations.subscribe(
            connection,
            task_id,
            answers,
            after=after,
            timeout=settings.timeout,
            cancel_on_interrupt=cancel_on_interrupt,
        )
        operations.next_step(output, answers, settings.url, is_kept=False)
        return code

    run(settings, work, left_by(settings, kept, is_canceled=cancel_on_interrupt))


def get(settings: Settings, task_id: str, history: int | None) -> NoReturn:
    """Print a task."""
    request = GetTaskRequest(id=task_id, history_length=history)

    async def work(connection: Connection, output: Output) -> int:
        answers = Answers(output, save=settings.values["save"])
        code = await operations.get(connection, output, request, answers, settings.timeout)
        operations.next_step(output, answers, settings.url, is_kept=False)
        return code

    run(settings, work)


def list_tasks(settings: Settings) -> NoReturn:
    """Print tasks."""
    values = settings.values
    request = ListTasksRequest(
        context_id=values["context"] or "",
        page_size=values["limit"],
        page_token=values["page"] or "",
        include_artifacts=values["artifacts"],
    )
    if values["state"]:
        request.status = getattr(TaskState, f"TASK_STATE_{values['state'].upper()}")

    async def work(connection: Connection, output: Output) -> int:
        return await operations.list_tasks(
            connection, output, request, has_all=values["has_all"], timeout=settings.timeout
        )

    run(settings, work)


def cancel(settings: Settings, task_id: str) -> NoReturn:
    """Cancel a task."""

    async def work(connection: Connection, output: Output) -> int:
        return await operations.cancel(connection, output, task_id, settings.timeout)

    run(settings, work)
