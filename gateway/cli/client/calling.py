"""Runs one command's coroutine on a connection, and turns whatever ends it into an exit code."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from typing import NoReturn

import click

from gateway.cli.client import exits
from gateway.cli.client.kept_cards import CardFiles
from gateway.cli.client.options import Settings
from gateway.cli.client.output import Output, OutputError, one_line
from gateway.errors import BY_REASON, Failure, FailureError
from transports.client import (
    ConnectError,
    Connection,
    Options,
    UnreachableError,
    UrlError,
    connect,
)

Work = Callable[[Connection, Output], Awaitable[int]]


def run(
    settings: Settings,
    work: Work,
    left: Callable[[Output], None] | None = None,
    *,
    asks_for_card: bool = False,
) -> NoReturn:
    """Connect, do the work, exit with its code. `left` says what an interruption leaves, or a
    `TimeoutError` of the work. `asks_for_card`: the work is about the card as it is now."""
    # gRPC writes its own notes to stderr, which belongs to ours
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    try:
        output = Output(as_json=settings.as_json, is_quiet=settings.is_quiet)
    except OutputError as error:
        sys.exit(_unwritten(error))
    options = settings.to_options(_teller(output), asks_for_card=asks_for_card)
    warn_of_plain_text(settings, options, output)

    async def main() -> int:
        async with await _connect(settings, options) as connection:
            try:
                return await work(connection, output)
            except asyncio.CancelledError:
                # at once: a program may take its time to end
                output.end_line()
                if left is not None:
                    left(output)
                raise
            except TimeoutError:
                if left is not None:
                    left(output)
                return exits.NOT_FINISHED

    try:
        code = asyncio.run(main())
    except OutputError as error:
        code = _unwritten(error)
    except KeyboardInterrupt:
        code = exits.INTERRUPTED
    except UrlError as error:
        raise click.UsageError(str(error)) from None
    except ConnectError as error:
        output.failure(Failure(BY_REASON["UNAVAILABLE"], str(error)))
        code = exits.UNREACHABLE
    except FailureError as error:
        code = report(error, settings, options, output)
    sys.exit(code)


async def _connect(settings: Settings, options: Options) -> Connection:
    try:
        async with asyncio.timeout(settings.timeout):
            return await connect(settings.url, options)
    except TimeoutError:
        text = f"{settings.url} did not give its card within {settings.timeout:g} s"
        raise UnreachableError(text) from None


def _unwritten(error: OutputError) -> int:
    """Who stops reading, as `head` does, knows why."""
    if error.reason:
        click.echo(f"a2a-gateway: the output cannot be written: {error.reason}", err=True)
    return exits.UNWRITTEN


def report(error: FailureError, settings: Settings, options: Options, output: Output) -> int:
    """Say how a call failed and what to do; the exit code."""
    if isinstance(error, UnreachableError):
        # what the card says may be of yesterday: the next try asks
        CardFiles().forget(settings.url)
    output.failure(error.failure)
    tried = exits.Circumstances(
        settings.url, bool(options.credentials), isinstance(error, UnreachableError)
    )
    if hint := exits.advice(error.failure, tried):
        output.hint(f"  {hint}")
    return exits.of_failure(error.failure)


def _teller(output: Output) -> Callable[[Failure, float], None]:
    def told(failure: Failure, pause: float) -> None:
        output.hint(f"{one_line(failure.message)}; trying again in {pause:.1f} s")

    return told


def warn_of_plain_text(settings: Settings, options: Options, output: Output) -> None:
    """Credentials over an open network can be read on their way."""
    from urllib.parse import urlsplit

    parts = urlsplit(settings.url)
    if not options.credentials or parts.scheme.partition("+")[0] not in ("http", "grpc"):
        return
    host = parts.hostname or ""
    if host and host != "localhost" and not host.startswith("127.") and host != "::1":
        output.hint(f"warning: the credentials travel to {host} without encryption")
