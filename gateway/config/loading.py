"""Makes one validated `Config` of all sources; its errors name the key, the value and the fix."""

import difflib
import hashlib
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from gateway.config.model import Config
from gateway.config.sources import (
    FILE_VARIABLE,
    PREFIX,
    Key,
    Source,
    SourceError,
    Tree,
    from_environment,
    from_file,
    from_flags,
    merge,
)
from gateway.config.values import Address

DAY = 86400.0
LONGEST_SOCKET_PATH = 100
"""Bytes; the system allows 107."""
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


class ConfigError(Exception):
    """The configuration is wrong; one line for each problem."""

    def __init__(self, problems: Sequence[str]):
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


def load(
    file: Path | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    flags: Mapping[str, tuple[str, Any]] | None = None,
    transports: Sequence[str] = (),
) -> Config:
    """Read and validate. `transports` are the values of --transport, `NAME` or `NAME=ADDRESS`:
    where there are any, those doors open and no other. Raises `ConfigError`."""
    environment = os.environ if environment is None else environment
    try:
        if file is None and environment.get(FILE_VARIABLE):
            file = Path(environment[FILE_VARIABLE])
        sources = [from_file(file)] if file is not None else []
        sources += [from_environment(environment), from_flags(flags or {})]
        tree: Tree = {}
        for source in sources:
            tree = merge(tree, source.tree)
        tree = _choose_doors(tree, transports)
        _read_card(tree)
    except SourceError as error:
        raise ConfigError([str(error)]) from None
    _fill_defaults(tree, environment)
    config = _validate(tree, sources, transports)
    if problems := list(_refuse_open_doors(config)):
        raise ConfigError(problems)
    return config


def _choose_doors(tree: Tree, chosen: Sequence[str]) -> Tree:
    if not chosen:
        return tree
    configured = tree.get("transports")
    known = configured if isinstance(configured, dict) else {}
    doors: Tree = {}
    for item in chosen:
        name, equals, address = item.partition("=")
        door = dict(known.get(name) or {})
        if equals:
            # --transport given twice for one door opens both addresses
            earlier = doors[name]["address"] if name in doors else []
            door["address"] = [*earlier, address]
        doors[name] = door
    return {**tree, "transports": doors}


def _read_card(tree: Tree) -> None:
    path = tree.get("card")
    if isinstance(path, str):
        tree["card"] = from_file(Path(path)).tree


def _fill_defaults(tree: Tree, environment: Mapping[str, str]) -> None:
    if not tree.get("transports"):
        tree["transports"] = {"grpc": {}, "http": {}}
    if not tree.get("state_dir"):
        tree["state_dir"] = str(default_state_dir(environment))
    else:
        tree["state_dir"] = str(Path(str(tree["state_dir"])).expanduser().absolute())
    link = tree.setdefault("link", {})
    if isinstance(link, dict) and not link.get("address"):
        link["address"] = default_link(Path(tree["state_dir"]), environment)
    if not tree.get("store"):
        tree["store"] = f"sqlite://{Path(tree['state_dir']) / 'tasks.db'}"
    in_memory = tree["store"] == "memory:"
    retention = tree.setdefault("retention", {})
    if isinstance(retention, dict):
        retention.setdefault("finished_age", 3600.0 if in_memory else 30 * DAY)
        retention.setdefault("finished_count", 10000 if in_memory else None)


def default_state_dir(environment: Mapping[str, str]) -> Path:
    """The XDG state home's `a2a-gateway`."""
    home = environment.get("XDG_STATE_HOME") or ""
    # the XDG specification has relative paths ignored
    base = Path(home) if home.startswith("/") else Path.home() / ".local" / "state"
    return base / "a2a-gateway"


def default_link(state_dir: Path, environment: Mapping[str, str]) -> str:
    """A socket in the state directory, which adapters find by the same rule. A path that is too
    long for a socket gives way to one in the user's runtime directory, or in the temporary one."""
    path = state_dir / "link" / "core.sock"
    if len(os.fsencode(path)) > LONGEST_SOCKET_PATH:
        name = hashlib.blake2b(os.fsencode(state_dir), digest_size=8).hexdigest()
        runtime = environment.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()
        path = Path(runtime) / f"a2a-gateway-{os.getuid()}-{name}" / "core.sock"
    return f"unix:{path}"


def _validate(tree: Tree, sources: Sequence[Source], transports: Sequence[str]) -> Config:
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(Config).validate_python(tree)
    except ValidationError as error:
        problems = [
            _problem(detail, tree, sources, bool(transports))
            for detail in error.errors(include_url=False)
        ]
    # outside of the handler: the original error shows values, which may be secret
    raise ConfigError(list(dict.fromkeys(problems)))


def _problem(detail: Any, tree: Tree, sources: Sequence[Source], chosen: bool) -> str:
    location = tuple(str(part) for part in detail["loc"])
    key = _without_type_names(location, tree)
    dotted = ".".join(key)
    source = _source_of(key, sources, chosen)
    kind = detail["type"]
    if kind in ("unexpected_keyword_argument", "extra_forbidden"):
        by_variable = source == PREFIX + "__".join(key).upper()
        name = source if by_variable else dotted
        text = f"{name}: there is no such key{_suggest(key, by_variable)}"
    else:
        text = f"{dotted}: {_shown(key, detail)}{_reason(key, detail)}"
    return f"{text} ({source})" if source and source not in text else text


def _reason(key: Key, detail: Any) -> str:
    kind = detail["type"]
    if kind == "dataclass_type" and key[:-1] == ("transports",):
        return "is neither an address, such as 127.0.0.1:8080, nor a section with keys"
    if kind == "value_error":
        return str(detail["ctx"]["error"])
    if kind == "literal_error":
        return f"is not one of {detail['ctx']['expected']}"
    return _REASONS.get(kind) or f"is wrong: {detail['msg']}"


def _shown(key: Key, detail: Any) -> str:
    value = detail["input"]
    if key[-1] == "address":
        return ""  # the reason names the one of several that is wrong
    if detail["type"].startswith("missing") or key[0] == "access" or key[-1] in _SECRET_KEYS:
        return ""
    if isinstance(value, str | int | float | bool):
        text = repr(value)
        return f"{text if len(text) <= 80 else text[:79] + '…'} "
    return ""


def _without_type_names(location: Key, tree: Tree) -> Key:
    """Pydantic puts names of union members between the keys; a user did not write those."""
    key: list[str] = []
    hints: Any = Config
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


def _source_of(key: Key, sources: Sequence[Source], chosen: bool) -> str:
    if chosen and key[:1] == ("transports",) and len(key) < 4:
        return "--transport"
    for source in reversed(sources):
        if _holds(source.tree, key):
            return source.name_of(key)
    return ""


def _holds(tree: Any, key: Key) -> bool:
    for part in key:
        if isinstance(tree, dict) and part in tree:
            tree = tree[part]
        elif isinstance(tree, list) and part.isdigit() and int(part) < len(tree):
            tree = tree[int(part)]
        else:
            return False
    return True


def _suggest(key: Key, as_variable: bool) -> str:
    hint: Any = Config
    for part in key[:-1]:
        hint = _strip(hint)
        if isinstance(hint, type) and is_dataclass(hint):
            hint = get_type_hints(hint).get(part)
        elif get_origin(hint) is tuple:
            hint = get_args(hint)[0]
    hint = _strip(hint)
    if not (isinstance(hint, type) and is_dataclass(hint)):
        return ""
    known = [f.name for f in fields(hint)]
    if close := difflib.get_close_matches(key[-1].replace("-", "_"), known, 1, 0.6):
        parts = [*key[:-1], close[0]]
        name = PREFIX + "__".join(parts).upper() if as_variable else ".".join(parts)
        return f"; did you mean {name}?"
    return f"; known are {', '.join(known)}"


def _refuse_open_doors(config: Config) -> Iterator[str]:
    doors = config.transports
    if not Address.parse(config.link.address).is_local:
        yield (
            f"link.address: {config.link.address} can be reached from other machines, and the link "
            "is not encrypted; use a Unix socket, or 127.0.0.1"
        )
    if doors.grpc is None and doors.http is None:
        yield "transports: every door is off; name one, such as --transport http=127.0.0.1:41242"
    if config.access.is_configured or config.access.allow_anonymous:
        return
    for name, door in (("grpc", doors.grpc), ("http", doors.http)):
        for address in door.address if door else ():
            if not Address.parse(address).is_local:
                yield (
                    f"transports.{name}.address: {address} can be reached from other machines, and "
                    "no access is configured, so anybody there could use the agent; configure "
                    "access.tokens, access.api_keys or access.basic, or listen on 127.0.0.1, or "
                    "say access.allow_anonymous: true"
                )
