"""Which entries of a card are taken."""

from pathlib import Path

import pytest

from gateway.pb import AgentCard, AgentInterface
from transports.http.connecting import choose, tls_context
from transports.wire import ConnectError, Credentials, Options, Tls

HERE = "https://agent.example/"
RPC = ("JSONRPC", "https://agent.example/rpc")
REST = ("HTTP+JSON", "https://agent.example/v1")
GRPC = ("GRPC", "agent.example:443")


def chosen(
    *entries: tuple[str, str], url: str = HERE, version: str = "1.0", **options: object
) -> tuple[list[str], str]:
    """URLs of the entries that are taken, and why others are not."""
    card = AgentCard(
        supported_interfaces=[
            AgentInterface(protocol_binding=binding, url=where, protocol_version=version)
            for binding, where in entries
        ]
    )
    ways, passed_over = choose(card, url, Options(**options))  # type: ignore[arg-type]
    return [way.interface.url for way in ways], "; ".join(passed_over)


def test_all_that_are_spoken_in_the_cards_order() -> None:
    """S156, R5: its order is the agent's preference."""
    urls, reasons = chosen(("urn:other", "x:"), GRPC, RPC, REST)
    assert urls == [GRPC[1], RPC[1], REST[1]]
    assert reasons == "urn:other at x:: a binding that is not spoken here"


def test_urls_that_no_request_can_hold() -> None:
    """Passed over, so that the next entry has its chance."""
    urls, reasons = chosen(("GRPC", ""), ("JSONRPC", "https://agent.example/\r\nx"), RPC)
    assert urls == [RPC[1]]
    assert reasons.count("its URL cannot be read") == 2


@pytest.mark.parametrize("version", ["0.3", "0.3.0", "2.0", ""])
def test_other_versions(version: str) -> None:
    """S159: another version of the protocol is another protocol."""
    urls, reasons = chosen(RPC, version=version)
    assert not urls
    assert "1.0 is spoken here" in reasons


@pytest.mark.parametrize("version", ["1", "1.0", "1.0.1", "1.1"])
def test_minor_versions(version: str) -> None:
    """R9: patch versions do not matter; later minor ones take what this client says."""
    assert chosen(RPC, version=version)[0] == [RPC[1]]


def test_one_binding_alone() -> None:
    """As it was asked for."""
    urls, reasons = chosen(RPC, REST, GRPC, binding="HTTP+JSON")
    assert urls == [REST[1]]
    assert "not HTTP+JSON, which was asked for" in reasons


@pytest.mark.parametrize(
    ("url", "entry"),
    [
        ("https://agent.example", ("JSONRPC", "https://other.example/")),
        ("https://agent.example", ("JSONRPC", "https://agent.example:8443/")),
        ("http://agent.example", ("JSONRPC", "https://agent.example/")),
        ("https://agent.example", ("GRPC", "agent.example:50051")),
    ],
)
def test_credentials_stay_at_their_origin(url: str, entry: tuple[str, str]) -> None:
    """S160, S164: an entry elsewhere is taken only by who has none."""
    urls, reasons = chosen(entry, RPC, url=url, credentials=Credentials(token="t"))
    assert entry[1] not in urls
    assert "another origin" in reasons
    assert chosen(entry, url=url)[0] == [entry[1]]


@pytest.mark.parametrize(
    ("url", "entry", "words"),
    [
        (HERE, ("JSONRPC", "http://agent.example/"), "plain text"),
        (HERE, ("JSONRPC", "https://127.0.0.1/"), "this machine"),
        (HERE, ("JSONRPC", "https://localhost:1/"), "this machine"),
        (HERE, ("GRPC", "[::1]:1"), "this machine"),
        (HERE, ("JSONRPC", "file:///etc/passwd"), "no http or https"),
        (HERE, ("HTTP+JSON", "agent.example"), "no http or https"),
        (HERE, ("HTTP+JSON", "https://[agent"), "cannot be read"),
        (HERE, ("GRPC", "agent.example:port"), "cannot be read"),
    ],
)
def test_where_a_card_may_not_lead(url: str, entry: tuple[str, str], words: str) -> None:
    """S164: a card chooses among ways to its own agent, and no others."""
    urls, reasons = chosen(entry, url=url)
    assert not urls
    assert words in reasons


def test_this_machine_may_lead_to_itself() -> None:
    """As in development."""
    assert chosen(("JSONRPC", "http://localhost:2/"), url="http://127.0.0.1:1")[0]


def test_tls_files_that_cannot_be_used(tmp_path: Path) -> None:
    """The file is named."""
    bad = tmp_path / "ca.pem"
    with pytest.raises(ConnectError, match=r"ca\.pem: No such file"):
        tls_context(Tls(bad))
    bad.write_text("nothing")
    with pytest.raises(ConnectError, match="TLS files"):
        tls_context(Tls(bad))
