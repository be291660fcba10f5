"""The gateway that most of the suite shares."""

from collections.abc import Iterator

import httpx
import pytest

pytest.register_assert_rewrite("tests.contract.everywhere")

from tests.contract.doors import Places  # noqa: E402 - after the registration above
from tests.contract.serving import OPTIONAL, OTHER, serving  # noqa: E402
from tests.contract.wire import Wire  # noqa: E402


@pytest.fixture(scope="session")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Places]:
    """Everything as by default, but for comments on streams twice a second and two extensions."""
    config = {
        "transports": {"http": {"keep_alive": 0.5}},
        "card": {"capabilities": {"extensions": [{"uri": OPTIONAL}, {"uri": OTHER}]}},
    }
    with serving(tmp_path_factory.mktemp("contract"), config) as found:
        yield found


@pytest.fixture
def wire(places: Places) -> Iterator[Wire]:
    """One connection for the whole test."""
    limits = httpx.Limits(max_connections=1)
    with httpx.Client(base_url=places.http, limits=limits, trust_env=False) as http:
        yield Wire(http)
