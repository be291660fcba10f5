"""What can run a turn. An agent in the loop, in a thread, in a process of its own or elsewhere
is one thing to the runtime: `run` starts a turn, events come out by `Turn.emit`, `cancel`
reaches a running turn."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from gateway.call import Call
from gateway.pb import Event, SendMessageRequest, Task

SECRET_NAMES = frozenset({"authorization", "cookie", "proxy-authorization", "x-api-key"})
"""Metadata that an agent never sees, beside the credential names of the configuration."""


@dataclass(slots=True, eq=False)
class Turn:
    """One run of the agent for one message. The runtime makes it; `emit` is the runtime's.

    `request` is the agent's own copy; its message names `task_id` and `context_id`. `task` is a
    copy of the task as it stands (the new message included), None on the first turn of a task.
    """

    call: Call
    request: SendMessageRequest
    task_id: str
    context_id: str
    task: Task | None = None
    related: list[Task] = field(default_factory=list)
    """The tasks that the message refers to, those that its caller may see."""

    @property
    def session(self) -> dict[str, Any]:
        """Memory of the context, shared by its turns until it has been idle for long."""
        raise NotImplementedError

    async def emit(self, event: Event) -> None:
        """Hand an event over. Waits while too many of the turn's events are unsaved. The event
        may be changed by the agent afterwards. After the end of the task events are dropped.
        Raises `InvalidAgentResponseError` for an event that does not fit the turn."""
        raise NotImplementedError


class Agent(Protocol):
    """Runs turns. `run` may be called many times at once, never twice at once for one task."""

    name: str

    async def start(self) -> None:
        """Make ready; raises `AgentError` with a reason that an operator understands."""

    async def stop(self) -> None:
        """Give everything back; no turn is running any more."""

    async def run(self, turn: Turn) -> None:
        """Run one turn to its end. Is cancelled (asyncio) when the task is cancelled."""

    async def cancel(self, turn: Turn) -> None:
        """Called when the task of a turn is cancelled, once `run` has been cancelled too. May
        emit. Also called for an interrupted task, whose last turn has ended."""


@runtime_checkable
class ProposingAgent(Agent, Protocol):
    """An agent that is loaded elsewhere, and brings from there what its module proposes."""

    @property
    def card(self) -> Mapping[str, Any]:
        """Fields of the agent card, known once the agent has started. `start` may be called
        again then, and does nothing."""


@runtime_checkable
class DistantAgent(Agent, Protocol):
    """An agent in another process, which may be away."""

    @property
    def fault(self) -> str:
        """Why no turn can run now, empty where it can. Costs nothing to ask."""


class AgentError(Exception):
    """The agent cannot be loaded or started; the text says why and what to do."""
