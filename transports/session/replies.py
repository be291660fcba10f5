"""What a session answers, as payloads: results, events of streams in both styles, their ends.

Session layer, server side, no I/O. A request has exactly one end: a result, an error, or
`streamEnd`.
"""

from collections.abc import Iterator
from typing import Any

import orjson

from transports.jsonrpc.dispatch import Operation
from transports.jsonrpc.envelope import result_head
from transports.session.parameters import MEMBER

Events = list[tuple[int, bytes]]
"""Sequence numbers (0: none) and serialized StreamResponses."""


def notification(method: str, params: Any) -> bytes:
    """A notification on one line."""
    return orjson.dumps({"jsonrpc": "2.0", "method": method, "params": params})


def result(call_id: bytes, text: bytes, metadata: dict[str, str]) -> bytes:
    """A response; response metadata stands beside `result`."""
    return result_head(call_id) + text + _tail(metadata)


def _tail(metadata: dict[str, str]) -> bytes:
    if not metadata:
        return b"}"
    return b',"' + MEMBER.encode() + b'":' + orjson.dumps(metadata) + b"}"


class Responses:
    """Each event is a response with the id of the request; `streamEnd` ends them. Response
    metadata comes with the first."""

    __slots__ = ("_head", "_id", "_write", "metadata")

    def __init__(self, called: Operation, call_id: bytes):
        self.metadata: dict[str, str] = {}
        self._head = result_head(call_id)
        self._id = call_id
        self._write = called.write_event

    def events(self, batch: Events) -> list[bytes]:
        """The frames of events, in order."""
        head, write = self._head, self._write
        frames = [
            b'%b%b,"seq":%d}' % (head, write(data), number)
            if number
            else b"%b%b}" % (head, write(data))
            for number, data in batch
        ]
        if self.metadata:
            frames[0] = frames[0][:-1] + _tail(self.metadata)
            self.metadata = {}
        return frames

    def end(self) -> bytes:
        """The end of a stream that did not fail."""
        return b'{"jsonrpc":"2.0","id":%b,"streamEnd":true' % self._id + _tail(self.metadata)


class Notifications:
    """Each event is a notification `$/progress` with the token of the call; the one response says
    that the stream has ended, and has the metadata. For clients that take JSON-RPC 2.0 at its
    word."""

    __slots__ = ("_head", "_id", "_number", "_write", "metadata")

    def __init__(self, called: Operation, call_id: bytes, token: bytes):
        self.metadata: dict[str, str] = {}
        self._head = (
            b'{"jsonrpc":"2.0","method":"$/progress","params":{"token":' + token + b',"value":'
        )
        self._id = call_id
        self._write = called.write_event
        self._number = 0

    def events(self, batch: Events) -> list[bytes]:
        """The frames of events, in order."""
        head, write = self._head, self._write
        frames = [
            b'%b%b,"seq":%d}}' % (head, write(data), number)
            if number
            else b"%b%b}}" % (head, write(data))
            for number, data in batch
        ]
        self._number = batch[-1][0]
        return frames

    def end(self) -> bytes:
        """The end of a stream that did not fail."""
        number = b',"seq":%d' % self._number if self._number else b""
        return result(self._id, b'{"streamEnd":true' + number + b"}", self.metadata)


StreamStyle = Responses | Notifications


def in_turn(style: StreamStyle, batch: Events) -> Iterator[list[bytes]]:
    """The frames of events. Where one cannot be written as JSON, those before it come, and then
    what is wrong with it is raised."""
    try:
        frames = style.events(batch)
    except Exception:
        for event in batch:
            yield style.events([event])
        raise
    yield frames
