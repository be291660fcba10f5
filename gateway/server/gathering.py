"""Calls that come close together begin together. Part of the native gRPC door; knows no gRPC.

grpc.aio hands calls over one at a time, each in a round of the loop of its own, and gRPC's code
and the agent's push one another out of the processor's caches. Under load, calls that begin in
groups cost a third less. A group waits while the loop goes on bringing calls, never on a timer;
whether waiting pays is learned from the groups before, so that a lone call does not wait.
"""

import asyncio

QUIET_ROUNDS = 32
"""A group is complete when so many rounds of the loop brought no call: some 100 us, longer than
gRPC takes to hand the next one over."""
MOST = 32
"""Calls of one group."""
PATIENCE = 4
"""Groups that turn out to be one call before the next calls begin at once."""
PROBE = 64
"""Of the calls that begin at once, one in so many waits, to see whether that pays by now."""


class Gathering:
    """Lets calls begin in groups, within one event loop."""

    __slots__ = ("_begun", "_loop", "_patience", "_quiet", "_waiting")

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: list[asyncio.Future[None]] = []
        self._quiet = 0
        self._patience = 0
        self._begun = 0

    def enter(self) -> "asyncio.Future[None] | None":
        """What a new call has to await before it begins; None: nothing."""
        if not self._waiting and not self._patience:
            self._begun += 1
            if self._begun < PROBE:
                return None
            self._begun, self._patience = 0, 1
        loop = self._loop = self._loop or asyncio.get_running_loop()
        future = loop.create_future()
        self._waiting.append(future)
        self._quiet = 0
        if len(self._waiting) == 1:
            loop.call_soon(self._look)
        return future

    def _look(self) -> None:
        assert self._loop is not None
        self._quiet += 1
        if len(self._waiting) < MOST and self._quiet < QUIET_ROUNDS:
            self._loop.call_soon(self._look)
            return
        group, self._waiting = self._waiting, []
        self._patience = PATIENCE if len(group) > 1 else self._patience - 1
        for future in group:
            if not future.done():
                future.set_result(None)
