"""What the processes of one gateway agree on before any of them has a configuration. Imports
nothing that costs: the supervisor and the command line stay light."""

from collections.abc import Sequence

CHANNEL_VARIABLE = "A2A_GATEWAY_CHANNEL"
"""Names the descriptor of a child's channel to its supervisor."""

TOKEN_VARIABLE = "A2A_GATEWAY_TOKEN"  # noqa: S105 - a name
API_KEY_VARIABLE = "A2A_GATEWAY_API_KEY"
PASSWORD_VARIABLE = "A2A_GATEWAY_PASSWORD"  # noqa: S105 - a name
CLIENT_VARIABLES = frozenset({TOKEN_VARIABLE, API_KEY_VARIABLE, PASSWORD_VARIABLE})
"""What the client commands read; no configuration of the gateway."""

ONE_SIGNAL = 0.5
"""Seconds within which signals to stop count as one: a process group and a supervisor may both
deliver the same one. A later one means haste."""

# Exit codes, of `serve` and of each process; docs/configuration.md and --help list them.
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_AGENT = 3
EXIT_ADDRESS = 4
EXIT_STATE = 5
EXIT_DYING = 6


def adapter_name(doors: Sequence[str]) -> str:
    """What logs, metrics and the supervisor call an adapter process."""
    return f"adapter-{doors[0]}" if len(doors) == 1 else "adapter"
