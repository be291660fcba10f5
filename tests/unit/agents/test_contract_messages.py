"""Turns as messages of the agents' contract, and back."""

import time
from typing import Any

import pytest

from gateway.agents import contract
from gateway.call import Call
from gateway.errors import InvalidAgentResponseError
from gateway.pb import (
    Artifact,
    Message,
    Part,
    StreamResponse,
    Task,
    TaskArtifactUpdateEvent,
    TaskStatus,
    TaskStatusUpdateEvent,
    agent_pb2,
)
from tests.doubles.recording import RecordingTurn

STATUS = TaskStatusUpdateEvent(status=TaskStatus(state="TASK_STATE_WORKING"))
EVENTS = [
    Task(id="t"),
    Message(message_id="m", parts=[Part(text="x" * 200)]),
    STATUS,
    TaskArtifactUpdateEvent(artifact=Artifact(artifact_id="a", parts=[Part(text="y" * 20_000)])),
    Task(),
]


@pytest.mark.parametrize("event", EVENTS)
def test_events_there_and_back(event: Any) -> None:
    response = agent_pb2.ExecuteResponse.FromString(contract.to_response(event))
    assert contract.to_event(response) == event


def test_responses_are_laid_out_as_the_protocol_s_own() -> None:
    """A library that has A2A's `StreamResponse` already may send that."""
    response = StreamResponse(status_update=STATUS)
    assert contract.to_response(STATUS) == response.SerializeToString()


def test_what_is_no_event() -> None:
    with pytest.raises(TypeError, match="str is no event"):
        contract.to_response("text")  # type: ignore[arg-type]
    with pytest.raises(InvalidAgentResponseError):
        contract.to_event(agent_pb2.ExecuteResponse())


@pytest.mark.parametrize(
    ("event", "settled"),
    [
        (Message(), True),
        (STATUS, False),
        (Task(status=TaskStatus(state="TASK_STATE_COMPLETED")), True),
        (TaskStatusUpdateEvent(status=TaskStatus(state="TASK_STATE_AUTH_REQUIRED")), True),
        (TaskArtifactUpdateEvent(), False),
    ],
)
def test_what_a_turn_may_end_with(event: Any, settled: bool) -> None:
    assert contract.settles(event) is settled


def test_a_call_there_and_back() -> None:
    call = Call(
        "http",
        {"traceparent": "00", "cookie": "secret"},
        version="1.0",
        extensions=("a", "b"),
        activated=("b",),
        tenant="t",
        caller="c",
        scheme="s",
        deadline=time.monotonic() + 10,
    )
    told = contract.to_call(contract.to_execute_request(RecordingTurn("x", call=call)).call)
    left = told.remaining()
    assert left is not None
    assert 9 < left <= 10
    told.deadline = call.deadline
    call.metadata.pop("cookie")
    assert told == call


def test_a_cancel_without_a_message() -> None:
    turn = RecordingTurn(task=Task(id="t"))
    assert not contract.to_cancel_request(turn).HasField("request")
    assert contract.to_cancel_request(RecordingTurn("x")).HasField("request")
