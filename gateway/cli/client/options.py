"""Options that all client commands share, and what becomes of them.

Layer: command line; loads click alone until a command runs.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gateway.family import API_KEY_VARIABLE, PASSWORD_VARIABLE, TOKEN_VARIABLE

if TYPE_CHECKING:
    from transports.client import Credentials, Options

Command = Callable[..., None]

EXIT_CODES = """\b
Exit codes:
  0    the task is completed, or the call did what it was asked for
  1    the output cannot be written
  2    wrong usage
  10   the task failed
  11   the task was rejected
  12   the task was canceled
  13   the task needs input
  14   the task needs an authorisation
  15   the task has not finished
  20   the agent answered with an error
  21   the agent cannot be reached
  22   credentials are missing or not enough
  130  interrupted; a task goes on
"""

_READABLE = click.Path(exists=True, dir_okay=False, path_type=Path)

_SHARED = (
    click.option("--json", "as_json", is_flag=True, help="ProtoJSON, one object a line."),
    click.option("-q", "--quiet", is_flag=True, help="No states and hints on stderr."),
    click.option(
        "--binding",
        type=click.Choice(["jsonrpc", "rest", "grpc"]),
        help="Of the card's interfaces take one of this kind only.",
    ),
    click.option("--tenant", metavar="NAME", help="Instead of the one that the card names."),
    click.option(
        "--extension",
        "extensions",
        metavar="URI",
        multiple=True,
        help="Ask for a protocol extension; give it again for more.",
    ),
    click.option(
        "--timeout",
        type=click.FloatRange(min=0.001),
        metavar="SECONDS",
        help="How long to wait. Default: as it takes.",
    ),
    click.option(
        "--retry-for",
        type=click.FloatRange(min=0),
        default=60.0,
        show_default=True,
        metavar="SECONDS",
        help="How long to try again what broke, while nothing comes; 0: not at all.",
    ),
    click.option(
        "--token",
        envvar=TOKEN_VARIABLE,
        metavar="TOKEN",
        help=f"Bearer token; better by {TOKEN_VARIABLE} or --token-file, which nobody else sees.",
    ),
    click.option("--token-file", type=_READABLE, metavar="FILE", help="A file with the token."),
    click.option("--api-key", envvar=API_KEY_VARIABLE, metavar="KEY", help="API key, as above."),
    click.option("--api-key-file", type=_READABLE, metavar="FILE", help="A file with the key."),
    click.option(
        "--api-key-header", metavar="NAME", help="Where the key goes. Default: as the card says."
    ),
    click.option(
        "--basic",
        metavar="USER",
        help=f"User for Basic; the password comes from {PASSWORD_VARIABLE}, --password-file or a "
        "prompt.",
    ),
    click.option("--password-file", type=_READABLE, metavar="FILE"),
    click.option("--ca", type=_READABLE, metavar="FILE", help="Trust these authorities (PEM)."),
    click.option("--cert", type=_READABLE, metavar="FILE", help="Our own certificate (PEM)."),
    click.option("--key", type=_READABLE, metavar="FILE", help="Its private key (PEM)."),
)

_BINDINGS = {"jsonrpc": "JSONRPC", "rest": "HTTP+JSON", "grpc": "GRPC"}


@dataclass(frozen=True, slots=True)
class Settings:
    """The shared options of one command."""

    url: str
    values: Mapping[str, Any] = field(repr=False)

    @property
    def as_json(self) -> bool:
        """Whether machines read the output."""
        return bool(self.values["as_json"])

    @property
    def is_quiet(self) -> bool:
        """Whether states and hints are left out."""
        return bool(self.values["quiet"])

    @property
    def timeout(self) -> float | None:
        """Seconds that an answer may take."""
        timeout: float | None = self.values["timeout"]
        return timeout

    @property
    def tenant(self) -> str:
        """The tenant that was given."""
        return self.values["tenant"] or ""

    def to_options(self, told: Any = None, *, asks_for_card: bool = False) -> "Options":
        """For `transports.client.connect`; with `asks_for_card`, no card is taken as it was kept.
        Raises `click.UsageError`."""
        from gateway.call import EXTENSIONS
        from gateway.cli.client.kept_cards import CardFiles
        from transports.client import Options, Tls

        values = self.values
        if bool(values["cert"]) != bool(values["key"]):
            raise click.UsageError("--cert and --key belong together; give both")
        extensions = ", ".join(values["extensions"])
        if not extensions.isascii() or not extensions.isprintable():
            raise click.UsageError("--extension: a URI holds printable ASCII characters alone")
        return Options(
            credentials=read_credentials(values),
            tls=Tls(values["ca"], values["cert"], values["key"]),
            binding=_BINDINGS.get(values["binding"], ""),
            tenant=self.tenant,
            metadata={EXTENSIONS: extensions} if extensions else {},
            patience=values["retry_for"],
            cards=CardFiles(asks_again=asks_for_card),
            told=told,
        )


def shared(command: Command) -> Command:
    """Give a command the options that make its `Settings`, besides its URL."""
    for option in reversed(_SHARED):
        command = option(command)
    return command


def read_credentials(values: Mapping[str, Any]) -> "Credentials":
    """From options, the environment, files or a prompt. Raises `click.UsageError`, which shows
    nothing of them."""
    import os

    from transports.client import Credentials

    token = _secret(values["token_file"], "--token-file") or (values["token"] or "").strip()
    api_key = _secret(values["api_key_file"], "--api-key-file") or (values["api_key"] or "").strip()
    basic = None
    if values["basic"]:
        password = _secret(values["password_file"], "--password-file")
        password = password or os.environ.get(PASSWORD_VARIABLE, "")
        if not password:
            password = click.prompt("Password", hide_input=True, err=True)
        basic = (values["basic"], password)
        # a user that is named goes before a token of the environment
        token = "" if not values["token_file"] else token
    try:
        return Credentials(token, api_key, values["api_key_header"] or "", basic)
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def _secret(path: Path | None, option: str) -> str:
    if path is None:
        return ""
    try:
        secret = path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        raise click.UsageError(f"{option} {path} cannot be read as text") from None
    if not secret:
        raise click.UsageError(f"{option} {path} is empty")
    return secret
