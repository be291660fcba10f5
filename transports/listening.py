"""Sockets for doors to listen at. What fails raises `OSError` with a text for the operator."""

import errno
import socket

from gateway.config import Address
from gateway.sockets import claim_path


def listen_at(address: Address) -> socket.socket:
    """A bound socket; port 0 takes any free port."""
    return _unix_socket(address.path) if address.is_unix else _tcp_socket(address)


def reachable(text: str) -> str:
    """An address that listens everywhere, under a name that others may know it by."""
    address = Address.parse(text)
    everywhere = address.host in ("0.0.0.0", "::")  # noqa: S104 - compared, not bound
    return str(Address(socket.gethostname(), address.port)) if everywhere else text


def _tcp_socket(address: Address) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        found = socket.getaddrinfo(address.host, address.port, family, socket.SOCK_STREAM)
    except socket.gaierror as error:
        text = f"the host {address.host!r} is not known: {error.strerror}"
        raise OSError(errno.EADDRNOTAVAIL, text) from None
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
    claim_path(path)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.bind(path)
    except BaseException:
        sock.close()
        raise
    return sock
