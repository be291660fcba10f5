"""The public agent card: built from the configuration, forced to the truth, kept up to date.

Part of the core, the only place that knows what is really open and possible (A2A 5.2, 8.3.1;
capabilities 3.3.4). Doors report their addresses; each change makes a new revision.
"""

import difflib
import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from google.api import field_behavior_pb2
from google.protobuf import json_format

from gateway.access import Access
from gateway.pb import AgentCard, AgentInterface, ProtoMessage

PROTOCOL_VERSION = "1.0"

INPUT_MODES = (
    "text/plain",
    "text/markdown",
    "text/html",
    "text/csv",
    "text/xml",
    "application/json",
    "application/yaml",
    "application/xml",
    "application/pdf",
    "image/png",
    "image/jpeg",
    "image/gif",
    "image/webp",
    "image/svg+xml",
    "audio/wav",
    "audio/mpeg",
    "audio/ogg",
    "audio/webm",
    "video/mp4",
    "video/webm",
    "application/octet-stream",
)
"""What is taken where the card's configuration does not say."""

OUTPUT_MODES = ("text/plain",)

_PREFERENCE = {"JSONRPC": 0, "HTTP+JSON": 1, "GRPC": 2}
"""Order of `supportedInterfaces` (A2A 8.3.1); custom bindings follow."""

_NOT_YET = {
    "push_notifications": "pushNotifications",
    "extended_agent_card": "extendedAgentCard",
}


class CardError(ValueError):
    """The card cannot be served; the text names the key and the fix."""


@dataclass(frozen=True, slots=True)
class CardOptions:
    """Where the card comes from."""

    source: Mapping[str, Any] | str | Path | None = None
    """Fields of an AgentCard in ProtoJSON, or the path of a JSON or YAML file with them."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Fields that the agent itself proposes; `source` wins over them, key by key."""
    name: str = "agent"
    can_stream: bool = True


@dataclass(frozen=True, slots=True)
class Revision:
    """One state of the card."""

    number: int
    message: AgentCard
    agent_card: bytes
    """Serialized deterministically: equal cards are equal bytes, in every process."""
    modified: float
    """Seconds since the epoch at which this content came up."""


class Card:
    """The card as it stands. Raises `CardError` for a configuration that cannot be served."""

    def __init__(self, options: CardOptions | None = None, access: Access | None = None) -> None:
        self._base = _build(options or CardOptions(), access)
        self._configured = list(self._base.supported_interfaces)
        self._doors: dict[str, list[AgentInterface]] = {}
        self._watchers: list[Callable[[Revision], None]] = []
        self.revision = self._revise(1)

    @property
    def message(self) -> AgentCard:
        """The card; not to be changed."""
        return self.revision.message

    def watch(self, changed: Callable[[Revision], None]) -> Callable[[], None]:
        """Call `changed` with each new revision; returns what ends it."""
        self._watchers.append(changed)
        return lambda: self._watchers.remove(changed)

    def set_interfaces(self, owner: str, interfaces: Iterable[AgentInterface]) -> None:
        """State the addresses that `owner` (a listener, a link) has really open; none: all of
        its doors are lost."""
        self._doors[owner] = [_check_interface(i) for i in interfaces]
        if not self._doors[owner]:
            del self._doors[owner]
        new = self._revise(self.revision.number + 1)
        if new.agent_card == self.revision.agent_card:
            return
        self.revision = new
        for changed in tuple(self._watchers):
            changed(new)

    def _revise(self, number: int) -> Revision:
        message = AgentCard()
        message.CopyFrom(self._base)
        message.ClearField("supported_interfaces")
        message.supported_interfaces.extend(self._open_interfaces())
        return Revision(number, message, message.SerializeToString(deterministic=True), time.time())

    def _open_interfaces(self) -> list[AgentInterface]:
        found = [i for interfaces in self._doors.values() for i in interfaces]
        bindings = {i.protocol_binding for i in found}
        # a configured address (a proxy's, say) stands for the door's own, if the door is open
        public = [i for i in self._configured if i.protocol_binding in bindings]
        replaced = {i.protocol_binding for i in public}
        entries = public + [i for i in found if i.protocol_binding not in replaced]
        unique = {i.SerializeToString(deterministic=True): i for i in entries}
        return sorted(unique.values(), key=_rank)


def _rank(interface: AgentInterface) -> tuple[int, str, str]:
    binding = interface.protocol_binding
    return _PREFERENCE.get(binding, len(_PREFERENCE)), binding, interface.url


def _build(options: CardOptions, access: Access | None) -> AgentCard:
    fields = {**_normalise(options.defaults), **_normalise(_read(options.source))}
    card = _parse(fields)
    if not card.name:
        card.name = options.name
    if not card.description:
        card.description = f"The agent {card.name}"
    if not card.version:
        card.version = "1.0.0"
    if not card.default_input_modes:
        card.default_input_modes.extend(INPUT_MODES)
    if not card.default_output_modes:
        card.default_output_modes.extend(OUTPUT_MODES)
    if not card.skills:
        card.skills.add(id="default", name=card.name, description=card.description, tags=["agent"])
    _force_capabilities(card, options.can_stream)
    _declare_access(card, access)
    configured = [_check_interface(i) for i in card.supported_interfaces]
    card.ClearField("supported_interfaces")
    card.supported_interfaces.extend(configured)
    _check_extensions(card)
    if missing := _missing(card, "", frozenset({"supported_interfaces"})):
        raise CardError(f"card: required by A2A and missing or empty: {', '.join(missing)}")
    return card


def _normalise(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Top-level keys in their JSON spelling, so that either spelling overrides the other."""
    names = {f.name: f.json_name for f in AgentCard.DESCRIPTOR.fields}
    return {names.get(str(key), str(key)): value for key, value in fields.items()}


def _read(source: Mapping[str, Any] | str | Path | None) -> Mapping[str, Any]:
    if source is None:
        return {}
    if isinstance(source, Mapping):
        return source
    path = Path(source)
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or "not a text file in UTF-8"
        raise CardError(f"card: cannot read {path}: {reason}") from error
    fields = _load(path, text)
    if not isinstance(fields, Mapping):
        raise CardError(f"card: {path} must hold one object with the fields of an agent card")
    return fields


def _load(path: Path, text: str) -> Any:
    if path.suffix in (".yaml", ".yml"):
        import yaml

        try:
            return yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise CardError(f"card: {path} is not YAML: {error}") from error
    try:
        return json.loads(text)
    except ValueError as error:
        raise CardError(f"card: {path} is not JSON: {error}") from error


def _parse(fields: Mapping[str, Any]) -> AgentCard:
    _check_keys(fields, AgentCard.DESCRIPTOR, "card")
    try:
        return json_format.ParseDict(dict(fields), AgentCard())
    except json_format.ParseError as error:
        raise CardError(f"card: {error}") from error


def _check_keys(value: Any, descriptor: Any, place: str) -> None:
    """Refuse keys that no field has: a misspelt one would be lost without a word (S17)."""
    if not isinstance(value, Mapping) or descriptor.full_name.startswith("google.protobuf."):
        return
    fields = {f.json_name: f for f in descriptor.fields} | {f.name: f for f in descriptor.fields}
    for key, inner in value.items():
        if key not in fields:
            close = difflib.get_close_matches(str(key), [f.json_name for f in descriptor.fields], 1)
            hint = f"did you mean {close[0]!r}?" if close else f"known are: {_names(descriptor)}"
            raise CardError(f"{place}: unknown key {key!r}; {hint}")
        _check_inner(inner, fields[key].message_type, f"{place}.{key}")


def _check_inner(value: Any, kind: Any, place: str) -> None:
    if kind is None:
        return
    if kind.GetOptions().map_entry:
        kind = kind.fields_by_name["value"].message_type
        items = value.items() if isinstance(value, Mapping) and kind is not None else ()
        for key, item in items:
            _check_keys(item, kind, f"{place}.{key}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _check_keys(item, kind, f"{place}[{index}]")
    else:
        _check_keys(value, kind, place)


def _names(descriptor: Any) -> str:
    return ", ".join(f.json_name for f in descriptor.fields)


def _force_capabilities(card: AgentCard, can_stream: bool) -> None:
    """A card never claims what the gateway does not do (S25, S26, S29)."""
    capabilities = card.capabilities
    if capabilities.streaming and not can_stream:
        raise CardError(
            "card.capabilities.streaming is true, but streaming is switched off; "
            "switch it on, or set it to false"
        )
    if not capabilities.HasField("streaming"):
        capabilities.streaming = can_stream
    for name, key in _NOT_YET.items():
        if getattr(capabilities, name):
            raise CardError(
                f"card.capabilities.{key} is true, but this gateway does not offer it; "
                "set it to false or leave it out"
            )
        setattr(capabilities, name, False)


def _declare_access(card: AgentCard, access: Access | None) -> None:
    if card.security_schemes or card.security_requirements:
        raise CardError(
            "card: securitySchemes and securityRequirements come from the access section; "
            "leave them out of the card"
        )
    if card.signatures:
        raise CardError(
            "card.signatures: a signature made elsewhere cannot fit the card that is served; "
            "leave it out"
        )
    if access is None:
        return
    for name, scheme in access.security_schemes().items():
        card.security_schemes[name].CopyFrom(scheme)
    card.security_requirements.extend(access.security_requirements())


def _check_interface(given: AgentInterface) -> AgentInterface:
    interface = AgentInterface()
    interface.CopyFrom(given)
    if not interface.protocol_version:
        interface.protocol_version = PROTOCOL_VERSION
    if not interface.url or not interface.protocol_binding:
        raise CardError("card.supportedInterfaces: each entry needs url and protocolBinding")
    if interface.protocol_binding == "HTTP+JSON" and interface.url.endswith("/"):
        # paths are appended to it as they stand (A2A 11.3)
        interface.url = interface.url.rstrip("/")
    if interface.protocol_binding == "GRPC" and "://" in interface.url:
        raise CardError(
            f"card.supportedInterfaces: {interface.url!r} is no gRPC address; "
            "give host:port without a scheme"
        )
    return interface


def _check_extensions(card: AgentCard) -> None:
    for index, extension in enumerate(card.capabilities.extensions):
        uri = extension.uri
        if not uri or "," in uri or uri != uri.strip():
            raise CardError(
                f"card.capabilities.extensions[{index}].uri: {uri!r} cannot be named in "
                "A2A-Extensions; give a URI without commas and blanks"
            )


def missing_fields(card: AgentCard) -> list[str]:
    """Paths of the fields that A2A requires of a card and that are empty."""
    return _missing(card, "", frozenset())


def _missing(message: ProtoMessage, place: str, ignored: frozenset[str]) -> list[str]:
    """Paths of the REQUIRED fields that are empty (A2A 5.7), from the proto's annotations."""
    found: list[str] = []
    for member in message.DESCRIPTOR.fields:
        if member.name in ignored:
            continue
        path = f"{place}.{member.json_name}" if place else member.json_name
        value = getattr(message, member.name)
        if _is_required(member) and not _is_set(message, member, value):
            found.append(path)
        found.extend(_missing_inside(message, member, value, path))
    return found


def _is_required(member: Any) -> bool:
    behaviors = member.GetOptions().Extensions[field_behavior_pb2.field_behavior]
    return field_behavior_pb2.REQUIRED in behaviors


def _is_set(message: ProtoMessage, member: Any, value: Any) -> bool:
    return message.HasField(member.name) if member.has_presence else bool(value)


def _missing_inside(message: ProtoMessage, member: Any, value: Any, path: str) -> list[str]:
    kind = member.message_type
    if kind is None or kind.full_name.startswith("google.protobuf."):
        return []
    if kind.GetOptions().map_entry:
        return []
    if member.has_presence:
        return _missing(value, path, frozenset()) if message.HasField(member.name) else []
    return [
        missing
        for index, item in enumerate(value)
        for missing in _missing(item, f"{path}[{index}]", frozenset())
    ]
