"""JSON as it comes over the wire: envelopes, ids, spellings, and what HTTP itself refuses.

Raw requests, since a client would not send most of these. What is about JSON alone is shown over
JSON-RPC, and over REST where it has the same place.
"""

import base64
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.contract.doors import Places
from tests.contract.serving import OPTIONAL, OTHER

MESSAGE = {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
TYPED = {"content-type": "application/json", "a2a-version": "1.0"}


class Wire:
    """One connection to the HTTP door."""

    def __init__(self, http: httpx.Client):
        self.http = http

    def raw(self, body: bytes | str, **headers: str) -> httpx.Response:
        """Any bytes to the JSON-RPC URL."""
        content = body.encode("utf-8", "surrogatepass") if isinstance(body, str) else body
        return self.http.post("/", content=content, headers={**TYPED, **headers})

    def rpc(self, method: str, params: Any = ..., call_id: Any = 1) -> Any:
        """A request; what is `...` is left out. Gives the response object."""
        request = {"jsonrpc": "2.0", "id": call_id, "method": method, "params": params}
        body = json.dumps({k: v for k, v in request.items() if v is not ...})
        response = self.raw(body)
        assert response.status_code == 200
        return response.json()

    def code(self, method: str, params: Any = ...) -> int:
        """The number of the error that a request gives."""
        response = self.rpc(method, params)
        assert "result" not in response, response
        assert response["id"] == 1
        return int(response["error"]["code"])

    def send(self, message: Any = None, **params: Any) -> Any:
        """SendMessage of the smallest message with these changes."""
        return self.rpc("SendMessage", {"message": {**MESSAGE, **(message or {})}, **params})

    def works(self) -> None:
        """The connection is still good for a request."""
        task = self.send()["result"]["task"]
        assert task["status"]["state"] == "TASK_STATE_COMPLETED"

    def post(self, path: str, value: Any, **headers: str) -> httpx.Response:
        """A REST request."""
        content = value if isinstance(value, bytes) else json.dumps(value).encode()
        return self.http.post(path, content=content, headers={**TYPED, **headers})


@pytest.fixture
def wire(places: Places) -> Iterator[Wire]:
    """One connection for the whole test."""
    limits = httpx.Limits(max_connections=1)
    with httpx.Client(base_url=places.http, limits=limits, trust_env=False) as http:
        yield Wire(http)


def error_of(response: httpx.Response, call_id: Any = None) -> int:
    """The code of a JSON-RPC error with this id."""
    assert response.headers["content-type"] == "application/json"
    body = response.json()
    assert body["jsonrpc"] == "2.0"
    assert body["id"] == call_id
    assert "result" not in body
    assert isinstance(body["error"]["message"], str)
    return int(body["error"]["code"])


# -- the envelope ------------------------------------------------------------------------

GET = '"method":"GetTask","params":{"id":"x"}'

ENVELOPES: list[tuple[str, int, Any]] = [
    ('{"id":1,' + GET + "}", -32600, 1),
    ('{"jsonrpc":"1.0","id":1,' + GET + "}", -32600, 1),
    ('{"jsonrpc":2.0,"id":1,' + GET + "}", -32600, 1),
    ('{"jsonrpc":"2.0","id":{"a":1},' + GET + "}", -32600, None),
    ('{"jsonrpc":"2.0","id":[1],' + GET + "}", -32600, None),
    ('{"jsonrpc":"2.0","id":true,' + GET + "}", -32600, None),
    ('{"jsonrpc":"2.0","id":1,"method":"GetTask","params":"x"}', -32602, 1),
    ('{"jsonrpc":"2.0","id":1,"method":"GetTask","params":[]}', -32602, 1),
    ('{"jsonrpc":"2.0","id":1,"method":"GetTask","params":["x"]}', -32602, 1),
    ('{"jsonrpc":"2.0","id":1,"method":"GetTask"}', -32602, 1),
    ('{"jsonrpc":"2.0","id":1,"method":"GetTask","params":null}', -32602, 1),
    ('{"jsonrpc":"2.0","id":1,"method":""}', -32600, 1),
    ('{"jsonrpc":"2.0","id":1,"method":5}', -32600, 1),
    ('{"jsonrpc":"2.0","id":1,"method":null}', -32600, 1),
    ('{"jsonrpc":"2.0","id":1}', -32600, 1),
    ('{"jsonrpc":"2.0","id":"a","method":"getTask"}', -32601, "a"),
    ('{"jsonrpc":"2.0","id":"a","method":"message/send","params":{}}', -32601, "a"),
    ('{"jsonrpc":"2.0","id":null,"method":"Nothing"}', -32601, None),
    ("[]", -32600, None),
    ('[{"jsonrpc":"2.0","id":1,' + GET + "}]", -32600, None),
    ("5", -32600, None),
    ('"x"', -32600, None),
    ("null", -32600, None),
    ("{}", -32600, None),
]


@pytest.mark.parametrize(("body", "code", "call_id"), ENVELOPES)
def test_envelopes(wire: Wire, body: str, code: int, call_id: Any) -> None:
    """JR01, JR09, S45, S46, D33: each flaw of an envelope has its own code, with the id where it
    can be read; the connection goes on."""
    assert error_of(wire.raw(body), call_id) == code
    wire.works()


BROKEN = [
    b"",
    b" ",
    b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":',
    b"{'jsonrpc':'2.0'}",
    b'{"jsonrpc":"2.0","id":1,' + GET.encode() + b"}}",
    b'{"jsonrpc":"2.0","id":1,' + GET.encode() + b"} x",
    b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":NaN}}',
    b'{"jsonrpc":"2.0","id":01,' + GET.encode() + b"}",
    b"\xff\xfe",
    b'{"jsonrpc":"2.0","id":1,"method":"Get\xffTask"}',
    b"\xef\xbb\xbf{}",
    b"<html></html>",
]


@pytest.mark.parametrize("body", BROKEN)
def test_broken_json(wire: Wire, body: bytes) -> None:
    """JR02, S46, R38: Parse error with id null and the standard text; the connection goes on."""
    response = wire.raw(body)
    assert response.status_code == 200
    assert error_of(response) == -32700
    assert response.json()["error"]["message"].startswith("Invalid JSON payload")
    wire.works()


def test_standard_texts(wire: Wire) -> None:
    """R38, S46: the first words of JSON-RPC's own codes, and the name of an unknown method."""
    texts = {
        -32600: ("Request payload validation error", wire.raw("{}").json()),
        -32601: ("Method not found: Nope", wire.rpc("Nope")),
        -32602: ("Invalid parameters", wire.rpc("GetTask", {"id": 5})),
    }
    for code, (text, response) in texts.items():
        assert response["error"]["code"] == code
        assert response["error"]["message"].startswith(text)


@pytest.mark.parametrize(
    "call_id", ["7", '"7"', '"07"', '"+7"', "0", "-1", "1e2", "7.0", "7.50", '""', "null"]
)
def test_ids(wire: Wire, call_id: str) -> None:
    """JR05, S45: an id comes back as it was written, in answers, errors and frames of a stream."""
    start = '{"jsonrpc":"2.0","id":' + call_id + ',"method":'
    message = json.dumps({"message": MESSAGE})
    bodies = [
        start + '"SendMessage","params":' + message + "}",
        start + '"Nope"}',
        start + '"SendStreamingMessage","params":' + message + "}",
    ]
    for body in bodies:
        lines = [x for x in wire.raw(body).text.splitlines() if not x.startswith(("id:", ":"))]
        for line in filter(None, lines):
            assert f'"id":{call_id},' in line


def test_one_id_many_streams(places: Places) -> None:
    """JR05: streams with ids that look alike, at once: each frame carries the id of its own."""
    ids = ["7", '"7"', '"07"']
    with httpx.Client(base_url=places.http, trust_env=False) as http:
        streams = [http.stream("POST", "/", content=slow(i), headers=TYPED) for i in ids]
        responses = [stream.__enter__() for stream in streams]
        lines = [[x for x in r.iter_lines() if x.startswith("data:")] for r in responses]
        for stream in streams:
            stream.__exit__(None, None, None)
    for call_id, frames in zip(ids, lines, strict=True):
        assert len(frames) == 6
        assert all(f.startswith('data: {"jsonrpc":"2.0","id":' + call_id + ",") for f in frames)


def slow(call_id: str) -> str:
    """A request for a stream of six events."""
    message = {**MESSAGE, "parts": [{"text": "slow 3 40"}]}
    params = json.dumps({"message": message})
    head = '{"jsonrpc":"2.0","id":' + call_id
    return head + ',"method":"SendStreamingMessage","params":' + params + "}"


def test_notifications(wire: Wire) -> None:
    """JR07: a request without an id is carried out and never answered, also where it fails; an id
    of null is a request."""
    for method, params in (
        ("GetTask", {"id": "no-such"}),
        ("Nope", {}),
        ("GetTask", []),
        ("SendStreamingMessage", {"message": MESSAGE}),
    ):
        body = {"jsonrpc": "2.0", "method": method, "params": params}
        response = wire.raw(json.dumps(body))
        assert (response.status_code, response.content) == (204, b"")
    tenant = "of-notifications"
    body = {"jsonrpc": "2.0", "method": "SendMessage"}
    wire.raw(json.dumps({**body, "params": {"message": MESSAGE, "tenant": tenant}}))
    assert wire.rpc("ListTasks", {"tenant": tenant})["result"]["totalSize"] == 1
    assert wire.rpc("GetTask", {"id": "no-such"}, None) == {
        "jsonrpc": "2.0",
        "id": None,
        "error": wire.rpc("GetTask", {"id": "no-such"}, 2)["error"],
    }


# -- ProtoJSON ---------------------------------------------------------------------------

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
    """LC09, PB05, PB13, R8: a message that is wrong is refused with the field, at JSON-RPC and at
    REST with the same text, and nothing is made of it."""
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


def test_enums(wire: Wire) -> None:
    """R7, R8: enums by name or number on the way in, by name on the way out; unknown ones are
    refused instead of dropped."""
    for status in ("TASK_STATE_COMPLETED", 3, None, "TASK_STATE_UNSPECIFIED", 0):
        assert "result" in wire.rpc("ListTasks", {"status": status})
    for status in ("completed", "TASK_STATE_DONE", 99, -1, "3", "", True, []):
        assert wire.code("ListTasks", {"status": status}) == -32602, status
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


# -- parameters --------------------------------------------------------------------------


def test_version_as_a_query_parameter(wire: Wire) -> None:
    """R10, D23, S41: over HTTP the version may stand in the query; without any it is 0.3, and
    the refusal names the header and the value to send."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {}})
    plain = {"content-type": "application/json"}
    for query, is_good in (
        ("?A2A-Version=1.0", True),
        ("?a2a-version=1.0", True),
        ("?A2A-Version=0.3", False),
        ("", False),
    ):
        rpc = wire.http.post(f"/{query}", content=body, headers=plain).json()
        rest = wire.http.get(f"/tasks{query}")
        assert ("result" in rpc) is is_good
        assert (rest.status_code == 200) is is_good
        if not is_good:
            assert rpc["error"]["code"] == -32009
            assert "A2A-Version: 1.0" in rpc["error"]["message"]
            assert rest.json()["error"]["details"][0]["reason"] == "VERSION_NOT_SUPPORTED"


def test_a_header_in_several_lines(wire: Wire) -> None:
    """R11, R35: extensions named in two header lines are all seen, in order."""
    headers = [*TYPED.items(), ("A2A-Extensions", OTHER), ("a2a-extensions", f"{OPTIONAL}")]
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {}})
    answer = wire.http.post("/", content=body, headers=headers)
    assert answer.headers["a2a-extensions"] == f"{OTHER}, {OPTIONAL}"


def test_a_malformed_cursor(wire: Wire) -> None:
    """R8: a `Last-Event-ID` that is no number of ours is refused, not taken for the start."""
    for value in ("x", "-1", "1.5", "9" * 30):
        body = json.dumps(
            {"jsonrpc": "2.0", "id": 1, "method": "SubscribeToTask", "params": {"id": "x"}}
        )
        answer = wire.raw(body, **{"last-event-id": value})
        assert error_of(answer, 1) == -32602


# -- HTTP --------------------------------------------------------------------------------


def test_what_is_not_ours(wire: Wire) -> None:
    """S33, S34, S40, S42, R34: paths and methods that nothing is behind get HTTP's own answers,
    as JSON and with what is allowed."""
    for verb, path, status, allow in (
        ("GET", "/", 405, "POST"),
        ("PUT", "/", 405, "POST"),
        ("DELETE", "/tasks", 405, "GET"),
        ("GET", "/message:send", 405, "POST"),
        ("POST", "/tasks/x", 405, "GET"),
        ("GET", "/tasks/x:cancel", 405, "POST"),
        ("POST", "/nothing", 404, None),
        ("GET", "/.well-known/agent.json", 404, None),
        ("GET", "/tasks/x:nothing", 404, None),
        ("POST", "/message:nothing", 404, None),
        ("GET", "/a/b/c/d/e/f/g", 404, None),
        ("POST", "/.well-known/agent-card.json", 405, "GET"),
        ("POST", "/health", 405, "GET"),
    ):
        answer = wire.http.request(verb, path, headers=TYPED, content=b"{}")
        assert answer.status_code == status, (verb, path)
        assert answer.headers["content-type"] == "application/json"
        assert answer.json()["error"]
        if allow:
            assert allow in answer.headers["allow"]


def test_media_types(wire: Wire) -> None:
    """R34, S34: JSON in, by any of its names; anything else is 415. REST answers in the type that
    was asked for, or sent, or its own; errors as plain JSON unless asked otherwise."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {}})
    for kind, status in (
        ("application/json", 200),
        ("application/json; charset=utf-8", 200),
        ("Application/JSON", 200),
        ("application/a2a+json", 200),
        ("text/plain", 415),
        ("application/x-www-form-urlencoded", 415),
        ("multipart/form-data; boundary=x", 415),
        ("application/jsonx", 415),
    ):
        assert wire.raw(body, **{"content-type": kind}).status_code == status, kind
        rest = wire.post("/message:send", {"message": MESSAGE}, **{"content-type": kind})
        assert rest.status_code == status, kind
    own, plain = "application/a2a+json", "application/json"
    for accept, sent, answered in (
        (None, own, own),
        (None, plain, plain),
        (plain, own, plain),
        (own, plain, own),
        ("*/*", plain, plain),
        (f"{plain};q=0.5, {own}", plain, own),
    ):
        headers = {"content-type": sent, "accept": accept or ""}
        answer = wire.post("/message:send", {"message": MESSAGE}, **headers)
        assert answer.headers["content-type"] == answered
    for accept, answered in ((None, plain), ("*/*", plain), (own, own)):
        headers = {**TYPED, "accept": accept or ""}
        answer = wire.http.get("/tasks/no-such", headers=headers)
        assert answer.headers["content-type"] == answered


def test_bodies_that_are_too_large(places: Places) -> None:
    """GR07: 23 MB are refused before they are read, with JSON and 413, at both bindings."""
    content = b'{"x":"' + b"a" * 23_000_000 + b'"}'
    with httpx.Client(base_url=places.http, trust_env=False) as http:
        for path in ("/", "/message:send"):
            answer = http.post(path, content=content, headers=TYPED)
            assert answer.status_code == 413
            assert "larger than" in answer.json()["error"]["message"]


def test_rest_paths(wire: Wire) -> None:
    """S42, R39, R40: ids are percent-encoded in paths, tenants stand before them, and a body may
    not say otherwise."""
    body = {"message": {**MESSAGE, "parts": [{"text": "ask"}]}}
    for tenant in ("", "/plain", "/a%2Fb", "/%C3%A4"):
        sent = wire.post(f"{tenant}/message:send", body)
        assert sent.status_code == 200, tenant
        task = sent.json()["task"]
        path = f"{tenant}/tasks/{task['id'].replace('-', '%2D')}"
        assert wire.http.get(path, headers=TYPED).json() == task
        assert wire.http.get(f"/other/tasks/{task['id']}", headers=TYPED).status_code == 404
        canceled = wire.post(f"{path}:cancel", b"")
        assert canceled.json()["status"]["state"] == "TASK_STATE_CANCELED"
    differs = wire.post("/one/message:send", {**body, "tenant": "two"})
    assert differs.status_code == 400
    assert "tenant" in differs.json()["error"]["message"]
    assert wire.http.get("/tasks/%FF", headers=TYPED).status_code == 400


def test_trailing_slashes(wire: Wire) -> None:
    """S33, S40: JSON-RPC has one URL."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {}})
    assert "result" in wire.http.post("", content=body, headers=TYPED).json()


def test_polling_hints(wire: Wire) -> None:
    """S88: a task that is at work says when to look again; one that is not does not."""
    body = {"message": {**MESSAGE, "parts": [{"text": "slow 50 100"}]}}
    task = wire.post(
        "/message:send", {**body, "configuration": {"returnImmediately": True}}
    ).json()["task"]
    get = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": task["id"]}}
    path = f"/tasks/{task['id']}"
    for _ in range(2):
        assert wire.raw(json.dumps(get)).headers["retry-after"] == "1"
        assert wire.http.get(path, headers=TYPED).headers["retry-after"] == "1"
    wire.post(f"{path}:cancel", b"")
    assert "retry-after" not in wire.http.get(path, headers=TYPED).headers


def test_rest_answers_are_not_cached(wire: Wire) -> None:
    """S42: a GET of a task is never an old one."""
    assert wire.http.get("/tasks", headers=TYPED).headers["cache-control"] == "no-store"
