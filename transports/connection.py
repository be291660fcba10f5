"""A connection to one agent: what `transports.client.connect` returns.

Adds to the client of a wire what A2A asks of clients: the version at each call (3.6.1), the tenant
of the card's entry (8.3.2), credentials, an idempotency key for each send, and the next
entry of the card where one cannot be reached (5.2).
"""

import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

from gateway.call import IDEMPOTENCY_KEY, VERSION
from gateway.pb import AgentCard, AgentInterface, ProtoMessage
from transports.resuming import ResumingClient
from transports.wire import Client, ConnectError, Events, Options, UnreachableError

PROTOCOL_VERSION = "1.0"
SENDS = frozenset({"SendMessage", "SendStreamingMessage"})


@dataclass(frozen=True, slots=True)
class Way:
    """One interface of the agent, and how to open it."""

    interface: AgentInterface
    open: Callable[[], Awaitable[Client]]
    has_credentials: bool = True
    """Whether it is at the origin that the credentials are for."""


class Connection:
    """Calls to one agent, with the look of a `Client`. Use as a context manager, or `aclose` it."""

    def __init__(
        self,
        ways: Sequence[Way],
        options: Options,
        card: AgentCard | None = None,
        passed_over: Sequence[str] = (),
    ) -> None:
        """`ways` in the order in which they are tried. `passed_over`: why other entries of the
        card are not among them, one text each."""
        self.card = card
        """The agent's public card, where there is a way to read it."""
        self.passed_over = tuple(passed_over)
        self.ways = tuple(ways)
        self._options = options
        self._at = 0
        self._client: ResumingClient | None = None

    async def __aenter__(self) -> "Connection":
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    @property
    def interface(self) -> AgentInterface:
        """The interface that is in use, or is tried next."""
        return self.ways[self._at].interface

    @property
    def metadata(self) -> dict[str, str]:
        """What came beside the last unary answer."""
        return self._client.metadata if self._client is not None else {}

    def only(self, way: Way) -> "Connection":
        """Another connection, by this one of the ways alone; calls are not repeated."""
        return Connection([way], replace(self._options, patience=0.0), self.card)

    async def aclose(self) -> None:
        """Let go of the connection."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def unary(
        self,
        method: str,
        request: ProtoMessage,
        metadata: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> ProtoMessage:
        """One answer; `timeout` in seconds is the call's deadline."""
        values = dict(metadata or {})
        self._add_key(method, values)
        while True:
            try:
                return await self._open().unary(
                    method, self._own(request), self._parameters(values), timeout
                )
            except (UnreachableError, ConnectError):
                if not await self._take_next():
                    raise

    async def stream(
        self,
        method: str,
        request: ProtoMessage,
        metadata: Mapping[str, str] | None = None,
        headers: dict[str, str] | None = None,
    ) -> Events:
        """Events with their sequence numbers, 0 where the wire shows none."""
        values = dict(metadata or {})
        self._add_key(method, values)
        while True:
            try:
                stream = self._open().stream(
                    method, self._own(request), self._parameters(values), headers
                )
                async with aclosing(stream) as events:
                    async for event in events:
                        yield event
                return
            except (UnreachableError, ConnectError):
                if not await self._take_next():
                    raise

    def _open(self) -> ResumingClient:
        if self._client is None:
            options = self._options
            opener = self.ways[self._at].open
            self._client = ResumingClient(opener, options.patience, options.told)
        return self._client

    async def _take_next(self) -> bool:
        """Go on to the next way, where this one was never reached."""
        is_reached = self._client is not None and self._client.is_reached
        if is_reached or self._at + 1 >= len(self.ways):
            return False
        await self.aclose()
        self._at += 1
        return True

    def _own(self, request: Any) -> ProtoMessage:
        """The request with the tenant of the interface (A2A 8.3.2)."""
        own: ProtoMessage = request
        tenant = self._options.tenant or self.interface.tenant
        if tenant and not request.tenant:
            own = type(request)()
            own.CopyFrom(request)
            own.tenant = tenant  # type: ignore[attr-defined]
        return own

    def _parameters(self, values: Mapping[str, str]) -> dict[str, str]:
        way = self.ways[self._at]
        credentials = self._options.credentials.to_metadata(self.card)
        return {
            VERSION: PROTOCOL_VERSION,
            **self._options.metadata,
            **(credentials if way.has_credentials else {}),
            **values,
        }

    def _add_key(self, method: str, values: dict[str, str]) -> None:
        if method in SENDS and self._options.has_keys:
            values.setdefault(IDEMPOTENCY_KEY, str(uuid.uuid4()))
