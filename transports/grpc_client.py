"""Clients of native gRPC, for any operation of A2AService by its name (A2A 10).

`GrpcClient` has the look of the link's client: `unary(method, request, call)`, `stream(method,
request, call)`, and gives events as serialized `StreamResponse`s. `NativeClient` has the look that
all wires share (`transports.wire.Client`). Failures are raised as `FailureError`; sequence numbers
are 0, because native gRPC shows none.
"""

import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import grpc
import grpc.aio
from google.protobuf.message import DecodeError
from google.rpc.status_pb2 import Status

from gateway.call import CURSOR, EXTENSIONS, IDEMPOTENCY_KEY, VERSION, Call
from gateway.errors import BY_REASON, Code, Failure, FailureError
from gateway.pb import METHODS, ProtoMessage, StreamResponse
from transports.wire import Events, UnreachableError

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
    """Calls A2AService at `host:port` or `unix:PATH`."""

    def __init__(
        self,
        address: str,
        options: Sequence[tuple[str, Any]] = (),
        credentials: grpc.ChannelCredentials | None = None,
    ) -> None:
        """`options` are gRPC's channel arguments; without `credentials` there is no TLS."""
        sizes = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
        arguments = [*sizes, *options]
        if credentials is None:
            self._channel = grpc.aio.insecure_channel(address, options=arguments)
        else:
            self._channel = grpc.aio.secure_channel(address, credentials, options=arguments)
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


class NativeClient:
    """Native gRPC with the look of every wire. Owns the client that it is given."""

    is_lost = False
    """Its channel connects anew by itself."""

    def __init__(self, client: GrpcClient) -> None:
        self._client = client
        self.metadata: dict[str, str] = {}

    async def unary(
        self,
        method: str,
        request: ProtoMessage,
        metadata: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> ProtoMessage:
        """One answer; `timeout` is the deadline that the server is told, too."""
        call = Call("grpc", dict(metadata or {}))
        call.deadline = None if timeout is None else time.monotonic() + timeout
        try:
            answer = await self._client.unary(method, request, call)
        except FailureError as error:
            raise _unreachable(error) from None
        except DecodeError:
            raise _odd(METHODS[method].response) from None
        self.metadata = answer.metadata
        return answer.message

    async def stream(
        self,
        method: str,
        request: ProtoMessage,
        metadata: Mapping[str, str] | None = None,
        headers: dict[str, str] | None = None,
    ) -> Events:
        """Events; their sequence numbers are 0."""
        stream = self._client.stream(method, request, Call("grpc", dict(metadata or {})))
        try:
            async with aclosing(stream):
                async for batch in stream:
                    if headers is not None:
                        headers.update(headers or stream.metadata)
                    for sequence, payload in batch:
                        yield sequence, StreamResponse.FromString(payload)
        except FailureError as error:
            raise _unreachable(error) from None
        except DecodeError:
            raise _odd(StreamResponse) from None

    async def aclose(self) -> None:
        """Close the channel; calls under way end."""
        await self._client.stop()


def _odd(kind: type[ProtoMessage]) -> FailureError:
    text = f"The server's answer is no {kind.DESCRIPTOR.name} in protobuf"
    return FailureError(Failure(BY_REASON["INVALID_AGENT_RESPONSE"], text))


def _unreachable(error: FailureError) -> FailureError:
    """Told apart by the text, which is all that gRPC gives."""
    failure = error.failure
    text = failure.message
    if failure.row.code is Code.UNAVAILABLE and text.startswith(_NOT_CONNECTED):
        return UnreachableError(text)
    return error


_NOT_CONNECTED = ("failed to connect to all addresses", "DNS resolution failed", "empty address")


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
