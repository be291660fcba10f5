"""Server-sent events, read back: bytes to events (WHATWG HTML s9.2.6).

Pure: bytes in, events out, cut anywhere. Lines end with LF, CR LF or CR and with nothing else: a
text may hold other line separators (U+2028) unescaped. Only `id` and `data` matter here.
"""

from typing import NamedTuple

MAX_EVENT_BYTES = 64 << 20
"""Of one event; beyond it a server only fills the memory."""


class SentEvent(NamedTuple):
    """One event; `sequence` is 0 where its id is missing or is no number."""

    sequence: int
    data: bytes


class EventStream:
    """Takes the body of a response piece by piece."""

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._max = max_event_bytes
        self._rest = bytearray()
        self._searched = 0
        self._after_cr = False
        self._data: list[bytes] = []
        self._size = 0
        self._sequence = 0
        self._is_first = True

    def feed(self, piece: bytes) -> list[SentEvent]:
        """The events that end in this piece. Raises `ValueError` where one is too large."""
        found: list[SentEvent] = []
        self._rest += piece
        while (line := self._next_line()) is not None:
            self._take(line, found)
        if len(self._rest) + self._size > self._max:
            raise ValueError(f"an event of the stream is larger than {self._max} bytes")
        return found

    def _next_line(self) -> bytes | None:
        rest = self._rest
        if self._after_cr and rest:
            self._after_cr = False
            if rest[0] == 0x0A:
                del rest[0]
        found = (rest.find(b"\n", self._searched), rest.find(b"\r", self._searched))
        ends = [end for end in found if end >= 0]
        if not ends:
            self._searched = len(rest)
            return None
        end = min(ends)
        line = bytes(rest[:end])
        self._after_cr = rest[end] == 0x0D
        del rest[: end + 1]
        self._searched = 0
        return line

    def _take(self, line: bytes, found: list[SentEvent]) -> None:
        if self._is_first:
            self._is_first = False
            line = line.removeprefix(b"\xef\xbb\xbf")
        if not line:
            if self._data:
                found.append(SentEvent(self._sequence, b"\n".join(self._data)))
            self._data, self._size, self._sequence = [], 0, 0
            return
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
            self._size += len(value) + 1
        elif name == b"id":
            self._sequence = int(value) if value.isdigit() and len(value) < 19 else 0
