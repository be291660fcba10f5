"""Methods, and the operations that they name."""

import json

import pytest
from a2a.utils.errors import MethodNotFoundError

from gateway.errors import ValidationError
from gateway.pb import METHODS, Empty, GetTaskRequest, StreamResponse, Task
from transports.jsonrpc.dispatch import OPERATIONS, operation


def test_the_eleven_methods() -> None:
    """S41, R34: the proto's operations under their own names, two of them streams."""
    assert set(OPERATIONS) == set(METHODS)
    assert len(OPERATIONS) == 11
    streams = {name for name, found in OPERATIONS.items() if found.streaming}
    assert streams == {"SendStreamingMessage", "SubscribeToTask"}


@pytest.mark.parametrize("method", ["getTask", "message/send", "tasks/get", "x" * 5000])
def test_other_methods(method: str) -> None:
    """JR09, VE04, S46: case counts, names of older versions are not ours."""
    with pytest.raises(MethodNotFoundError, match=r"^Method not found: ") as caught:
        operation(method)
    assert len(caught.value.message) < 200


def test_reads_and_writes() -> None:
    """R34: params in, result out."""
    found = operation("GetTask")
    assert found.read({"id": "t"}) == GetTaskRequest(id="t")
    assert found.read(None) == GetTaskRequest()
    assert json.loads(found.write(Task(id="t"))) == {"id": "t"}
    with pytest.raises(ValidationError):
        found.read({"id": 5})
    assert operation("DeleteTaskPushNotificationConfig").write(Empty()) == b"{}"


def test_writes_events() -> None:
    """R36: a serialized StreamResponse becomes one line."""
    payload = StreamResponse(task=Task(id="a\nb")).SerializeToString()
    text = operation("SubscribeToTask").write_event(payload)
    assert b"\n" not in text
    assert json.loads(text) == {"task": {"id": "a\nb"}}
