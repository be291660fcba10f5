"""What HTTP itself adds: parameters in headers and query, media types, paths, refusals."""

import json

import httpx

from tests.contract.doors import Places
from tests.contract.serving import OPTIONAL, OTHER
from tests.contract.wire import MESSAGE, TYPED, Wire, error_of


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
    """S34, S42, R39, R40: ids are percent-encoded in paths, tenants stand before them, and a body
    may not say otherwise."""
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
