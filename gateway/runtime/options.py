"""What of the runtime can be set, and what it tells the metrics."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class RuntimeOptions:
    """Limits and times of the runtime; sizes in bytes, times in seconds."""

    running: int = 1000
    """Turns whose agent runs at once; more wait."""
    waiting: int = 1000
    """Turns that wait for their agent, in all; more are refused (RESOURCE_EXHAUSTED)."""
    waiting_per_task: int = 16
    """Follow-ups that wait behind a running turn of their task; more are refused."""
    unsaved_events: int = 256
    unsaved_bytes: int = 1 << 20
    """Beyond either the agent's emit waits for the store."""
    event_bytes: int = 16 << 20
    """The largest event that an agent may emit."""
    exclusive: bool = False
    """A context takes one turn at a time; a second message is refused."""
    context_idle: float = 3600.0
    cancel_timeout: float = 5.0
    """An agent that has not ended this long after a cancel is abandoned, its task CANCELED."""
    finished_age: float | None = None
    """Finished tasks are deleted when they are older than this."""
    finished_count: int | None = None
    """At most so many finished tasks are kept, the latest."""
    expire_interval: float = 30.0


class RuntimeObserver(Protocol):
    """Told of what happens; every method returns at once."""

    def state_entered(self, state: int) -> None:
        """A task entered a state (TaskState number)."""

    def event_dropped(self) -> None:
        """An agent emitted after the end of its task or turn."""

    def committed(self, seconds: float, writes: int) -> None:
        """A group commit has ended."""


class SilentObserver:
    """Hears nothing."""

    def state_entered(self, state: int) -> None:
        """See `RuntimeObserver`."""

    def event_dropped(self) -> None:
        """See `RuntimeObserver`."""

    def committed(self, seconds: float, writes: int) -> None:
        """See `RuntimeObserver`."""
