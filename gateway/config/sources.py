"""Where configuration comes from: a file, the environment, flags; later ones win.

Each source becomes a tree of plain values, and remembers the name under which the user gave
each of them, so that an error can point to it.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from gateway.family import CHANNEL_VARIABLE, CLIENT_VARIABLES
from gateway.lock import LOCK_VARIABLE

PREFIX = "A2A_GATEWAY_"
FILE_VARIABLE = "A2A_GATEWAY_CONFIG"

# Kubernetes sets these for a Service that is called a2a-gateway; they are not meant for us
_SERVICE_LINK = re.compile(
    r"(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT|PORT_\d+_(TCP|UDP|SCTP)(_\w+)?)"
)

_NOT_OURS = {FILE_VARIABLE, CHANNEL_VARIABLE, LOCK_VARIABLE, *CLIENT_VARIABLES}

Tree = dict[str, Any]
Key = tuple[str, ...]


class SourceError(Exception):
    """A source cannot be read; the text names it and the fix."""


class Source(NamedTuple):
    """Values by section and key, and the name that the user knows each by."""

    tree: Tree
    names: Mapping[Key, str]
    default_name: str

    def name_of(self, key: Key) -> str:
        """What the user called this key, or the nearest section above it."""
        for end in range(len(key), 0, -1):
            if key[:end] in self.names:
                return self.names[key[:end]]
        return self.default_name


def from_file(path: Path) -> Source:
    """Read YAML, and with it JSON. Paths in the file are relative to its folder."""
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise SourceError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SourceError(f"{path}: is not UTF-8 text") from None
    tree = _parse_yaml(text, str(path))
    if tree is None:
        tree = {}
    if not isinstance(tree, dict):
        raise SourceError(f"{path}: must hold sections and keys, such as `store: 'memory:'`")
    tree = _expand_shorthands(tree)
    _anchor_paths(tree, path.parent)
    return Source(tree, {}, str(path))


def from_environment(environment: Mapping[str, str]) -> Source:
    """Read `A2A_GATEWAY_SECTION__KEY`. A value that starts with a bracket is YAML; `null` and
    nothing at all mean unset."""
    tree: Tree = {}
    names: dict[Key, str] = {}
    for variable in sorted(environment):
        rest = variable.removeprefix(PREFIX)
        if rest == variable or variable in _NOT_OURS:
            continue
        if _SERVICE_LINK.fullmatch(rest):
            continue
        key = tuple(rest.lower().split("__"))
        put(tree, key, _from_text(environment[variable], variable))
        # at once: the next variable may set a key inside what this one wrote short
        _expand_shorthands(tree)
        names[key] = variable
    return Source(tree, names, "the environment")


def from_flags(flags: Mapping[str, tuple[str, Any]]) -> Source:
    """From `{"agent.spec": ("--agent", "module:attribute")}`; None is a flag not given."""
    tree: Tree = {}
    names: dict[Key, str] = {}
    for dotted, (flag, value) in flags.items():
        if value is not None:
            key = tuple(dotted.split("."))
            put(tree, key, value)
            names[key] = flag
    return Source(_expand_shorthands(tree), names, "the command line")


def merge(lower: Tree, higher: Tree) -> Tree:
    """Sections are joined key by key; everything else of `higher` replaces."""
    merged = dict(lower)
    for name, value in higher.items():
        below = merged.get(name)
        if isinstance(below, dict) and isinstance(value, dict) and name != "card":
            value = merge(below, value)
        merged[name] = value
    return merged


def put(tree: Tree, key: Key, value: Any) -> None:
    """Set one value, making the sections above it."""
    for name in key[:-1]:
        below = tree.get(name)
        if not isinstance(below, dict):
            below = tree[name] = {}
        tree = below
    tree[key[-1]] = value


def _from_text(text: str, variable: str) -> Any:
    if text.lstrip()[:1] in ("{", "["):
        return _parse_yaml(text, variable)
    return None if text.strip().lower() in ("", "null", "none") else text


def _expand_shorthands(tree: Tree) -> Tree:
    """`http: ADDRESS`, `http: true`, `http: false` and `agent: SPEC`, written out."""
    if isinstance(tree.get("agent"), str):
        tree["agent"] = {"spec": tree["agent"]}
    transports = tree.get("transports")
    if isinstance(transports, list):
        transports = tree["transports"] = {str(name): True for name in transports}
    if isinstance(transports, dict):
        for name, door in transports.items():
            if isinstance(door, str) and door.lower() in ("true", "false"):
                door = door.lower() == "true"
            if isinstance(door, str):
                transports[name] = {"address": door}
            elif isinstance(door, bool):
                transports[name] = {} if door else None
    return tree


def _anchor_paths(tree: Tree, folder: Path) -> None:
    for name in ("card", "state_dir"):
        if isinstance(tree.get(name), str):
            tree[name] = str(folder / tree[name])


def _parse_yaml(text: str, name: str) -> Any:
    import yaml

    try:
        return yaml.load(text, _loader())  # noqa: S506 -- a SafeLoader
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        # the text itself may hold secrets and is not shown
        reason = getattr(error, "problem", None) or "not YAML"
        raise SourceError(f"{name}{where}: is not valid YAML: {reason}") from None


def _loader() -> Any:
    import yaml

    class Loader(yaml.SafeLoader):
        """A key given twice is a mistake, of which YAML would keep the last."""

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            seen: set[Any] = set()
            for key_node, _ in node.value:
                key = self.construct_object(key_node, deep=True)
                if isinstance(key, str) and key in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"the key {key!r} is given twice", key_node.start_mark
                    )
                if isinstance(key, str):
                    seen.add(key)
            mapping: dict[Any, Any] = super().construct_mapping(node, deep)
            return mapping

    return Loader
