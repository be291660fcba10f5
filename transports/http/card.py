"""The public agent card over HTTP (A2A 8.2, 8.6): caching, conditional requests, CORS.

The tag is a hash of the content, so replicas agree on it (AC05); rendered once per revision.
"""

import hashlib
from email.utils import formatdate, parsedate_to_datetime
from typing import Any

from gateway.pb import AgentCard
from transports.http.exchange import Exchange, Headers
from transports.jsonrpc import codec

PATH = "/.well-known/agent-card.json"

_ALLOW = b"GET, HEAD, OPTIONS"
_SHARED: Headers = [
    (b"cache-control", b"public, max-age=60"),
    (b"access-control-allow-origin", b"*"),
]
_PREFLIGHT: Headers = [
    (b"allow", _ALLOW),
    (b"access-control-allow-origin", b"*"),
    (b"access-control-allow-methods", _ALLOW),
    (b"access-control-allow-headers", b"*"),
    (b"access-control-max-age", b"86400"),
]


class CardPage:
    """Answers requests for the card that `client.card` holds."""

    def __init__(self, client: Any):
        self._client = client
        self._card: Any = None
        self._body = b""
        self._tag = b""
        self._modified = 0
        self._headers: Headers = []

    async def handle(self, exchange: Exchange) -> None:
        """GET, HEAD and the CORS preflight."""
        if exchange.method == "OPTIONS":
            await exchange.reply(204, b"", extra=_PREFLIGHT)
        elif exchange.method not in ("GET", "HEAD"):
            body = b'{"error":"Method not allowed; GET the agent card"}'
            await exchange.reply(405, body, extra=[(b"allow", _ALLOW)])
        elif not self._client.card.agent_card:
            body = b'{"error":"The agent card is not there yet; try again"}'
            await exchange.reply(503, body, extra=[(b"retry-after", b"1")])
        else:
            self._render(self._client.card)
            if self._is_known(exchange):
                await exchange.reply(304, b"", extra=self._headers)
            else:
                await exchange.reply(200, self._body, extra=self._headers)

    def _render(self, card: Any) -> None:
        if card is self._card:
            return
        self._card = card
        self._body = codec.to_json(AgentCard.FromString(card.agent_card))
        self._tag = b'"' + hashlib.sha256(self._body).hexdigest()[:32].encode() + b'"'
        self._modified = int(card.modified)
        self._headers = [
            *_SHARED,
            (b"etag", self._tag),
            (b"last-modified", formatdate(self._modified, usegmt=True).encode()),
        ]

    def _is_known(self, exchange: Exchange) -> bool:
        """RFC 9110 s13.1: If-None-Match counts; If-Modified-Since only without it."""
        tags = exchange.header(b"if-none-match")
        if tags:
            known = (tag.strip().removeprefix(b"W/") for tag in tags.split(b","))
            return any(tag in (b"*", self._tag) for tag in known)
        since = exchange.header(b"if-modified-since").decode("latin-1")
        if not since:
            return False
        try:
            return self._modified <= parsedate_to_datetime(since).timestamp()
        except (ValueError, OverflowError):
            return False
