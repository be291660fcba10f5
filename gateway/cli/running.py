"""The commands that run the gateway: read flags, make one configuration of them, start what was
asked for."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from gateway.config import Config

EXIT_CODES = """\b
Exit codes:
  0  stopped in order
  1  failed; the log has the reason
  2  wrong usage or configuration
  3  the agent cannot be loaded or started
  4  an address cannot be opened
  5  the state directory or the store is in use, or cannot be used
  6  a process could not be started again
"""

Command = Callable[..., None]


def configured(*names: str) -> Callable[[Command], Command]:
    """The options that become configuration, and `--config`."""
    options = {
        "agent": click.option(
            "--agent",
            metavar="SPEC",
            help="The agent: module:attribute, imported with the current directory and PYTHONPATH; "
            "command:PROGRAM [ARGUMENT...], a program; grpc:ADDRESS, a process that serves the "
            "contract of `a2a-gateway proto`; `demo` is built in.",
        ),
        "transport": click.option(
            "--transport",
            "transports",
            metavar="NAME[=ADDRESS]",
            multiple=True,
            help="A door to open, such as http=127.0.0.1:8080 or grpc=unix:/run/a2a.sock; give it "
            "again for more. Default: grpc=127.0.0.1:50051 and http=127.0.0.1:41242.",
        ),
        "grpc": click.option(
            "--transport",
            "transports",
            metavar="grpc[=ADDRESS]",
            multiple=True,
            help="Where native gRPC is offered, such as grpc=unix:/run/a2a.sock; other doors are "
            "opened by `a2a-gateway adapter`. Default: grpc=127.0.0.1:50051.",
        ),
        "store": click.option(
            "--store",
            metavar="URL",
            help="Where tasks are kept: memory: or sqlite:///ABSOLUTE/PATH. Default: a "
            "database in the state directory.",
        ),
        "state_dir": click.option(
            "--state-dir",
            type=click.Path(file_okay=False),
            metavar="DIR",
            help="The gateway's own files; one core at a time. Default: a2a-gateway in the XDG "
            "state home.",
        ),
        "adapters": click.option(
            "--adapters",
            metavar="HOW",
            help="apart: a process for each door that is not the core's own; together: one for "
            "all, which takes less memory. Default: apart.",
        ),
        "log_level": click.option(
            "--log-level",
            metavar="LEVEL",
            help="debug, info, warning or error. Default: info.",
        ),
    }

    def decorate(command: Command) -> Command:
        command = click.option(
            "--config",
            "file",
            type=click.Path(dir_okay=False, path_type=Path),
            metavar="FILE",
            help="Configuration in YAML or JSON; the environment (A2A_GATEWAY_SECTION__KEY) and "
            "these options go before it.",
        )(command)
        for name in reversed(names):
            command = options[name](command)
        return command

    return decorate


def load_config(
    file: Path | None,
    flags: Mapping[str, str | None],
    transports: Sequence[str] = (),
    *,
    has_doors: bool = True,
    told: Callable[[Path], None] = lambda state_dir: None,
) -> "Config":
    """One configuration of all sources; ends the program with exit code 2 where it is wrong."""
    from gateway.config import ConfigError, load

    # gRPC has a log of its own, in a form of its own; who wants to read it says so
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    keys = {"agent": "agent.spec", "log_level": "logs.level"}
    named: Mapping[str, tuple[str, Any]] = {
        keys.get(name, name): (f"--{name.replace('_', '-')}", value)
        for name, value in flags.items()
    }
    try:
        return load(file, flags=named, transports=transports, has_doors=has_doors, told=told)
    except ConfigError as error:
        for problem in error.problems:
            click.echo(f"a2a-gateway: {problem}", err=True)
        sys.exit(2)


def need_agent(config: "Config") -> None:
    """End the program where no agent is named."""
    if not config.agent.spec:
        raise click.UsageError(
            "no agent is named; give --agent module:attribute, --agent command:PROGRAM, or "
            "--agent demo to look around"
        )


@click.command(epilog=EXIT_CODES, short_help="Run the gateway: an agent and its doors.")
@configured("agent", "transport", "adapters", "store", "state_dir", "log_level")
def serve(file: Path | None, transports: Sequence[str], **flags: str | None) -> None:
    """Run the gateway: the core, and adapter processes for the doors."""
    from gateway.config import to_wire
    from gateway.supervisor import become

    config = load_config(file, flags, transports)
    need_agent(config)
    become(to_wire(config))


@click.command(epilog=EXIT_CODES, short_help="Run the core alone: agent, store, native gRPC.")
@configured("agent", "grpc", "store", "state_dir", "log_level")
def core(file: Path | None, transports: Sequence[str], **flags: str | None) -> None:
    """Run the core alone: the agent, the store and the native gRPC listener. Adapters join it by
    the link, a socket in the state directory unless link.address says otherwise."""
    for name in transports:
        if (door := name.partition("=")[0]) != "grpc":
            raise click.UsageError(
                f"--transport {door}: the core opens grpc alone; open {door} by: "
                f"a2a-gateway adapter {name}"
            )
    config = load_config(file, flags, transports)
    need_agent(config)
    from gateway.core import run

    sys.exit(run(config))


@click.command(epilog=EXIT_CODES, short_help="Run doors alone, for a core that runs elsewhere.")
@click.argument("names", nargs=-1, metavar="NAME[=ADDRESS]...", required=True)
@configured("state_dir", "log_level")
def adapter(names: Sequence[str], file: Path | None, **flags: str | None) -> None:
    """Run the doors NAME... in one process, in front of a core that runs elsewhere."""
    config = load_config(file, flags, names)
    if config.transports.grpc is not None:
        raise click.UsageError("grpc is the core's own door; open it by: a2a-gateway core")
    from transports.process import run

    sys.exit(run(config))
