"""Calls under way: how a deadline or a drain reaches a call that waits inside the core.

The technique is that of `asyncio.timeout`: the waiting task is cancelled, and the cancellation
turned into an error on its way out, unless somebody else cancels the task too. Done by hand
because a stream waits many times, each time perhaps in another task.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from gateway.call import Call, Scope
from gateway.errors import A2AError, DeadlineExceededError, UnavailableError

STOPPING = "The server is stopping; try again. A task that was started goes on or is kept"
QUIET_SECONDS = 0.25
"""A stream whose task has no turn is idle when it has had no event for so long."""
MARGIN_SECONDS = 0.5
UNWIND_SECONDS = 1.0

IsWorking = Callable[[Scope, str], bool]
"""Whether a turn of a task runs, so that its streams may still get events."""


class Running:
    """One call. Whatever it waits for inside the core goes through `inside`."""

    __slots__ = (
        "_cancelling",
        "_error",
        "_is_cancelled",
        "_task",
        "call",
        "is_stream",
        "task_id",
        "timer",
        "waits",
    )

    def __init__(self, call: Call, is_stream: bool) -> None:
        self.call = call
        self.is_stream = is_stream
        self.task_id = ""
        """Of a stream that has begun."""
        self.timer: asyncio.TimerHandle | None = None
        self.waits = 0.0
        """Since when (monotonic) it waits; 0 while it does not."""
        self._task: asyncio.Task[object] | None = None
        self._error: A2AError | None = None
        self._cancelling = 0
        self._is_cancelled = False

    async def inside(self, function: Callable[..., Awaitable[Any]], *arguments: Any) -> Any:
        """`await function(*arguments)`, unless `end` ends the call before or meanwhile."""
        if self._error is not None:
            raise self._error
        self._task = task = asyncio.current_task()
        assert task is not None
        self._cancelling = task.cancelling()
        self.waits = time.monotonic()
        try:
            return await function(*arguments)
        except asyncio.CancelledError:
            if (error := self._overtaken(task)) is not None:
                raise error from None
            raise
        finally:
            if self._is_cancelled:
                # the function went on in spite of it
                self._is_cancelled = False
                task.uncancel()
            self._task = None
            self.waits = 0.0

    def end(self, error: A2AError) -> None:
        """Make the call raise `error`, now or when it next waits."""
        if self._error is None:
            self._error = error
            if self._task is not None:
                self._is_cancelled = True
                self._task.cancel()

    def _overtaken(self, task: asyncio.Task[object]) -> A2AError | None:
        """What a cancellation means; None where it is not ours, or not ours alone."""
        if not self._is_cancelled:
            return None
        self._is_cancelled = False
        return self._error if task.uncancel() <= self._cancelling else None


class RunningCalls:
    """All calls under way; knows when the last one has ended."""

    def __init__(self) -> None:
        self._calls: set[Running] = set()
        self._ended: asyncio.Event | None = None
        self.is_draining = False

    def __len__(self) -> int:
        return len(self._calls)

    @property
    def streams(self) -> int:
        """Open streams."""
        return sum(1 for call in self._calls if call.is_stream)

    def begin(self, call: Call, is_stream: bool) -> Running:
        """Note a call. Raises `UnavailableError` while draining, and `DeadlineExceededError`
        for a call that comes too late."""
        if self.is_draining:
            raise UnavailableError(STOPPING)
        running = Running(call, is_stream)
        if call.deadline is not None:
            remaining = call.remaining()
            if not remaining:
                raise DeadlineExceededError("The deadline has passed; nothing was done")
            loop = asyncio.get_running_loop()
            running.timer = loop.call_later(remaining, running.end, DeadlineExceededError())
        self._calls.add(running)
        return running

    def finish(self, running: Running) -> None:
        """The call has ended."""
        if running.timer is not None:
            running.timer.cancel()
        self._calls.discard(running)
        if self._ended is not None:
            self._ended.set()

    async def drain(
        self, grace: float, is_working: IsWorking, quiet: float = QUIET_SECONDS
    ) -> None:
        """Take no new calls; let those under way finish within `grace` seconds. Streams that
        have nothing to wait for end early; what is left ends a little before the end of the
        grace, so that there is time to say so."""
        self.is_draining = True
        self._ended = self._ended or asyncio.Event()
        stop = time.monotonic() + grace - min(MARGIN_SECONDS, grace / 10)
        while self._calls and (left := stop - time.monotonic()) > 0:
            self._end_idle_streams(is_working, quiet)
            await self._one_ended(min(left, quiet))
        for running in self._calls:
            running.end(UnavailableError(STOPPING))
        stop = time.monotonic() + UNWIND_SECONDS
        while self._calls and (left := stop - time.monotonic()) > 0:
            await self._one_ended(left)

    def _end_idle_streams(self, is_working: IsWorking, quiet: float) -> None:
        since = time.monotonic() - quiet
        for running in self._calls:
            # one that does not wait is busy with its client; one without a task has just begun
            if not running.task_id or not 0 < running.waits <= since:
                continue
            if is_working(running.call.scope, running.task_id):
                # it is quiet from the end of the work on: its last events are on their way then
                running.waits = time.monotonic()
            else:
                running.end(UnavailableError(STOPPING))

    async def _one_ended(self, timeout: float) -> None:
        assert self._ended is not None
        self._ended.clear()
        try:
            async with asyncio.timeout(timeout):
                await self._ended.wait()
        except TimeoutError:
            pass
