"""The agent card over HTTP and at the link, and what it promises (A2A 8)."""

import time
from collections.abc import Iterator
from email.utils import formatdate, parsedate_to_datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.call import Call
from gateway.pb import AgentCard
from tests.conftest import run
from tests.contract.doors import Places
from tests.contract.everywhere import everywhere
from tests.contract.serving import OPTIONAL, OTHER, serving
from tests.contract.talking import Talk, request, state
from transports.core import CoreClient
from transports.grpc_client import GrpcClient
from transports.http.client import Binding, HttpClient
from transports.jsonrpc import codec

CARD = "/.well-known/agent-card.json"


@pytest.fixture
def http(places: Places) -> Iterator[httpx.Client]:
    """A client without any header of ours."""
    with httpx.Client(base_url=places.http, trust_env=False) as client:
        yield client


def test_the_card(http: httpx.Client) -> None:
    """S1, S16, S20, D2, R8: at the well-known path, without a version, a credential or a redirect,
    and valid by the protocol's own schema."""
    answer = http.get(CARD)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    card = codec.decode(AgentCard, answer.json())
    assert codec.encode(card) == answer.json()
    # of 0.3 alone: a card that had them would be refused by the kit (D2)
    assert not answer.json().keys() & {"url", "protocolVersion", "preferredTransport"}
    for field in ("name", "description", "version", "skills", "defaultInputModes"):
        assert answer.json()[field], field
    assert answer.json()["capabilities"]["streaming"] is True


def test_its_interfaces_are_open(places: Places, http: httpx.Client) -> None:
    """S29, S35, S44, D12, R3, R4, R34: one entry for each open door, JSON-RPC first, and each is
    served at exactly the URL that it names."""
    entries = http.get(CARD).json()["supportedInterfaces"]
    assert [e["protocolBinding"] for e in entries] == ["JSONRPC", "HTTP+JSON", "GRPC"]
    assert {e["protocolVersion"] for e in entries} == {"1.0"}
    urls = {e["protocolBinding"]: e["url"] for e in entries}
    assert urls["JSONRPC"] == f"{places.http}/"
    assert urls["HTTP+JSON"] == places.http
    assert urls["GRPC"] == places.grpc

    async def main() -> None:
        bindings: tuple[tuple[str, Binding], ...] = (("JSONRPC", "jsonrpc"), ("HTTP+JSON", "rest"))
        for name, binding in bindings:
            url = urls[name]
            async with HttpClient(url, binding) as http_client:
                answer: Any = await http_client.unary("SendMessage", request("x"))
                assert state(answer.task) == "COMPLETED"
        client = GrpcClient(urls["GRPC"])
        try:
            call = Call("grpc", {"a2a-version": "1.0"})
            sent: Any = (await client.unary("SendMessage", request("x"), call)).message
            assert state(sent.task) == "COMPLETED"
        finally:
            await client.stop()

    run(main())


def test_its_capabilities_are_true(places: Places, http: httpx.Client) -> None:
    """S4, S29, R13: what it declares is served, and what it leaves out is refused."""
    capabilities = http.get(CARD).json()["capabilities"]
    assert [e["uri"] for e in capabilities["extensions"]] == [OPTIONAL, OTHER]
    assert not capabilities.get("pushNotifications")
    assert not capabilities.get("extendedAgentCard")

    async def behaviour(caller: Talk) -> int:
        return len(await caller.stream("burst 3"))

    assert everywhere(places, behaviour) == 6


def test_the_link_has_the_same(places: Places, http: httpx.Client) -> None:
    """S20, S43, R2: every adapter is told the card that is served."""

    async def main() -> Any:
        client = CoreClient(places.link, door="contract", secret=places.secret.encode())
        await client.start()
        try:
            assert client.card is not None
            return codec.encode(AgentCard.FromString(client.card.agent_card))
        finally:
            await client.stop(0)

    assert run(main()) == http.get(CARD).json()


def test_caching(http: httpx.Client) -> None:
    """S10, S19, R32: a tag, a date and a minute to live; the tag covers the content."""
    first, second = http.get(CARD), http.get(CARD)
    assert first.headers["cache-control"] == "public, max-age=60"
    assert first.headers["etag"] == second.headers["etag"]
    assert first.headers["etag"].startswith('"')
    modified = parsedate_to_datetime(first.headers["last-modified"]).timestamp()
    assert modified <= time.time()


def test_conditions(http: httpx.Client) -> None:
    """S11, S19, R32: 304 without a body where the client has it already, by tag or by date; the
    tag decides where both are given."""
    full = http.get(CARD)
    tag, modified = full.headers["etag"], full.headers["last-modified"]
    past = formatdate(0, usegmt=True)
    known: list[dict[str, str]] = [
        {"if-none-match": tag},
        {"if-none-match": f"W/{tag}"},
        {"if-none-match": f'"other", {tag}'},
        {"if-none-match": "*"},
        {"if-modified-since": modified},
        {"if-none-match": tag, "if-modified-since": past},
    ]
    unknown: list[dict[str, str]] = [
        {"if-none-match": '"other"'},
        {"if-none-match": '"other"', "if-modified-since": modified},
        {"if-modified-since": past},
        {"if-modified-since": "yesterday"},
        {"if-none-match": ""},
    ]
    for headers in known:
        answer = http.get(CARD, headers=headers)
        assert (answer.status_code, answer.content) == (304, b""), headers
        assert answer.headers["etag"] == tag
        assert answer.headers["cache-control"] == full.headers["cache-control"]
    for headers in unknown:
        answer = http.get(CARD, headers=headers)
        assert (answer.status_code, answer.content) == (200, full.content), headers


def test_other_origins(http: httpx.Client) -> None:
    """S27: a page of any origin may read the card; GET, HEAD and OPTIONS alone."""
    answer = http.get(CARD, headers={"origin": "https://elsewhere.example"})
    assert answer.headers["access-control-allow-origin"] == "*"
    asked = http.options(
        CARD,
        headers={
            "origin": "https://elsewhere.example",
            "access-control-request-method": "GET",
            "access-control-request-headers": "a2a-version",
        },
    )
    assert asked.status_code == 204
    assert asked.headers["access-control-allow-origin"] == "*"
    allowed = {m.strip() for m in asked.headers["access-control-allow-methods"].split(",")}
    assert {"GET", "OPTIONS"} <= allowed
    assert http.head(CARD).headers["etag"] == answer.headers["etag"]
    assert http.head(CARD).content == b""
    assert http.post(CARD).status_code == 405


def test_health(http: httpx.Client) -> None:
    """S32: healthy while the core is there."""
    answer = http.get("/health")
    assert (answer.status_code, answer.json()) == (200, {"status": "healthy"})
    assert http.head("/health").status_code == 200


def test_a_configured_card(tmp_path: Path) -> None:
    """S16, S17, S18, S29, S40: a card of one's own is served with what is true of the gateway: its
    own addresses and capabilities; skills, provider and media types are as written, and they are
    the media types that are taken."""
    card = {
        "name": "Painter",
        "description": "paints",
        "version": "7.1",
        "provider": {"organization": "Example", "url": "https://example.org"},
        "defaultInputModes": ["text/plain", "image/*"],
        "defaultOutputModes": ["image/png"],
        "skills": [
            {"id": "p", "name": "paint", "description": "it paints", "tags": ["art"]},
        ],
        "capabilities": {"pushNotifications": False},
    }
    doors = {"http": {"address": "127.0.0.1:0", "path": "/a2a/v1"}}
    with serving(tmp_path, {"card": card, "transports": doors}) as places:
        served = httpx.get(f"{places.http}{CARD}", trust_env=False).json()
        for field in ("name", "description", "version", "provider", "skills", "defaultInputModes"):
            assert served[field] == card[field]
        urls = {e["protocolBinding"]: e["url"] for e in served["supportedInterfaces"]}
        assert urls["JSONRPC"] == f"{places.http}/a2a/v1/"
        assert urls["HTTP+JSON"] == f"{places.http}/a2a/v1"

        async def main() -> list[str]:
            found = []
            for url, binding in ((urls["JSONRPC"], "jsonrpc"), (urls["HTTP+JSON"], "rest")):
                async with HttpClient(url, binding) as client:  # type: ignore[arg-type]
                    made = request("x", accepted_output_modes=["image/*"])
                    made.message.parts[0].media_type = "image/webp"
                    answer: Any = await client.unary("SendMessage", made)
                    found.append(state(answer.task))
            return found

        assert run(main()) == ["COMPLETED", "COMPLETED"]
        body = {"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {}}
        for path, status in (("/a2a/v1", 200), ("/a2a/v1/", 200), ("/", 404)):
            answer = httpx.post(
                f"{places.http}{path}", json=body, headers={"a2a-version": "1.0"}, trust_env=False
            )
            assert answer.status_code == status, path
