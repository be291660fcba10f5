"""Fields of requests: what is refused, and in which words."""

from typing import Any

import pytest

from gateway.errors import ContentTypeNotSupportedError, ValidationError, judge
from gateway.pb import (
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    Message,
    Part,
    SendMessageConfiguration,
    SendMessageRequest,
    SubscribeToTaskRequest,
    Timestamp,
)
from tests.doubles.runtime import ScriptedRuntime
from tests.unit.service.making import make_send, make_service, serve


def refuse(name: str, request: Any) -> dict[str, str]:
    """The violations of a request, by field."""
    runtime = ScriptedRuntime()
    service = make_service(runtime)
    with pytest.raises(ValidationError) as caught:
        serve(service, name, request)
    assert not runtime.sent
    assert not runtime.queries
    return dict(judge(caught.value).violations)


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (SendMessageRequest(), "message"),
        (SendMessageRequest(message=Message()), "message.parts"),
        (make_send(message_id=""), "message.messageId"),
        (make_send(role=0), "message.role"),
        (make_send(role=2), "message.role"),
        (make_send(role=77), "message.role"),
        (make_send(Part()), "message.parts[0]"),
        (make_send(Part(text="a"), Part(filename="f")), "message.parts[1]"),
        (make_send(task_id="no/slash"), "message.taskId"),
        (make_send(context_id="x" * 129), "message.contextId"),
        (make_send(context_id="ü"), "message.contextId"),
        (make_send(context_id="a\n"), "message.contextId"),
        (make_send(reference_task_ids=["ok", ""]), "message.referenceTaskIds[1]"),
        (make_send(reference_task_ids=["ok"] * 1001), "message.referenceTaskIds"),
        (make_send(*[Part(text="a")] * 10_001), "message.parts"),
    ],
)
def test_names_the_wrong_field_of_a_message(request_: SendMessageRequest, field: str) -> None:
    """LC09, S49, S59, S95, D22, R8: -32602 with the field; no task is made."""
    violations = refuse("SendMessage", request_)
    assert field in violations
    assert violations[field]


def test_names_every_wrong_field() -> None:
    """R8: all at once, so that the client need not guess its way."""
    violations = refuse("SendMessage", SendMessageRequest(message=Message()))
    assert set(violations) == {"message.messageId", "message.role", "message.parts"}


def test_bounds_the_violations() -> None:
    """GR02: five hundred bad parts do not make five hundred texts."""
    assert len(refuse("SendMessage", make_send(*[Part()] * 500))) == 16


@pytest.mark.parametrize("part", [Part(text=""), Part(raw=b""), Part(url=""), Part(text="a")])
def test_takes_empty_content(part: Part) -> None:
    """D22: a part that is there but empty is the agent's business."""
    assert serve(make_service(), "SendMessage", make_send(part))


def test_takes_every_letter_of_an_id() -> None:
    """S95: letters, digits, _ . : -, up to 128."""
    request = make_send(context_id="aZ09_.:-" + "x" * 120, reference_task_ids=["t"])
    assert serve(make_service(), "SendMessage", request)


@pytest.mark.parametrize("name", ["GetTask", "CancelTask", "SubscribeToTask"])
@pytest.mark.parametrize("task_id", ["", "a b", "x" * 129])
def test_checks_task_ids(name: str, task_id: str) -> None:
    """S95: an id that no task can have is a wrong parameter."""
    request = {
        "GetTask": GetTaskRequest,
        "CancelTask": CancelTaskRequest,
        "SubscribeToTask": SubscribeToTaskRequest,
    }[name](id=task_id)
    service = make_service()
    with pytest.raises(ValidationError) as caught:
        serve(service, name, request)
    assert caught.value.violations[0][0] == "id"


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (ListTasksRequest(page_size=0), "pageSize"),
        (ListTasksRequest(page_size=101), "pageSize"),
        (ListTasksRequest(page_size=-1), "pageSize"),
        (ListTasksRequest(history_length=-1), "historyLength"),
        (ListTasksRequest(status=99), "status"),  # type: ignore[arg-type]
        (ListTasksRequest(context_id="a b"), "contextId"),
        (ListTasksRequest(page_token="!"), "pageToken"),
        (
            ListTasksRequest(status_timestamp_after=Timestamp(seconds=253_402_300_800)),
            "statusTimestampAfter",
        ),
        (ListTasksRequest(status_timestamp_after=Timestamp(nanos=-1)), "statusTimestampAfter"),
    ],
)
def test_names_the_wrong_field_of_a_list(request_: ListTasksRequest, field: str) -> None:
    """D11, PB03, HP01, R8: filters and page sizes out of range are refused."""
    assert set(refuse("ListTasks", request_)) == {field}


def test_refuses_negative_history() -> None:
    """HP01: -1 is not "all"."""
    assert set(refuse("GetTask", GetTaskRequest(id="t", history_length=-1))) == {"historyLength"}
    request = make_send()
    request.configuration.history_length = -1
    assert set(refuse("SendMessage", request)) == {"configuration.historyLength"}


@pytest.mark.parametrize(
    ("media_type", "inputs", "is_taken"),
    [
        ("application/x-unsupported-tck-type", None, False),
        ("text/plain", None, True),
        ("TEXT/Plain; charset=utf-8", None, True),
        ("", None, True),
        ("image/png", ["image/*"], True),
        ("images/png", ["image/*"], False),
        ("anything/at-all", ["*/*"], True),
        ("text/plain", ["application/json"], False),
        ("nonsense", ["text/plain"], False),
    ],
)
def test_takes_the_media_types_of_the_card(
    media_type: str, inputs: list[str] | None, is_taken: bool
) -> None:
    """S62, S178: parts of other types are refused by the card's input modes."""
    card = {"defaultInputModes": inputs} if inputs else None
    request = make_send(Part(text="a"), Part(text="b", media_type=media_type))
    service = make_service(card=card)
    if is_taken:
        assert serve(service, "SendMessage", request)
        return
    with pytest.raises(ContentTypeNotSupportedError, match=r"parts\[1\]\.mediaType"):
        serve(service, "SendMessage", request)


def test_takes_the_media_types_of_skills() -> None:
    """S62: a skill may take more than the default."""
    skill = {"id": "s", "name": "s", "description": "s", "tags": ["s"]}
    card = {
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": [{**skill, "inputModes": ["audio/wav"], "outputModes": ["image/png"]}],
    }
    request = make_send(Part(raw=b"x", media_type="audio/wav"))
    request.configuration.accepted_output_modes.append("image/png")
    assert serve(make_service(card=card), "SendMessage", request)


@pytest.mark.parametrize(
    ("accepted", "is_served"),
    [
        ([], True),
        (["text/plain"], True),
        (["image/png", "text/plain;q=0.5"], True),
        (["*/*"], True),
        (["text/*"], True),
        (["image/*"], False),
        (["application/json", "image/png"], False),
    ],
)
def test_honours_accepted_output_modes(accepted: list[str], is_served: bool) -> None:
    """S62: a client that takes nothing of what the agent gives learns it at once."""
    request = make_send()
    request.configuration.MergeFrom(SendMessageConfiguration(accepted_output_modes=accepted))
    service = make_service()
    if is_served:
        assert serve(service, "SendMessage", request)
        return
    with pytest.raises(ContentTypeNotSupportedError, match="text/plain"):
        serve(service, "SendMessage", request)
