"""`call` and `stream`: one message, its answer, and how to go on from there."""

from collections.abc import Callable
from shlex import quote
from typing import NoReturn

import click

from gateway.call import IDEMPOTENCY_KEY, MAX_KEY_LENGTH
from gateway.cli.client import messages, operations
from gateway.cli.client.calling import run
from gateway.cli.client.conversation import Conversation, Conversations
from gateway.cli.client.options import Settings
from gateway.cli.client.output import Answers, Output
from gateway.pb import SendMessageRequest
from gateway.program import program
from transports.client import Connection


def send(
    settings: Settings,
    text: str | None,
    *,
    method: str,
    no_wait: bool = False,
    cancel_on_interrupt: bool = False,
) -> NoReturn:
    """Send a message by this method and print what comes."""
    dialogue = _Dialogue(settings)
    request = _request(settings, text, dialogue.now)
    request.configuration.return_immediately = no_wait
    metadata = _metadata(settings)
    is_follow_up = bool(request.message.task_id)
    kept: list[Answers] = []

    async def work(connection: Connection, output: Output) -> int:
        answers = Answers(output, save=settings.values["save"], is_follow_up=is_follow_up)
        kept.append(answers)
        try:
            if method == "SendMessage":
                code = await operations.call(
                    connection,
                    output,
                    request,
                    answers,
                    metadata=metadata,
                    timeout=settings.timeout,
                )
            else:
                code = await operations.follow(
                    connection,
                    method,
                    request,
                    answers,
                    metadata=metadata,
                    timeout=settings.timeout,
                    cancel_on_interrupt=cancel_on_interrupt,
                )
        finally:
            dialogue.keep(answers, output)
        if not no_wait:
            operations.next_step(output, answers, settings.url, is_kept=dialogue.is_on)
        elif not answers.is_message:
            output.hint(
                f"  follow it by: {program()} subscribe {quote(settings.url)} "
                f"{quote(answers.task_id)}"
            )
        return code

    run(settings, work, left_by(settings, kept, is_canceled=cancel_on_interrupt))


def left_by(
    settings: Settings, kept: list[Answers], *, is_canceled: bool = False
) -> Callable[[Output], None]:
    """What an interruption leaves, and how to come back to it."""

    def left(output: Output) -> None:
        task_id = kept[-1].task_id if kept else ""
        if not task_id:
            output.error("interrupted; a task that was started goes on")
            return
        if is_canceled:
            output.error(f"task {task_id} is canceled")
            return
        if settings.url.startswith("stdio:"):
            output.error(
                f"left; the program ends now, and with it task {task_id}, unless it belongs to a "
                "core that goes on"
            )
            return
        after = f" --after {kept[-1].sequence}" if kept[-1].sequence else ""
        output.error(
            f"left; task {task_id} goes on. Come back by: "
            f"{program()} subscribe{after} {quote(settings.url)} {quote(task_id)}"
        )

    return left


class _Dialogue:
    """`--continue`."""

    def __init__(self, settings: Settings) -> None:
        values = settings.values
        self.is_on = bool(values["is_continued"])
        if values["new"] and not self.is_on:
            raise click.UsageError("--new belongs to --continue; without it every call is new")
        self._settings = settings
        self._all = Conversations()
        self.now = Conversation()
        if self.is_on and not values["new"]:
            self.now = self._all.load(settings.url, settings.tenant)

    def keep(self, answers: Answers, output: Output) -> None:
        if not self.is_on or not (answers.task_id or answers.is_message):
            return
        self.now.note(answers.context_id, answers.task_id, answers.state)
        try:
            self._all.save(self._settings.url, self._settings.tenant, self.now)
        except OSError as error:
            output.error(f"the place in this dialogue cannot be kept: {error}")


def _request(
    settings: Settings, text: str | None, conversation: Conversation
) -> SendMessageRequest:
    values = settings.values
    # what is said outright goes before what is remembered
    context_id = values["context"] or ("" if values["task"] else conversation.context_id)
    task_id = values["task"] or ("" if values["context"] else conversation.task_id)
    request = messages.request(
        messages.Content(text, values["data"], values["files"], values["media_type"] or ""),
        context_id=context_id,
        task_id=task_id,
        key=values["own_key"] or "",
    )
    request.configuration.accepted_output_modes.extend(values["modes"])
    return request


def _metadata(settings: Settings) -> dict[str, str]:
    key = settings.values["own_key"]
    if not key:
        return {}
    if not key.isascii() or not key.isprintable() or len(key) > MAX_KEY_LENGTH:
        raise click.UsageError(
            f"--idempotency-key: give at most {MAX_KEY_LENGTH} printable ASCII characters"
        )
    return {IDEMPOTENCY_KEY: key}
