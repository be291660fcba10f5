"""Failures as JSON-RPC error objects."""

import json

import pytest

from gateway.errors import (
    TABLE,
    Failure,
    ResourceExhaustedError,
    Row,
    UnauthenticatedError,
    ValidationError,
    judge,
)
from transports.jsonrpc.envelope import error_response
from transports.jsonrpc.errors import (
    STANDARD_TEXTS,
    details,
    error_object,
    failure_from,
    json_path,
    message_text,
)


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.reason)
def test_every_row_of_the_table(row: Row) -> None:
    """R12, R37, R41, D34: number, text and typed details, ErrorInfo first; and back again."""
    failure = Failure(row, "Something is wrong", {"taskId": "t1"})
    error = error_object(failure)
    assert set(error) == {"code", "message", "data"}
    assert error["code"] == row.jsonrpc
    assert error["data"][0] == {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": row.reason,
        "domain": row.domain,
        "metadata": {"taskId": "t1"},
    }
    assert error["message"].startswith(STANDARD_TEXTS.get(row.jsonrpc, "Something"))
    assert failure_from(json.loads(json.dumps(error))) == failure


def test_standard_texts_come_first_and_once() -> None:
    """R38, S46: `Method not found: <name>`."""
    rows = {row.jsonrpc: row for row in TABLE}
    assert message_text(Failure(rows[-32601], "Method not found: x")) == "Method not found: x"
    assert message_text(Failure(rows[-32602], "no")) == "Invalid parameters: no"
    assert message_text(Failure(rows[-32602], "no"), standard=False) == "no"
    assert message_text(Failure(rows[-32001], "Task not found: t")) == "Task not found: t"


def test_violations_name_fields_in_json_spelling() -> None:
    """LC09: the field is named, as the client wrote it."""
    failure = judge(ValidationError(("message.message_id", "is required"), ("parts[0].raw", "bad")))
    error = error_object(failure)
    assert (
        error["message"] == "Invalid parameters: message.messageId: is required; parts[0].raw: bad"
    )
    assert error["data"][1] == {
        "@type": "type.googleapis.com/google.rpc.BadRequest",
        "fieldViolations": [
            {"field": "message.messageId", "description": "is required"},
            {"field": "parts[0].raw", "description": "bad"},
        ],
    }
    assert json_path("oauth2_metadata_url") == "oauth2MetadataUrl"


def test_when_to_come_back() -> None:
    """R12: RetryInfo where the failure says when."""
    failure = judge(ResourceExhaustedError(retry_after=1.5))
    assert details(failure)[1] == {
        "@type": "type.googleapis.com/google.rpc.RetryInfo",
        "retryDelay": "1.500s",
    }
    assert failure_from(error_object(failure)) == failure


def test_challenges_travel_on_framed_doors() -> None:
    """D19: code -32000 with the challenges among the details."""
    failure = judge(UnauthenticatedError(challenges=("Bearer", 'Basic realm="a2a"')))
    error = error_object(failure)
    assert error["code"] == -32000
    assert failure_from(error).challenges == failure.challenges


def test_unknown_errors_show_nothing_of_themselves() -> None:
    """GR03, S176: a neutral text."""
    text = error_response(b"1", judge(ValueError("secret-123 /home/user")))
    assert b"secret-123" not in text
    assert json.loads(text)["error"]["code"] == -32603


def test_texts_are_always_encodable() -> None:
    """PB11: half a surrogate in a text is shown as an escape."""
    row = TABLE[0]
    text = error_response(b"1", Failure(row, "a\ud83d", {"k": "\\ud83d"}))
    assert json.loads(text)["error"]["message"] == "a\\ud83d"


@pytest.mark.parametrize("error", [None, [], {}, {"code": -1, "message": 5, "data": []}])
def test_error_objects_of_others(error: object) -> None:
    """Whatever stands there becomes a failure."""
    assert failure_from(error).row.reason == "INTERNAL_ERROR"
    assert failure_from({"code": -32001, "message": "x"}).row.reason == "TASK_NOT_FOUND"
