"""The whole door under hypothesis: whatever comes, a proper answer with the right id."""

import asyncio
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.doubles.core import FakeCore
from tests.unit.transports.http.serving import MESSAGE, chunk, echo
from transports.http.app import App
from transports.jsonrpc.dispatch import OPERATIONS

TEXT = st.text(max_size=6) | st.sampled_from(["\ud83d", "\x00", "", "ROLE_USER", "m1"])
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
PART = st.fixed_dictionaries(
    {}, optional={"text": JSON, "raw": JSON, "url": JSON, "data": JSON, "metadata": JSON}
)
MESSAGES = st.fixed_dictionaries(
    {},
    optional={"parts": st.lists(PART | JSON, max_size=3) | JSON, "metadata": JSON, "role": JSON},
).map(lambda value: {**MESSAGE, **value})
PARAMS = st.fixed_dictionaries(
    {}, optional={"message": MESSAGES | JSON, "id": TEXT | JSON, "historyLength": JSON}
)
REQUESTS = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0"), "method": st.sampled_from([*OPERATIONS]) | TEXT},
    optional={"id": TEXT | st.integers() | st.none() | JSON, "params": PARAMS | JSON},
)


async def two(method: str, request: Any, call: Any) -> Any:
    yield [chunk(1), chunk(2)]


def ask(
    method: str, path: str, query: bytes, body: bytes, headers: Any
) -> tuple[int, bytes, bytes]:
    """Status, media type and body of the answer to one request, past the sockets."""
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode("utf-8", "replace"),
        "query_string": query,
        "headers": headers,
        "client": ("127.0.0.1", 1),
    }
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    async def main() -> None:
        async with asyncio.timeout(10):
            await App(FakeCore(echo, two))(scope, receive, send)

    asyncio.run(main())
    start, *rest = sent
    assert [message["type"] for message in rest] == ["http.response.body"] * len(rest)
    media = dict(start["headers"]).get(b"content-type", b"")
    return start["status"], media, b"".join(message.get("body", b"") for message in rest)


@given(REQUESTS.map(json.dumps).map(str.encode) | st.binary(max_size=80))
@settings(max_examples=200)
def test_json_rpc(body: bytes) -> None:
    """JR01 to JR11, PB11: one JSON-RPC answer with the id of the request, or null where that
    cannot be; never a traceback or a path."""
    status, media, answer = ask("POST", "/", b"", body, [(b"content-type", b"application/json")])
    assert b"Traceback" not in answer
    assert b".py" not in answer
    if status == 204:
        assert answer == b""
        assert "id" not in json.loads(body)
        return
    assert status == 200
    lines = answer.decode().splitlines()
    texts = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
    for text in texts if media == b"text/event-stream" else [answer.decode()]:
        value = json.loads(text)
        assert len({"result", "error"} & set(value)) == 1
        if value["id"] is not None:
            assert value["id"] == json.loads(body)["id"]
        if "error" in value:
            assert set(value["error"]) == {"code", "message", "data"}
            assert value["error"]["code"] != -32603


@given(
    st.sampled_from(["GET", "POST", "DELETE", "HEAD", "OPTIONS", "PUT", "BREW"]),
    st.sampled_from(["/tasks", "/tasks/x", "/tasks/x:cancel", "/t/tasks", "/message:send"])
    | st.text(max_size=12).map(lambda text: "/" + text),
    st.sampled_from([b"pageSize=1", b"status=", b"historyLength=x", b"%", b"=&;&"])
    | st.binary(max_size=12),
    PARAMS.map(json.dumps).map(str.encode) | st.binary(max_size=20),
    st.sampled_from([b"application/json", b"text/plain", b"", b"\xff;;q"]),
    st.sampled_from([b"*/*", b"application/json;q=x,,", b"\xff", b"application/a2a+json"]),
)
@settings(max_examples=200)
def test_rest(
    method: str, path: str, query: bytes, body: bytes, content_type: bytes, accept: bytes
) -> None:
    """R37: a result, or a google.rpc.Status whose code is the status; never a 500."""
    headers = [(b"content-type", content_type), (b"accept", accept)]
    status, media, answer = ask(method, path, query, body, headers)
    assert status in (200, 204, 304, 400, 404, 405, 413, 415)
    assert b"Traceback" not in answer
    if status >= 400 and path != "/":
        error = json.loads(answer)["error"]
        if isinstance(error, dict):
            assert error["code"] == status
            assert error["details"][0]["reason"]
    elif status == 200 and media != b"text/event-stream":
        assert isinstance(json.loads(answer), dict)
