"""Checks plain values against a section's dataclass; its problems name the key, the value, where
it came from and the fix."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from types import UnionType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin, get_type_hints

from gateway.config.sources import PREFIX, Key, Source

_SECRET_KEYS = frozenset({"token", "key", "password", "secret"})
_REASONS = {
    "bool_parsing": "is neither true nor false",
    "bool_type": "is neither true nor false",
    "float_parsing": "is not a number",
    "float_type": "is not a number",
    "int_from_float": "is not a whole number",
    "int_parsing": "is not a whole number",
    "int_type": "is not a whole number",
    "string_type": "is not a text",
    "path_type": "is not a path",
    "tuple_type": "is not a list",
    "dict_type": "is not a section with keys",
    "dataclass_type": "is not a section with keys",
    "missing": "is missing; add it",
    "missing_argument": "is missing; add it",
    "missing_keyword_only_argument": "is missing; add it",
}
NO_DOOR = "is neither an address, such as 127.0.0.1:8080, nor a section with keys"


class Origin(NamedTuple):
    """Where values came from."""

    sources: Sequence[Source]
    chosen: Sequence[str] = ()
    """Doors, by --transport: `NAME` or `NAME=ADDRESS`."""

    def of(self, key: Key) -> str:
        """What the user knows the source of this key by; empty for a default."""
        if self.chosen and key[0] == "transports":
            flags = tuple(item.partition("=")[:2] for item in self.chosen)
            if len(key) < 3 or (key[2] == "address" and (key[1], "=") in flags):
                return "--transport"
        for source in reversed(self.sources):
            if _holds(source.tree, key):
                return source.name_of(key)
        return ""


def check(shape: type, value: Any, origin: Origin, at: Key = ()) -> tuple[Any, list[str]]:
    """The object of class `shape` that stands at the key `at`, and the problems; one of the two
    is empty."""
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(shape).validate_python(value), []
    except ValidationError as error:
        # texts alone: the original error shows values, which may be secret
        problems = [
            _problem(detail, shape, origin, at) for detail in error.errors(include_url=False)
        ]
    return None, list(dict.fromkeys(problems))


def problem(key: Key, text: str, origin: Origin) -> str:
    """One line about a key."""
    source = origin.of(key)
    line = f"{'.'.join(key)}: {text}"
    return f"{line} ({source})" if source and source not in line else line


def _problem(detail: Any, shape: type, origin: Origin, at: Key) -> str:
    below = _without_type_names(tuple(str(part) for part in detail["loc"]), shape)
    key = (*at, *below)
    if detail["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
        by_variable = origin.of(key) == _variable(key)
        text = f"there is no such key{_suggest(shape, at, below, by_variable)}"
        return f"{origin.of(key)}: {text}" if by_variable else problem(key, text, origin)
    return problem(key, f"{_shown(key, detail)}{_reason(key, detail)}", origin)


def _variable(key: Sequence[str]) -> str:
    """The variable of the environment that sets a key."""
    return PREFIX + "__".join(key).replace("-", "_").upper()


def _reason(key: Key, detail: Any) -> str:
    kind = detail["type"]
    if kind == "dataclass_type" and key[:-1] == ("transports",):
        return NO_DOOR
    if kind == "value_error":
        return str(detail["ctx"]["error"])
    if kind == "literal_error":
        return f"is not one of {detail['ctx']['expected']}"
    return _REASONS.get(kind) or f"is wrong: {detail['msg']}"


def _shown(key: Key, detail: Any) -> str:
    if key[-1] == "address":
        return ""  # the reason names the one of several that is wrong
    if detail["type"].startswith("missing") or key[0] == "access" or key[-1] in _SECRET_KEYS:
        return ""
    return shown(detail["input"])


def shown(value: Any) -> str:
    """A plain value, cut short, and a space; nothing for others."""
    if isinstance(value, str | int | float | bool):
        text = repr(value)
        return f"{text if len(text) <= 80 else text[:79] + '…'} "
    return ""


def _without_type_names(location: Key, shape: Any) -> Key:
    """Pydantic puts names of union members between the keys; a user did not write those."""
    key: list[str] = []
    hints = shape
    for part in location:
        hints = _strip(hints)
        if isinstance(hints, type) and is_dataclass(hints):
            key.append(part)
            hints = get_type_hints(hints, include_extras=False).get(part)
        elif get_origin(hints) is tuple:
            key.append(part)
            hints = get_args(hints)[0]
        elif not key:
            key.append(part)
    return tuple(key)


def _strip(hint: Any) -> Any:
    while get_origin(hint) in (Annotated, Union, UnionType):
        members = [arg for arg in get_args(hint) if arg is not type(None)]
        hint = members[0]
    return hint


def _holds(tree: Any, key: Key) -> bool:
    for part in key:
        if isinstance(tree, Mapping) and part in tree:
            tree = tree[part]
        elif isinstance(tree, list) and part.isdigit() and int(part) < len(tree):
            tree = tree[int(part)]
        else:
            return False
    return True


def _suggest(shape: Any, at: Key, below: Key, as_variable: bool) -> str:
    hint = shape
    for part in below[:-1]:
        hint = _strip(hint)
        if isinstance(hint, type) and is_dataclass(hint):
            hint = get_type_hints(hint).get(part)
        elif get_origin(hint) is tuple:
            hint = get_args(hint)[0]
    hint = _strip(hint)
    if not (isinstance(hint, type) and is_dataclass(hint)):
        return ""
    known = [f.name for f in fields(hint)]
    if close := difflib.get_close_matches(below[-1].replace("-", "_"), known, 1, 0.6):
        parts = [*at, *below[:-1], close[0]]
        return f"; did you mean {_variable(parts) if as_variable else '.'.join(parts)}?"
    for name in known if as_variable else ():
        if (rest := below[-1].removeprefix(f"{name}_")) != below[-1]:
            variable = _variable([*at, *below[:-1], name, rest])
            return f"; two underscores stand between a section and its key: {variable}"
    return f"; known are {', '.join(known)}"
