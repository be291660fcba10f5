"""The native gRPC door: A2AService as its descriptor states it (A2A 10).

Translates and nothing else: metadata into a `Call`, bytes into a request, a failure into a
status with details. Events pass as the bytes that the store holds. Every exception is mapped
here, because grpc.aio would send the text of an unhandled one to the client.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any, Protocol

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from gateway.call import EXTENSIONS, PARAMETER_PREFIXES, SERVICE_PARAMETERS, Call, Peer
from gateway.errors import Failure, InvalidParamsError, UnavailableError, judge
from gateway.pb import METHODS, SERVICE_NAME, Method, ProtoMessage
from gateway.server.gathering import Gathering
from gateway.service.running import STOPPING
from gateway.store import LogEvent

DOOR = "grpc"
STALL_SECONDS = 30.0
"""A client that takes no byte of its stream for so long is cut off."""
TRAILER_BYTES = 6 << 10
"""For the text and the details of a failure: peers cap all headers at 8 KiB and more."""

_CODES = {code.value[0]: code for code in grpc.StatusCode}
_Handler = Callable[[bytes, Any], Any]


class Calls(Protocol):
    """What runs the calls: `gateway.service.Service`."""

    credential_names: tuple[str, ...]

    async def unary(
        self, method: str, request: ProtoMessage, call: Call, raw: bytes | None = None
    ) -> ProtoMessage:
        """One answer."""

    def stream(
        self, method: str, request: ProtoMessage, call: Call, raw: bytes | None = None
    ) -> AsyncIterator[list[LogEvent]]:
        """Batches of events, by an async generator."""


class NativeDoor:
    """Handlers for the eleven operations."""

    def __init__(self, service: Calls, stall: float = STALL_SECONDS) -> None:
        self._service = service
        self._stall = stall
        self._names = SERVICE_PARAMETERS | set(service.credential_names)
        self._gathering = Gathering()
        self._is_refusing = False
        self.refused_at = 0.0
        """When it began to refuse calls, or last refused one (loop time)."""

    def refuse(self) -> None:
        """Answer new calls with UNAVAILABLE; those under way go on."""
        self._is_refusing = True
        self.refused_at = asyncio.get_running_loop().time()

    def add_to(self, server: grpc.aio.Server) -> None:
        """Serve A2AService on this server's listeners."""
        # bytes in, bytes out: a request that is no protobuf has to be answered here, too
        handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
            m.name: grpc.unary_stream_rpc_method_handler(self._stream(m))
            if m.streaming
            else grpc.unary_unary_rpc_method_handler(self._unary(m))
            for m in METHODS.values()
        }
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(SERVICE_NAME, handlers),)
        )

    def _unary(self, method: Method) -> _Handler:
        service, name, gathering = self._service, method.name, self._gathering

        async def handle(raw: bytes, context: Any) -> bytes:
            try:
                if self._is_refusing:
                    self._refuse_one()
                if (group := gathering.enter()) is not None:
                    await group
                call = self._call(context)
                response = await service.unary(name, _parse(method, raw), call, raw)
                await _accept(context, call)
                answer: bytes = response.SerializeToString()
                return answer
            except Exception as error:
                if context.done():
                    return b""
                failure = judge(error)
            await _fail(context, failure)
            return b""

        return handle

    def _stream(self, method: Method) -> _Handler:
        service, name, gathering = self._service, method.name, self._gathering

        async def handle(raw: bytes, context: Any) -> None:
            events: Any = None
            try:
                if self._is_refusing:
                    self._refuse_one()
                if (group := gathering.enter()) is not None:
                    await group
                call = self._call(context)
                events = service.stream(name, _parse(method, raw), call, raw)
                is_accepted = False
                async for batch in events:
                    if not is_accepted:
                        is_accepted = True
                        await _accept(context, call)
                    await self._write(context, batch)
                return
            except Exception as error:
                if context.done():
                    return
                failure = judge(error)
            finally:
                if events is not None:
                    await events.aclose()
            await _fail(context, failure)

        return handle

    def _refuse_one(self) -> None:
        self.refuse()
        raise UnavailableError(STOPPING)

    async def _write(self, context: Any, batch: list[LogEvent]) -> None:
        # a write ends when the client's window has room: that is the back-pressure
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._stall) as limit:
                for event in batch:
                    await context.write(event.payload)
                    if len(batch) > 1:
                        limit.reschedule(loop.time() + self._stall)
        except TimeoutError:
            raise UnavailableError(
                f"The client took nothing for {self._stall:g} s; subscribe again to go on"
            ) from None

    def _call(self, context: Any) -> Call:
        # other names are dropped: what only a door can see is believed from links alone
        names = self._names
        return Call.from_metadata(
            [
                (name, value)
                for name, value in context.invocation_metadata()
                if name in names or (name.startswith(PARAMETER_PREFIXES) and type(value) is str)
            ],
            door=DOOR,
            peer=Peer(address=context.peer()),
            timeout=context.time_remaining(),
        )


def _parse(method: Method, raw: bytes) -> ProtoMessage:
    try:
        return method.request.FromString(raw)
    except DecodeError:
        raise InvalidParamsError(
            f"The request is no {method.request.DESCRIPTOR.name} in protobuf"
        ) from None


async def _accept(context: Any, call: Call) -> None:
    """Response metadata: the activated extensions (A2A 3.2.6)."""
    if call.activated:
        await context.send_initial_metadata(((EXTENSIONS, ", ".join(call.activated)),))


async def _fail(context: Any, failure: Failure) -> None:
    """End the call with the status; raises what grpc.aio wants to see."""
    failure = fit(failure)
    await context.abort(
        _CODES[int(failure.row.code)],
        failure.message,
        (("grpc-status-details-bin", failure.to_status().SerializeToString()),),
    )


def fit(failure: Failure) -> Failure:
    """Shortened until text and details fit into trailers: a peer that finds its headers too
    large shows its own error instead."""
    while _trailer_bytes(failure) > TRAILER_BYTES:
        if failure.violations:
            failure = replace(
                failure, violations=failure.violations[: len(failure.violations) // 2]
            )
        elif failure.info:
            failure = replace(failure, info={})
        else:
            failure = replace(failure, message=failure.message[: len(failure.message) // 2] + "…")
    return failure


def _trailer_bytes(failure: Failure) -> int:
    # the text percent-encoded (gRPC over HTTP/2, Status-Message), the details as base64
    text = sum(
        1 if 0x20 <= byte < 0x7F and byte != 0x25 else 3 for byte in failure.message.encode()
    )
    return text + len(failure.to_status().SerializeToString()) * 4 // 3
