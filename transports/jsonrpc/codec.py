"""ProtoJSON: protobuf messages to JSON and back (A2A 5.5 to 5.7).

Codec layer, no I/O. `encoding` and `decoding` hold the rules; this is what doors call.
"""

import json
import re
from typing import Any, TypeVar

import orjson

from gateway.errors import ValidationError
from gateway.pb import ProtoMessage
from transports.jsonrpc.decoding import Refusal, filler
from transports.jsonrpc.encoding import encoder

M = TypeVar("M", bound=ProtoMessage)


class NotJsonError(ValueError):
    """The bytes are not a JSON text; the message says where. Holds nothing of the text."""


class NestingError(ValueError):
    """The JSON text nests deeper than the parser goes, or holds more values than are taken; the
    message goes on after the name of the text."""


MAX_VALUES = 200_000
"""Of one text: values are gone through one by one while all other calls of the door wait."""

_LEAST_VALUE_BYTES = 2
_tokens = re.compile(
    rb'"(?:[^"\\]++|\\.)*+"?' rb"|(,|[\[{](?!\s*[\]}]))",
    re.DOTALL,
)
"""Strings, and what a value comes behind: a comma, or the start of an array or object that is not
empty. A string that is not closed is one, too, so that no text takes more than one pass."""


def encode(message: ProtoMessage) -> Any:
    """The message as a JSON value. Serialize it; do not change it (parts may be shared)."""
    return encoder(message.DESCRIPTOR)(message)


def to_json(message: ProtoMessage) -> bytes:
    """The message as JSON text on one line, in UTF-8."""
    return orjson.dumps(encoder(message.DESCRIPTOR)(message))


def decode(kind: type[M], value: Any) -> M:
    """A message of this type from a JSON value; raises `ValidationError` that names the field."""
    message = kind()
    try:
        filler(kind.DESCRIPTOR)(value, message)
    except Refusal as refusal:
        raise ValidationError((refusal.location() or "request", refusal.reason)) from None
    return message


def parse(text: bytes | bytearray | str) -> Any:
    """The value of a JSON text (RFC 8259). Raises `NotJsonError` or `NestingError`.

    The fast parser refuses half surrogates, which JSON's grammar allows; the slow one then reads
    them, so that the field that holds one can be named.
    """
    if len(text) > MAX_VALUES * _LEAST_VALUE_BYTES and _has_too_many_values(text):
        raise NestingError(f"holds more than {MAX_VALUES} values; send them as a file or a url")
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        return _parse_slowly(text, error)


def _has_too_many_values(text: bytes | bytearray | str) -> bool:
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    if data.count(b",") + data.count(b"[") + data.count(b"{") < MAX_VALUES:
        return False
    values = 1
    for token in _tokens.finditer(data):
        if token.lastindex:
            values += 1
            if values > MAX_VALUES:
                return True
    return False


def _parse_slowly(text: bytes | bytearray | str, error: orjson.JSONDecodeError) -> Any:
    try:
        if not isinstance(text, str):
            text = text.decode("utf-8")
        value = json.loads(text, parse_constant=_refuse_constant)
    except UnicodeDecodeError as bad:
        raise NotJsonError(f"byte {bad.start} is not UTF-8") from None
    except json.JSONDecodeError as bad:
        raise NotJsonError(f"{bad.msg} at character {bad.pos}") from None
    except RecursionError:
        raise NestingError("nests too deep") from None
    except ValueError as bad:  # NaN, Infinity, a number with thousands of digits
        raise NotJsonError(str(bad)) from None
    return value


def _refuse_constant(name: str) -> Any:
    raise NotJsonError(f"{name} is not JSON")
