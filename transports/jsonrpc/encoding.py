"""Protobuf messages to JSON values: ProtoJSON (A2A 5.5, 5.6), compiled from descriptors.

Codec layer, no I/O. For each message type a closure is built once; it walks the fields that are
set and asks no descriptor again. The values equal those of `json_format.MessageToDict`, with one
addition: fields that the proto marks REQUIRED are present even where they are empty (A2A 5.7),
so that a list answer always has its paging fields.
"""

import math
import time
from binascii import b2a_base64
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from a2a.utils.errors import InvalidAgentResponseError
from google.api.field_behavior_pb2 import REQUIRED, field_behavior

Encoder = Callable[[Any], Any]

_LARGEST_WHOLE = 2**63
"""Whole doubles below it are written without a fraction, the others with an exponent."""
_FIRST_SECOND = -62_135_596_800  # 0001-01-01T00:00:00Z
_LAST_SECOND = 253_402_300_799  # 9999-12-31T23:59:59Z

_encoders: dict[str, Encoder] = {}


def encoder(descriptor: Any) -> Encoder:
    """The function that turns messages of this type into JSON values; `descriptor` is a protobuf
    Descriptor, whichever runtime made it.

    The values may share empty lists between calls: serialize them, do not change them.
    """
    known = _encoders.get(descriptor.full_name)
    return _compile(descriptor) if known is None else known


def _compile(descriptor: Any) -> Encoder:
    table: dict[int, tuple[str, Encoder | None]] = {}
    defaults = {
        field.json_name: _empty(field) for field in descriptor.fields if _is_always_present(field)
    }

    def encode(message: Any) -> dict[str, Any]:
        out = defaults.copy()
        for field, value in message.ListFields():
            name, convert = table[field.number]
            out[name] = value if convert is None else convert(value)
        return out

    # known before its fields are compiled, so that types may contain themselves
    _encoders[descriptor.full_name] = encode
    for field in descriptor.fields:
        table[field.number] = (field.json_name, _field_encoder(field))
    return encode


def _is_always_present(field: Any) -> bool:
    # an unset message or enum has no honest value to show
    return (
        REQUIRED in field.GetOptions().Extensions[field_behavior]
        and not field.has_presence
        and (field.is_repeated or field.type != field.TYPE_ENUM)
    )


def _empty(field: Any) -> Any:
    if field.is_repeated:
        return {} if _is_map(field) else []
    return field.default_value


def _is_map(field: Any) -> bool:
    return bool(field.type == field.TYPE_MESSAGE and field.message_type.GetOptions().map_entry)


def _field_encoder(field: Any) -> Encoder | None:
    if _is_map(field):
        item = _value_encoder(field.message_type.fields_by_name["value"])
        return dict if item is None else _map_encoder(item)
    item = _value_encoder(field)
    if not field.is_repeated:
        return item
    return list if item is None else _list_encoder(item)


def _list_encoder(item: Encoder) -> Encoder:
    return lambda values: [item(value) for value in values]


def _map_encoder(item: Encoder) -> Encoder:
    return lambda values: {key: item(values[key]) for key in values}


def _value_encoder(field: Any) -> Encoder | None:
    """For one value of the field; None where the value is its own JSON."""
    match field.type:
        case field.TYPE_STRING | field.TYPE_BOOL | field.TYPE_INT32:
            return None
        case field.TYPE_BYTES:
            return _encode_bytes
        case field.TYPE_ENUM:
            names = {value.number: value.name for value in field.enum_type.values}
            return lambda number: names.get(number, number)
        case field.TYPE_MESSAGE:
            return encoder(field.message_type)
    raise NotImplementedError(f"no JSON mapping for the type of {field.full_name}")


def _encode_bytes(value: bytes) -> str:
    return b2a_base64(value, newline=False).decode("ascii")


@lru_cache(maxsize=1024)
def _second_text(seconds: int) -> str:
    if not _FIRST_SECOND <= seconds <= _LAST_SECOND:
        raise InvalidAgentResponseError("A timestamp lies outside of the years 1 to 9999")
    moment = time.gmtime(seconds)
    # strftime does not pad years below 1000 on every platform
    return f"{moment.tm_year:04d}" + time.strftime("-%m-%dT%H:%M:%S", moment)


def encode_timestamp(timestamp: Any) -> str:
    """RFC 3339 in UTC with 0, 3, 6 or 9 digits (A2A 5.6.1, ProtoJSON)."""
    second, nanos = _second_text(timestamp.seconds), timestamp.nanos
    if nanos == 0:
        return second + "Z"
    if not 0 < nanos < 1_000_000_000:
        raise InvalidAgentResponseError("A timestamp has a fraction outside of 0 to 1 s")
    if nanos % 1_000_000 == 0:
        return f"{second}.{nanos // 1_000_000:03d}Z"
    if nanos % 1_000 == 0:
        return f"{second}.{nanos // 1_000:06d}Z"
    return f"{second}.{nanos:09d}Z"


def encode_value(value: Any) -> Any:
    """google.protobuf.Value: any JSON value; numbers are doubles (PB08)."""
    kind = value.WhichOneof("kind")
    if kind == "string_value":
        return value.string_value
    if kind == "number_value":
        return _encode_number(value.number_value)
    if kind == "bool_value":
        return value.bool_value
    if kind == "struct_value":
        return encode_struct(value.struct_value)
    if kind == "list_value":
        return encode_list(value.list_value)
    return None


def _encode_number(number: float) -> int | float:
    if number.is_integer():
        if not -_LARGEST_WHOLE < number < _LARGEST_WHOLE:
            return number
        # an int has no negative zero
        return int(number) or (0 if math.copysign(1.0, number) > 0 else number)
    if not math.isfinite(number):
        raise InvalidAgentResponseError("JSON has no way to write the number NaN or Infinity")
    return number


def encode_struct(struct: Any) -> dict[str, Any]:
    """google.protobuf.Struct: a JSON object."""
    fields = struct.fields
    return {key: encode_value(fields[key]) for key in fields}


def encode_list(values: Any) -> list[Any]:
    """google.protobuf.ListValue: a JSON array."""
    return [encode_value(value) for value in values.values]


_encoders.update(
    {
        "google.protobuf.Timestamp": encode_timestamp,
        "google.protobuf.Struct": encode_struct,
        "google.protobuf.Value": encode_value,
        "google.protobuf.ListValue": encode_list,
    }
)
