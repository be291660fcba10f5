"""ProtoJSON on the way in and out (A2A 5.5 to 5.7): what is taken, and what is refused with its
field. Over JSON-RPC, and over REST where it has the same place."""

import base64
import json
from typing import Any

import pytest

from tests.contract.wire import MESSAGE, TYPED, Wire, error_of, slow

BAD_MESSAGES: list[tuple[Any, str]] = [
    ({"messageId": ""}, "message.messageId"),
    ({"messageId": 5}, "message.messageId"),
    ({"messageId": None}, "message.messageId"),
    ({"role": None}, "message.role"),
    ({"role": "user"}, "message.role"),
    ({"role": "ROLE_NOBODY"}, "message.role"),
    ({"role": 99}, "message.role"),
    ({"role": "ROLE_UNSPECIFIED"}, "message.role"),
    ({"parts": []}, "message.parts"),
    ({"parts": None}, "message.parts"),
    ({"parts": {}}, "message.parts"),
    ({"parts": "hi"}, "message.parts"),
    ({"parts": [None]}, "message.parts[0]"),
    ({"parts": [{}]}, "message.parts[0]"),
    ({"parts": ["hi"]}, "message.parts[0]"),
    ({"parts": [{"text": "a", "url": "https://files.example/x"}]}, "message.parts[0]"),
    ({"parts": [{"text": "a", "data": None}]}, "message.parts[0]"),
    ({"parts": [{"raw": "aGk=", "data": {}}]}, "message.parts[0]"),
    ({"parts": [{"text": 5}]}, "message.parts[0].text"),
    ({"parts": [{"raw": "@@@@"}]}, "message.parts[0].raw"),
    ({"parts": [{"raw": "QUJD!!!"}]}, "message.parts[0].raw"),
    ({"parts": [{"raw": "QUJD="}]}, "message.parts[0].raw"),
    ({"parts": [{"raw": "QQ=Q"}]}, "message.parts[0].raw"),
    ({"parts": [{"raw": "A"}]}, "message.parts[0].raw"),
    ({"metadata": []}, "message.metadata"),
    ({"metadata": "x"}, "message.metadata"),
    ({"extensions": "urn:x"}, "message.extensions"),
    ({"contextId": "a b"}, "message.contextId"),
    ({"taskId": 7}, "message.taskId"),
]


@pytest.mark.parametrize(("change", "field"), BAD_MESSAGES)
def test_messages(wire: Wire, change: Any, field: str) -> None:
    """LC09, PB05, PB13, S59, R8: a message that is wrong is refused with the field, at JSON-RPC and
    at REST with the same text, and nothing is made of it."""
    tenant = "of-bad-messages"
    body = {"message": {**MESSAGE, **change}, "tenant": tenant}
    rpc = wire.rpc("SendMessage", body)
    rest = wire.post("/message:send", body)
    assert rpc["error"]["code"] == -32602
    assert rest.status_code == 400
    error = rest.json()["error"]
    assert (error["code"], error["status"]) == (400, "INVALID_ARGUMENT")
    assert error["details"] == rpc["error"]["data"]
    bad = next(d for d in error["details"] if d["@type"].endswith("BadRequest"))
    places = [violation["field"] for violation in bad["fieldViolations"]]
    assert any(place.startswith(field) for place in places), places
    assert wire.rpc("ListTasks", {"tenant": tenant})["result"]["totalSize"] == 0


@pytest.mark.parametrize("params", [{}, {"message": None}, {"message": []}, {"message": {}}])
def test_no_message(wire: Wire, params: Any) -> None:
    """LC09: no message at all."""
    assert wire.code("SendMessage", params) == -32602
    assert wire.post("/message:send", params).status_code == 400


@pytest.mark.parametrize(
    ("raw", "content"), [("_-8=", b"\xff\xef"), ("_-8", b"\xff\xef"), ("aGk", b"hi"), ("", b"")]
)
def test_base64(wire: Wire, raw: str, content: bytes) -> None:
    """PB13: both alphabets, with and without padding, mean the same bytes; they come back in the
    common alphabet."""
    task = wire.send({"parts": [{"text": "echo"}, {"raw": raw}]})["result"]["task"]
    for parts in (task["artifacts"][0]["parts"], task["history"][0]["parts"]):
        assert parts[1] == {"raw": base64.b64encode(content).decode()}


SURROGATES = [
    (r'{"jsonrpc":"2.0","id":1,"method":"\ud83d"}', -32600, 1),
    (r'{"jsonrpc":"2.0","id":"\ud83d","method":"GetTask","params":{"id":"x"}}', -32600, None),
    (r'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"\ud83d"}}', -32602, 1),
]


@pytest.mark.parametrize(("body", "code", "call_id"), SURROGATES)
def test_half_surrogates_outside(wire: Wire, body: str, code: int, call_id: Any) -> None:
    """PB11: half of a surrogate pair in the method, the id, or an id field."""
    assert error_of(wire.raw(body), call_id) == code
    wire.works()


@pytest.mark.parametrize(
    "message",
    [
        r'{"messageId":"m","role":"ROLE_USER","parts":[{"text":"\ud83d"}]}',
        r'{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"}],"metadata":{"\udc00":1}}',
        r'{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"}],"metadata":{"a":["\ud800"]}}',
        r'{"messageId":"\ud83dx","role":"ROLE_USER","parts":[{"text":"x"}]}',
        r'{"messageId":"m","role":"ROLE_USER","parts":[{"data":{"k":"\ud83d"}}]}',
    ],
)
def test_half_surrogates_inside(wire: Wire, message: str) -> None:
    """PB11: in a text, a metadata name, a value: refused with an answer that can be encoded."""
    body = '{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":' + message + "}}"
    assert error_of(wire.raw(body), 1) == -32602
    rest = wire.post("/message:send", ('{"message":' + message + "}").encode())
    assert rest.status_code == 400
    wire.works()


def test_whole_surrogates(wire: Wire) -> None:
    """PB11: a pair is a character like any other."""
    body = json.dumps({"jsonrpc": "2.0", "id": "\U0001f600", "method": "SendMessage", "params": {}})
    assert "\\ud83d" in body
    assert error_of(wire.raw(body), "\U0001f600") == -32602


TIMES: list[tuple[Any, bool]] = [
    ("2026-01-01T05:30:00+05:30", True),
    ("2026-01-01T00:00:00Z", True),
    ("2026-01-01T00:00:00.123456789Z", True),
    (None, True),
    ("", False),
    (12345, False),
    ("yesterday", False),
    ("2026-01-01T00:00:00.1234567891Z", False),
    ("2026-01-01", False),
    ("2026-01-01T00:00:00", False),
    ("2026-13-01T00:00:00Z", False),
    ("0000-01-01T00:00:00Z", False),
    ({"seconds": 5}, False),
]


@pytest.mark.parametrize(("time", "is_good"), TIMES)
def test_times_in(wire: Wire, time: Any, is_good: bool) -> None:
    """PB03: RFC 3339 with an offset, and nothing else, in the body and in the query."""
    answer = wire.rpc("ListTasks", {"statusTimestampAfter": time})
    assert ("result" in answer) is is_good
    if not is_good:
        assert answer["error"]["code"] == -32602
        assert "statusTimestampAfter" in answer["error"]["message"]
    if isinstance(time, str):
        rest = wire.http.get("/tasks", params={"statusTimestampAfter": time}, headers=TYPED)
        assert rest.status_code == (200 if is_good else 400)


def test_times_with_offset_mean_the_moment(wire: Wire) -> None:
    """PB03: an offset is taken into account."""
    task = wire.send()["result"]["task"]
    context = {"contextId": task["contextId"]}
    hour = task["status"]["timestamp"][:14]
    for offset, found in (("+01:00", 1), ("-01:00", 0)):
        time = f"{hour}00:00{offset}"
        listed = wire.rpc("ListTasks", {**context, "statusTimestampAfter": time})["result"]
        assert listed["totalSize"] == found


def test_times_out(wire: Wire) -> None:
    """PB03, R7: every time that is sent is UTC with `Z`."""
    stream = wire.raw(slow("1")).text
    for text in (stream, json.dumps(wire.rpc("ListTasks", {}))):
        times = [x.split('"')[2] for x in text.split('"timestamp')[1:]]
        assert times
        assert all(time.endswith("Z") and "+" not in time for time in times)


LENGTHS: list[tuple[Any, Any]] = [
    (..., 3),
    (None, 3),
    (0, 0),
    (1, 1),
    ("2", 2),
    (2.0, 2),
    (100, 3),
    (2147483647, 3),
    (-1, None),
    (2147483648, None),
    (1.5, None),
    ("two", None),
    ("", None),
    (True, None),
    (10**30, None),
]


def test_history_lengths(wire: Wire) -> None:
    """HP01: every form of the number that ProtoJSON allows, and none that it does not."""
    task = wire.send({"parts": [{"text": "three"}]})["result"]["task"]
    wire.send({"taskId": task["id"], "messageId": "m2"})
    for length, expected in LENGTHS:
        params = {"id": task["id"], "historyLength": length}
        if length is ...:
            del params["historyLength"]
        answer = wire.rpc("GetTask", params)
        if expected is None:
            assert answer["error"]["code"] == -32602, length
            assert "historyLength" in answer["error"]["message"]
            continue
        assert len(answer["result"].get("history", [])) == expected, length
        if not expected:
            assert "history" not in answer["result"]


def test_required_fields_of_a_list(wire: Wire) -> None:
    """HP03, R8, D10: the list's own fields are there although empty; artifacts are absent."""
    empty = wire.rpc("ListTasks", {"tenant": "nothing-here"})["result"]
    assert empty == {"tasks": [], "nextPageToken": "", "pageSize": 50, "totalSize": 0}
    task = wire.send()["result"]["task"]
    context = {"contextId": task["contextId"]}
    for flag, found in ((False, False), (True, True), (None, False)):
        listed = wire.rpc("ListTasks", {**context, "includeArtifacts": flag})["result"]
        assert ("artifacts" in listed["tasks"][0]) is found
        assert (listed["nextPageToken"], listed["pageSize"], listed["totalSize"]) == ("", 50, 1)


def test_spellings(wire: Wire) -> None:
    """R7, R8: names of fields in either spelling on the way in, not both at once; camelCase on
    the way out; unknown fields are ignored."""
    snake = {"message_id": "m", "role": 1, "parts": [{"text": "x", "media_type": "text/plain"}]}
    params = {"message": snake, "configuration": {"history_length": 0, "unknown": [1]}, "x": {}}
    task = wire.rpc("SendMessage", params)["result"]["task"]
    assert "history" not in task
    assert task["artifacts"][0]["parts"] == [{"text": "x", "mediaType": "text/plain"}]
    assert "context_id" not in json.dumps(task)
    listed = wire.rpc("ListTasks", {"context_id": task["contextId"], "page_size": "1"})
    assert listed["result"]["pageSize"] == 1
    twice = {"message": {**MESSAGE, "message_id": "m"}}
    assert wire.code("SendMessage", twice) == -32602
    query = {"context_id": task["contextId"], "include_artifacts": "true", "unknown": "x"}
    rest = wire.http.get("/tasks", params=query, headers=TYPED).json()
    assert rest["tasks"][0]["artifacts"]


UNKNOWN_STATES: list[Any] = ["completed", "TASK_STATE_DONE", 99, -1, "3", "", True, []]


def test_enums(wire: Wire) -> None:
    """R7, R8: enums by name or number on the way in, by name on the way out; unknown ones are
    refused instead of dropped."""
    for status in ("TASK_STATE_COMPLETED", 3, None, "TASK_STATE_UNSPECIFIED", 0):
        assert "result" in wire.rpc("ListTasks", {"status": status})
    for other in UNKNOWN_STATES:
        assert wire.code("ListTasks", {"status": other}) == -32602, other
    assert wire.http.get("/tasks?status=done", headers=TYPED).status_code == 400


def test_nesting(wire: Wire) -> None:
    """PB01: JSON that nests deeper than protobuf can be read back is refused with its field; one
    that nests without end, too, and costs nothing."""
    deep: Any = 1
    for _ in range(40):
        deep = [deep]
    answer = wire.send({"metadata": {"k": deep}})
    assert answer["error"]["code"] == -32602
    assert "message.metadata" in answer["error"]["message"]
    endless = '{"jsonrpc":"2.0","id":1,"method":"GetTask","params":' + "[" * 100_000
    assert error_of(wire.raw(endless + "]" * 100_000 + "}")) in (-32600, -32700)
    wire.works()
