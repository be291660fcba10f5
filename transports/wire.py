"""What a client of any wire looks like, and what it can be told.

Neutral ground between `transports.client`, which chooses a wire, and the wires' own clients.
"""

import base64
import re
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from gateway.call import AUTHORIZATION
from gateway.errors import BY_REASON, Failure, FailureError
from gateway.pb import AgentCard, ProtoMessage, StreamResponse

Events = AsyncGenerator[tuple[int, StreamResponse], None]

API_KEY_HEADER = "x-api-key"
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")


class Client(Protocol):
    """One wire. Every failure is raised as `FailureError`; a server that could not be reached at
    all, so that nothing was sent, as `UnreachableError`."""

    metadata: dict[str, str]
    """What came beside the last unary answer."""

    @property
    def is_lost(self) -> bool:
        """Whether it takes no more calls, so that another client has to be opened."""

    async def unary(
        self,
        method: str,
        request: ProtoMessage,
        metadata: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> ProtoMessage:
        """One answer; `timeout` in seconds is the call's deadline."""

    def stream(
        self,
        method: str,
        request: ProtoMessage,
        metadata: Mapping[str, str] | None = None,
        headers: dict[str, str] | None = None,
    ) -> Events:
        """Events with their sequence numbers, 0 where the wire shows none. `headers` is given what
        came beside the stream once its first event is there. Closing the generator gives the
        call up and never touches the task."""

    async def aclose(self) -> None:
        """Let go of the connection."""


@dataclass(slots=True)
class Kept:
    """An agent card as it came."""

    url: str
    """Of the card."""
    body: bytes
    tag: str = ""
    fresh_until: float = 0.0
    """Seconds since the epoch."""


class Cards(Protocol):
    """Where cards are kept."""

    def load(self, url: str) -> Kept | None:
        """What was kept for the URL of an agent."""

    def save(self, url: str, kept: Kept) -> None:
        """Keep it."""


Told = Callable[[Failure, float], None]
"""Told, each time before something is tried again, the failure and the seconds until then."""


class UrlError(ValueError):
    """A URL that leads nowhere; the text says what would."""


class ConnectError(Exception):
    """There is no way to the agent; the text says why, and what to do."""


class UnreachableError(FailureError):
    """The server could not be reached, and nothing was sent to it."""

    def __init__(self, text: str):
        super().__init__(Failure(BY_REASON["UNAVAILABLE"], text))


@dataclass(frozen=True, slots=True)
class Tls:
    """PEM files of a client. Without `ca` the system's authorities are trusted."""

    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None


@dataclass(frozen=True, slots=True)
class Credentials:
    """At most one of each kind. Never shown: not in `repr`, not in errors."""

    token: str = field(default="", repr=False)
    """A bearer token."""
    api_key: str = field(default="", repr=False)
    api_key_header: str = ""
    """Where the key goes; empty: where the card says, else `x-api-key`."""
    basic: tuple[str, str] | None = field(default=None, repr=False)
    """User and password."""

    def __post_init__(self) -> None:
        if self.token and self.basic:
            raise ValueError("a token and a user cannot both be sent; give one of them")
        for name, value in (("token", self.token), ("API key", self.api_key)):
            if not value.isascii() or not value.isprintable() or value != value.strip():
                raise ValueError(f"the {name} holds what cannot be sent: blanks or other signs")
        if self.api_key_header and not _HEADER.fullmatch(self.api_key_header):
            raise ValueError(f"{self.api_key_header!r} is no name of a header")
        if self.basic and ":" in self.basic[0]:
            raise ValueError("the user of Basic may hold no colon")

    def __bool__(self) -> bool:
        return bool(self.token or self.api_key or self.basic)

    def to_metadata(self, card: AgentCard | None = None) -> dict[str, str]:
        """As headers, or as metadata."""
        values: dict[str, str] = {}
        if self.token:
            values[AUTHORIZATION] = f"Bearer {self.token}"
        if self.basic:
            pair = base64.b64encode(":".join(self.basic).encode()).decode()
            values[AUTHORIZATION] = f"Basic {pair}"
        if self.api_key:
            values[(self.api_key_header or _key_header(card)).lower()] = self.api_key
        return values


@dataclass(frozen=True, slots=True)
class Options:
    """How to connect. The defaults do for an agent that is open to everybody."""

    credentials: Credentials = field(default_factory=Credentials)
    """Sent to the origin of the URL that was given, and to no other."""
    tls: Tls = field(default_factory=Tls)
    binding: str = ""
    """Take only entries of the card with this protocolBinding."""
    tenant: str = ""
    """Instead of the one that the card's entry names."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    """Service parameters of every call, such as `a2a-extensions`."""
    connect_timeout: float = 10.0
    patience: float = 60.0
    """Seconds without any progress for which a broken call is taken up again; 0: not at all."""
    has_keys: bool = True
    """Whether each send gets an idempotency key, so that it can be repeated."""
    cards: Cards | None = None
    """Where cards are kept between connections."""
    told: Told | None = None


def _key_header(card: AgentCard | None) -> str:
    for scheme in card.security_schemes.values() if card is not None else ():
        key = scheme.api_key_security_scheme
        if scheme.HasField("api_key_security_scheme") and key.location == "header":
            return key.name or API_KEY_HEADER
    return API_KEY_HEADER
