"""The HTTP door: its section of the configuration. `server` and `client` are the rest of it."""

from gateway.config import Tls as ServerTls
from gateway.config import section
from gateway.config.values import Addresses, Interval


@section
class Tls(ServerTls):
    """PEM files of the listener; with `client_ca`, a client must show a certificate of that CA,
    or may (`client_optional`)."""

    client_optional: bool = False


@section
class Options:
    """JSON-RPC, REST, SSE and the agent card; the defaults make it start."""

    address: Addresses = ("127.0.0.1:41242",)
    """`HOST:PORT`, `[IPV6]:PORT` or `unix:PATH`; port 0 takes any free one."""
    path: str = "/"
    """Where JSON-RPC is, with and without a slash at its end; REST paths stand below it."""
    keep_alive: Interval = 15.0
    """Seconds of silence after which a stream gets a comment line."""
    tls: Tls | None = None
    public_url: str = ""
    """What the card says instead of the address, where a proxy stands before the door."""
