"""The HTTP door: JSON-RPC, REST, server-sent events and the agent card (A2A 8.2, 9, 11).

`HttpTransport` owns sockets and lifecycle; `app` answers requests, `protocol` guards connections.
"""

import asyncio
import contextlib
import os
import ssl
from typing import Any

from gateway.config import Address
from gateway.pb import AgentInterface
from transports.http import Options, Tls
from transports.http.app import App
from transports.http.protocol import Bounds, Connection, Listener
from transports.listening import listen_at, reachable

BACKLOG = 2048
_LAST_WORDS = 0.5
"""Seconds that cancelled calls get to say so to their clients."""


class HttpTransport:
    """The door. `client` is a `transports.core.CoreClient`, started by the owner of the door."""

    def __init__(
        self, client: Any, options: Options | None = None, *, bounds: Bounds | None = None
    ):
        self._options = options or Options()
        self._listener = Listener(
            App(client, self._options.path),
            bounds or Bounds(keep_alive=self._options.keep_alive),
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
        sock = listen_at(address)
        create: Any = loop.create_unix_server if address.is_unix else loop.create_server
        if address.is_unix:
            self._unix_paths.append(address.path)
        self._servers.append(await create(self._listener, sock=sock, ssl=tls, backlog=BACKLOG))
        return address if address.is_unix else Address(address.host, sock.getsockname()[1])

    def interfaces(self) -> list[AgentInterface]:
        """Entries for the agent card, JSON-RPC first (requirements S3, S35)."""
        scheme = "https" if self._options.tls else "http"
        urls = [f"{scheme}://{reachable(a)}" for a in self.addresses if not a.startswith("unix:")]
        base = self._options.path.rstrip("/")
        if self._options.public_url:
            urls, base = [self._options.public_url.rstrip("/")], ""
        return [
            AgentInterface(url=url, protocol_binding=binding, protocol_version="1.0")
            for root in urls
            for url, binding in ((f"{root}{base}/", "JSONRPC"), (f"{root}{base}", "HTTP+JSON"))
        ]

    def reach(self, example: Any) -> list[tuple[str, str]]:
        """For each address: how it is written, and a line to try it."""
        scheme = "https" if self._options.tls else "http"
        path = self._options.path
        lines = []
        for address in self.addresses:
            shown = place = f"{scheme}://{address}"
            if address.startswith("unix:"):
                shown, place = address, f"--unix-socket {address[5:]} {scheme}://localhost"
            else:
                shown += path
            lines.append(
                (
                    shown,
                    f"curl -N {place}{path.rstrip('/')}/message:stream -H 'A2A-Version: 1.0'"
                    f"{example.curl_option} -H 'Content-Type: application/json' "
                    f"-d {example.message}",
                )
            )
        return lines

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
