"""The doors. Each translates bytes into calls of A2AService and answers back into bytes.

The registry: public name -> "module:Class". Another distribution adds its door with an entry
point in the group `a2a_gateway.transports`; a name of ours cannot be taken over.
"""

from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

ENTRY_POINTS = "a2a_gateway.transports"

TRANSPORTS: dict[str, str] = {
    "http": "transports.http.server:HttpTransport",
}


def names() -> list[str]:
    """Public names of all doors that are installed, ours first."""
    others = sorted(point.name for point in entry_points(group=ENTRY_POINTS))
    return [*TRANSPORTS, *(name for name in others if name not in TRANSPORTS)]


def transport(name: str) -> Any:
    """The door's class, imported now; raises `LookupError` that names the doors there are."""
    if name in TRANSPORTS:
        module, _, attribute = TRANSPORTS[name].partition(":")
        return getattr(import_module(module), attribute)
    for point in entry_points(group=ENTRY_POINTS, name=name):
        return point.load()
    raise LookupError(f"transport {name!r} is not known; choose one of {', '.join(names())}")
