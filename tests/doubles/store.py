"""A store with faults: wraps a real one, delays and refuses on demand."""

import asyncio
from collections.abc import Callable, Sequence

from gateway.call import Scope
from gateway.store import LogEvent, Page, Query, Store, StoreError, TaskRow, TurnRow, Write

Matches = Callable[[Write], bool]


class FaultyStore(Store):
    """Passes everything to `inner`, but for the faults that are set.

    `commit_delay` and `read_delay` are seconds and may be changed at any time. `pause()` holds
    every commit back until `go_on()`; `commits_waiting` tells how many it holds.
    """

    is_durable = True
    """Whatever is behind it: tests of what a durable store is for may use the memory."""

    def __init__(self, inner: Store, *, commit_delay: float = 0.0, read_delay: float = 0.0) -> None:
        self.inner = inner
        self.commit_delay = commit_delay
        self.read_delay = read_delay
        self.committed: list[Write] = []
        """Every write that the inner store took, in order."""
        self.failed = 0
        """Commits that were refused."""
        self.commits_waiting = 0
        self.reads = 0
        self._failures: list[tuple[Matches, StoreError]] = []
        self._may_go = asyncio.Event()
        self._may_go.set()

    def fail_next(
        self,
        count: int = 1,
        matches: Matches = lambda write: True,
        error: StoreError | None = None,
    ) -> None:
        """Refuse the next `count` commits that hold a write for which `matches` says yes."""
        self._failures += [(matches, error or StoreError("The disk is full"))] * count

    def pause(self) -> None:
        """Hold commits back."""
        self._may_go.clear()

    def go_on(self) -> None:
        """Let those that were held back pass."""
        self._may_go.set()

    async def open(self) -> None:
        await self.inner.open()

    async def close(self) -> None:
        await self.inner.close()

    async def ping(self) -> None:
        await self._before_read()
        await self.inner.ping()

    async def commit(self, writes: Sequence[Write]) -> None:
        self.commits_waiting += 1
        try:
            if self.commit_delay:
                await asyncio.sleep(self.commit_delay)
            await self._may_go.wait()
        finally:
            self.commits_waiting -= 1
        for failure in self._failures:
            matches, error = failure
            if any(map(matches, writes)):
                self._failures.remove(failure)
                self.failed += 1
                raise error
        await self.inner.commit(writes)
        self.committed += writes

    async def _before_read(self) -> None:
        self.reads += 1
        if self.read_delay:
            await asyncio.sleep(self.read_delay)

    async def task(self, scope: Scope, task_id: str) -> TaskRow | None:
        await self._before_read()
        return await self.inner.task(scope, task_id)

    async def tasks(self, scope: Scope, query: Query) -> Page:
        await self._before_read()
        return await self.inner.tasks(scope, query)

    async def events(
        self, scope: Scope, task_id: str, after: int, limit: int = 256
    ) -> list[LogEvent]:
        await self._before_read()
        return await self.inner.events(scope, task_id, after, limit)

    async def turn_by_key(self, scope: Scope, key: str) -> TurnRow | None:
        await self._before_read()
        return await self.inner.turn_by_key(scope, key)

    async def turns_of_task(self, scope: Scope, task_id: str) -> list[TurnRow]:
        await self._before_read()
        return await self.inner.turns_of_task(scope, task_id)

    async def open_turns(self) -> list[TurnRow]:
        await self._before_read()
        return await self.inner.open_turns()

    async def expire(
        self, *, before_us: int | None, keep: int | None, limit: int = 1000
    ) -> list[tuple[Scope, str]]:
        return await self.inner.expire(before_us=before_us, keep=keep, limit=limit)
