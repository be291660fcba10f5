"""The end of a task's stored log, kept in memory for readers that keep up."""

from collections.abc import Sequence

from gateway.store import LogEvent

EVENTS = 256
BYTES = 1 << 20
"""What stays at least; twice as much at most."""


class Tail:
    """The last events of a log, contiguous; `last` is the number of the newest stored one."""

    __slots__ = ("_bytes", "_events", "last")

    def __init__(self, last: int = 0) -> None:
        self.last = last
        self._events: list[LogEvent] = []
        self._bytes = 0

    def extend(self, events: Sequence[LogEvent], size: int) -> None:
        """Add newer events with `size` bytes of payloads; the oldest leave."""
        self._events.extend(events)
        self.last = events[-1].seq
        self._bytes += size
        if len(self._events) > 2 * EVENTS or self._bytes > 2 * BYTES:
            self._trim()

    def _trim(self) -> None:
        events = self._events
        keep, size = len(events), 0
        while keep and len(events) - keep < EVENTS and size < BYTES:
            keep -= 1
            size += len(events[keep].payload)
        del events[:keep]
        self._bytes = size

    def after(self, seq: int) -> list[LogEvent] | None:
        """Stored events above `seq`; None where older ones must be read from the store."""
        if seq >= self.last:
            return []
        events = self._events
        if not events or events[0].seq > seq + 1:
            return None
        return events[seq + 1 - events[0].seq :]
