"""Where the store refuses a write: the task goes back to what is stored and fails there.

Nobody is kept waiting by a store that keeps refusing: then the waiting get an error at once, and
the failure is stored in the background as soon as the store takes it.
"""

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING

from gateway.call import Scope
from gateway.errors import InternalError, UnavailableError, ValidationError
from gateway.runtime.live import LiveTask
from gateway.runtime.recovery import NOT_STORED, load, store_failure
from gateway.runtime.turn import LiveTurn
from gateway.store import KeyConflictError, StoreError, TurnRow

if TYPE_CHECKING:
    from gateway.runtime.engine import Runtime

logger = logging.getLogger(__name__)

MEND_INTERVAL = 5.0
"""Seconds between attempts to store the failure of a task that the store keeps refusing."""


class Repairs:
    """The repairs under way; `mending` has the tasks whose failure is not stored yet."""

    def __init__(self, runtime: "Runtime") -> None:
        self._runtime = runtime
        self.mending: set[tuple[Scope, str]] = set()

    def begin(self, live: LiveTask, error: StoreError) -> None:
        """The store refused a write of this task."""
        logger.error("a write of task %s was refused", live.id, exc_info=error)
        _ = self._runtime.spawn(self._repair(live, error))

    async def _repair(self, live: LiveTask, error: StoreError) -> None:
        """Bring the task back to what is stored: turns that had begun fail with the task, those
        that had not are refused."""
        turns, live.turns = live.turns, []
        begun = [turn for turn in turns if turn.is_running]
        for turn in turns:
            turn.is_closed = True
            # an answer that could not be kept is none
            turn.reply, turn.row.outcome = None, b""
            if turn not in begun:
                turn.failure = not_stored(error)
            elif turn.run_task is not None:
                turn.run_task.cancel()
        try:
            await self._restore(live, begun)
        except (InternalError, StoreError):
            self._lose(live, begun)
        live.is_broken = False
        for turn in turns:
            turn.ended_version = turn.settled_version = live.saved_version
            turn.end_seq = live.saved_seq
            if live.turn is turn and turn.run_task is None:
                self._runtime.turn_ended(turn)
        live.wake()
        self._runtime.release(live)

    async def _restore(self, live: LiveTask, begun: list[LiveTurn]) -> None:
        if begun:
            for turn in begun:
                stored = await store_failure(
                    self._runtime.journal.store, self._runtime.store, turn.row, NOT_STORED
                )
            live.restore(*stored)
        elif live.is_stored:
            row = await load(self._runtime.store, live.scope, live.id)
            if row is not None:
                live.restore(*row)

    def _lose(self, live: LiveTask, begun: list[LiveTurn]) -> None:
        """Nobody is kept waiting any longer; the store gets the failure once it takes it."""
        live.is_lost = True
        key = (live.scope, live.id)
        self._runtime.forget(key)
        for turn in begun:
            turn.failure = InternalError("The task could not be stored; try again later")
        if begun and key not in self.mending:
            self.mending.add(key)
            _ = self._runtime.spawn(self._mend(key, [turn.row for turn in begun]))

    async def _mend(self, key: tuple[Scope, str], rows: list[TurnRow]) -> None:
        while rows:
            await asyncio.sleep(MEND_INTERVAL)
            with contextlib.suppress(InternalError):
                await store_failure(
                    self._runtime.journal.store, self._runtime.store, rows[0], NOT_STORED
                )
                del rows[0]
        self.mending.discard(key)


def not_stored(error: StoreError) -> Exception:
    """What it means to the sender that the record of a turn was not stored."""
    if isinstance(error, KeyConflictError):
        return ValidationError(("idempotency-key", "was used for another request"))
    return UnavailableError("The message could not be stored; nothing was done, send it again")
