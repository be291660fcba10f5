"""The commands that talk to an agent, as click sees them: what each takes, and its help.

Layer: command line. Loads click alone; a command loads the rest when it runs.
"""

from pathlib import Path
from typing import Any

import click

from gateway.cli.client.options import EXIT_CODES, Command, Settings, shared

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_FOLDER = click.Path(file_okay=False, path_type=Path)
_STATES = (
    "submitted",
    "working",
    "completed",
    "failed",
    "canceled",
    "rejected",
    "input_required",
    "auth_required",
)

URLS = """\b
URL is one of:
  http://HOST, https://HOST          an agent, found by its card
  http+jsonrpc://..., http+rest://...  one interface, without a card (https+... with TLS)
  http+unix:/PATH                    HTTP over a Unix socket
  grpc://HOST:PORT, grpc:unix:/PATH  native gRPC (grpcs:// with TLS)
  stdio:COMMAND                      a program, over its pipes

"""
EPILOG = URLS + EXIT_CODES

_SENDING = (
    click.option(
        "--file",
        "files",
        type=_FILE,
        multiple=True,
        metavar="PATH",
        help="Send this file, too; give it again for more.",
    ),
    click.option(
        "--media-type",
        metavar="TYPE",
        help="What the files are. Default: as their names say.",
    ),
    click.option(
        "--data", multiple=True, metavar="JSON", help="Send structured data, too; repeatable."
    ),
    click.option("--context", metavar="ID", help="The context that the message belongs to."),
    click.option("--task", metavar="ID", help="The task that the message answers."),
    click.option(
        "--continue",
        "is_continued",
        is_flag=True,
        help="Go on where the last call with --continue to this URL stopped: in its context, and "
        "in its task if that waits for an answer.",
    ),
    click.option("--new", is_flag=True, help="With --continue: begin a new context."),
    click.option(
        "--accept", "modes", metavar="TYPE", multiple=True, help="Media types to answer in."
    ),
    click.option(
        "--idempotency-key",
        "own_key",
        metavar="KEY",
        help="A send that is repeated under its key is carried out once. Default: a new one.",
    ),
    click.option("--save", type=_FOLDER, metavar="FOLDER", help="Keep the answer's files there."),
)


_url = click.argument("url", metavar="URL")


def _sending(command: Command) -> Command:
    for option in reversed(_SENDING):
        command = option(command)
    return command


@click.command(epilog=EPILOG)
@_url
@click.argument("text", required=False)
@_sending
@click.option("--no-wait", is_flag=True, help="Print the task's id as soon as there is one.")
@shared
def call(url: str, text: str | None, no_wait: bool, **values: Any) -> None:
    """Send TEXT (- for stdin) and print the answer once it is whole."""
    from gateway.cli.client.sending import send

    send(Settings(url, values), text, method="SendMessage", no_wait=no_wait)


@click.command(epilog=EPILOG)
@_url
@click.argument("text", required=False)
@_sending
@click.option(
    "--cancel-on-interrupt", is_flag=True, help="Ctrl-C cancels the task instead of leaving it."
)
@shared
def stream(url: str, text: str | None, cancel_on_interrupt: bool, **values: Any) -> None:
    """Send TEXT (- for stdin) and print the answer as it comes. Ctrl-C leaves the stream; the
    task goes on."""
    from gateway.cli.client.sending import send

    settings = Settings(url, values)
    send(settings, text, method="SendStreamingMessage", cancel_on_interrupt=cancel_on_interrupt)


@click.command(epilog=EPILOG)
@_url
@click.argument("task_id", metavar="TASK")
@click.option("--after", type=click.IntRange(min=0), metavar="N", help="After this event.")
@click.option(
    "--cancel-on-interrupt", is_flag=True, help="Ctrl-C cancels the task instead of leaving it."
)
@click.option("--save", type=_FOLDER, metavar="FOLDER", help="Keep the answer's files there.")
@shared
def subscribe(
    url: str, task_id: str, after: int | None, cancel_on_interrupt: bool, **values: Any
) -> None:
    """Follow a task to its end. Ctrl-C leaves the stream; the task goes on."""
    from gateway.cli.client.tasks import subscribe as follow

    follow(Settings(url, values), task_id, after=after, cancel_on_interrupt=cancel_on_interrupt)


@click.command(epilog=EPILOG)
@_url
@click.argument("task_id", metavar="TASK")
@click.option("--history", type=click.IntRange(min=0), metavar="N", help="At most N messages.")
@click.option("--save", type=_FOLDER, metavar="FOLDER", help="Keep the task's files there.")
@shared
def get(url: str, task_id: str, history: int | None, **values: Any) -> None:
    """Print a task as it stands. The exit code is 0 whatever its state."""
    from gateway.cli.client.tasks import get as read

    read(Settings(url, values), task_id, history)


@click.command("list", epilog=EPILOG, short_help="Print tasks, those changed last first.")
@_url
@click.option("--context", metavar="ID", help="Tasks of this context alone.")
@click.option("--state", type=click.Choice(_STATES), help="Tasks in this state alone.")
@click.option("--limit", type=click.IntRange(1, 100), default=50, show_default=True, metavar="N")
@click.option("--page", metavar="TOKEN", help="The page that another one led to.")
@click.option("--all", "has_all", is_flag=True, help="All pages; with --json one task a line.")
@click.option("--artifacts", is_flag=True, help="With --json: the tasks' artifacts, too.")
@shared
def list_(url: str, **values: Any) -> None:
    """Print tasks, those changed last first: id, state, time, context."""
    from gateway.cli.client.tasks import list_tasks

    list_tasks(Settings(url, values))


@click.command(epilog=EPILOG)
@_url
@click.argument("task_id", metavar="TASK")
@shared
def cancel(url: str, task_id: str, **values: Any) -> None:
    """Cancel a task and print its state."""
    from gateway.cli.client.tasks import cancel as end

    end(Settings(url, values), task_id)


@click.command(epilog=EPILOG)
@_url
@shared
def card(url: str, **values: Any) -> None:
    """Print an agent's card, and what is wrong with it."""
    from gateway.cli.client.card import show

    show(Settings(url, values))


@click.command(epilog=EPILOG)
@_url
@shared
def ping(url: str, **values: Any) -> None:
    """Say which interfaces of an agent answer, and how fast."""
    from gateway.cli.client.pinging import ping as look

    look(Settings(url, values))


@click.command(short_help="Print the script that completes commands in a shell.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script that completes commands and options, for example:

    \b
      eval "$(a2a-gateway completion bash)"      in ~/.bashrc
      eval "$(a2a-gateway completion zsh)"       in ~/.zshrc
      a2a-gateway completion fish | source       in ~/.config/fish/config.fish
    """
    from click.shell_completion import get_completion_class

    root = click.get_current_context().find_root()
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(root.command, {}, "a2a-gateway", "_A2A_GATEWAY_COMPLETE").source())


COMMANDS = (call, stream, subscribe, get, list_, cancel, card, ping, completion)
