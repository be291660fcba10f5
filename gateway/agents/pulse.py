"""Whether an agent's loop turns, in another thread or process. Layer: agents."""

import time
from collections.abc import Callable

STILL_LIMIT = 30.0
"""Seconds without an answer after which a loop stands still."""


class Pulse:
    """Asks whenever somebody wants to know, and never twice before the answer."""

    def __init__(self, ask: Callable[[], None]):
        self._ask = ask
        self._asked_at: float | None = None

    def answer(self) -> None:
        """The loop has answered."""
        self._asked_at = None

    @property
    def fault(self) -> str:
        """That it has been standing still for long; empty where it turns, as far as is known."""
        now = time.monotonic()
        if self._asked_at is None:
            self._asked_at = now
            self._ask()
        elif now - self._asked_at > STILL_LIMIT:
            return "the agent blocks its loop, and all its turns wait"
        return ""
