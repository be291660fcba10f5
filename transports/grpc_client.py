"""A client of native gRPC, for any operation of A2AService by its name (A2A 10).

It has the look of the link's client: `unary(method, request, call)`, `stream(method, request,
call)`; failures are raised as `FailureError`. Events come as serialized `StreamResponse`s with
the sequence number 0, which native gRPC does not show.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc
import grpc.aio
from google.protobuf.message import DecodeError
from google.rpc.status_pb2 import Status

from gateway.call import CURSOR, EXTENSIONS, IDEMPOTENCY_KEY, VERSION, Call
from gateway.errors import Failure, FailureError
from gateway.pb import METHODS, ProtoMessage

DETAILS = "grpc-status-details-bin"

Event = tuple[int, bytes]


@dataclass(frozen=True, slots=True)
class Answer:
    """The response of a unary call and the metadata that came with it."""

    message: ProtoMessage
    metadata: dict[str, str] = field(default_factory=dict)


class GrpcStream:
    """Batches of events. `metadata` is there once the first batch came; `aclose` gives the
    call up."""

    def __init__(self, call: Any) -> None:
        self.metadata: dict[str, str] = {}
        self._call = call
        self._has_metadata = False

    def __aiter__(self) -> AsyncIterator[list[Event]]:
        return self

    async def __anext__(self) -> list[Event]:
        try:
            payload = await self._call.read()
            if payload is grpc.aio.EOF:
                raise StopAsyncIteration
            if not self._has_metadata:
                self._has_metadata = True
                self.metadata = _to_dict(await self._call.initial_metadata())
        except grpc.aio.AioRpcError as error:
            raise FailureError(read_failure(error)) from None
        return [(0, payload)]

    async def aclose(self) -> None:
        """End the call; the task goes on."""
        self._call.cancel()


class GrpcClient:
    """Calls A2AService at `host:port` or `unix:PATH`, without TLS."""

    def __init__(self, address: str, options: Sequence[tuple[str, Any]] = ()) -> None:
        """`options` are gRPC's channel arguments."""
        sizes = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
        self._channel = grpc.aio.insecure_channel(address, options=[*sizes, *options])
        self._unary: dict[str, Any] = {}
        self._streams: dict[str, Any] = {}
        for method in METHODS.values():
            make = self._channel.unary_stream if method.streaming else self._channel.unary_unary
            calls = self._streams if method.streaming else self._unary
            calls[method.name] = make(method.path)

    async def unary(self, method: str, request: ProtoMessage, call: Call) -> Answer:
        """One answer; raises `FailureError`."""
        rpc = self._unary[method](
            request.SerializeToString(), timeout=call.remaining(), metadata=to_metadata(call)
        )
        try:
            payload = await rpc
            metadata = _to_dict(await rpc.initial_metadata())
        except grpc.aio.AioRpcError as error:
            raise FailureError(read_failure(error)) from None
        return Answer(METHODS[method].response.FromString(payload), metadata)

    def stream(self, method: str, request: ProtoMessage, call: Call) -> GrpcStream:
        """A stream; iterating raises `FailureError`."""
        rpc = self._streams[method](
            request.SerializeToString(), timeout=call.remaining(), metadata=to_metadata(call)
        )
        return GrpcStream(rpc)

    async def stop(self) -> None:
        """Close the channel; calls under way end."""
        await self._channel.close()


def to_metadata(call: Call) -> tuple[tuple[str, str], ...]:
    """The metadata of a call, what its fields say included."""
    values = dict(call.metadata)
    if call.version:
        values[VERSION] = call.version
    if call.extensions:
        values[EXTENSIONS] = ", ".join(call.extensions)
    if call.idempotency_key:
        values[IDEMPOTENCY_KEY] = call.idempotency_key
    if call.cursor is not None:
        values[CURSOR] = str(call.cursor)
    return tuple(values.items())


def read_failure(error: grpc.aio.AioRpcError) -> Failure:
    """The failure that a status means, with its details where there are any."""
    packed = dict(error.trailing_metadata()).get(DETAILS)
    status = Status()
    try:
        status.ParseFromString(packed if isinstance(packed, bytes) else b"")
    except DecodeError:
        status.Clear()
    if not status.code:
        status.code = error.code().value[0]
        status.message = error.details() or ""
    return Failure.from_status(status)


def _to_dict(metadata: Any) -> dict[str, str]:
    return {name: value for name, value in metadata if isinstance(value, str)}
