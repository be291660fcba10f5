"""How a program is run. Pure. Layer: agents."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

MIB = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandOptions:
    """`agent.command` of the configuration."""

    is_events: bool = False
    """It prints events, one JSON object a line, and gets its request so; otherwise text."""
    ask_code: int | None = 10
    """The exit code by which a program that prints text asks something back."""
    environment: Sequence[str] = ()
    """Names of variables that it gets beside the usual ones."""
    directory: Path | None = None
    timeout: float | None = None
    output_bytes: int = 16 * MIB
