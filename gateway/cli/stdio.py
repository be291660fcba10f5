"""`a2a-gateway stdio`: answers the one client that started it, on standard input and output.

What is done first decides how long that client waits: the descriptors are taken out of the reach
of everybody else, then a core is started (if none is there to be joined), and only then is loaded
what this process itself needs.
"""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from gateway.cli.running import EXIT_CODES, configured, load_config

if TYPE_CHECKING:
    from gateway.config import Config
    from gateway.own_core import OwnCore

IS_WINDOWS = os.name == "nt"


@click.command(epilog=EXIT_CODES, short_help="Answer one client on standard input and output.")
@configured("agent", "store", "state_dir", "log_level")
def stdio(file: Path | None, **flags: str | None) -> None:
    """Answer one client on standard input and output, such as an editor that started this: one
    JSON-RPC message a line, or behind Content-Length headers. Joins the core that runs on the
    state directory, or starts one and ends it when the client goes."""
    if IS_WINDOWS:
        raise click.ClickException(
            "stdio needs a POSIX system; on Windows, run it in WSL, or use: a2a-gateway serve"
        )
    reading, writing = take_streams()
    # it must not keep the core from starting: all but this is loaded later
    from gateway.own_core import OwnCore
    from gateway.state_dir import StateDirError

    owns: list[OwnCore] = []

    def claim(state_dir: Path) -> None:
        own = OwnCore(state_dir)
        own.claim()
        owns.append(own)

    try:
        config = load_config(file, flags, has_doors=False, told=claim)
    except StateDirError as error:
        from gateway.family import EXIT_STATE

        _end(str(error), EXIT_STATE)
    from dataclasses import replace

    from gateway.config import Metrics

    # a program that an editor starts opens no port that nobody asked for
    config = replace(config, metrics=Metrics(core=None, adapter=None))
    _run(config, owns[0], reading, writing)


def _run(config: "Config", own: "OwnCore", reading: int, writing: int) -> None:
    own.configure(config)
    from gateway.link.frames import LinkError
    from gateway.nearby import Nearby, NoCoreError
    from transports.stdio.server import run

    try:
        run(config, Nearby(config, own), reading, writing)
    except NoCoreError as error:
        _end(str(error), error.code)
    except LinkError as error:
        _end(f"the core cannot be joined: {error}", 1)


def _end(text: str, code: int) -> NoReturn:
    click.echo(f"a2a-gateway: {text}", err=True)
    sys.exit(code)


def take_streams() -> tuple[int, int]:
    """Standard input and output under other numbers, which no child inherits. In their own places
    are an empty input, and standard error: whatever else is written goes there."""
    import fcntl

    try:
        # above those that may be closed, and would be given out again
        reading, writing = (fcntl.fcntl(n, fcntl.F_DUPFD_CLOEXEC, 10) for n in (0, 1))
    except OSError:
        _end("standard input and output must both be open", 2)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    try:
        os.dup2(2, 1)
    except OSError:
        os.dup2(nothing, 2)
        os.dup2(nothing, 1)
    os.close(nothing)
    return reading, writing
