"""The gateways that the interop tests talk to, as processes."""

from collections.abc import Iterator

import pytest

from tests.processes import Addresses, gateway

DIALOGUE = "tests.doubles.dialogue:DialogueExecutor"
REQUIRED_EXTENSION = "urn:example:required"
ALICES_TOKEN = "token-of-alice"
BOBS_KEY = "key-of-bob"


@pytest.fixture(scope="session")
def dialogue(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Addresses]:
    """The gateway with the dialogue agent, everything else as by default."""
    with gateway(DIALOGUE, tmp_path_factory.mktemp("dialogue")) as server:
        yield server.addresses


@pytest.fixture(scope="session")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Addresses]:
    """The same with a card that demands an extension."""
    extension = {"uri": REQUIRED_EXTENSION, "required": True}
    config = {"card": {"capabilities": {"extensions": [extension]}}}
    with gateway(DIALOGUE, tmp_path_factory.mktemp("extended"), config) as server:
        yield server.addresses


@pytest.fixture(scope="session")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Addresses]:
    """The same for callers with credentials: alice has a token, bob an API key."""
    config = {
        "access": {
            "tokens": [{"caller": "alice", "token": ALICES_TOKEN}],
            "api_keys": [{"caller": "bob", "key": BOBS_KEY}],
        }
    }
    with gateway(DIALOGUE, tmp_path_factory.mktemp("guarded"), config) as server:
        yield server.addresses
