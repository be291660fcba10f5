"""The command line. Importing it costs nothing: each command loads what it runs."""


def main() -> None:
    """The console script `a2a-gateway`."""
    try:
        from gateway.cli.commands import cli

        cli(prog_name="a2a-gateway")
    except KeyboardInterrupt:  # before there is a command
        raise SystemExit(130) from None
