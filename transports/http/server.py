"""The HTTP door: JSON-RPC, REST, server-sent events and the agent card (A2A 8.2, 9, 11).

`HttpTransport` owns sockets and lifecycle; `app` answers requests, `protocol` guards connections.
"""

import asyncio
import contextlib
import os
import socket
import ssl
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gateway.config import Address
from gateway.pb import AgentInterface
from transports.http.app import App
from transports.http.protocol import Bounds, Connection, Listener

BACKLOG = 2048
_LAST_WORDS = 0.5
"""Seconds that cancelled calls get to say so to their clients."""


@dataclass(frozen=True, slots=True)
class Tls:
    """PEM files of the listener. With `client_ca`, a client must show a certificate of that CA,
    or may (`client_optional`)."""

    certificate: Path
    key: Path
    client_ca: Path | None = None
    client_optional: bool = False


@dataclass(frozen=True, slots=True)
class Options:
    """What the door can be told; the defaults make it start."""

    address: tuple[str, ...] = ("127.0.0.1:41242",)
    """`HOST:PORT`, `[IPV6]:PORT` or `unix:PATH`; port 0 takes any free one."""
    path: str = "/"
    """Where JSON-RPC is, with and without a slash at its end; REST paths stand below it."""
    public_url: str = ""
    """What the card says instead of the address, where a proxy stands before the door."""
    tls: Tls | None = None
    bounds: Bounds = field(default_factory=Bounds)


class HttpTransport:
    """The door. `client` is a `transports.core.CoreClient`, started by the owner of the door."""

    def __init__(self, client: Any, options: Options | None = None):
        self._options = options or Options()
        self._listener = Listener(
            App(client, self._options.path),
            self._options.bounds,
            is_secure=self._options.tls is not None,
        )
        self._servers: list[asyncio.Server] = []
        self._unix_paths: list[str] = []
        self.addresses: tuple[str, ...] = ()
        """Where it really listens, once started."""

    async def start(self) -> tuple[str, ...]:
        """Open the listeners and return their addresses. Raises `OSError` where one cannot be
        opened, `ValueError` where an option is wrong."""
        tls = _tls_context(self._options.tls) if self._options.tls else None
        opened = []
        try:
            for text in self._options.address:
                opened.append(await self._open(Address.parse(text), tls))
        except BaseException:
            await self.stop(0)
            raise
        self._listener.start_clock()
        self.addresses = tuple(str(address) for address in opened)
        return self.addresses

    async def _open(self, address: Address, tls: ssl.SSLContext | None) -> Address:
        loop = asyncio.get_running_loop()
        sock = _unix_socket(address.path) if address.is_unix else _tcp_socket(address)
        create: Any = loop.create_unix_server if address.is_unix else loop.create_server
        if address.is_unix:
            self._unix_paths.append(address.path)
        self._servers.append(await create(self._listener, sock=sock, ssl=tls, backlog=BACKLOG))
        return address if address.is_unix else Address(address.host, sock.getsockname()[1])

    def interfaces(self) -> list[AgentInterface]:
        """Entries for the agent card, JSON-RPC first (requirements S3, S35)."""
        scheme = "https" if self._options.tls else "http"
        urls = [f"{scheme}://{_reachable(a)}" for a in self.addresses if not a.startswith("unix:")]
        base = self._options.path.rstrip("/")
        if self._options.public_url:
            urls, base = [self._options.public_url.rstrip("/")], ""
        return [
            AgentInterface(url=url, protocol_binding=binding, protocol_version="1.0")
            for root in urls
            for url, binding in ((f"{root}{base}/", "JSONRPC"), (f"{root}{base}", "HTTP+JSON"))
        ]

    async def stop(self, grace: float) -> None:
        """Take no new connection and close idle ones; let calls end within `grace` seconds, then
        tell the others that the server stops. A second call does nothing."""
        servers, self._servers = self._servers, []
        for server in servers:
            server.close()
        for path in self._unix_paths:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
        self._unix_paths.clear()
        state = self._listener.state
        for connection in tuple(state.connections):
            connection.shutdown()
        await self._wait(grace)
        for task in tuple(state.tasks):
            task.cancel()
        await self._wait(_LAST_WORDS)
        for connection in tuple(state.connections):
            assert isinstance(connection, Connection)
            connection.abort()
        for task in tuple(state.tasks):
            task.cancel()
        self._listener.stop_clock()

    async def _wait(self, seconds: float) -> None:
        """Until all calls have ended, at most so long."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while self._listener.state.tasks and (left := deadline - loop.time()) > 0:
            await asyncio.wait(tuple(self._listener.state.tasks), timeout=left)


def _reachable(text: str) -> str:
    """An address that listens everywhere, under a name that others may know it by."""
    address = Address.parse(text)
    everywhere = address.host in ("0.0.0.0", "::")  # noqa: S104 - compared, not bound
    return str(Address(socket.gethostname(), address.port)) if everywhere else text


def _tcp_socket(address: Address) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    found = socket.getaddrinfo(address.host, address.port, family, socket.SOCK_STREAM)
    # asyncio sets TCP_NODELAY only where the protocol is named
    sock = socket.socket(found[0][0], socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        # SO_REUSEADDR takes over ports in TIME_WAIT; SO_REUSEPORT would share a live one (GR12)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(found[0][4])
    except BaseException:
        sock.close()
        raise
    return sock


def _unix_socket(path: str) -> socket.socket:
    """Bound at `path`. A socket file that nobody answers is replaced, a live one is not (US01)."""
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISSOCK(os.stat(path).st_mode):
            with socket.socket(socket.AF_UNIX) as probe:
                try:
                    probe.connect(path)
                except ConnectionRefusedError:
                    os.unlink(path)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.bind(path)
    except BaseException:
        sock.close()
        raise
    return sock


def _tls_context(tls: Tls) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    try:
        for path in filter(None, (tls.certificate, tls.key, tls.client_ca)):
            path.open("rb").close()  # ssl does not say which file it cannot read
        context.load_cert_chain(tls.certificate, tls.key)
        if tls.client_ca is not None:
            context.load_verify_locations(tls.client_ca)
            context.verify_mode = ssl.CERT_OPTIONAL if tls.client_optional else ssl.CERT_REQUIRED
    except OSError as error:  # ssl.SSLError is one
        raise ValueError(f"the TLS files cannot be used: {error}") from error
    return context
