"""Service parameters of a session and of its calls (A2A 3.2.6, 12.3).

Session layer, server side, no I/O. They travel as the member `a2a-service-parameters` of `params`:
an object of strings. What a session has set holds for its calls; a call overrides by name, with
null for none.
"""

from collections.abc import Mapping
from typing import Any

from gateway.call import CURSOR, IDEMPOTENCY_KEY, PARAMETER_PREFIXES, SERVICE_PARAMETERS, Call, Peer
from gateway.errors import InvalidParamsError

MEMBER = "a2a-service-parameters"
TIMEOUT = "x-a2a-timeout-ms"
"""Whole milliseconds within which the caller wants its answer."""
RETRY_AFTER = "retry-after"

MAX_BYTES = 32 * 1024
"""Of all names and values of one object: as much as the head of an HTTP request."""
MAX_TIMEOUT_DIGITS = 12

_OF_ONE_CALL = frozenset({IDEMPOTENCY_KEY, CURSOR, TIMEOUT})
"""Meant for one call: a session that set them would give them to all."""


class Parameters:
    """What a session has set, and the `Call` that comes of it. `client` names the credentials
    that the core wants, as `CoreClient` does."""

    def __init__(self, client: Any, door: str, peer: Peer):
        self._client = client
        self._door = door
        self._peer = peer
        self._values: dict[str, str] = {}
        self._names: tuple[str, ...] = ()
        self._plain: Call | None = None
        """For calls that override nothing; nobody changes it."""

    def set(self, value: Any) -> None:
        """Replace what the session has set. Raises `InvalidParamsError`."""
        values = _read(value)
        wrong = sorted(_OF_ONE_CALL & values.keys())
        if wrong:
            raise InvalidParamsError(f"{MEMBER}.{wrong[0]} belongs to one call; send it with each")
        kept = {name: text for name, text in values.items() if text is not None}
        self._make(kept)  # a value that is wrong is said now
        self._values, self._plain = kept, None

    def call(self, override: Any) -> Call:
        """The call's metadata. Raises `InvalidParamsError`."""
        if override is None:
            if self._plain is None or self._names is not self._client.credential_names:
                self._plain = self._make(self._values)
            return self._plain
        values = self._values.copy()
        for name, text in _read(override).items():
            if text is None:
                values.pop(name, None)
            else:
                values[name] = text
        return self._make(values)

    def _make(self, values: Mapping[str, str]) -> Call:
        names = self._names = self._client.credential_names
        timeout = values.get(TIMEOUT)
        pairs = [
            (name, text)
            for name, text in values.items()
            if name in SERVICE_PARAMETERS
            or name in names
            or (name.startswith(PARAMETER_PREFIXES) and name != TIMEOUT)
        ]
        seconds = None if timeout is None else _seconds(timeout)
        return Call.from_metadata(pairs, door=self._door, peer=self._peer, timeout=seconds)


def _read(value: Any) -> dict[str, str | None]:
    """Names in lower case, with their values."""
    if type(value) is not dict:
        raise InvalidParamsError(f"{MEMBER} must be an object of strings")
    found: dict[str, str | None] = {}
    size = 0
    for name, text in value.items():
        if text is not None and type(text) is not str:
            raise InvalidParamsError(f"{MEMBER}.{name[:64]} must be a string, or null for none")
        if not (name.isascii() and name.isprintable()):
            raise InvalidParamsError(f"{MEMBER}: names are of printable ASCII characters")
        if text is not None and not _is_sendable(text):
            raise InvalidParamsError(f"{MEMBER}.{name[:64]} holds a control character")
        lower = name.lower()
        if lower in found:
            raise InvalidParamsError(f"{MEMBER}.{name[:64]} is there twice; case does not count")
        found[lower] = text
        size += len(name) + len(text or "")
    if size > MAX_BYTES:
        raise InvalidParamsError(f"{MEMBER} holds more than {MAX_BYTES} characters")
    return found


def _is_sendable(text: str) -> bool:
    # what a header of HTTP or gRPC could not carry would end somebody's connection
    return text.isprintable() or all(c >= " " and c != "\x7f" for c in text)


def _seconds(text: str) -> float:
    if not (text.isascii() and text.isdigit() and len(text) <= MAX_TIMEOUT_DIGITS):
        raise InvalidParamsError(f"{MEMBER}.{TIMEOUT} must be whole milliseconds")
    return int(text) / 1000


def shown(metadata: Mapping[str, str]) -> dict[str, str]:
    """Response metadata that the client is to see, such as the activated extensions (R15)."""
    return {name: text for name, text in metadata.items() if name.startswith("a2a-")}
