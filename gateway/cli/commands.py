"""The command line's root: one line for each command."""

import click

from gateway.cli import running
from gateway.cli.client.commands import COMMANDS as CLIENT_COMMANDS
from gateway.cli.stdio import stdio


@click.group(
    epilog=running.EXIT_CODES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="a2a-gateway")
def cli() -> None:
    """One agent behind every A2A door."""


for command in (running.serve, running.core, running.adapter, stdio):
    cli.add_command(command)
for client_command in CLIENT_COMMANDS:
    cli.add_command(client_command)
