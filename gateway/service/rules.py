"""What the agent card demands of a call: capabilities, extensions, media types.

Made anew with each revision of the card, so that a call looks up and computes nothing twice.
A2A 3.3.4 (capabilities), 4.6 (extensions), 3.6 (version), RFC 9110 s12.5.1 (media ranges).
"""

import re
from collections.abc import Iterable

from gateway.errors import (
    ContentTypeNotSupportedError,
    ExtensionSupportRequiredError,
    VersionNotSupportedError,
)
from gateway.pb import AgentCard

VERSION = "1.0"

_SAME_VERSION = re.compile(r"1\.0(\.[0-9]{1,9})?", re.ASCII)
_KNOWN_LIMIT = 1024


class MediaTypes:
    """A set of media types, some of them perhaps ranges as `text/*`."""

    def __init__(self, types: Iterable[str]) -> None:
        self._types = frozenset(map(normalise, types))
        self._known: dict[str, bool] = {}

    def __str__(self) -> str:
        return ", ".join(sorted(self._types))

    def has(self, wanted: str) -> bool:
        """Whether a type, or any type of a range, is in the set."""
        known = self._known.get(wanted)
        if known is None:
            known = self._match(normalise(wanted))
            # clients choose the keys: remember a bounded number of them
            if len(self._known) < _KNOWN_LIMIT and len(wanted) < 256:
                self._known[wanted] = known
        return known

    def _match(self, wanted: str) -> bool:
        if wanted in self._types or wanted == "*/*" or "*/*" in self._types:
            return True
        kind = wanted.partition("/")[0]
        if f"{kind}/*" in self._types:
            return True
        return wanted.endswith("/*") and any(t.startswith(f"{kind}/") for t in self._types)


class Rules:
    """The demands of one revision of the card."""

    def __init__(self, card: AgentCard) -> None:
        capabilities = card.capabilities
        self.streaming: bool = capabilities.streaming
        self.push: bool = capabilities.push_notifications
        self.extended_card: bool = capabilities.extended_agent_card
        self._supported = frozenset(e.uri for e in capabilities.extensions)
        self._required = tuple(e.uri for e in capabilities.extensions if e.required)
        skills = card.skills
        self._inputs = _modes(card.default_input_modes, (s.input_modes for s in skills))
        self._outputs = _modes(card.default_output_modes, (s.output_modes for s in skills))

    def activate(self, requested: tuple[str, ...]) -> tuple[str, ...]:
        """The extensions in force: those asked for that the card has, in the client's order.
        Raises `ExtensionSupportRequiredError` where a required one is not among them."""
        for uri in self._required:
            if uri not in requested:
                raise ExtensionSupportRequiredError(
                    f"This agent requires the extension {uri}; name it in A2A-Extensions "
                    "if the client supports it"
                )
        if not requested:
            return ()
        supported = self._supported
        return tuple(uri for uri in requested if uri in supported)

    def check_input(self, media_type: str, place: str) -> None:
        """Refuse a part of a type that the card does not take (A2A 3.3.2)."""
        if self._inputs is not None and not self._inputs.has(media_type):
            raise ContentTypeNotSupportedError(
                f"{place}: the media type {media_type[:128]!r} is not supported; "
                f"send one of: {self._inputs}"
            )

    def check_accepted(self, accepted: Iterable[str]) -> None:
        """Refuse a client that accepts none of the types that the agent gives."""
        outputs = self._outputs
        if outputs is None or any(map(outputs.has, accepted)):
            return
        raise ContentTypeNotSupportedError(
            "configuration.acceptedOutputModes: none of them is given by this agent; "
            f"accept one of: {outputs}"
        )


def _modes(default: Iterable[str], others: Iterable[Iterable[str]]) -> MediaTypes | None:
    types = [*default, *(t for more in others for t in more)]
    return MediaTypes(types) if types else None


def normalise(media_type: str) -> str:
    """Without parameters, in lower case (RFC 9110 s8.3.1)."""
    return media_type.partition(";")[0].strip().lower()


def check_version(version: str) -> None:
    """Refuse any version but ours; only Major.Minor counts (A2A 3.6)."""
    if _SAME_VERSION.fullmatch(version.strip()):
        return
    if not version:
        raise VersionNotSupportedError(
            "The call names no protocol version, which means 0.3, and that is not served here; "
            f"send the service parameter A2A-Version: {VERSION}",
            {"supported": VERSION},
        )
    raise VersionNotSupportedError(
        f"The protocol version {version[:32]!r} is not supported; send A2A-Version: {VERSION}",
        {"supported": VERSION},
    )
