"""The doors of the suite: one line each in `DOORS`, and a client with one look for each.

A door that comes later gets a class here and a line below; from then on every behaviour of the
suite runs over it too.
"""

import sys
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import NamedTuple, Protocol, cast

from gateway.call import Call
from gateway.errors import FailureError, judge
from gateway.pb import ProtoMessage, StreamResponse
from transports.core import CoreClient
from transports.grpc_client import GrpcClient, GrpcStream
from transports.http.client import Binding, HttpClient
from transports.stdio.client import StdioClient

Metadata = Mapping[str, str]


class Places(NamedTuple):
    """Where one gateway can be reached."""

    http: str
    grpc: str
    link: str
    secret: str
    metrics: Mapping[str, str]
    """URL of the metrics of each process."""
    state_dir: str


class Reply(NamedTuple):
    """A unary answer."""

    message: ProtoMessage
    metadata: Metadata


class Event(NamedTuple):
    """One event of a stream; `seq` is 0 where the wire shows no number."""

    seq: int
    response: StreamResponse


Events = AsyncGenerator[Event, None]


class Client(Protocol):
    """One wire. Every failure is raised as `FailureError`."""

    async def unary(
        self, method: str, request: ProtoMessage, metadata: Metadata, timeout: float | None = None
    ) -> Reply:
        """One answer; `timeout` is the call's deadline, where the wire has such a thing."""

    def stream(
        self, method: str, request: ProtoMessage, metadata: Metadata, headers: dict[str, str]
    ) -> Events:
        """Events; `headers` holds the response metadata once the first event came. Closing the
        generator gives the call up."""

    async def close(self) -> None:
        """Let go of the connection."""


class _OverHttp:
    def __init__(self, places: Places, binding: Binding):
        self._client = HttpClient(places.http, binding)

    async def unary(
        self, method: str, request: ProtoMessage, metadata: Metadata, timeout: float | None = None
    ) -> Reply:
        message = await self._client.unary(method, request, metadata)
        return Reply(message, self._client.metadata)

    async def stream(
        self, method: str, request: ProtoMessage, metadata: Metadata, headers: dict[str, str]
    ) -> Events:
        stream = cast(Events, self._client.stream(method, request, metadata))
        async with aclosing(stream) as events:
            async for seq, response in events:
                headers.update(headers or self._client.metadata)
                yield Event(seq, response)

    async def close(self) -> None:
        await self._client.aclose()


class _OverGrpc:
    def __init__(self, places: Places):
        self._client = GrpcClient(places.grpc)

    async def unary(
        self, method: str, request: ProtoMessage, metadata: Metadata, timeout: float | None = None
    ) -> Reply:
        call = Call.from_metadata((), door="grpc", timeout=timeout)
        call.metadata.update(metadata)
        answer = await self._client.unary(method, request, call)
        return Reply(answer.message, answer.metadata)

    def stream(
        self, method: str, request: ProtoMessage, metadata: Metadata, headers: dict[str, str]
    ) -> Events:
        call = Call("grpc", dict(metadata))
        return _read(self._client.stream(method, request, call), headers)

    async def close(self) -> None:
        await self._client.stop()


class _OverLink:
    """What an adapter does, without a wire before it."""

    def __init__(self, client: CoreClient):
        self._client = client

    async def unary(
        self, method: str, request: ProtoMessage, metadata: Metadata, timeout: float | None = None
    ) -> Reply:
        call = _read_call(metadata, timeout)
        answer = await self._client.unary(method, request, call)
        return Reply(answer.message, answer.metadata)

    async def stream(
        self, method: str, request: ProtoMessage, metadata: Metadata, headers: dict[str, str]
    ) -> Events:
        stream = self._client.stream(method, request, _read_call(metadata))
        async with aclosing(_read(stream, headers)) as events:
            async for event in events:
                yield event

    async def close(self) -> None:
        await self._client.stop(0)


class _OverStdio:
    """A process that joins the gateway, which the client starts."""

    def __init__(self, places: Places):
        words = ("stdio", "--state-dir", places.state_dir, "--log-level", "error")
        self._client = StdioClient([sys.executable, "-m", "gateway.cli", *words])

    async def unary(
        self, method: str, request: ProtoMessage, metadata: Metadata, timeout: float | None = None
    ) -> Reply:
        if timeout is not None:
            # not by the client's own timeout, which would answer first
            metadata = {**metadata, "x-a2a-timeout-ms": str(round(timeout * 1000))}
        message = await self._client.unary(method, request, metadata)
        return Reply(message, self._client.metadata)

    async def stream(
        self, method: str, request: ProtoMessage, metadata: Metadata, headers: dict[str, str]
    ) -> Events:
        stream = self._client.stream(method, request, metadata, headers)
        async with aclosing(stream) as events:
            async for seq, response in events:
                yield Event(seq, response)

    async def close(self) -> None:
        await self._client.aclose()


def _read_call(metadata: Metadata, timeout: float | None = None) -> Call:
    try:
        return Call.from_metadata(metadata.items(), door="link", timeout=timeout)
    except Exception as error:
        raise FailureError(judge(error)) from None


class _Batches(Protocol):
    metadata: dict[str, str]

    def __aiter__(self) -> AsyncIterator[list[tuple[int, bytes]]]: ...

    async def aclose(self) -> None: ...


async def _read(stream: _Batches | GrpcStream, headers: dict[str, str]) -> Events:
    async with aclosing(stream):
        async for batch in stream:
            headers.update(headers or stream.metadata)
            for seq, payload in batch:
                yield Event(seq, StreamResponse.FromString(payload))


async def _json_rpc(places: Places) -> Client:
    return _OverHttp(places, "jsonrpc")


async def _rest(places: Places) -> Client:
    return _OverHttp(places, "rest")


async def _grpc(places: Places) -> Client:
    return _OverGrpc(places)


async def _stdio(places: Places) -> Client:
    return _OverStdio(places)


async def _link(places: Places) -> Client:
    client = CoreClient(places.link, door="contract", secret=places.secret.encode())
    await client.start()
    return _OverLink(client)


@dataclass(frozen=True)
class Door:
    """One way in."""

    name: str
    connect: Callable[[Places], Awaitable[Client]]
    has_sequence: bool = True
    """Whether its events show their sequence numbers."""
    has_deadline: bool = False
    """Whether a call carries its own deadline."""
    is_json: bool = False
    """Whether messages travel as JSON, so that no request can hold what JSON has no form for."""

    def __str__(self) -> str:
        return self.name


DOORS: tuple[Door, ...] = (
    Door("grpc", _grpc, has_sequence=False, has_deadline=True),
    Door("jsonrpc", _json_rpc, is_json=True),
    Door("rest", _rest, is_json=True),
    Door("stdio", _stdio, has_deadline=True, is_json=True),
    Door("link", _link, has_deadline=True),
)
