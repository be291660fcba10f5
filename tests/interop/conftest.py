"""The servers that the interop tests talk to: the gateway, as processes."""

import json
from collections.abc import Iterator, Sequence

import pytest

from tests.processes import Addresses, python, running

DIALOGUE = "tests.doubles.dialogue:DialogueExecutor"


def _sdk_ready(lines: Sequence[str]) -> Addresses | None:
    return Addresses(**json.loads(lines[-1])) if lines[-1].startswith("{") else None


@pytest.fixture(scope="session")
def dialogue() -> Iterator[Addresses]:
    """The gateway with the dialogue agent; A2A_INTEROP_PEER=sdk puts the SDK's server there."""
    argv = python("tests.interop.sdk_server", DIALOGUE)
    with running(argv, _sdk_ready) as server:
        yield server.addresses
