"""Hands a validated configuration to another process of the gateway, and takes it there.

The receiving end needs no validation and no pydantic. The text holds revealed secrets: it goes
through an inherited descriptor and nowhere else.
"""

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

from gateway.config.model import Config
from gateway.config.values import Secret

T = TypeVar("T")


def to_wire(config: Config) -> str:
    """As one line of JSON, secrets revealed."""
    return json.dumps(_plain(config), separators=(",", ":"))


def secrets_of(value: Any) -> list[str]:
    """Every secret of a configuration, for the logs to leave out."""
    if isinstance(value, Secret):
        return [value.reveal()]
    if is_dataclass(value):
        value = [getattr(value, f.name) for f in fields(value)]
    elif isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return [secret for item in value for secret in secrets_of(item)]
    return []


def from_wire(text: str) -> Config:
    """Back from `to_wire`."""
    config = _build(Config, json.loads(text))
    assert isinstance(config, Config)
    return config


def from_plain(shape: type[T], plain: Mapping[str, Any]) -> T:
    """One section out of what `from_wire` left plain: a door's, which only its process loads."""
    built: T = _build(shape, plain)
    return built


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Secret):
        return value.reveal()
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value


def _build(hint: Any, value: Any) -> Any:
    while get_origin(hint) in (Annotated, Union, UnionType):
        if value is None:
            return None
        hint = next(arg for arg in get_args(hint) if arg is not type(None))
    if get_origin(hint) is tuple:
        return tuple(_build(get_args(hint)[0], item) for item in value)
    if isinstance(hint, type) and is_dataclass(hint):
        hints = get_type_hints(hint)
        return hint(**{name: _build(hints[name], item) for name, item in value.items()})
    if hint is Secret or hint is Path:
        return hint(value)
    return value
