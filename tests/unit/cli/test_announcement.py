"""The table of doors."""

import json
from typing import Any

import pytest

from gateway.cli.announcement import announce
from gateway.config import load, to_wire

REPORTS: dict[str, dict[str, Any]] = {
    "core": {"doors": {"grpc": ["127.0.0.1:50051"]}, "metrics": "127.0.0.1:9"},
    "adapter": {"doors": {"http": ["127.0.0.1:41242", "unix:/run/a.sock"]}},
}


def shown(capsys: pytest.CaptureFixture[str], **environment: str) -> str:
    """What is printed for a configuration."""
    variables = {f"A2A_GATEWAY_{name}": value for name, value in environment.items()}
    announce(REPORTS, json.loads(to_wire(load(environment=variables))))
    return capsys.readouterr().out


def test_each_door_with_a_line_to_try_it(capsys: pytest.CaptureFixture[str]) -> None:
    """The lines name the version, which every call needs."""
    text = shown(
        capsys, AGENT__SPEC="my:agent", TRANSPORTS="[grpc, http]", TRANSPORTS__HTTP__PATH="/a2a/"
    )
    assert "agent my:agent" in text
    assert "try: curl -N http://127.0.0.1:41242/a2a/message:stream -H 'A2A-Version: 1.0'" in text
    assert "--unix-socket /run/a.sock http://localhost/a2a/message:stream" in text
    assert "127.0.0.1:50051 lf.a2a.v1.A2AService/SendStreamingMessage" in text
    assert "core http://127.0.0.1:9/metrics" in text
    assert "Authorization" not in text


def test_never_shows_a_secret(capsys: pytest.CaptureFixture[str]) -> None:
    """With access configured the lines have a place for the token, not the token."""
    text = shown(capsys, ACCESS__TOKENS="[{caller: a, token: very-secret}]")
    assert "-H 'Authorization: Bearer TOKEN'" in text
    assert "very-secret" not in text
