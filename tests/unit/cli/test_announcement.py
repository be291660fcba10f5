"""The table of doors."""

from typing import Any

import pytest

from gateway.cli.announcement import announce
from gateway.config import load
from gateway.example import Example

REPORTS: dict[str, dict[str, Any]] = {
    "core": {
        "doors": {"grpc": ["127.0.0.1:50051"]},
        "reach": {"grpc": [["127.0.0.1:50051", "grpcurl it"]]},
        "metrics": "127.0.0.1:9",
    },
    "adapter": {
        "doors": {"http": ["127.0.0.1:41242", "unix:/run/a.sock"], "carrier-pigeon": ["roof:1"]},
        "reach": {"http": [["http://127.0.0.1:41242/", "curl it"], ["unix:/run/a.sock", "curl"]]},
    },
    "adapter-idle": {"doors": {"idle": []}},
}


def test_each_door_with_a_line_to_try_it(capsys: pytest.CaptureFixture[str]) -> None:
    """Any door stands there: what it says of itself, or its addresses, or at least its name."""
    announce(REPORTS, {"agent": {"spec": "my:agent"}, "store": "memory:"})
    assert capsys.readouterr().out.splitlines() == [
        "a2a-gateway is ready: agent my:agent, store memory:",
        "",
        "  grpc           127.0.0.1:50051",
        "                 try: grpcurl it",
        "  http           http://127.0.0.1:41242/",
        "                 try: curl it",
        "  http           unix:/run/a.sock",
        "                 try: curl",
        "  carrier-pigeon roof:1",
        "  idle",
        "  metrics        core http://127.0.0.1:9/metrics",
        "",
    ]


def test_the_example_has_a_place_for_credentials_and_never_a_secret() -> None:
    """Its message is one that the demo answers with a stream."""
    access = {"A2A_GATEWAY_ACCESS__TOKENS": "[{caller: a, token: very-secret}]"}
    example = Example.of(load(environment={**access, "A2A_GATEWAY_AGENT__SPEC": "demo"}))
    assert example.needs_credentials
    assert "very-secret" not in repr(example)
    assert '"parts":[{"text":"stream"}]' in example.message
    assert not Example.of(load(environment={})).needs_credentials


@pytest.mark.parametrize(
    ("access", "client", "curl"),
    [
        (
            "TOKENS=[{caller: a, token: secret}]",
            "--token TOKEN",
            "-H 'Authorization: Bearer TOKEN'",
        ),
        ("API_KEYS=[{caller: a, key: secret}]", "--api-key KEY", "-H 'x-api-key: KEY'"),
        ("BASIC=[{username: ann, password: secret}]", "--basic ann", "-u ann"),
    ],
)
def test_the_example_has_the_kind_of_credentials_that_is_taken(
    access: str, client: str, curl: str
) -> None:
    """Of those that are configured the first kind, at each door in its own way."""
    name, _, value = access.partition("=")
    example = Example.of(load(environment={f"A2A_GATEWAY_ACCESS__{name}": value}))
    assert (example.client_option, example.curl_option) == (f" {client}", f" {curl}")
