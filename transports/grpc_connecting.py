"""Connections by native gRPC: `grpc://HOST:PORT`, `grpcs://HOST:PORT`, `grpc:unix:/PATH`.

There is no card here: native gRPC has no operation for the public one.
"""

from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import grpc

from gateway.pb import AgentInterface
from transports.connection import Connection, Way
from transports.grpc_client import GrpcClient, NativeClient
from transports.wire import Client, ConnectError, Options, Tls, UrlError

RECONNECT = (
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2000),
)
"""A channel that lost its server tries again at the pace of our own attempts."""


async def directly(url: str, options: Options) -> Connection:
    """The service at an address. Raises `UrlError`."""
    address, is_secure = parse(url)
    interface = AgentInterface(url=address, protocol_binding="GRPC", protocol_version="1.0")
    return Connection([Way(interface, partial(open_at, address, is_secure, options))], options)


def parse(url: str) -> tuple[str, bool]:
    """The address as gRPC wants it, and whether TLS is. Raises `UrlError`."""
    scheme, _, rest = url.partition(":")
    if scheme == "grpc+unix" or rest.startswith("unix:"):
        path = rest.removeprefix("unix:")
        path = path.removeprefix("//") if path.startswith("///") else path
        if not path or path.startswith("//"):
            raise UrlError(f"{url!r} names no socket; write it as grpc:unix:/PATH")
        return f"unix:{path}", scheme == "grpcs"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise UrlError(f"{url!r} is no address: {error}") from None
    if not parts.hostname or port is None or parts.path.strip("/"):
        raise UrlError(f"{url!r} names no host and port; write it as {scheme}://HOST:PORT")
    if parts.username or parts.password:
        raise UrlError("a URL may hold no user or password; give them by an option")
    return parts.netloc, scheme == "grpcs"


async def open_at(address: str, is_secure: bool, options: Options) -> Client:
    """A client of this address, of a URL or of a card's entry."""
    secure, slash, rest = address.partition("://")
    if slash:  # some cards name gRPC by a URL
        address, is_secure = rest.rstrip("/"), secure in ("https", "grpcs")
    credentials = tls_credentials(options.tls) if is_secure else None
    return NativeClient(GrpcClient(address, RECONNECT, credentials))


def tls_credentials(tls: Tls) -> grpc.ChannelCredentials:
    """What a client trusts and shows. Raises `ConnectError` where a file cannot be read."""
    return grpc.ssl_channel_credentials(
        root_certificates=_read(tls.ca),
        private_key=_read(tls.key),
        certificate_chain=_read(tls.certificate),
    )


def _read(path: Path | None) -> bytes | None:
    try:
        return path.read_bytes() if path is not None else None
    except OSError as error:
        raise ConnectError(f"the TLS files cannot be used: {path}: {error.strerror}") from None
