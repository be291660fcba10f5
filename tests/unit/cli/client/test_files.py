"""What client commands keep, and where they read secrets."""

from pathlib import Path
from typing import Any

import click
import pytest

from gateway.cli.client.conversation import Conversation, Conversations
from gateway.cli.client.kept_cards import CardFiles
from gateway.cli.client.options import read_credentials
from gateway.config import load
from gateway.pb import TaskState
from transports.client import Kept

URL = "https://agent.example"


def test_conversations(tmp_path: Path) -> None:
    """S161: one for each URL and tenant, for this user's eyes; a task is kept while it waits."""
    kept = Conversations(tmp_path / "deep" / "folder")
    assert kept.load(URL) == Conversation()
    one = Conversation()
    one.note("c", "t", TaskState.TASK_STATE_INPUT_REQUIRED)
    kept.save(URL, "", one)
    assert kept.load(URL) == Conversation("c", "t")
    assert kept.load(URL, "other") == kept.load(URL + "/") == Conversation()
    one.note("c", "t", TaskState.TASK_STATE_COMPLETED)
    kept.save(URL, "", one)
    assert kept.load(URL) == Conversation("c", "")
    (file,) = (tmp_path / "deep" / "folder").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700
    file.write_text("[]")
    assert kept.load(URL) == Conversation()


def test_cards(tmp_path: Path) -> None:
    """R32: as they came; a broken file is none, and a folder that cannot be written is no error."""
    files = CardFiles(tmp_path)
    card = Kept(URL + "/card", '{"name":"ä"}'.encode(), '"tag"', 12.5)
    assert files.load(URL) is None
    files.save(URL, card)
    assert files.load(URL) == card
    (file,) = tmp_path.iterdir()
    for text in ("", "{}", "[1]", '{"agent":"other"}'):
        file.write_text(text)
        assert files.load(URL) is None
    CardFiles(file).save(URL, card)


def values(**given: Any) -> dict[str, Any]:
    """Options that say nothing, but for these."""
    names = ("token", "token_file", "api_key", "api_key_file", "api_key_header", "basic",
             "password_file")  # fmt: skip
    return {**dict.fromkeys(names), **given}


def test_where_secrets_come_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S160: a file goes before what the environment says, and a user before a token there."""
    path = tmp_path / "secret"
    path.write_text(" from-file\n")
    assert read_credentials(values(token="x", token_file=path)).token == "from-file"
    assert read_credentials(values(api_key="k\n", api_key_header="H")).to_metadata() == {"h": "k"}
    monkeypatch.setenv("A2A_GATEWAY_PASSWORD", "p")
    basic = read_credentials(values(token="of-the-environment", basic="u"))
    assert (basic.token, basic.basic) == ("", ("u", "p"))
    assert read_credentials(values(basic="u", password_file=path)).basic == ("u", "from-file")
    with pytest.raises(click.UsageError, match="one of them"):
        read_credentials(values(token_file=path, basic="u"))


def test_secrets_that_cannot_be_read(tmp_path: Path) -> None:
    """The error names the option, never the content."""
    empty, odd = tmp_path / "empty", tmp_path / "odd"
    empty.write_text("\n")
    odd.write_bytes(b"\xff\xfe")
    with pytest.raises(click.UsageError, match=r"--token-file .*empty is empty"):
        read_credentials(values(token_file=empty))
    with pytest.raises(click.UsageError, match=r"--api-key-file .*odd cannot be read"):
        read_credentials(values(api_key_file=odd))
    with pytest.raises(click.UsageError) as caught:
        read_credentials(values(token="sec\nret"))
    assert "ret" not in caught.value.message.replace("secret", "")


def test_the_clients_variables_are_no_configuration() -> None:
    """A shell that talks to agents may also serve one."""
    names = ("TOKEN", "API_KEY", "PASSWORD")
    load(environment={f"A2A_GATEWAY_{name}": "x" for name in names})
