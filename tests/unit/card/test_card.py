"""The public agent card."""

import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format

from gateway.access import Access, AccessOptions, Credential
from gateway.card import Card, CardError, CardOptions, Revision
from gateway.pb import AgentInterface


def make_card(source: Any = None, **options: Any) -> Card:
    return Card(CardOptions(source=source, **options))


def interface(binding: str, url: str) -> AgentInterface:
    return AgentInterface(protocol_binding=binding, url=url)


def test_is_whole_without_configuration() -> None:
    """S2, S8, S9, S16: every required field has a sensible value."""
    card = make_card(name="my-agent").message
    assert card.name == "my-agent"
    assert card.description
    assert card.version
    assert {"text/plain", "application/json", "application/yaml"} <= set(card.default_input_modes)
    kinds = {mode.split("/")[0] for mode in card.default_input_modes}
    assert {"text", "image", "audio"} <= kinds
    assert "application/octet-stream" in card.default_input_modes
    assert list(card.default_output_modes) == ["text/plain"]
    assert len(card.skills) == 1


def test_states_its_capabilities_explicitly() -> None:
    """S4, S5, S29: streaming is offered, push and the extended card are not."""
    capabilities = json_format.MessageToDict(make_card().message)["capabilities"]
    assert capabilities == {
        "streaming": True,
        "pushNotifications": False,
        "extendedAgentCard": False,
    }


def test_takes_fields_in_either_spelling() -> None:
    """S17: configuration is parsed as an AgentCard; the agent's own proposals come second."""
    card = make_card(
        {"default_output_modes": ["image/png"], "name": "configured"},
        defaults={"name": "proposed", "defaultOutputModes": ["text/html"], "version": "7"},
    ).message
    assert card.name == "configured"
    assert list(card.default_output_modes) == ["image/png"]
    assert card.version == "7"


@pytest.mark.parametrize("suffix", [".json", ".yaml"])
def test_reads_a_file(tmp_path: Path, suffix: str) -> None:
    """S24: the card may be a file, read at start."""
    path = tmp_path / f"card{suffix}"
    path.write_text(json.dumps({"name": "from-file", "iconUrl": "https://icons.example/a.png"}))
    card = make_card(str(path)).message
    assert card.name == "from-file"
    assert card.icon_url == "https://icons.example/a.png"


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ({"nam": "x"}, "unknown key 'nam'; did you mean 'name'"),
        ({"skills": [{"id": "s", "nmae": "x"}]}, r"card.skills\[0\]: unknown key 'nmae'"),
        ({"url": "http://old.example"}, "unknown key 'url'"),
        ({"name": 5}, "name"),
        ({"skills": [{"id": "s"}]}, r"skills\[0\].name, skills\[0\].description, skills\[0\].tags"),
        ({"provider": {"url": "https://x.example"}}, "provider.organization"),
        ({"capabilities": {"pushNotifications": True}}, "capabilities.pushNotifications"),
        ({"capabilities": {"extendedAgentCard": True}}, "capabilities.extendedAgentCard"),
        ({"capabilities": {"extensions": [{"uri": "a,b"}]}}, r"extensions\[0\].uri"),
        ({"securitySchemes": {"x": {}}}, "access section"),
        ({"signatures": [{"protected": "a", "signature": "b"}]}, "card.signatures"),
        ({"supportedInterfaces": [{"url": "x"}]}, "protocolBinding"),
        (
            {"supportedInterfaces": [{"url": "http://h:1", "protocolBinding": "GRPC"}]},
            "host:port without a scheme",
        ),
        ("/no/such/file.json", "cannot read"),
    ],
)
def test_refuses_what_cannot_be_served(source: Any, words: str) -> None:
    """S17, S25, S26, S29: a wrong card stops the start, with the key and the reason."""
    with pytest.raises(CardError, match=words):
        make_card(source)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("card.json", "{", "is not JSON"),
        ("card.yaml", "a: [", "is not YAML"),
        ("card.json", "[]", "one object"),
        ("card.yaml", "", "one object"),
    ],
)
def test_refuses_files_that_are_no_card(tmp_path: Path, name: str, text: str, words: str) -> None:
    """S24: the reason names the file."""
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(CardError, match=words):
        make_card(path)


def test_refuses_a_promise_of_streams_without_streaming() -> None:
    """S25: start-up fails where the card says streaming and it is off."""
    with pytest.raises(CardError, match="streaming"):
        make_card({"capabilities": {"streaming": True}}, can_stream=False)
    assert not make_card(can_stream=False).message.capabilities.streaming
    assert not make_card({"capabilities": {"streaming": False}}).message.capabilities.streaming


def test_declares_access() -> None:
    """S13: schemes and requirements come from the access section."""
    access = Access(AccessOptions(tokens=(Credential("alice", "t"),)))
    card = Card(CardOptions(), access).message
    assert list(card.security_schemes) == ["bearerAuth"]
    assert [list(r.schemes) for r in card.security_requirements] == [["bearerAuth"]]
    assert not make_card().message.security_requirements


def test_lists_the_doors_that_are_open() -> None:
    """S3, S35, R3, R4, AC01: JSON-RPC first, no slash behind the REST address, lost doors gone."""
    card = make_card()
    assert not card.message.supported_interfaces
    card.set_interfaces("core", [interface("GRPC", "127.0.0.1:50051")])
    rest = interface("HTTP+JSON", "http://127.0.0.1:1/")
    card.set_interfaces("link-1", [rest, interface("JSONRPC", "http://127.0.0.1:1/")])
    card.set_interfaces("link-2", [interface("https://b.example/ws/v1", "ws://127.0.0.1:2/")])
    entries = [(i.protocol_binding, i.url) for i in card.message.supported_interfaces]
    assert entries == [
        ("JSONRPC", "http://127.0.0.1:1/"),
        ("HTTP+JSON", "http://127.0.0.1:1"),
        ("GRPC", "127.0.0.1:50051"),
        ("https://b.example/ws/v1", "ws://127.0.0.1:2/"),
    ]
    assert {i.protocol_version for i in card.message.supported_interfaces} == {"1.0"}
    assert rest.url.endswith("/"), "what was given must not be changed"
    card.set_interfaces("link-1", [])
    bindings = [i.protocol_binding for i in card.message.supported_interfaces]
    assert bindings == ["GRPC", "https://b.example/ws/v1"]


def test_configured_addresses_stand_for_open_doors_only() -> None:
    """AC01: behind a proxy the public address shows, if its door is open."""
    public = [
        {"url": "https://agents.example/a/", "protocolBinding": "HTTP+JSON", "tenant": "t"},
        {"url": "agents.example:443", "protocolBinding": "GRPC"},
    ]
    card = make_card({"supportedInterfaces": public})
    assert not card.message.supported_interfaces
    card.set_interfaces(
        "link-1", [interface("HTTP+JSON", "http://10.0.0.1:1"), interface("JSONRPC", "http://h/")]
    )
    entries = [(i.url, i.tenant) for i in card.message.supported_interfaces]
    assert entries == [("http://h/", ""), ("https://agents.example/a", "t")]


def test_revisions_follow_content() -> None:
    """AC05: a new revision with new content, none without; equal cards are equal bytes."""
    card = make_card()
    seen: list[Revision] = []
    unwatch = card.watch(seen.append)
    first = card.revision
    card.set_interfaces("core", [interface("GRPC", "127.0.0.1:1")])
    card.set_interfaces("core", [interface("GRPC", "127.0.0.1:1")])
    assert [r.number for r in seen] == [first.number + 1]
    assert seen[0] is card.revision
    assert seen[0].modified >= first.modified
    assert seen[0].agent_card != first.agent_card
    other = make_card()
    other.set_interfaces("core", [interface("GRPC", "127.0.0.1:1")])
    assert other.revision.agent_card == card.revision.agent_card
    unwatch()
    card.set_interfaces("core", [])
    assert len(seen) == 1
    assert card.revision.agent_card == first.agent_card
