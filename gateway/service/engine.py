"""What the service needs of the runtime: the interface between deciding and doing."""

from collections.abc import AsyncIterator
from typing import Protocol

from gateway.call import Call, Scope
from gateway.pb import SendMessageRequest, SendMessageResponse, Task
from gateway.store import LogEvent, Query


class Sent(Protocol):
    """What became of a message whose turn is on record."""

    task_id: str

    async def outcome(self, wait: bool) -> SendMessageResponse:
        """The answer; a task in it is the caller's own copy."""

    def events(self, after: int | None = None) -> AsyncIterator[list[LogEvent]]:
        """The stream of the message, or its rest after a sequence number."""


class Engine(Protocol):
    """The part of the runtime that operations end in. Tasks are the caller's own copies."""

    async def send(self, call: Call, request: SendMessageRequest) -> Sent:
        """Put the turn on record; raises what refuses it."""

    async def task(self, scope: Scope, task_id: str) -> Task:
        """One task; raises `TaskNotFoundError`."""

    async def tasks(self, scope: Scope, query: Query) -> tuple[list[Task], bool, int]:
        """One page, whether more follow, and how many match in all."""

    async def cancel(self, call: Call, task_id: str) -> Task:
        """Cancel; raises `TaskNotFoundError` or `TaskNotCancelableError`."""

    async def subscribe(
        self, scope: Scope, task_id: str, after: int | None
    ) -> AsyncIterator[list[LogEvent]]:
        """Follow a task; raises `TaskNotFoundError`, or `UnsupportedOperationError` for a
        terminal one unless a cursor is given."""

    def is_working(self, scope: Scope, task_id: str) -> bool:
        """Whether a turn of the task runs or waits, so that events may still come."""
