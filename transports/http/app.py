"""The HTTP door as a raw ASGI application: which handler a path belongs to, `/health`.

Adapter layer. It translates and decides nothing: no task, no access, no error is judged here.
"""

import asyncio
import json
import logging
from typing import Any

from gateway.call import SERVICE_PARAMETERS
from transports.http.card import PATH as CARD_PATH
from transports.http.card import CardPage
from transports.http.exchange import ClientGoneError, Exchange, MetadataNames
from transports.http.rest import Rest
from transports.http.rpc import JsonRpc
from transports.jsonrpc.envelope import text_bytes

logger = logging.getLogger(__name__)

HEALTH_PATH = "/health"


class Door:
    """What the handlers share: the core's client and what it says about this core."""

    def __init__(self, client: Any):
        self.client = client
        self._credential_names: tuple[str, ...] | None = None
        self._names = MetadataNames(())

    @property
    def body_bytes(self) -> int:
        """The largest body that is read; the core judges the message itself."""
        return text_bytes(self.client.limits.message_bytes)

    def names(self) -> MetadataNames:
        """Headers that the core wants; another core may name other credentials."""
        names = self.client.credential_names
        if names is not self._credential_names:
            self._credential_names = names
            self._names = MetadataNames((*SERVICE_PARAMETERS, *names))
        return self._names


class App:
    """The ASGI application. `path` is the URL path of JSON-RPC; REST paths stand below it."""

    def __init__(self, client: Any, path: str = "/"):
        self._client = client
        door = Door(client)
        base = path.rstrip("/")
        rpc = JsonRpc(door).handle
        self._rest = Rest(door, base.encode()).handle
        self._handlers = {
            CARD_PATH: CardPage(client).handle,
            HEALTH_PATH: self._health,
            f"{base}/": rpc,
        }
        if base:
            self._handlers[base] = rpc

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            raise NotImplementedError(f"ASGI {scope['type']} is not served")
        exchange = Exchange(scope, receive, send)
        try:
            await self._handlers.get(scope["path"], self._rest)(exchange)
        except ClientGoneError:
            pass
        except asyncio.CancelledError:
            if not exchange.is_lost:
                raise

    async def _health(self, exchange: Exchange) -> None:
        if exchange.method not in ("GET", "HEAD"):
            body = b'{"error":"Method not allowed; GET the health"}'
            await exchange.reply(405, body, extra=[(b"allow", b"GET, HEAD")])
            return
        extra = [(b"cache-control", b"no-store")]
        if self._client.is_ready:
            await exchange.reply(200, b'{"status":"healthy"}', extra=extra)
        else:
            # the address of a core that is not there is nothing for everybody
            reason = self._client.reason if self._client.is_linked else "the core cannot be reached"
            body = json.dumps({"status": "unavailable", "reason": reason}).encode()
            await exchange.reply(503, body, extra=[*extra, (b"retry-after", b"1")])
