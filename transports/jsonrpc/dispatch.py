"""JSON-RPC methods: from a request's name and params to the operation and its message.

Dispatch layer, no I/O. The operations are those of the service descriptor, under their own names
(A2A 5.3, 9.4); nothing here knows what they do.
"""

from collections.abc import Callable
from typing import Any

import orjson
from a2a.utils.errors import MethodNotFoundError

from gateway.pb import METHODS, Method, ProtoMessage
from transports.jsonrpc import codec
from transports.jsonrpc.encoding import encoder


class Operation:
    """An operation with its codec, ready to be called."""

    __slots__ = ("_encode", "name", "request", "response", "streaming")

    def __init__(self, method: Method):
        self.name = method.name
        self.request = method.request
        self.response = method.response
        self.streaming = method.streaming
        self._encode: Callable[[Any], Any] = encoder(method.response.DESCRIPTOR)

    def read(self, params: dict[str, Any] | None) -> ProtoMessage:
        """The request message; raises `ValidationError`."""
        return codec.decode(self.request, params or {})

    def write(self, response: ProtoMessage) -> bytes:
        """A response message as JSON text."""
        return orjson.dumps(self._encode(response))

    def write_event(self, payload: bytes) -> bytes:
        """One serialized response of a stream as JSON text on one line."""
        return orjson.dumps(self._encode(self.response.FromString(payload)))


OPERATIONS: dict[str, Operation] = {name: Operation(method) for name, method in METHODS.items()}


def operation(method: str) -> Operation:
    """The operation of a JSON-RPC method; raises `MethodNotFoundError`."""
    found = OPERATIONS.get(method)
    if found is None:
        raise MethodNotFoundError(f"Method not found: {method[:128]}")
    return found
