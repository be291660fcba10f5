"""Agents that are not imported: named by a prefix, `PREFIX:REST`. Layer: agents.

A kind is a module with two functions: `make(rest, settings)` gives the agent, not started, and
raises `AgentError` for what cannot be right; `card_name(rest)` is what the card calls it.
"""

import importlib
from dataclasses import dataclass, field
from typing import Protocol

from gateway.agents import Agent
from gateway.agents.command.options import CommandOptions

KINDS = {"command": "gateway.agents.command.agent", "grpc": "gateway.agents.remote"}
"""Prefix -> module, imported when such an agent is named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How agents are run, as far as kinds need to know."""

    cancel_timeout: float = 5.0
    """Seconds that an agent may take to end after a cancel."""
    secret_names: frozenset[str] = frozenset()
    """Lower-case metadata names that carry credentials, which agents do not get to see."""
    message_bytes: int = 16 << 20
    """Of one message to the agent, and of one event."""
    context_idle: float = 3600.0
    """Seconds after which the memory of a context is dropped by the process that keeps it."""
    watchdog: float = 1.0
    """A loop of the agent's own that is blocked for longer is reported."""
    command: CommandOptions = field(default_factory=CommandOptions)


class Kind(Protocol):
    """What the module of a kind has."""

    def make(self, rest: str, settings: Settings, *, name: str) -> Agent:
        """The agent, not started. `name` is for logs."""

    def card_name(self, rest: str) -> str:
        """What the card calls an agent that has no card."""


def find(spec: str) -> tuple[Kind | None, str]:
    """The kind that the spec's prefix names, and what stands behind the prefix; None where it is
    a Python module's."""
    prefix, colon, rest = spec.strip().partition(":")
    if not colon or prefix not in KINDS:
        return None, ""
    kind: Kind = importlib.import_module(KINDS[prefix])
    return kind, rest.strip()


def card_name(spec: str) -> str:
    """What the card calls an agent that has no card: the last word of its module, or what its
    kind says."""
    kind, rest = find(spec)
    if kind is not None:
        return kind.card_name(rest)
    module, _, attribute = spec.strip().partition(":")
    last = module.rpartition(".")[2]
    return attribute if attribute and attribute not in ("agent", "executor") else last
