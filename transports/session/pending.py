"""A call of a session's client: its answers between the wire and whoever reads them.

Session layer, client side, no I/O.
"""

import asyncio
from collections import deque
from typing import Any

from gateway.errors import Failure, FailureError


class Pending:
    """A call under way: its answers as they came, until `end`."""

    __slots__ = ("answers", "failure", "id", "is_over", "queued_bytes", "streaming", "waiter")

    def __init__(self, call_id: int, streaming: bool):
        self.id = call_id
        self.streaming = streaming
        self.answers: deque[tuple[dict[str, Any], int]] = deque()
        self.queued_bytes = 0
        self.failure: Failure | None = None
        self.is_over = False
        self.waiter: asyncio.Future[None] | None = None

    def add(self, value: dict[str, Any], size: int) -> None:
        """One more answer or event, of so many bytes."""
        self.answers.append((value, size))
        self.queued_bytes += size
        self.wake()

    def end(self, failure: Failure | None = None) -> None:
        """There will be no more."""
        if not self.is_over:
            self.is_over = True
            self.failure = failure
            self.wake()

    def wake(self) -> None:
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)

    async def take(self) -> dict[str, Any] | None:
        """The next answer, None at the end. Raises `FailureError`."""
        while not self.answers:
            if self.is_over:
                if self.failure is not None:
                    raise FailureError(self.failure)
                return None
            self.waiter = asyncio.get_running_loop().create_future()
            await self.waiter
        value, size = self.answers.popleft()
        self.queued_bytes -= size
        return value
