"""The registry of doors."""

import sys

import pytest

from transports import TRANSPORTS, TransportError, names, public_name, transport


def test_every_door_of_ours_loads() -> None:
    """S36: public name -> class, imported on choice."""
    for name in TRANSPORTS:
        door = transport(name)
        assert callable(door)
        assert hasattr(door, "start")
        assert hasattr(door, "stop")


def test_an_unknown_door_names_those_there_are() -> None:
    with pytest.raises(LookupError, match="no door 'carrier-pigeon'; installed are http"):
        transport("carrier-pigeon")


def test_a_library_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """S39: what it needs, and how to get it."""
    monkeypatch.setitem(sys.modules, "uvicorn.config", None)
    monkeypatch.delitem(sys.modules, "transports.http.protocol", raising=False)
    monkeypatch.delitem(sys.modules, "transports.http.server", raising=False)
    words = (
        "the door http needs the module uvicorn.config, .*install it by: pip install a2a-gateway$"
    )
    with pytest.raises(TransportError, match=words):
        transport("http")


def test_variables_cannot_hold_hyphens(monkeypatch: pytest.MonkeyPatch) -> None:
    """The public name is found all the same."""
    monkeypatch.setitem(TRANSPORTS, "redis-streams", "transports.http.server:HttpTransport")
    assert public_name("redis_streams") == "redis-streams"
    assert public_name("no_such") == "no_such"


def test_names_begin_with_ours() -> None:
    assert names()[: len(TRANSPORTS)] == list(TRANSPORTS)
