"""Values that configuration is made of: addresses, secrets, durations and sizes.

Nothing here imports pydantic before a configuration is validated: processes that get theirs
from the supervisor, validated already, never pay for it.
"""

import ipaddress
import os
import re
from pathlib import Path
from typing import Annotated, Any, NamedTuple, NoReturn

_UNITS_OF_TIME = {"ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
_UNITS_OF_SIZE = {"b": 1, "kib": 2**10, "mib": 2**20, "gib": 2**30}
_QUANTITY = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*")


class Address(NamedTuple):
    """Where something listens: `host` and `port`, or the `path` of a Unix socket."""

    host: str = ""
    port: int = 0
    path: str = ""

    @property
    def is_unix(self) -> bool:
        """Whether it is a Unix socket."""
        return bool(self.path)

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach it."""
        if self.path or self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def __str__(self) -> str:
        if self.path:
            return f"unix:{self.path}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Read `HOST:PORT`, `[IPV6]:PORT` or `unix:PATH`; port 0 means any free one. Raises
        `ValueError` with the fix."""
        if text.startswith("unix:"):
            path = text.removeprefix("unix:")
            if path.startswith("//"):
                path = path.removeprefix("//")
            if not path:
                raise ValueError("has no path; write unix:/run/a2a/http.sock")
            return cls(path=path)
        host, colon, port = text.rpartition(":")
        if not colon:
            raise ValueError("has no port; write HOST:PORT, such as 127.0.0.1:8080")
        if not host:
            raise ValueError(
                f"has no host; write 127.0.0.1:{port} for this machine, 0.0.0.0:{port} for all"
            )
        if "/" in host or any(c.isspace() for c in host):
            raise ValueError("is not HOST:PORT, such as 127.0.0.1:8080")
        if not (port.isascii() and port.isdigit() and int(port) < 65536):
            raise ValueError(f"has the port {port!r}; a port is a number from 0 to 65535")
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
        elif ":" in host:
            raise ValueError(f"has a bare IPv6 address; write [{host}]:{port}")
        return cls(host, int(port))


class Secret:
    """A secret that shows itself only by `reveal`: never in a repr, an error or a log."""

    __slots__ = ("_value",)

    def __init__(self, value: str):
        self._value = value

    def reveal(self) -> str:
        """The secret itself."""
        return self._value

    def __repr__(self) -> str:
        return "<secret>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._value == other._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is not pickled")

    @classmethod
    def resolve(cls, given: Any) -> "Secret":
        """From a text, or from where it is kept: `{env: NAME}` or `{file: PATH}`. Raises
        `ValueError` with the fix, never with the secret."""
        match given:
            case Secret():
                return given
            case str():
                value, source = given, "it"
            case {"env": str(name), **rest} if not rest:
                if name not in os.environ:
                    raise ValueError(f"names the environment variable {name}, which is not set")
                value, source = os.environ[name], f"the environment variable {name}"
            case {"file": str(path), **rest} if not rest:
                value, source = _read(path), f"the file {path}"
            case _:
                raise ValueError("must be a text, or {env: NAME}, or {file: PATH}")
        if not value:
            raise ValueError(f"is empty; put the secret into {source}")
        return cls(value)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(cls.resolve)


def _read(path: str) -> str:
    try:
        # editors and `echo` end a file with a line break that is no part of the secret
        return Path(path).read_text("utf-8").rstrip("\r\n")
    except OSError as error:
        raise ValueError(f"names the file {path}, which cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"names the file {path}, which is not UTF-8 text") from None


class _Before:
    """A function that pydantic calls on the raw value, for use in `Annotated`."""

    __slots__ = ("function",)

    def __init__(self, function: Any):
        self.function = function

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        return core_schema.no_info_before_validator_function(self.function, handler(source))


class _Least:
    """The least value allowed, for use in `Annotated`; `above`: it is itself not allowed."""

    __slots__ = ("above", "value")

    def __init__(self, value: float, *, above: bool = False):
        self.value = value
        self.above = above

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def _check(self, value: float | None) -> float | None:
        if value is None or value > self.value or (value == self.value and not self.above):
            return value
        raise ValueError(f"must be {'above' if self.above else 'at least'} {self.value:g}")


def _quantity(units: dict[str, float], example: str) -> Any:
    def read(given: Any) -> Any:
        if not isinstance(given, str):
            return given
        match = _QUANTITY.fullmatch(given)
        if match is None or (match[2] and match[2].lower() not in units):
            raise ValueError(
                f"must be a number, or a number and one of {', '.join(units)}, {example}"
            )
        value = float(match[1]) * units.get(match[2].lower(), 1)
        return int(value) if value.is_integer() else value

    return read


def _addresses(given: Any) -> Any:
    if isinstance(given, str):
        given = [given]
    if (
        not isinstance(given, list | tuple)
        or not given
        or not all(isinstance(i, str) for i in given)
    ):
        raise ValueError("must be HOST:PORT or unix:PATH, or a list of them")
    return tuple(_address(item) for item in given)


def _address(given: Any) -> Any:
    if not isinstance(given, str):
        return given
    try:
        return str(Address.parse(given))
    except ValueError as error:
        raise ValueError(f"{given!r} {error}") from None


Seconds = Annotated[float, _Before(_quantity(_UNITS_OF_TIME, "such as 90s or 1h")), _Least(0)]
"""A duration in seconds; also read from texts such as `500ms`, `10s`, `1h`, `30d`."""
Interval = Annotated[
    float, _Before(_quantity(_UNITS_OF_TIME, "such as 90s or 1h")), _Least(0, above=True)
]
"""A duration above zero."""
Bytes = Annotated[int, _Before(_quantity(_UNITS_OF_SIZE, "such as 16MiB")), _Least(1)]
"""A size in bytes; also read from texts such as `64KiB` and `16MiB`."""
Count = Annotated[int, _Least(0)]
Positive = Annotated[int, _Least(1)]
Addresses = Annotated[tuple[str, ...], _Before(_addresses)]
"""One or more addresses, each as `str(Address)` writes it."""
OneAddress = Annotated[str, _Before(_address)]
Text = Annotated[str, _Before(lambda given: _not_blank(given))]


def _not_blank(given: Any) -> Any:
    if isinstance(given, str) and not given.strip():
        raise ValueError("is empty")
    return given
