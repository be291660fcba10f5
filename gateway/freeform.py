"""Free-form JSON in messages (google.protobuf.Value, Struct): what every door can give back.

Pure. Protobuf carries more than JSON: NaN and infinities, and nesting until a parser gives up (at
100 messages, three for a level of Struct), which a client of one door could put into a task that
no other door, or no later start, could read. Values are also gone through one by one where JSON
is written, while all other calls wait: their number is bounded.
"""

import math
import re
from collections.abc import Mapping
from typing import Any

from gateway.pb import ListValue, ProtoMessage, Struct, Value

MAX_NESTING = 30
MAX_VALUES = 200_000

_looks_non_finite = re.compile(rb"\x09\x11.{6}[\xf0-\xff][\x7f\xff]", re.DOTALL).search
"""Finds every NaN and infinity that a serializer writes: a Value of nine bytes, field 2, a
little-endian double whose exponent bits are all set. Hardly ever finds anything else."""
_LEVEL_TAG = b"\x0a"
"""In front of the items of each list and each struct."""
_LEAST_VALUE_BYTES = 2
"""Of an item of a list: a tag and a length of 0."""


def find_fault(message: ProtoMessage, raw: bytes) -> tuple[str, str] | None:
    """The field (path in the JSON spelling) whose value not every door can carry, and why. `raw`
    is the serialized message: a look at it is enough for nearly all."""
    if (
        raw.count(_LEVEL_TAG) <= MAX_NESTING
        and not _looks_non_finite(raw)
        and len(raw) <= MAX_VALUES * _LEAST_VALUE_BYTES
    ):
        return None
    try:
        _Walk().message(message, "")
    except _FaultError as fault:
        return fault.place, fault.reason
    return None


class _FaultError(Exception):
    def __init__(self, place: str, reason: str):
        super().__init__(reason)
        self.place = place
        self.reason = reason


class _Walk:
    """Goes through a message; raises `_FaultError`. A Struct's path is that of its field."""

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values = 0

    def message(self, message: ProtoMessage, place: str) -> None:
        for field, content in message.ListFields():
            if field.message_type is None:
                continue
            path = f"{place}.{field.json_name}" if place else field.json_name
            if isinstance(content, ProtoMessage):
                self._any(content, path)
            elif not isinstance(content, Mapping):
                for index, item in enumerate(content):
                    self._any(item, f"{path}[{index}]")

    def _any(self, message: ProtoMessage, place: str) -> None:
        if isinstance(message, Value):
            self._value(message, place, 0)
        elif isinstance(message, Struct):
            self._items(message.fields.values(), place, 1)
        elif isinstance(message, ListValue):
            self._items(message.values, place, 1)
        else:
            self.message(message, place)

    def _items(self, items: Any, place: str, depth: int) -> None:
        if depth > MAX_NESTING:
            raise _FaultError(place, f"nests more than {MAX_NESTING} levels deep")
        self._values += len(items)
        if self._values > MAX_VALUES:
            raise _FaultError(place, f"more than {MAX_VALUES} values; send them as a file")
        for item in items:
            self._value(item, place, depth)

    def _value(self, value: Value, place: str, depth: int) -> None:
        kind = value.WhichOneof("kind")
        if kind == "number_value":
            if not math.isfinite(value.number_value):
                raise _FaultError(place, "holds NaN or an infinity; JSON has no such numbers")
        elif kind == "struct_value":
            self._items(value.struct_value.fields.values(), place, depth + 1)
        elif kind == "list_value":
            self._items(value.list_value.values, place, depth + 1)
