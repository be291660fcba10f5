"""Finished tasks are kept by a rule and deleted afterwards (published in the guide)."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable

from gateway.call import Scope
from gateway.runtime.options import RuntimeOptions
from gateway.store import Store, StoreError

logger = logging.getLogger(__name__)

BATCH = 1000


class Retention:
    """Deletes what has outlived the rule: at intervals, and whenever many tasks have ended."""

    def __init__(
        self, store: Store, options: RuntimeOptions, expired: Callable[[Scope, str], None]
    ) -> None:
        self._store = store
        self._options = options
        self._expired = expired
        self._finished = 0
        self._many = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin, unless everything is kept for ever."""
        if self._options.finished_age is not None or self._options.finished_count is not None:
            self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """End; a deletion under way is waited for by the store."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    def note_finished(self) -> None:
        """A task has ended."""
        self._finished += 1
        if self._finished >= BATCH:
            self._many.set()

    async def _run(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._many.wait(), self._options.expire_interval)
            self._many.clear()
            self._finished = 0
            try:
                await self.expire()
            except StoreError:
                logger.exception("expired tasks could not be deleted; next try follows")

    async def expire(self) -> int:
        """Delete all that the rule lets go; how many tasks that were."""
        age, keep = self._options.finished_age, self._options.finished_count
        total = 0
        while True:
            before = None if age is None else int((time.time() - age) * 1e6)
            gone = await self._store.expire(before_us=before, keep=keep, limit=BATCH)
            for scope, task_id in gone:
                self._expired(scope, task_id)
            total += len(gone)
            if len(gone) < BATCH:
                return total
