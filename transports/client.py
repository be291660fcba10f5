"""The client library: `connect(url)` gives one look at every wire that there is.

A wire's own client (`Client`) turns calls into bytes. `Connection` is what `connect` returns: the
same look, and the rules of A2A for clients (3.6.1, 5.2, 8.3.2): it finds the interfaces in the
agent card, falls back from one to the next, names the version, sends the entry's tenant and the
credentials, and resumes what breaks. Modules of the wires are imported when they are needed.
"""

from collections.abc import Awaitable, Callable
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from gateway.errors import Failure
from gateway.pb import ProtoMessage
from transports.connection import Connection, Way
from transports.wire import (
    Cards,
    Client,
    ConnectError,
    Credentials,
    Events,
    Kept,
    Options,
    Tls,
    UnreachableError,
    UrlError,
)

ENTRY_POINTS = "a2a_gateway.clients"

Connect = Callable[[str, Options], Awaitable[Connection]]


SCHEMES: dict[str, str] = {
    "http": "transports.http.connecting:by_card",
    "https": "transports.http.connecting:by_card",
    "http+jsonrpc": "transports.http.connecting:directly",
    "https+jsonrpc": "transports.http.connecting:directly",
    "http+rest": "transports.http.connecting:directly",
    "https+rest": "transports.http.connecting:directly",
    "http+unix": "transports.http.connecting:by_socket",
    "grpc": "transports.grpc_connecting:directly",
    "grpcs": "transports.grpc_connecting:directly",
    "grpc+unix": "transports.grpc_connecting:directly",
    "stdio": "transports.stdio.connecting:directly",
}
"""URL scheme -> "module:function" that takes the URL and `Options`, and gives a `Connection`."""

FORMS = """\
http://HOST or https://HOST        reads the agent card there and takes its first usable interface
http+jsonrpc://, https+jsonrpc://  JSON-RPC at exactly this URL
http+rest://, https+rest://        REST below this URL
http+unix:/PATH                    HTTP over a Unix socket
grpc://HOST:PORT, grpc:unix:/PATH  native gRPC
grpcs://HOST:PORT                  native gRPC with TLS
stdio:COMMAND                      a program that speaks A2A over its pipes"""


def schemes() -> list[str]:
    """All URL schemes that are installed, ours first."""
    others = sorted(point.name for point in entry_points(group=ENTRY_POINTS))
    return [*SCHEMES, *(name for name in others if name not in SCHEMES)]


async def connect(url: str, options: Options | None = None) -> Connection:
    """A connection to the agent at `url`, chosen by its scheme. Raises `UrlError` for a URL that
    is not understood, and `ConnectError` where there is no way to what it names."""
    scheme, colon, _ = url.partition(":")
    by_scheme = _find(scheme.lower()) if colon else None
    if by_scheme is None:
        hint = (
            "" if colon and "." not in scheme and scheme != "localhost" else "; try http://" + url
        )
        raise UrlError(f"{url!r} begins with no scheme that is known{hint}. There are:\n{FORMS}")
    return await by_scheme(url, options or Options())


def _find(scheme: str) -> Connect | None:
    if scheme in SCHEMES:
        module, _, name = SCHEMES[scheme].partition(":")
        found: Connect = getattr(import_module(module), name)
        return found
    for point in entry_points(group=ENTRY_POINTS, name=scheme):
        loaded: Connect = point.load()
        return loaded
    return None


def to_json(message: ProtoMessage) -> bytes:
    """A message as ProtoJSON on one line."""
    from transports.jsonrpc import codec

    return codec.to_json(message)


def error_object(failure: Failure) -> dict[str, Any]:
    """A failure as the error object of JSON-RPC."""
    from transports.jsonrpc import errors

    return errors.error_object(failure)


__all__ = [
    "FORMS",
    "SCHEMES",
    "Cards",
    "Client",
    "ConnectError",
    "Connection",
    "Credentials",
    "Events",
    "Kept",
    "Options",
    "Tls",
    "UnreachableError",
    "UrlError",
    "Way",
    "connect",
    "error_object",
    "schemes",
    "to_json",
]
