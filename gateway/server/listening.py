"""Opening listeners of a grpc.aio server: TCP and Unix sockets, with or without TLS.

gRPC takes over a Unix socket in use, says nothing of why it cannot bind, and prints to stderr;
so what can be known is found out before. Everything that fails raises `OSError` with the number
and a text for the operator.
"""

import errno
import os
import socket
import ssl
from contextlib import closing
from dataclasses import dataclass

import grpc
import grpc.aio

from gateway.config import Address, Tls
from gateway.sockets import claim_path

_NOT_HERE = {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}


@dataclass(frozen=True, slots=True)
class Listener:
    """One place to listen at."""

    address: Address
    tls: Tls | None = None
    mode: int = 0o600
    """Of a Unix socket."""


def bind(server: grpc.aio.Server, listener: Listener) -> Address:
    """Add the listener to a server that has not started. Returns the address with its real
    port. Raises `OSError`."""
    address = listener.address
    credentials = None if listener.tls is None else read_tls(listener.tls)
    if address.is_unix:
        claim_path(address.path)
        # the mode holds from the first moment, not from a later chmod on
        mask = os.umask(0o777 & ~listener.mode)
        try:
            _add(server, address, credentials)
        finally:
            os.umask(mask)
        os.chmod(address.path, listener.mode)
        return address
    if address.port:
        probe(address)
    return Address(address.host, _add(server, address, credentials))


def _add(
    server: grpc.aio.Server, address: Address, credentials: grpc.ServerCredentials | None
) -> int:
    try:
        if credentials is None:
            port = server.add_insecure_port(str(address))
        else:
            port = server.add_secure_port(str(address), credentials)
    except RuntimeError as error:
        raise OSError(errno.EADDRNOTAVAIL, "gRPC cannot listen there", str(address)) from error
    return port


def probe(address: Address) -> None:
    """Find out whether every address of a host can be bound. Raises `OSError`."""
    try:
        found = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except socket.gaierror as error:
        text = f"the host {address.host!r} is not known: {error.strerror}"
        raise OSError(errno.EADDRNOTAVAIL, text, str(address)) from None
    refused: OSError | None = None
    is_bound = False
    for family, kind, protocol, _, place in found:
        try:
            with closing(socket.socket(family, kind, protocol)) as sock:
                # as gRPC does: a port that is only in TIME_WAIT is free
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                sock.bind(place)
                sock.listen(1)
            is_bound = True
        except OSError as error:
            refused = error
            if error.errno not in _NOT_HERE:
                raise OSError(error.errno, error.strerror, str(address)) from None
    if not is_bound and refused is not None:
        raise OSError(refused.errno, refused.strerror, str(address))


def read_tls(tls: Tls) -> grpc.ServerCredentials:
    """Credentials of a listener. Raises `OSError` for files that are missing or do not fit."""
    try:
        # gRPC would say nothing of what is wrong with them
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tls.certificate, tls.key)
        if tls.client_ca is not None:
            context.load_verify_locations(tls.client_ca)
    except ssl.SSLError as error:
        text = f"the TLS certificate, key or client CA cannot be used: {error.reason}"
        raise OSError(errno.EINVAL, text, str(tls.certificate)) from None
    except OSError as error:
        text = f"a TLS file cannot be read: {error.strerror}"
        raise OSError(error.errno, text, str(tls.certificate)) from None
    client_ca = tls.client_ca.read_bytes() if tls.client_ca is not None else None
    return grpc.ssl_server_credentials(
        [(tls.key.read_bytes(), tls.certificate.read_bytes())],
        root_certificates=client_ca,
        require_client_auth=client_ca is not None,
    )
