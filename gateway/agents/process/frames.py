"""Frames between the core and the process of an agent. Pure.

A frame is a head (payload size, kind, number of the call; little-endian) and a payload. A call
is one `run` or one `cancel` of the agent; its number is the core's choice and is not used again.
Both ends are of one version, and the socket is theirs alone.
"""

from collections.abc import Iterator
from enum import IntEnum
from struct import Struct

HEAD = Struct("<IBQ")


class Kind(IntEnum):
    """What a frame says; its payload."""

    # to the agent
    SETUP = 1
    """JSON: what to load, and how. The first frame."""
    EXECUTE = 2
    """`ExecuteRequest`: run a turn."""
    CANCEL = 3
    """`CancelRequest`: tell the agent that a task was cancelled."""
    INTERRUPT = 4
    """Cancel the call's coroutine."""
    GRANT = 5
    """`GRANT`: events and bytes of the call that were taken."""
    REFUSE = 6
    """`google.rpc.Status`: an event did not fit; the agent's next emit raises it."""
    DROP = 7
    """Nobody waits for the call any more: its events go nowhere."""
    PING = 8
    STOP = 9
    # from the agent
    READY = 20
    """JSON: the agent is loaded and started."""
    NOT_STARTED = 21
    """Text: why it is not."""
    EVENT = 22
    """`ExecuteResponse`."""
    END = 23
    """`google.rpc.Status`: what ended the call; empty where it ended well."""
    PONG = 24


GRANT = Struct("<II")
MAX_EVENTS = 64
MAX_BYTES = 1 << 20
"""Of one call: an agent that has sent so much waits until some of it was taken. The core tells
of what it took once that is half of either, so that short turns need no word of it."""


class FrameError(Exception):
    """What came is no frame."""


def encode(kind: Kind, number: int = 0, payload: bytes = b"") -> bytes:
    """One frame."""
    return HEAD.pack(len(payload), kind, number) + payload


class Decoder:
    """Takes bytes as they come and gives whole frames."""

    def __init__(self, limit: int):
        self._limit = limit
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[int, int, bytes]]:
        """(kind, number, payload) of each frame that is whole by now. Raises `FrameError`."""
        if self._buffer:
            self._buffer += data
            if not self._is_whole():
                return
            data = bytes(self._buffer)
            self._buffer.clear()
        at, end = 0, len(data)
        while end - at >= HEAD.size:
            size, kind, number = HEAD.unpack_from(data, at)
            if size > self._limit:
                raise FrameError(f"a frame of {size} bytes")
            begin = at + HEAD.size
            if end - begin < size:
                break
            at = begin + size
            yield kind, number, data[begin:at]
        self._buffer += data[at:]

    def _is_whole(self) -> bool:
        # a large frame comes in many pieces: do not copy it for each
        if len(self._buffer) < HEAD.size:
            return False
        size: int = HEAD.unpack_from(self._buffer)[0]
        return size > self._limit or len(self._buffer) >= HEAD.size + size
