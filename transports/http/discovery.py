"""Finding an agent by its card (A2A 8.2, 8.6): reading, checking and keeping it.

A card is asked for again once its `max-age` is over, with its tag, so that an unchanged one
costs a head only.
"""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import SplitResult, urlsplit, urlunsplit

import httpx

from gateway.errors import ValidationError
from gateway.pb import AgentCard
from transports.http.client import connect_reason
from transports.jsonrpc import codec
from transports.wire import Cards, ConnectError, Kept, UnreachableError

PATH = "/.well-known/agent-card.json"
MAX_CARD_BYTES = 4 << 20
CARD_SECONDS = 30.0
"""For one place, however slowly it comes."""


@dataclass
class CardsInMemory:
    """For as long as the process lives."""

    _kept: dict[str, Kept] = field(default_factory=dict)

    def load(self, url: str) -> Kept | None:
        """What was kept for the URL of an agent."""
        return self._kept.get(url)

    def save(self, url: str, kept: Kept) -> None:
        """Keep it."""
        self._kept[url] = kept


async def read_card(http: httpx.AsyncClient, url: str, cards: Cards | None = None) -> AgentCard:
    """The card of the agent at `url`. Raises `ConnectError` where there is none, and
    `UnreachableError`."""
    known = cards.load(url) if cards is not None else None
    if known is not None and time.time() < known.fresh_until:
        return parse_card(known.body, known.url)
    tried = []
    for place in [known.url] if known is not None else places(url):
        kept = await _fetch(http, place, known)
        if kept is None:
            tried.append(place)
            continue
        card = parse_card(kept.body, kept.url)
        if cards is not None:
            cards.save(url, kept)
        return card
    raise ConnectError(
        f"there is no agent card at {' or '.join(tried)}; where {url} is the interface itself, "
        f"say so: {_direct(url)}"
    )


def places(url: str) -> Iterator[str]:
    """Where the card of an agent can be: below its URL, and at the root of its host."""
    parts = urlsplit(url)
    if parts.path.endswith(".json"):
        yield url
        return
    base = parts.path.rstrip("/")
    if base:
        yield _at(parts, base + PATH)
    yield _at(parts, PATH)


def _at(parts: SplitResult, path: str) -> str:
    return urlunsplit((parts.scheme, parts.netloc, path, "", ""))


def _direct(url: str) -> str:
    return url.replace("://", "+jsonrpc://", 1)


async def _fetch(http: httpx.AsyncClient, place: str, known: Kept | None) -> Kept | None:
    """The card at this place; None where there is none."""
    headers = {"accept": "application/json"}
    if known is not None and known.tag:
        headers["if-none-match"] = known.tag
    try:
        async with (
            asyncio.timeout(CARD_SECONDS),
            http.stream("GET", place, headers=headers) as response,
        ):
            if response.status_code == 304 and known is not None:
                return Kept(known.url, known.body, known.tag, _fresh_until(response))
            if response.status_code in (404, 405, 410):
                return None
            if response.status_code != 200:
                raise ConnectError(_refused(response, place))
            body = await _body(response, place)
    except (httpx.ConnectError, httpx.ConnectTimeout) as error:
        raise UnreachableError(f"{place} cannot be reached: {connect_reason(error)}") from error
    except httpx.HTTPError as error:
        raise UnreachableError(f"{place} gave no answer ({type(error).__name__})") from error
    except TimeoutError:
        raise UnreachableError(f"{place} was not read within {CARD_SECONDS:g} s") from None
    except httpx.InvalidURL as error:
        raise ConnectError(f"{place} is no URL: {error}") from None
    return Kept(place, body, response.headers.get("etag", ""), _fresh_until(response))


async def _body(response: httpx.Response, place: str) -> bytes:
    body = bytearray()
    async for piece in response.aiter_bytes():
        body += piece
        if len(body) > MAX_CARD_BYTES:
            raise ConnectError(f"the agent card at {place} is larger than {MAX_CARD_BYTES} bytes")
    return bytes(body)


def _refused(response: httpx.Response, place: str) -> str:
    if response.is_redirect:
        where = response.headers.get("location", "")[:256]
        return f"{place} redirects to {where}; give that URL, if you trust it"
    return f"the agent card at {place} cannot be read: HTTP {response.status_code}"


def _fresh_until(response: httpx.Response) -> float:
    control: str = response.headers.get("cache-control", "").lower()
    directives = [part.strip() for part in control.split(",")]
    if "no-store" in directives or "no-cache" in directives:
        return 0.0
    for directive in directives:
        name, _, value = directive.partition("=")
        if name == "max-age" and value.strip('"').isdigit():
            return time.time() + min(float(value.strip('"')), 86400.0)
    return 0.0


def parse_card(body: bytes, place: str) -> AgentCard:
    """The card of a text. Raises `ConnectError` where it is none."""
    try:
        card = codec.decode(AgentCard, codec.parse(body))
    except ValidationError as error:
        raise ConnectError(f"what is at {place} is no agent card: {error.message}") from None
    except ValueError as error:
        raise ConnectError(f"what is at {place} is no agent card: {error}") from None
    if not card.supported_interfaces:
        hint = "; it may be of A2A 0.3, which is not spoken here" if b'"url"' in body else ""
        raise ConnectError(f"the agent card at {place} has no supportedInterfaces{hint}")
    return card
