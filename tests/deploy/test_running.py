"""The manifests, run: their command lines, environment, user and read-only root, as processes."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.image import Image
from tests.deploy.manifests import DEPLOY, compose, pod
from tests.deploy.running import running

SECRETS = {"alice": "token-of-alice", "link": "secret-of-the-link", "ALICE_TOKEN": "token-of-alice"}
HTTP = 8080
LIMIT = 20

SETS = {
    "sidecar": pod(DEPLOY / "kubernetes" / "sidecar", SECRETS),
    "apart": pod(DEPLOY / "kubernetes" / "apart", SECRETS),
    "compose": compose(SECRETS),
}

Json = Any


def post(port: int, method: str, params: Json, token: str = SECRETS["alice"]) -> Any:
    """The response to one request by JSON-RPC."""
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/",
        json.dumps(body).encode(),
        {
            "Content-Type": "application/json",
            "A2A-Version": "1.0",
            "Authorization": f"Bearer {token}",
        },
    )
    return urllib.request.urlopen(request, timeout=LIMIT)


def message(text: str) -> Json:
    return {"message": {"messageId": "1", "role": "ROLE_USER", "parts": [{"text": text}]}}


def ask(port: int, text: str, token: str = SECRETS["alice"]) -> Json:
    """The task that one message made."""
    with post(port, "SendMessage", message(text), token) as answer:
        return json.load(answer)["result"]["task"]


def stream(port: int, text: str) -> Iterator[Json]:
    """The events of one message, as they come."""
    with post(port, "SendStreamingMessage", message(text)) as answer:
        for line in answer:
            if line.startswith(b"data:"):
                yield json.loads(line.removeprefix(b"data:"))["result"]


@pytest.mark.parametrize("name", SETS)
def test_serves_and_ends_in_order(name: str, images: dict[str, Image], folder: Path) -> None:
    """Ready by its own probes, with nothing writable but its volumes; answers a caller with the
    token of the manifest, and no other; ends at SIGTERM in the time that the manifest gives."""
    with running(SETS[name], images, folder) as it:
        port = it.ports[HTTP]
        assert ask(port, "stream a b c")["status"]["state"] == "TASK_STATE_COMPLETED", it.text()
        with pytest.raises(urllib.error.HTTPError, match="401"):
            ask(port, "stream a b c", "token-of-nobody")
        for one in reversed(it.running.values()):
            assert one.stop() == 0, one.text()


def test_answers_before_it_ends(images: dict[str, Image], folder: Path) -> None:
    """The end of a pod: what runs when the gateway is told to stop is answered to its end."""
    with running(SETS["sidecar"], images, folder) as it:
        events = stream(it.ports[HTTP], "stream " + "word " * 100)
        seen = [next(events) for _ in range(3)]
        it.running["gateway"].terminate()
        it.running["agent"].terminate()
        seen += events
        assert sum("artifactUpdate" in event for event in seen) == 100
        assert seen[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
        assert [one.stop() for one in it.running.values()] == [0, 0], it.text()


def test_tasks_outlive_the_gateway(images: dict[str, Image], folder: Path) -> None:
    """Its container is killed and starts again on the same volumes."""
    with running(SETS["sidecar"], images, folder) as it:
        port = it.ports[HTTP]
        task = ask(port, "stream a b c")
        it.running["gateway"].kill()
        it.start("gateway")
        with post(port, "GetTask", {"id": task["id"]}) as answer:
            assert json.load(answer)["result"]["artifacts"] == task["artifacts"]
        assert ask(port, "stream d")["status"]["state"] == "TASK_STATE_COMPLETED", it.text()


def test_the_agent_comes_back(images: dict[str, Image], folder: Path) -> None:
    """Its container is killed, leaves its socket behind, and starts again; so do tasks."""
    with running(SETS["sidecar"], images, folder) as it:
        port = it.ports[HTTP]
        assert ask(port, "stream a")["status"]["state"] == "TASK_STATE_COMPLETED"
        it.running["agent"].kill()
        it.start("agent")
        assert ask(port, "stream b")["status"]["state"] == "TASK_STATE_COMPLETED", it.text()
