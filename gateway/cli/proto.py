"""`a2a-gateway proto`: the contract of agents behind gRPC, for those who have only the package."""

import sys
from pathlib import Path

import click

import gateway

SOURCE = "agent.proto"
COMPILED = "agent.binpb"


def find(name: str) -> Path:
    """The file in an installed package, or in a source tree."""
    package = Path(gateway.__file__).parent
    installed = package / "pb" / name
    return installed if installed.exists() else package.parent / "proto" / name


@click.command()
@click.option(
    "--compiled",
    is_flag=True,
    help="The same as a FileDescriptorSet, with all that it imports: all that an agent needs.",
)
def proto(compiled: bool) -> None:
    """Print the contract that an agent behind gRPC serves.

    \b
      a2a-gateway proto --compiled > agent.binpb
    """
    data = find(COMPILED if compiled else SOURCE).read_bytes()
    if compiled and sys.stdout.isatty():
        raise click.UsageError("these are bytes: write > agent.binpb behind it")
    click.echo(data, nl=False)
