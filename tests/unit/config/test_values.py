"""Addresses, secrets, durations and sizes, as a user writes them."""

import copy
import json
import pickle
import re
from pathlib import Path

import pytest

from gateway.config import Address, ConfigError, Secret, load


@pytest.mark.parametrize(
    ("text", "address", "is_local"),
    [
        ("127.0.0.1:80", Address("127.0.0.1", 80), True),
        ("127.8.9.1:0", Address("127.8.9.1", 0), True),
        ("localhost:80", Address("localhost", 80), True),
        ("[::1]:80", Address("::1", 80), True),
        ("[::]:80", Address("::", 80), False),
        ("0.0.0.0:65535", Address("0.0.0.0", 65535), False),
        ("agents.example:80", Address("agents.example", 80), False),
        ("unix:/run/a.sock", Address(path="/run/a.sock"), True),
        ("unix:a.sock", Address(path="a.sock"), True),
    ],
)
def test_addresses(text: str, address: Address, is_local: bool) -> None:
    """What is understood, and written back as it came."""
    assert Address.parse(text) == address
    assert Address.parse(text).is_local is is_local
    assert str(Address.parse(text)) == text


def test_unix_address_as_url() -> None:
    """unix:///PATH means the same."""
    assert Address.parse("unix:///run/a.sock").path == "/run/a.sock"


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("127.0.0.1", "write HOST:PORT"),
        (":80", "write 127.0.0.1:80 for this machine, 0.0.0.0:80 for all"),
        ("::1:80", "write [::1]:80"),
        ("a:http", "a number from 0 to 65535"),
        ("a:65536", "a number from 0 to 65535"),
        ("a:٣", "a number from 0 to 65535"),
        ("http://a:80", "not HOST:PORT"),
        ("a b:80", "not HOST:PORT"),
        ("unix:", "write unix:/run/a2a/http.sock"),
    ],
)
def test_bad_addresses(text: str, fix: str) -> None:
    """Each mistake has its own fix."""
    with pytest.raises(ValueError, match=re.escape(fix)):
        Address.parse(text)


def test_secret_does_not_show() -> None:
    """Neither printed nor pickled; equal by value."""
    secret = Secret("s3cr3t")
    assert "s3cr3t" not in f"{secret} {secret!r} {[secret]}"
    assert secret.reveal() == "s3cr3t"
    assert secret == Secret("s3cr3t")
    assert secret != Secret("other")
    for leak in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError):
            leak(secret)


def test_secret_from_environment_and_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """{env: NAME} and {file: PATH}; the line break at a file's end is no part of it."""
    monkeypatch.setenv("MY_TOKEN", "from-env")
    (tmp_path / "token").write_text("from-file\n")
    assert Secret.resolve({"env": "MY_TOKEN"}).reveal() == "from-env"
    assert Secret.resolve({"file": str(tmp_path / "token")}).reveal() == "from-file"


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"env": "NOT_SET_ANYWHERE"}, "NOT_SET_ANYWHERE, which is not set"),
        ({"file": "/no/such/file"}, "/no/such/file, which cannot be read"),
        ({"env": "A", "file": "B"}, "must be a text, or {env: NAME}"),
        (12345, "must be a text, or {env: NAME}"),
        ("", "is empty"),
    ],
)
def test_bad_secrets(given: object, reason: str) -> None:
    """What is wrong, without the secret."""
    with pytest.raises(ValueError, match=re.escape(reason)) as raised:
        Secret.resolve(given)
    assert "12345" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("1.5", 1.5), ("500ms", 0.5), ("2 h", 7200), ("30d", 2592000)]
)
def test_durations(text: str, seconds: float) -> None:
    """Plain numbers are seconds."""
    config = load(environment={"A2A_GATEWAY_CONTEXTS__IDLE_TIMEOUT": text})
    assert config.contexts.idle_timeout == seconds


@pytest.mark.parametrize(
    ("text", "size"), [("4096", 4096), ("64KiB", 65536), ("16 mib", 16 << 20), ("0.5GiB", 1 << 29)]
)
def test_sizes(text: str, size: int) -> None:
    """Plain numbers are bytes."""
    config = load(environment={"A2A_GATEWAY_LIMITS__MESSAGE_BYTES": text})
    assert config.limits.message_bytes == size


@pytest.mark.parametrize(
    ("variable", "value", "reason"),
    [
        ("GRACE", "-1", "number"),
        ("GRACE", "soon", "such as 90s or 1h"),
        ("GRACE", "nan", "such as 90s or 1h"),
        ("CONTEXTS__IDLE_TIMEOUT", "0", "must be above 0"),
        ("LIMITS__MESSAGE_BYTES", "0", "must be at least 1"),
        ("LIMITS__MESSAGE_BYTES", "16MB", "such as 16MiB"),
        ("LIMITS__RUNNING", "1.5", "is not a whole number"),
        ("LIMITS__RUNNING", "0", "must be at least 1"),
        ("CONTEXTS__EXCLUSIVE", "maybe", "is neither true nor false"),
        ("AGENT__ISOLATION", "fork", "is not one of 'loop', 'thread' or 'process'"),
    ],
)
def test_bad_quantities(variable: str, value: str, reason: str) -> None:
    """The error has the key, the value, the variable and what would be right."""
    with pytest.raises(ConfigError) as raised:
        load(environment={f"A2A_GATEWAY_{variable}": value})
    text = str(raised.value)
    key = variable.lower().replace("__", ".")
    assert text.startswith(f"{key}: {value!r} "), text
    assert reason in text
    assert f"(A2A_GATEWAY_{variable})" in text


def test_nothing_is_not_json(tmp_path: Path) -> None:
    """A NaN from a file is refused like any text that is no number."""
    file = tmp_path / "c.json"
    file.write_text(json.dumps({"grace": "NaN"}))
    with pytest.raises(ConfigError, match="grace"):
        load(file, environment={})
