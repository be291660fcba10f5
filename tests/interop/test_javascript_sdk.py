"""The JavaScript SDK (npm, `js/`) completes a dialogue with the gateway over each binding.

The same ground as test_python_sdk.py, seen by another implementation of protocol 1.0.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.javascript import install, node
from tests.processes import Addresses

FOLDER = Path(__file__).parent / "js"

Json = Any


@pytest.fixture(scope="session")
def packages() -> None:
    """What the dialogue imports."""
    install(FOLDER)


@pytest.fixture(scope="session", params=["JSONRPC", "HTTP+JSON", "GRPC"])
def steps(request: pytest.FixtureRequest, dialogue: Addresses, packages: None) -> dict[str, Json]:
    """What each step of the dialogue told, for one binding."""
    lines = node(FOLDER, "dialogue.mjs", request.param, dialogue.http)
    told = [json.loads(line) for line in lines.splitlines()]
    values = {step["step"]: step for step in told}
    assert values["binding"]["value"] == request.param
    return values


def state(task: Json) -> str:
    return str(task["status"]["state"])


def texts(task: Json) -> list[str]:
    return [part["text"] for a in task["artifacts"] for part in a["parts"]]


def test_card(steps: dict[str, Json]) -> None:
    """S1, S3, S16, R3: three bindings of version 1.0, capabilities as they are."""
    card = steps["card"]["value"]
    bindings = {i["protocolBinding"] for i in card["supportedInterfaces"]}
    assert {"JSONRPC", "HTTP+JSON", "GRPC"} <= bindings
    assert {i["protocolVersion"] for i in card["supportedInterfaces"]} == {"1.0"}
    assert card["capabilities"]["streaming"] is True


def test_send(steps: dict[str, Json]) -> None:
    """S48, S63."""
    task = steps["send"]["value"]["task"]
    assert state(task) == "TASK_STATE_COMPLETED"
    assert texts(task) == ["Hello, hello!"]
    message = steps["direct"]["value"]["message"]
    assert message["parts"][0]["text"] == "a direct answer"


def test_stream(steps: dict[str, Json]) -> None:
    """S66-S69, R16, R17: the task first, all chunks in order, the end last."""
    events = steps["stream"]["value"]
    assert "task" in events[0]
    chunks = [e["artifactUpdate"] for e in events if "artifactUpdate" in e]
    assert [c["artifact"]["parts"][0]["text"] for c in chunks] == [f"{n} " for n in range(20)]
    assert [bool(c.get("append")) for c in chunks] == [False] + [True] * 19
    assert state(events[-1]["statusUpdate"]) == "TASK_STATE_COMPLETED"


def test_follow_up(steps: dict[str, Json]) -> None:
    """S99, R22, LC03: the answer continues the same task, unary and streamed."""
    asked, answered = steps["ask"]["value"]["task"], steps["answered"]["value"]
    assert state(asked) == "TASK_STATE_INPUT_REQUIRED"
    assert steps["answer"]["value"]["task"]["id"] == asked["id"]
    assert (answered["id"], answered["contextId"]) == (asked["id"], asked["contextId"])
    assert state(answered) == "TASK_STATE_COMPLETED"
    assert texts(answered) == ["The colour is blue."]

    first, second = steps["streamed ask"]["value"], steps["streamed answer"]["value"]
    assert state(first[-1]["statusUpdate"]) == "TASK_STATE_INPUT_REQUIRED"
    assert second[0]["task"]["id"] == first[0]["task"]["id"]
    assert state(second[-1]["statusUpdate"]) == "TASK_STATE_COMPLETED"
    contexts = {e["statusUpdate"]["contextId"] for e in second if "statusUpdate" in e}
    assert contexts == {first[0]["task"]["contextId"]}


def test_get(steps: dict[str, Json]) -> None:
    """S75, R20."""
    assert len(steps["answered"]["value"]["history"]) > 1
    assert not steps["get without history"]["value"].get("history")
    (message,) = steps["get with one message"]["value"]["history"]
    assert message == steps["answered"]["value"]["history"][-1]


def test_list(steps: dict[str, Json]) -> None:
    """S76-S80, R21: newest first, pages that join, artifacts on demand."""
    older = steps["send"]["value"]["task"]["id"]
    newer = steps["send in context"]["value"]["task"]["id"]
    whole, first, last = (steps[name]["value"] for name in ("list", "first page", "last page"))
    assert [task["id"] for task in whole["tasks"]] == [newer, older]
    assert [texts(task) for task in whole["tasks"]] == [["Hello, hello!"]] * 2
    assert [task["id"] for task in first["tasks"]] == [newer]
    assert first["nextPageToken"]
    assert not first["tasks"][0].get("artifacts")
    assert [task["id"] for task in last["tasks"]] == [older]
    assert not last.get("nextPageToken")


def test_cancel(steps: dict[str, Json]) -> None:
    """S64, S81, ST04."""
    begun = steps["send at once"]["value"]["task"]
    assert state(begun) in ("TASK_STATE_SUBMITTED", "TASK_STATE_WORKING")
    canceled = steps["cancel"]["value"]
    assert canceled["id"] == begun["id"]
    assert state(canceled) == "TASK_STATE_CANCELED"
    assert steps["cancel again"]["value"]["status"] == canceled["status"]


def test_subscribe(steps: dict[str, Json]) -> None:
    """S71, S73, R16, R18: the task first, then the same events for both readers."""
    one, other = steps["subscribe"]["value"]
    assert one[0]["task"]["id"] == steps["send for later"]["value"]["task"]["id"]
    assert one[1:] == other[1:]
    assert [e["artifactUpdate"]["artifact"]["parts"][0]["text"] for e in one[1:-1]] == [
        "0 ",
        "1 ",
        "2 ",
    ]
    assert state(one[-1]["statusUpdate"]) == "TASK_STATE_COMPLETED"


@pytest.mark.parametrize(
    ("step", "error"),
    [
        ("error: get unknown", "TaskNotFoundError"),
        ("error: send to unknown", "TaskNotFoundError"),
        ("streamed error", "TaskNotFoundError"),
        ("error: send to finished", "UnsupportedOperationError"),
        ("error: subscribe to finished", "UnsupportedOperationError"),
        ("error: extended card", "UnsupportedOperationError"),
        ("error: cancel finished", "TaskNotCancelableError"),
        ("error: other context", "RequestMalformedError"),
        ("error: no parts", "RequestMalformedError"),
        ("error: page size", "RequestMalformedError"),
        ("error: part type", "ContentTypeNotSupportedError"),
        ("error: push", "PushNotificationNotSupportedError"),
        ("error: version", "VersionNotSupportedError"),
    ],
)
def test_errors(steps: dict[str, Json], step: str, error: str) -> None:
    """R12, R13, R41: the SDK recognises each error and raises its class."""
    assert error in steps[step]["error"]
