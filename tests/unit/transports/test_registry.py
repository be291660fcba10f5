"""The registry of doors."""

import pytest

from transports import TRANSPORTS, names, transport


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


def test_names_begin_with_ours() -> None:
    assert names()[: len(TRANSPORTS)] == list(TRANSPORTS)
