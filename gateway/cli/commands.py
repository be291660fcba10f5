"""The command line's root: one line for each command."""

from typing import Any

import click

from gateway.cli import running
from gateway.cli.client.commands import COMMANDS as CLIENT_COMMANDS
from gateway.cli.proto import proto
from gateway.cli.stdio import stdio

INTERRUPTED = 130


class Groups(click.Group):
    """Shows its commands in two lists, in the order of their registration."""

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except (KeyboardInterrupt, click.Abort):
            # click's own code is 1, as for a mistake
            context.exit(INTERRUPTED)

    def list_commands(self, context: click.Context) -> list[str]:
        return list(self.commands)

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        clients = {command.name for command in CLIENT_COMMANDS}
        for title, is_client in (("Run an agent", False), ("Call agents", True)):
            with formatter.section(title):
                formatter.write_dl(
                    [
                        (name, command.get_short_help_str(limit=80))
                        for name, command in self.commands.items()
                        if (name in clients) is is_client
                    ]
                )


@click.group(
    cls=Groups,
    epilog="Each command has its own --help, with its options and exit codes.",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="a2a-gateway")
def cli() -> None:
    """One agent behind every A2A door."""


for command in (running.serve, stdio, running.core, running.adapter, proto):
    cli.add_command(command)
for client_command in CLIENT_COMMANDS:
    cli.add_command(client_command)
