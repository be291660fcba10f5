"""grpc.aio servers of the core: listeners, limits, keepalive, health, reflection, drain.

Two of them, because gRPC serves everything at every listener of a server: the public one
(A2AService, health, reflection) and the link's. Neither decides anything: calls end in
`gateway.service`.
"""

import asyncio
import shlex
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import grpc.aio
from grpc_reflection.v1alpha import reflection

from gateway.card import PROTOCOL_VERSION
from gateway.config import Address
from gateway.example import Example
from gateway.pb import SERVICE_NAME, AgentInterface
from gateway.program import program
from gateway.server.health import Health, Monitor, UnreadyError
from gateway.server.listening import Listener, bind
from gateway.server.native import Calls, NativeDoor

MESSAGE_BYTES = 16 << 20
DRAIN_SECONDS = 3600.0
"""Longer than any grace: the call to `stop` that ends the drain gives the real one."""

LEAST_GRACE = 0.5
"""For calls that have ended here to say so to their clients, also where many processes want the
CPU: gRPC breaks off what is left, and clients see CANCELLED. Without calls it ends at once."""

QUIET_SECONDS = 0.1
REFUSING_SECONDS = 0.5
"""Before a drain closes the listeners: at least as long without a call, at most so long."""

_WILDCARDS = {"0.0.0.0", "::"}  # noqa: S104 - recognised, not bound
_HEALTH = "grpc.health.v1.Health"

AddTo = Callable[[grpc.aio.Server], None]
"""Adds handlers to a server before it starts."""


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """Limits of one server; sizes in bytes, times in seconds."""

    message_bytes: int = MESSAGE_BYTES
    """The size limit of a request, which the service judges; the wire takes a third more."""
    calls: int | None = None
    """Calls at once; more are refused with RESOURCE_EXHAUSTED."""
    streams_per_connection: int = 10_000
    keepalive: float = 30.0
    """A connection that says nothing for so long is asked whether it is alive."""
    keepalive_timeout: float = 20.0
    least_ping_interval: float = 5.0
    """Clients that ping more often are sent away (too_many_pings)."""
    metadata_bytes: int = 32 << 10

    def to_arguments(self) -> list[tuple[str, int]]:
        """As channel arguments of gRPC."""
        return [
            # two servers on one port would share the calls between two stores
            ("grpc.so_reuseport", 0),
            ("grpc.max_receive_message_length", self.message_bytes * 4 // 3 + (64 << 10)),
            ("grpc.max_send_message_length", -1),
            ("grpc.max_concurrent_streams", self.streams_per_connection),
            ("grpc.max_metadata_size", self.metadata_bytes),
            ("grpc.absolute_max_metadata_size", 2 * self.metadata_bytes),
            ("grpc.keepalive_time_ms", _ms(self.keepalive)),
            ("grpc.keepalive_timeout_ms", _ms(self.keepalive_timeout)),
            ("grpc.http2.ping_timeout_ms", _ms(self.keepalive_timeout)),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.max_pings_without_data", 0),
            ("grpc.http2.min_recv_ping_interval_without_data_ms", _ms(self.least_ping_interval)),
            ("grpc.http2.max_ping_strikes", 3),
        ]


def _ms(seconds: float) -> int:
    return int(seconds * 1000)


class GrpcServer:
    """One server with its listeners."""

    def __init__(
        self,
        parts: Sequence[AddTo],
        listeners: Sequence[Listener],
        options: ServerOptions | None = None,
    ) -> None:
        self._parts = tuple(parts)
        self._listeners = tuple(listeners)
        self._options = options or ServerOptions()
        self._server: grpc.aio.Server | None = None
        self._draining: asyncio.Task[None] | None = None
        self.addresses: tuple[Address, ...] = ()
        """Where it listens, with real ports."""

    async def start(self) -> tuple[Address, ...]:
        """Listen and serve. Raises `OSError` that names the address (`filename`)."""
        options = self._options
        server = grpc.aio.server(
            options=options.to_arguments(), maximum_concurrent_rpcs=options.calls
        )
        for add_to in self._parts:
            add_to(server)
        self.addresses = tuple(bind(server, listener) for listener in self._listeners)
        await server.start()
        self._server = server
        return self.addresses

    async def drain(self) -> None:
        """Close the listeners and send GOAWAY; calls under way go on."""
        if self._server is not None and self._draining is None:
            self._draining = asyncio.create_task(self._server.stop(DRAIN_SECONDS))
            # listeners are closed in the task's first step
            await asyncio.sleep(0)

    async def stop(self, grace: float) -> None:
        """Let calls end within `grace` seconds, cut the rest off (UNAVAILABLE). A later call
        with a shorter grace wins; one more does nothing."""
        server = self._server
        if server is None:
            return
        await server.stop(max(grace, LEAST_GRACE))
        if self._draining is not None:
            # waited for, not awaited: giving up here must not cancel it
            await asyncio.wait([self._draining])
        self._server = self._draining = None


class PublicServer:
    """The core's native door with health and reflection."""

    def __init__(
        self,
        service: Calls,
        listeners: Sequence[Listener],
        options: ServerOptions | None = None,
        public_url: str = "",
    ) -> None:
        self.health = Health()
        self._door = NativeDoor(service)
        self._closing: asyncio.Task[None] | None = None
        self._has_tls = any(listener.tls for listener in listeners)
        self._server = GrpcServer(
            (self._door.add_to, self.health.add_to, _add_reflection), listeners, options
        )
        self._public_url = public_url

    @property
    def addresses(self) -> tuple[Address, ...]:
        """Where it listens, with real ports."""
        return self._server.addresses

    async def start(self) -> tuple[Address, ...]:
        """Listen and serve; health stays NOT_SERVING until `set_ready`. Raises `OSError`."""
        await self.health.set(False)
        return await self._server.start()

    def interfaces(self) -> list[AgentInterface]:
        """Entries for the card: `host:port` without a scheme; Unix sockets have none there."""
        urls = [_card_url(address) for address in self.addresses if not address.is_unix]
        if urls and self._public_url:
            urls = [self._public_url]
        return [
            AgentInterface(url=url, protocol_binding="GRPC", protocol_version=PROTOCOL_VERSION)
            for url in urls
        ]

    def reach(self, example: Example) -> list[tuple[str, str]]:
        """For each address: how it is written, and a line to try it."""
        scheme = "grpcs" if self._has_tls else "grpc"
        return [
            (
                str(address),
                f"{program()} stream {scheme}:{'' if address.is_unix else '//'}{address} "
                f"{shlex.quote(example.text)}{example.client_option}",
            )
            for address in self.addresses
        ]

    async def set_ready(self, is_ready: bool) -> None:
        """Tell probes whether calls are welcome."""
        await self.health.set(is_ready)

    async def drain(self) -> None:
        """NOT_SERVING, no new calls; calls under way go on."""
        if self._closing is None:
            await self.health.end()
            self._door.refuse()
            self._closing = asyncio.create_task(self._close_when_quiet())

    async def _close_when_quiet(self) -> None:
        """gRPC ends calls that it has received and not handed over when it closes, and clients see
        CANCELLED. So they are refused in words before, until hardly any comes."""
        loop = asyncio.get_running_loop()
        end = loop.time() + REFUSING_SECONDS
        while True:
            left = min(self._door.refused_at + QUIET_SECONDS, end) - loop.time()
            if left <= 0:
                break
            await asyncio.sleep(left)
        await self._server.drain()

    async def stop(self, grace: float) -> None:
        """Drain, let calls end within `grace` seconds, cut the rest off."""
        await self.drain()
        if self._closing is not None and not self._closing.done():
            await asyncio.wait((self._closing,), timeout=grace)
            self._closing.cancel()
        await self._server.stop(grace)


def _card_url(address: Address) -> str:
    # nobody can connect to a wildcard from elsewhere
    if address.host in _WILDCARDS:
        return str(Address(socket.gethostname(), address.port))
    return str(address)


def _add_reflection(server: grpc.aio.Server) -> None:
    names = (SERVICE_NAME, _HEALTH, reflection.SERVICE_NAME)
    reflection.enable_server_reflection(names, server)


__all__ = [
    "AddTo",
    "GrpcServer",
    "Health",
    "Listener",
    "Monitor",
    "NativeDoor",
    "PublicServer",
    "ServerOptions",
    "UnreadyError",
]
