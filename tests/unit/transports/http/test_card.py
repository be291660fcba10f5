"""The agent card and the health page."""

import pytest

from gateway.pb import AgentCapabilities, AgentCard
from tests.conftest import run
from tests.doubles.core import Card, FakeCore
from tests.unit.transports.http.serving import echo, served

URL = "/.well-known/agent-card.json"
CARD = AgentCard(
    name="agent",
    version="1",
    capabilities=AgentCapabilities(streaming=True, push_notifications=False),
)


def test_the_card() -> None:
    """S1, S10, S19, S27, S28, R32: public, cacheable, for every origin; required fields and set
    capabilities are there even where they are empty or false."""

    async def main() -> None:
        async with served(FakeCore(echo, card=CARD)) as door:
            response = await door.http.get(URL)
            assert response.status_code == 200
            assert response.headers["content-type"] == "application/json"
            assert response.headers["cache-control"] == "public, max-age=60"
            assert response.headers["access-control-allow-origin"] == "*"
            assert response.headers["last-modified"] == "Thu, 01 Jan 2026 00:00:00 GMT"
            assert response.headers["etag"].startswith('"')
            assert response.json() == {
                "name": "agent",
                "description": "",
                "supportedInterfaces": [],
                "version": "1",
                "capabilities": {"streaming": True, "pushNotifications": False},
                "defaultInputModes": [],
                "defaultOutputModes": [],
                "skills": [],
            }
            head = await door.http.head(URL)
            assert (head.status_code, head.content) == (200, b"")
            assert head.headers["content-length"] == response.headers["content-length"]
            assert not door.core.calls

    run(main())


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"if-none-match": "{tag}"}, 304),
        ({"if-none-match": 'W/{tag}, "b"'}, 304),
        ({"if-none-match": '"a" , {tag}'}, 304),
        ({"if-none-match": "*"}, 304),
        ({"if-none-match": '"other"'}, 200),
        ({"if-modified-since": "Thu, 01 Jan 2026 00:00:00 GMT"}, 304),
        ({"if-modified-since": "Wed, 31 Dec 2025 23:59:59 GMT"}, 200),
        ({"if-modified-since": "whenever"}, 200),
        ({"if-none-match": '"a"', "if-modified-since": "Thu, 01 Jan 2026 00:00:00 GMT"}, 200),
    ],
)
def test_conditional_requests(headers: dict[str, str], status: int) -> None:
    """S11, R32; RFC 9110 s13."""

    async def main() -> None:
        async with served(FakeCore(echo, card=CARD)) as door:
            tag = (await door.http.get(URL)).headers["etag"]
            sent = {name: value.replace("{tag}", tag) for name, value in headers.items()}
            response = await door.http.get(URL, headers=sent)
            assert response.status_code == status
            assert response.headers["etag"] == tag
            assert (response.content == b"") == (status == 304)
            assert response.headers["cache-control"] == "public, max-age=60"

    run(main())


def test_the_tag_follows_the_content() -> None:
    """AC05: a new tag after a change; the same one on each replica."""

    async def main() -> None:
        async with (
            served(FakeCore(echo, card=CARD)) as one,
            served(FakeCore(echo, card=CARD)) as two,
        ):
            tags = [(await door.http.get(URL)).headers["etag"] for door in (one, two)]
            assert tags[0] == tags[1]
            changed = AgentCard(name="other").SerializeToString()
            one.core.card = Card(2, changed, 1_767_225_700.0)
            response = await one.http.get(URL, headers={"if-none-match": tags[0]})
            assert response.status_code == 200
            assert response.json()["name"] == "other"
            assert response.headers["last-modified"] == "Thu, 01 Jan 2026 00:01:40 GMT"

    run(main())


def test_preflight_and_other_methods() -> None:
    """S27: GET and OPTIONS for other origins."""

    async def main() -> None:
        async with served(FakeCore(echo, card=CARD)) as door:
            response = await door.http.options(URL)
            assert response.status_code == 204
            assert response.headers["access-control-allow-origin"] == "*"
            assert "GET" in response.headers["access-control-allow-methods"]
            response = await door.http.post(URL)
            assert (response.status_code, response.headers["allow"]) == (405, "GET, HEAD, OPTIONS")

    run(main())


def test_before_the_core_has_sent_a_card() -> None:
    async def main() -> None:
        core = FakeCore(echo)
        core.card = Card(0, b"", 0.0)
        async with served(core) as door:
            response = await door.http.get(URL)
            assert (response.status_code, response.headers["retry-after"]) == (503, "1")

    run(main())


def test_health() -> None:
    """S32: 200 while the core can be reached, 503 while not; without credentials (D20)."""

    async def main() -> None:
        async with served(FakeCore(echo)) as door:
            response = await door.http.get("/health")
            assert response.status_code == 200
            assert response.json() == {"status": "healthy"}
            door.core.is_ready = False
            door.core.reason = "the agent cannot be reached"
            response = await door.http.get("/health")
            assert response.status_code == 503
            assert response.json() == {"status": "unavailable", "reason": door.core.reason}
            # where the link has an end, nobody learns where it had led
            door.core.is_linked = False
            response = await door.http.get("/health")
            assert response.json()["reason"] == "the core cannot be reached"
            assert (await door.http.head("/health")).status_code == 503
            assert (await door.http.post("/health")).status_code == 405

    run(main())
