"""What a call carries besides its message.

Every call, whatever its door, becomes one `Call`. Whatever belongs to a call but not to its
message travels as call metadata (lower-case names), and nowhere else: HTTP headers, gRPC
metadata and the link's `open` frame all end in `Call.from_metadata`.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from a2a.utils.errors import InvalidParamsError

VERSION = "a2a-version"
EXTENSIONS = "a2a-extensions"
AUTHORIZATION = "authorization"
TRACEPARENT = "traceparent"
TRACESTATE = "tracestate"
IDEMPOTENCY_KEY = "idempotency-key"
CURSOR = "last-event-id"

SERVICE_PARAMETERS = frozenset(
    {VERSION, EXTENSIONS, AUTHORIZATION, TRACEPARENT, TRACESTATE, IDEMPOTENCY_KEY, CURSOR}
)
"""Metadata names that every door passes on, besides the credential names of the core's welcome."""

PARAMETER_PREFIXES = ("a2a-", "x-a2a-")
"""Names that begin so are passed on, too: extensions define parameters of their own (A2A 3.2.6)."""

MAX_KEY_LENGTH = 256


class Scope(NamedTuple):
    """Whose rows a call may see; every row and index of the store starts with it."""

    agent: str
    tenant: str
    caller: str


@dataclass(slots=True)
class Peer:
    """What only the door can see of the other side; the core believes it from links alone."""

    address: str = ""
    origin: str = ""
    certificate: str = ""
    uid: int | None = None
    gid: int | None = None
    pid: int | None = None


@dataclass(slots=True)
class Call:
    """One operation with its metadata.

    Doors fill the upper part; `gateway.service` fills `agent`, `tenant`, `caller` and `scheme`
    once it has authenticated the call, and `activated` for the answer's metadata.
    """

    door: str
    metadata: dict[str, str] = field(default_factory=dict)
    version: str = ""
    """`A2A-Version` as received; empty where absent, which means 0.3 (A2A 3.6.2)."""
    extensions: tuple[str, ...] = ()
    deadline: float | None = None
    """On the clock of `time.monotonic()`."""
    idempotency_key: str = ""
    cursor: int | None = None
    """Resume after this sequence number; None: from the start of what the operation gives."""
    peer: Peer = field(default_factory=Peer)

    agent: str = "default"
    tenant: str = ""
    caller: str = "anonymous"
    scheme: str = ""
    activated: tuple[str, ...] = ()

    @property
    def scope(self) -> Scope:
        """The scope of everything that this call reads or writes."""
        return Scope(self.agent, self.tenant, self.caller)

    def remaining(self) -> float | None:
        """Seconds until the deadline (never negative); None without one."""
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())

    @classmethod
    def from_metadata(
        cls,
        metadata: Iterable[tuple[str, str]],
        *,
        door: str,
        peer: Peer | None = None,
        timeout: float | None = None,
    ) -> "Call":
        """Read service parameters (A2A 3.2.6) from metadata pairs.

        Names are compared without case, values kept as they are; a repeated name is joined by
        commas, as HTTP does (RFC 9110 s5.3). Raises `InvalidParamsError` where the cursor or
        the idempotency key is malformed.
        """
        values: dict[str, str] = {}
        for name, value in metadata:
            lower = name.lower()
            values[lower] = f"{values[lower]},{value}" if lower in values else value
        call = cls(door, values, peer=peer or Peer())
        if version := values.get(VERSION):
            call.version = version.strip()
        if extensions := values.get(EXTENSIONS):
            # dict: order kept, repeats dropped
            call.extensions = tuple(
                dict.fromkeys(filter(None, map(str.strip, extensions.split(","))))
            )
        if key := values.get(IDEMPOTENCY_KEY):
            if len(key) > MAX_KEY_LENGTH:
                raise InvalidParamsError(
                    f"{IDEMPOTENCY_KEY} has over {MAX_KEY_LENGTH} characters; send a shorter one"
                )
            call.idempotency_key = key
        if cursor := values.get(CURSOR):
            if not (cursor.isascii() and cursor.isdigit() and len(cursor) < 19):
                raise InvalidParamsError(
                    f"{CURSOR} must be the id of an event that this server sent: a whole number"
                )
            call.cursor = int(cursor)
        if timeout is not None:
            call.deadline = time.monotonic() + timeout
        return call
