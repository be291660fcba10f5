"""The sections of doors: which are open, and what each door says of its own section.

The registry of doors tells their names and the class of each section; it loads no door of ours
for that.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from gateway.config.checking import NO_DOOR, Origin, check, problem, shown
from gateway.config.sources import Source, Tree

CORES_OWN = "grpc"
"""The door that is part of the core and in no registry."""
DEFAULTS = (CORES_OWN, "http")


def choose(tree: Tree, chosen: Sequence[str]) -> Tree:
    """Open the doors that --transport names, `NAME` or `NAME=ADDRESS`, as they are configured,
    and no other."""
    if not chosen:
        return tree
    configured = tree.get("transports")
    known = configured if isinstance(configured, dict) else {}
    doors: Tree = {}
    for item in chosen:
        name, equals, address = item.partition("=")
        door = doors.get(name) or dict(known.get(name) or {})
        if equals:
            # --transport given twice for one door opens both addresses
            earlier = doors[name].get("address", []) if name in doors else []
            door["address"] = [*earlier, address]
        doors[name] = door
    return {**tree, "transports": doors}


def with_public_names(source: Source) -> Source:
    """A variable of the environment cannot hold the hyphen of a door's name."""
    doors = source.tree.get("transports")
    if not isinstance(doors, dict):
        return source
    public = {name: _public_name(str(name)) for name in doors}
    tree = {**source.tree, "transports": {public[name]: door for name, door in doors.items()}}
    names = {
        (key[0], public.get(key[1], key[1]), *key[2:])
        if key[0] == "transports" and key[1:]
        else key: n
        for key, n in source.names.items()
    }
    return Source(tree, names, source.default_name)


def _public_name(name: str) -> str:
    from transports import public_name

    return name if name == CORES_OWN else public_name(name)


def split(tree: Tree) -> tuple[Tree, Tree]:
    """The tree without the sections of doors that are not the core's own, and those that are
    open."""
    doors = tree.get("transports")
    if not isinstance(doors, dict):
        return tree, {}
    own = {name: door for name, door in doors.items() if name == CORES_OWN}
    others = {n: door for n, door in doors.items() if n != CORES_OWN and door is not None}
    return {**tree, "transports": own}, others


def check_doors(doors: Tree, origin: Origin) -> tuple[dict[str, Any], list[str]]:
    """The section of each, and the problems."""
    sections, problems = {}, []
    for name, given in doors.items():
        sections[name], found = _check_door(name, given, origin)
        problems += found
    return sections, problems


def _check_door(name: str, given: Any, origin: Origin) -> tuple[Any, list[str]]:
    from transports import TransportError, names, options, unknown

    at = ("transports", name)
    known = names()
    if name not in known:
        return None, [problem(at, unknown(name, [CORES_OWN, *known]), origin)]
    try:
        shape = options(name)
    except TransportError as error:
        return None, [problem(at, str(error), origin)]
    if shape is not None:
        return check(shape, given, origin, at)
    if not isinstance(given, Mapping):
        return None, [problem(at, f"{shown(given)}{NO_DOOR}", origin)]
    try:
        plain = json.loads(json.dumps(given, allow_nan=False))
    except (TypeError, ValueError):
        text = "holds a value that JSON has no form for; write it as a text"
        return None, [problem(at, text, origin)]
    return plain, []


def addresses(door: Any) -> list[str]:
    """Where a door listens, as far as its section tells."""
    found = door.get("address") if isinstance(door, Mapping) else getattr(door, "address", None)
    if isinstance(found, str):
        return [found]
    if isinstance(found, list | tuple):
        return [item for item in found if isinstance(item, str)]
    return []
