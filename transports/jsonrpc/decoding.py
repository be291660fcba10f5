"""JSON values to protobuf messages: ProtoJSON (A2A 5.5, 5.6), compiled from descriptors.

Codec layer, no I/O. Accepts what `json_format.ParseDict` accepts with unknown fields ignored
(both spellings of names, null for unset, whole numbers as text), and is stricter where leniency
would lose data without a word:

- an unknown enum value, or two members of a oneof, is refused;
- base64 must be well-formed, in the common or the URL-safe alphabet, padded or not;
- a timestamp must be RFC 3339 with at most nine digits of a second;
- a field given under both of its names is refused;
- free-form JSON may nest `MAX_NESTING` levels deep, which any protobuf parser can read back.

A refusal names the field by its path.
"""

import binascii
import calendar
import re
from collections.abc import Callable
from datetime import datetime
from typing import Any

MAX_NESTING = 30
"""Protobuf parsers stop at 100 nested messages; a level of Struct takes three."""

Filler = Callable[[Any, Any], None]
"""(JSON value, message to fill)"""
Setter = Callable[[Any, Any], None]
"""(message, JSON value of one of its fields)"""
Converter = Callable[[Any], Any]

_SURROGATE = "holds half of a surrogate pair, which is not Unicode text"


class Refusal(Exception):
    """What is wrong with a value, and where: path segments from the inside out."""

    def __init__(self, reason: str, *path: str):
        super().__init__(reason)
        self.reason = reason
        self.path = list(path)

    def location(self) -> str:
        """Dotted path in the proto's names, such as `message.parts[0].raw`."""
        parts = [s if s.startswith("[") else f".{s}" for s in reversed(self.path)]
        return "".join(parts).lstrip(".")


_fillers: dict[str, Filler] = {}


def filler(descriptor: Any) -> Filler:
    """The function that fills messages of this type from JSON; it raises `Refusal`. `descriptor`
    is a protobuf Descriptor, whichever runtime made it."""
    known = _fillers.get(descriptor.full_name)
    return _compile(descriptor) if known is None else known


def _compile(descriptor: Any) -> Filler:
    # JSON key -> proto name, setter, whether null is a value, the other name if that one wins
    table: dict[str, tuple[str, Setter, bool, str]] = {}

    def fill(value: Any, message: Any) -> None:
        if type(value) is not dict:
            raise Refusal("must be an object")
        name = ""
        try:
            for key, item in value.items():
                entry = table.get(key)
                if entry is None:
                    continue
                name, setter, takes_null, twin = entry
                if twin and twin in value:
                    raise Refusal(f"is given twice, as {twin} and as {key}; send one of them")
                if item is not None or takes_null:
                    setter(message, item)
        except Refusal as refusal:
            refusal.path.append(name)
            raise
        except UnicodeEncodeError:
            raise Refusal(_SURROGATE, name) from None

    # known before its fields are compiled, so that types may contain themselves
    _fillers[descriptor.full_name] = fill
    for field in descriptor.fields:
        setter = _in_oneof(field, _setter(field))
        takes_null = _full_type(field) == "google.protobuf.Value"
        table[field.json_name] = (field.name, setter, takes_null, "")
        if field.name != field.json_name:
            table[field.name] = (field.name, setter, takes_null, field.json_name)
    return fill


def _full_type(field: Any) -> str:
    return field.message_type.full_name if field.type == field.TYPE_MESSAGE else ""


def _in_oneof(field: Any, setter: Setter) -> Setter:
    group = field.containing_oneof
    if group is None or len(group.fields) == 1:  # one member: proto3 `optional`
        return setter
    group_name = group.name
    members = ", ".join(member.json_name for member in group.fields)

    def set_alone(message: Any, value: Any) -> None:
        if message.WhichOneof(group_name) is not None:
            raise Refusal(f"at most one of {members} may be given")
        setter(message, value)

    return set_alone


def _setter(field: Any) -> Setter:
    if field.type == field.TYPE_MESSAGE:
        if field.message_type.GetOptions().map_entry:
            return _map_setter(field)
        fill = filler(field.message_type)
        return (
            _messages_setter(field.name, fill)
            if field.is_repeated
            else _message_setter(field.name, fill)
        )
    convert = _converter(field)
    return (
        _scalars_setter(field.name, convert)
        if field.is_repeated
        else _scalar_setter(field.name, convert)
    )


def _scalar_setter(name: str, convert: Converter) -> Setter:
    def set_scalar(message: Any, value: Any) -> None:
        setattr(message, name, convert(value))

    return set_scalar


def _scalars_setter(name: str, convert: Converter) -> Setter:
    def set_scalars(message: Any, value: Any) -> None:
        if type(value) is not list:
            raise Refusal("must be an array")
        append = getattr(message, name).append
        index = 0
        try:
            for index, item in enumerate(value):  # noqa: B007 - read in the handlers
                append(convert(item))
        except Refusal as refusal:
            refusal.path.append(f"[{index}]")
            raise
        except UnicodeEncodeError:
            raise Refusal(_SURROGATE, f"[{index}]") from None

    return set_scalars


def _message_setter(name: str, fill: Filler) -> Setter:
    def set_message(message: Any, value: Any) -> None:
        sub = getattr(message, name)
        sub.SetInParent()
        fill(value, sub)

    return set_message


def _messages_setter(name: str, fill: Filler) -> Setter:
    def set_messages(message: Any, value: Any) -> None:
        if type(value) is not list:
            raise Refusal("must be an array")
        add = getattr(message, name).add
        index = 0
        try:
            for index, item in enumerate(value):  # noqa: B007 - read in the handler
                fill(item, add())
        except Refusal as refusal:
            refusal.path.append(f"[{index}]")
            raise

    return set_messages


def _map_setter(field: Any) -> Setter:
    name, item_field = field.name, field.message_type.fields_by_name["value"]
    if item_field.type == item_field.TYPE_MESSAGE:
        fill = filler(item_field.message_type)

        def put(target: Any, key: str, item: Any) -> None:
            fill(item, target[key])
    else:
        convert = _converter(item_field)

        def put(target: Any, key: str, item: Any) -> None:
            target[key] = convert(item)

    def set_map(message: Any, value: Any) -> None:
        if type(value) is not dict:
            raise Refusal("must be an object")
        target = getattr(message, name)
        key = ""
        try:
            for key, item in value.items():
                put(target, key, item)
        except Refusal as refusal:
            refusal.path.append(f"[{key!a}]")
            raise
        except UnicodeEncodeError:
            raise Refusal(_SURROGATE, f"[{key!a}]") from None

    return set_map


def _converter(field: Any) -> Converter:
    match field.type:
        case field.TYPE_STRING:
            return _to_text
        case field.TYPE_BOOL:
            return _to_bool
        case field.TYPE_INT32:
            return _to_int32
        case field.TYPE_BYTES:
            return _to_bytes
        case field.TYPE_ENUM:
            return _enum_converter(field.enum_type)
    raise NotImplementedError(f"no JSON mapping for the type of {field.full_name}")


def _to_text(value: Any) -> str:
    if type(value) is not str:
        raise Refusal("must be a string")
    return value


def _to_bool(value: Any) -> bool:
    if type(value) is not bool:
        raise Refusal("must be true or false")
    return value


_NUMBER = re.compile(r"-?[0-9]{1,20}(?:\.[0-9]{1,20})?(?:[eE][+-]?[0-9]{1,3})?")


def _to_int32(value: Any) -> int:
    """A number without a fraction, or the same as text (ProtoJSON)."""
    kind = type(value)
    if kind is str and _NUMBER.fullmatch(value):
        value = int(value) if value.lstrip("-").isdigit() else float(value)
        kind = type(value)
    if kind is float and value.is_integer():
        value, kind = int(value), int
    if kind is not int:
        raise Refusal("must be a whole number")
    if not -0x8000_0000 <= value <= 0x7FFF_FFFF:
        raise Refusal("must be between -2147483648 and 2147483647")
    return int(value)


_URL_SAFE = str.maketrans("-_", "+/")


def _to_bytes(value: Any) -> bytes:
    """Base64, common or URL-safe alphabet, padding optional (ProtoJSON; RFC 4648 s3.5)."""
    text = _to_text(value)
    if "-" in text or "_" in text:
        text = text.translate(_URL_SAFE)
    if not text.endswith("="):
        text += "=" * (-len(text) % 4)
    elif len(text) % 4:
        raise Refusal("must be base64; its padding is wrong")
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except ValueError:
        raise Refusal("must be base64") from None


def _enum_converter(enum: Any) -> Converter:
    numbers = {value.name: value.number for value in enum.values}
    known = frozenset(numbers.values())
    names = ", ".join(numbers)

    def to_number(value: Any) -> int:
        if type(value) is str:
            number = numbers.get(value)
            if number is not None:
                return int(number)
        elif type(value) is int and value in known:
            return int(value)
        raise Refusal(f"must be one of {names}")

    return to_number


_TIMESTAMP = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})"
    r"(?:\.([0-9]{1,9}))?(?:Z|([+-])([0-9]{2}):([0-9]{2}))"
)
_FIRST_SECOND = -62_135_596_800
_LAST_SECOND = 253_402_300_799


def fill_timestamp(value: Any, message: Any) -> None:
    """RFC 3339 with an offset, put into UTC (A2A 5.6.1)."""
    found = _TIMESTAMP.fullmatch(value) if type(value) is str else None
    if found is None:
        raise Refusal("must be a time such as 2026-01-31T08:00:00.000Z")
    try:
        moment = datetime(*(int(part) for part in found.groups()[:6]))  # type: ignore[arg-type]
    except ValueError:
        raise Refusal("is no time of the calendar") from None
    seconds = calendar.timegm(moment.timetuple())
    if sign := found[8]:
        hours, minutes = int(found[9]), int(found[10])
        if hours > 23 or minutes > 59:
            raise Refusal("has an offset from UTC beyond 23:59")
        offset = hours * 3600 + minutes * 60
        seconds += offset if sign == "-" else -offset
    if not _FIRST_SECOND <= seconds <= _LAST_SECOND:
        raise Refusal("must lie in the years 1 to 9999")
    message.seconds = seconds
    message.nanos = int((found[7] or "0").ljust(9, "0"))


def fill_struct(value: Any, message: Any) -> None:
    """google.protobuf.Struct from an object."""
    if type(value) is not dict:
        raise Refusal("must be an object")
    _fill_members(value, message, 1)


def fill_value(value: Any, message: Any) -> None:
    """google.protobuf.Value from any JSON value."""
    _fill_value(value, message, 0)


def fill_list(value: Any, message: Any) -> None:
    """google.protobuf.ListValue from an array."""
    if type(value) is not list:
        raise Refusal("must be an array")
    _fill_items(value, message, 1)


def _fill_members(value: dict[str, Any], struct: Any, depth: int) -> None:
    if depth > MAX_NESTING:
        raise Refusal(f"nests more than {MAX_NESTING} levels deep")
    fields = struct.fields
    for key, item in value.items():
        _fill_value(item, fields[key], depth)


def _fill_items(value: list[Any], target: Any, depth: int) -> None:
    if depth > MAX_NESTING:
        raise Refusal(f"nests more than {MAX_NESTING} levels deep")
    add = target.values.add
    for item in value:
        _fill_value(item, add(), depth)


def _fill_value(value: Any, target: Any, depth: int) -> None:
    kind = type(value)
    if kind is str:
        target.string_value = value
    elif kind is bool:
        target.bool_value = value
    elif kind is int or kind is float:
        target.number_value = _to_double(value)
    elif value is None:
        target.null_value = 0
    elif kind is dict:
        target.struct_value.SetInParent()
        _fill_members(value, target.struct_value, depth + 1)
    else:
        target.list_value.SetInParent()
        _fill_items(value, target.list_value, depth + 1)


def _to_double(value: float) -> float:
    try:
        number = float(value)
    except OverflowError:
        number = float("inf")
    if number - number != 0:  # NaN or infinite
        raise Refusal("holds a number that does not fit a double")
    return number


_fillers.update(
    {
        "google.protobuf.Timestamp": fill_timestamp,
        "google.protobuf.Struct": fill_struct,
        "google.protobuf.Value": fill_value,
        "google.protobuf.ListValue": fill_list,
    }
)
