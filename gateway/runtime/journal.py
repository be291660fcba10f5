"""Group commit: what is ready goes to the store together; the rest gathers behind the commit
under way. No timer: a lone write starts at once."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable

from gateway.store import Store, StoreError, Write

logger = logging.getLogger(__name__)

Done = Callable[[StoreError | None], None]
"""Called in the loop once the write is stored, or with the reason why it is not."""

MAX_WRITES = 256
"""Writes in one commit: bounds the time for which later ones wait."""


class Journal:
    """The runtime's only way to write to the store."""

    def __init__(
        self, store: Store, observe: Callable[[float, int], None] = lambda seconds, writes: None
    ) -> None:
        self._store = store
        self._observe = observe
        self._waiting: deque[tuple[Write, Done]] = deque()
        self._runner: asyncio.Task[None] | None = None

    def write(self, write: Write, done: Done) -> None:
        """Store `write`; writes are stored in the order given. `done` may be called at once."""
        if self._runner is not None:
            self._waiting.append((write, done))
        elif not self._commit_now(write, done):
            self._waiting.append((write, done))
            self._runner = asyncio.create_task(self._run())

    async def store(self, write: Write) -> None:
        """Store `write` and wait; raises `StoreError`."""
        future = asyncio.get_running_loop().create_future()

        def done(error: StoreError | None) -> None:
            if future.done():
                return
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)

        self.write(write, done)
        await future

    async def flush(self) -> None:
        """Wait until all that was given is stored or refused."""
        while self._runner is not None:
            await asyncio.wait([self._runner])

    async def _run(self) -> None:
        try:
            while self._waiting:
                count = min(len(self._waiting), MAX_WRITES)
                await self._commit([self._waiting.popleft() for _ in range(count)])
                # agents that this commit let go on may have more to store at once: what they
                # write in this round of the loop joins the next commit instead of the one after
                await asyncio.sleep(0)
        finally:
            self._runner = None

    async def _commit(self, batch: list[tuple[Write, Done]]) -> None:
        started = time.perf_counter()
        error = await self._try([write for write, _ in batch])
        self._observe(time.perf_counter() - started, len(batch))
        if error is not None and len(batch) > 1:
            # one bad write must not take the others with it
            for entry in batch:
                await self._commit([entry])
            return
        for _, done in batch:
            _tell(done, error)

    def _commit_now(self, write: Write, done: Done) -> bool:
        started = time.perf_counter()
        try:
            if not self._store.commit_now((write,)):
                return False
        except StoreError as error:
            _tell(done, error)
            return True
        self._observe(time.perf_counter() - started, 1)
        _tell(done, None)
        return True

    async def _try(self, writes: list[Write]) -> StoreError | None:
        try:
            await self._store.commit(writes)
        except StoreError as error:
            return error
        except Exception as error:
            logger.exception("the store failed in a way that it should not")
            return StoreError(f"{type(error).__name__} in the store")
        return None


def _tell(done: Done, error: StoreError | None) -> None:
    try:
        done(error)
    except Exception:
        logger.exception("a write's continuation failed")
