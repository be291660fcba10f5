"""The doors. Each translates bytes into calls of A2AService and answers back into bytes.

The registry: public name -> "module:Class". Another distribution adds its door with an entry
point in the group `a2a_gateway.transports`; a name of ours cannot be taken over. What a door has
to offer is in docs/doors.md.

The package of a door of ours holds its `Options`, the section `transports.NAME` of the
configuration, so that reading a configuration loads no server. A class of others has them as its
attribute `Options`, or has none and gets the section as a mapping, which it checks itself.
"""

import difflib
from collections.abc import Iterator
from importlib import import_module
from typing import Any

ENTRY_POINTS = "a2a_gateway.transports"
DISTRIBUTION = "a2a-gateway"

TRANSPORTS: dict[str, str] = {
    "http": "transports.http.server:HttpTransport",
}


class TransportError(LookupError):
    """A door cannot be had; the text says why, and what to do."""


def names() -> list[str]:
    """Public names of all doors that are installed, ours first."""
    others = sorted({point.name for point in _entry_points()})
    return [*TRANSPORTS, *(name for name in others if name not in TRANSPORTS)]


def public_name(name: str) -> str:
    """The name of a door as the registry has it: variables of the environment cannot hold a
    hyphen. A name that is not known stays as it is."""
    if name in TRANSPORTS or "_" not in name:
        return name
    hyphened = name.replace("_", "-")
    return hyphened if name not in names() and hyphened in names() else name


def transport(name: str) -> Any:
    """The door's class, imported now. Raises `TransportError`: there is no such door, and those
    that there are; or something that it needs is not installed, and how to get it."""
    if name in TRANSPORTS:
        module, _, attribute = TRANSPORTS[name].partition(":")
        try:
            return getattr(import_module(module), attribute)
        except ImportError as error:
            raise TransportError(_missing(name, error, DISTRIBUTION)) from error
    for point in _entry_points(name):
        try:
            return point.load()
        except ImportError as error:
            distribution = point.dist.name if point.dist else ""
            raise TransportError(_missing(name, error, distribution)) from error
        except Exception as error:
            raise TransportError(
                f"{point.value}, the door {name}, cannot be imported: "
                f"{type(error).__name__}: {error}"
            ) from error
    raise TransportError(unknown(name, names()))


def options(name: str) -> type | None:
    """The dataclass of the door's section; None: it takes any mapping. Raises `TransportError`."""
    if name in TRANSPORTS:
        package = TRANSPORTS[name].partition(":")[0].rpartition(".")[0]
        found: type = import_module(package).Options
        return found
    return getattr(transport(name), "Options", None)


def unknown(name: str, known: list[str]) -> str:
    """Words for a door that there is not."""
    if name == "stdio":
        return "stdio is no door to open beforehand: its client starts a2a-gateway stdio"
    listed = ", ".join(known)
    if close := difflib.get_close_matches(name, known, 1, 0.6):
        return f"there is no door {name!r}; did you mean {close[0]}? Installed are {listed}"
    return f"there is no door {name!r}; installed are {listed}"


def _entry_points(name: str | None = None) -> Iterator[Any]:
    # a third of the time that reading a configuration takes, and rarely needed
    from importlib.metadata import entry_points

    found = entry_points(group=ENTRY_POINTS)
    yield from (point for point in found if name is None or point.name == name)


def _missing(name: str, error: ImportError, distribution: str) -> str:
    lacks = f"the module {error.name}" if error.name else str(error)
    wanted = distribution
    if distribution == DISTRIBUTION and name in _extras():
        wanted = f"'{distribution}[{name}]'"
    how = f"; install it by: pip install {wanted}" if wanted else "; install it"
    return f"the door {name} needs {lacks}, which cannot be imported{how}"


def _extras() -> list[str]:
    from importlib.metadata import PackageNotFoundError, metadata

    try:
        return metadata(DISTRIBUTION).get_all("Provides-Extra") or []
    except PackageNotFoundError:
        return []
