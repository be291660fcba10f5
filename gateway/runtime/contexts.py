"""Contexts in memory: how many turns run in each, and what agents keep for them.

A context is a grouping handle inside a scope, never proof of anything (A2A 3.4.1). An entry
exists only while a turn runs under `exclusive`, or once an agent has asked for the context's
session; idle ones leave after `idle_timeout`, the oldest first when there are too many.
"""

import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any

from gateway.call import Scope

Key = tuple[Scope, str]

MAX_SESSIONS = 10_000


class Contexts:
    """Sessions by least recent use, and running turns by context."""

    def __init__(
        self, idle_timeout: float = 3600.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._idle_timeout = idle_timeout
        self._clock = clock
        self._sessions: OrderedDict[Key, tuple[float, dict[str, Any]]] = OrderedDict()
        self._running: Counter[Key] = Counter()

    def __len__(self) -> int:
        return len(self._sessions)

    def session(self, scope: Scope, context_id: str) -> dict[str, Any]:
        """The agent's memory of a context; a new dict where there is none (any more)."""
        key = (scope, context_id)
        _, session = self._sessions.pop(key, (0.0, {}))
        self._sessions[key] = (self._clock(), session)
        self.evict()
        return session

    def evict(self) -> None:
        """Drop what has been idle for too long, except where a turn runs."""
        horizon = self._clock() - self._idle_timeout
        while self._sessions:
            key, (used, session) = next(iter(self._sessions.items()))
            if used > horizon and len(self._sessions) <= MAX_SESSIONS:
                return
            del self._sessions[key]
            if key in self._running:
                self._sessions[key] = (self._clock(), session)
                if len(self._running) >= len(self._sessions):
                    return

    def enter(self, scope: Scope, context_id: str) -> None:
        """A turn begins."""
        self._running[scope, context_id] += 1

    def leave(self, scope: Scope, context_id: str) -> None:
        """A turn has ended."""
        key = (scope, context_id)
        self._running[key] -= 1
        if self._running[key] <= 0:
            del self._running[key]

    def is_busy(self, scope: Scope, context_id: str) -> bool:
        """Whether a turn runs or waits in the context."""
        return (scope, context_id) in self._running
