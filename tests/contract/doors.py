"""The doors of the suite: one line each in `DOORS`, and a client with one look for each.

A door that comes later gets a class here and a line below; from then on every behaviour of the
suite runs over it too.
"""

import sys
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from gateway.call import Call
from gateway.errors import FailureError, judge
from gateway.pb import ProtoMessage, StreamResponse
from transports import wire
from transports.core import CoreClient
from transports.grpc_client import GrpcClient, NativeClient
from transports.http.client import HttpClient
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


class _OverWire:
    """The client of a wire, as the product has it."""

    def __init__(self, client: wire.Client, timeout_name: str = ""):
        """`timeout_name`: the parameter that carries the deadline; the client's own timeout would
        answer before the server."""
        self._client = client
        self._timeout_name = timeout_name

    async def unary(
        self, method: str, request: ProtoMessage, metadata: Metadata, timeout: float | None = None
    ) -> Reply:
        if timeout is not None and self._timeout_name:
            metadata = {**metadata, self._timeout_name: str(round(timeout * 1000))}
            timeout = None
        message = await self._client.unary(method, request, metadata, timeout)
        return Reply(message, self._client.metadata)

    async def stream(
        self, method: str, request: ProtoMessage, metadata: Metadata, headers: dict[str, str]
    ) -> Events:
        async with aclosing(self._client.stream(method, request, metadata, headers)) as events:
            async for seq, response in events:
                yield Event(seq, response)

    async def close(self) -> None:
        await self._client.aclose()


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


def _read_call(metadata: Metadata, timeout: float | None = None) -> Call:
    try:
        return Call.from_metadata(metadata.items(), door="link", timeout=timeout)
    except Exception as error:
        raise FailureError(judge(error)) from None


class _Batches(Protocol):
    metadata: dict[str, str]

    def __aiter__(self) -> AsyncIterator[list[tuple[int, bytes]]]: ...

    async def aclose(self) -> None: ...


async def _read(stream: _Batches, headers: dict[str, str]) -> Events:
    async with aclosing(stream):
        async for batch in stream:
            headers.update(headers or stream.metadata)
            for seq, payload in batch:
                yield Event(seq, StreamResponse.FromString(payload))


async def _json_rpc(places: Places) -> Client:
    return _OverWire(HttpClient(places.http, "jsonrpc"))


async def _rest(places: Places) -> Client:
    return _OverWire(HttpClient(places.http, "rest"))


async def _grpc(places: Places) -> Client:
    return _OverWire(NativeClient(GrpcClient(places.grpc)))


async def _stdio(places: Places) -> Client:
    words = ("stdio", "--state-dir", places.state_dir, "--log-level", "error")
    client = StdioClient([sys.executable, "-m", "gateway.cli", *words])
    await client.ping()  # behaviours count on a door that is open: it has joined
    return _OverWire(client, "x-a2a-timeout-ms")


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
