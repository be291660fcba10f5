"""The manifests, run: their command lines, environment, user and read-only root, as processes."""

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.image import Image
from tests.deploy.manifests import DEPLOY, compose, pod
from tests.deploy.running import running

SECRETS = {"alice": "token-of-alice", "link": "secret-of-the-link", "ALICE_TOKEN": "token-of-alice"}
HTTP = 8080

SETS = {
    "sidecar": pod(DEPLOY / "kubernetes" / "sidecar", SECRETS),
    "apart": pod(DEPLOY / "kubernetes" / "apart", SECRETS),
    "compose": compose(SECRETS),
}


def ask(port: int, text: str, token: str = SECRETS["alice"]) -> Any:
    """One message by JSON-RPC; the answer."""
    message = {"messageId": "1", "role": "ROLE_USER", "parts": [{"text": text}]}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/",
        json.dumps(body).encode(),
        {
            "Content-Type": "application/json",
            "A2A-Version": "1.0",
            "Authorization": f"Bearer {token}",
        },
    )
    with urllib.request.urlopen(request, timeout=20) as answer:
        return json.load(answer)


@pytest.mark.parametrize("name", SETS)
def test_serves_and_ends_in_order(name: str, images: dict[str, Image], folder: Path) -> None:
    """Ready by its own probes, with nothing writable but its volumes; answers a caller with the
    token of the manifest, and no other; ends at SIGTERM in the time that the manifest gives."""
    with running(SETS[name], images, folder) as started:
        ports = next(iter(started.values())).ports
        answer = ask(ports[HTTP], "stream a b c")
        text = "".join(one.text() for one in started.values())
        assert answer["result"]["task"]["status"]["state"] == "TASK_STATE_COMPLETED", text
        with pytest.raises(urllib.error.HTTPError, match="401"):
            ask(ports[HTTP], "stream a b c", "token-of-nobody")
        assert (folder / "state" / "tasks.db").exists() or (folder / "state").exists()
        for one in reversed(started.values()):
            assert one.stop() == 0, one.text()
