"""Connections over HTTP: by an agent's card, to one URL directly, or over a Unix socket.

What of a card is taken (A2A 5.2, 8.3.2): entries of 1.0 with a binding that is spoken here, in the
card's order. An entry may not lead credentials to another origin than the one they were given
for, nor from https to plain text, nor from elsewhere to this machine's own ports.
"""

import ipaddress
import ssl
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import httpx

from gateway.pb import AgentCard, AgentInterface
from transports.connection import Connection, Way
from transports.http.client import Binding, HttpClient, http_transport
from transports.http.discovery import read_card
from transports.wire import Client, ConnectError, Options, Tls, UrlError

BINDINGS: dict[str, Binding] = {"JSONRPC": "jsonrpc", "HTTP+JSON": "rest"}
GRPC = "GRPC"

_FORCED = {"jsonrpc": "JSONRPC", "rest": "HTTP+JSON"}
_PORTS = {"http": 80, "https": 443}


async def by_card(url: str, options: Options) -> Connection:
    """The agent whose card is at `url`."""
    _check(url)
    verify = tls_context(options.tls) if url.startswith("https:") else None
    timeout = httpx.Timeout(30.0, connect=options.connect_timeout)
    async with httpx.AsyncClient(
        transport=http_transport(verify), timeout=timeout, trust_env=False
    ) as http:
        card = await read_card(http, url, options.cards)
    ways, passed_over = choose(card, url, options)
    if not ways:
        raise ConnectError("the agent card has no interface to use: " + "; ".join(passed_over))
    return Connection(ways, options, card, passed_over)


async def directly(url: str, options: Options) -> Connection:
    """The interface at exactly this URL: `http+jsonrpc://...`, `http+rest://...`."""
    scheme, _, rest = url.partition(":")
    plain, _, binding = scheme.lower().partition("+")
    url = f"{plain}:{rest}"
    _check(url)
    interface = _interface(url, _FORCED[binding])
    return Connection([Way(interface, partial(_open, interface, options))], options)


async def by_socket(url: str, options: Options) -> Connection:
    """`http+unix:/PATH`: JSON-RPC, or REST if that is the binding asked for."""
    path = url.partition(":")[2]
    path = path.removeprefix("//") if path.startswith("///") else path
    if not path.startswith("/"):
        raise UrlError(f"{url!r}: give the socket's whole path, such as http+unix:/run/a2a.sock")
    interface = _interface(f"unix:{path}", options.binding or "JSONRPC")
    if interface.protocol_binding not in BINDINGS:
        raise UrlError(f"{interface.protocol_binding} is not spoken over HTTP")
    return Connection([Way(interface, partial(_open, interface, options))], options)


def choose(card: AgentCard, url: str, options: Options) -> tuple[list[Way], list[str]]:
    """The usable entries of a card that was read at `url`, in its order, and why others are not."""
    ways: list[Way] = []
    passed_over: list[str] = []
    for entry in card.supported_interfaces:
        try:
            reason = _unfit(entry, url, options)
        except ValueError:  # of urlsplit, whose texts are of no use to anybody
            reason = "its URL cannot be read"
        if reason:
            passed_over.append(f"{entry.protocol_binding} at {entry.url}: {reason}")
        else:
            is_ours = _origin(entry, url) == _origin_of(url)
            ways.append(Way(entry, _opener(entry, url, options), has_credentials=is_ours))
    return ways, passed_over


def _unfit(entry: AgentInterface, url: str, options: Options) -> str:
    """Why an entry is not used; empty where it is."""
    binding = entry.protocol_binding
    if not (entry.url and entry.url.isprintable()):
        return "its URL cannot be read"
    if options.binding and binding != options.binding:
        return f"not {options.binding}, which was asked for"
    if binding not in BINDINGS and binding != GRPC:
        return "a binding that is not spoken here"
    if not entry.protocol_version.startswith("1.") and entry.protocol_version != "1":
        return f"version {entry.protocol_version or 'unknown'}; 1.0 is spoken here"
    if binding in BINDINGS and urlsplit(entry.url).scheme not in _PORTS:
        return "no http or https URL"
    given, there = _origin_of(url), _origin(entry, url)
    if given[0] == "https" and there[0] == "http":
        return "it leads from https to plain text"
    if _is_loopback(there[1]) and not _is_loopback(given[1]):
        return "it leads to this machine, which is not where the card came from"
    if options.credentials and there != given:
        return "another origin than the credentials are for; give its URL, if you trust it"
    return ""


def _opener(entry: AgentInterface, url: str, options: Options) -> Callable[[], Awaitable[Client]]:
    if entry.protocol_binding in BINDINGS:
        return partial(_open, entry, options)
    from transports.grpc_connecting import open_at

    return partial(open_at, entry.url, urlsplit(url).scheme == "https", options)


async def _open(interface: AgentInterface, options: Options) -> Client:
    verify: Any = None
    if interface.url.startswith("https:"):
        verify = tls_context(options.tls)
    return HttpClient(
        interface.url,
        BINDINGS[interface.protocol_binding],
        verify=verify,
        timeout=None,
        connect_timeout=options.connect_timeout,
    )


def tls_context(tls: Tls) -> ssl.SSLContext:
    """What a client trusts and shows. Raises `ConnectError` where a file cannot be used."""
    try:
        for path in filter(None, (tls.ca, tls.certificate, tls.key)):
            path.open("rb").close()  # ssl does not say which file it cannot read
        context = ssl.create_default_context(cafile=tls.ca)
        if tls.certificate is not None:
            context.load_cert_chain(tls.certificate, tls.key)
    except OSError as error:  # ssl.SSLError is one
        name = f"{error.filename}: " if error.filename else ""
        raise ConnectError(f"the TLS files cannot be used: {name}{error.strerror}") from None
    return context


def _interface(url: str, binding: str) -> AgentInterface:
    return AgentInterface(url=url, protocol_binding=binding, protocol_version="1.0")


def _check(url: str) -> None:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise UrlError(f"{url!r} is no URL: {error}") from None
    if not host:
        raise UrlError(f"{url!r} names no host; write it as http://HOST:PORT")
    if parts.username or parts.password:
        raise UrlError("a URL may hold no user or password; give them by an option")


def _origin_of(url: str) -> tuple[str, str, int]:
    parts = urlsplit(url)
    return parts.scheme, (parts.hostname or "").lower(), parts.port or _PORTS.get(parts.scheme, 0)


def _origin(entry: AgentInterface, url: str) -> tuple[str, str, int]:
    """Of an entry; a gRPC address has the security of the card."""
    if entry.protocol_binding == GRPC and "://" not in entry.url:
        return _origin_of(f"{urlsplit(url).scheme}://{entry.url}")
    return _origin_of(entry.url)


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


__all__ = ["BINDINGS", "by_card", "by_socket", "choose", "directly", "tls_context"]
