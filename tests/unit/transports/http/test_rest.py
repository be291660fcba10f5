"""HTTP+JSON: paths, queries, bodies, statuses."""

import asyncio
from typing import Any

import pytest
from a2a.utils.errors import UnsupportedOperationError

from gateway.call import Call
from gateway.errors import TABLE, Failure, FailureError, Row, UnauthenticatedError, ValidationError
from gateway.pb import ListTasksRequest, TaskPushNotificationConfig
from tests.conftest import run
from tests.doubles.core import FakeCore
from tests.unit.transports.http.serving import MESSAGE, chunk, echo, events, served
from transports.http.rest import query_value
from transports.jsonrpc import codec


def test_sending_and_its_media_types() -> None:
    """S42, R34, R43: bare messages, in the type that was asked for."""

    async def main() -> None:
        async with served(FakeCore(echo)) as door:
            for headers, expected in [
                ({}, "application/json"),  # httpx sends it with JSON
                ({"content-type": "application/a2a+json"}, "application/a2a+json"),
                ({"accept": "application/a2a+json"}, "application/a2a+json"),
            ]:
                body = {"message": MESSAGE}
                response = await door.http.post("/message:send", json=body, headers=headers)
                assert response.status_code == 200
                assert response.headers["content-type"] == expected
                assert response.json()["task"]["history"] == [MESSAGE]
            assert (await door.http.get("/tasks")).headers["cache-control"] == "no-store"

    run(main())


def test_paths_queries_and_tenants() -> None:
    """R39, R40: fields from the path and from a camelCase query, percent-decoded."""

    async def main() -> None:
        async with served(FakeCore(echo)) as door:
            await door.http.get("/acme/tasks/a%2Fb?historyLength=3&unknown=1&A2A-Version=1.0")
            await door.http.get(
                "/tasks?contextId=c%26d&status=TASK_STATE_WORKING&page_size=5&includeArtifacts=true"
                "&statusTimestampAfter=2026-01-01T05%3A30%3A00%2B05%3A30&tenant=t"
            )
            await door.http.post("/tasks/x:cancel", headers={"content-type": "application/json"})
            await door.http.delete("/tasks/x/pushNotificationConfigs/y")
            first, second, third, fourth = [call[1] for call in door.core.calls]
            assert (first.tenant, first.id, first.history_length) == ("acme", "a/b", 3)
            assert codec.encode(second) == {
                "tenant": "t",
                "contextId": "c&d",
                "status": "TASK_STATE_WORKING",
                "pageSize": 5,
                "statusTimestampAfter": "2026-01-01T00:00:00Z",
                "includeArtifacts": True,
            }
            assert third.id == "x"
            assert (fourth.task_id, fourth.id) == ("x", "y")
            assert door.core.calls[0][2].version == "1.0"

    run(main())


@pytest.mark.parametrize(
    ("url", "field"),
    [
        ("/tasks/x?historyLength=2147483648", "historyLength"),
        ("/tasks/x?historyLength=many", "historyLength"),
        ("/tasks?status=WORKING", "status"),
        ("/tasks?includeArtifacts=yes", "includeArtifacts"),
        ("/tasks?statusTimestampAfter=yesterday", "statusTimestampAfter"),
        ("/tasks?statusTimestampAfter=", "statusTimestampAfter"),
        ("/tasks?statusTimestampAfter=12345", "statusTimestampAfter"),
        ("/tasks?pageSize=1&pageSize=2", "pageSize"),
        ("/acme/tasks?tenant=other", "tenant"),
    ],
)
def test_queries_that_are_wrong(url: str, field: str) -> None:
    """HP01, PB03: 400, with the field as the client wrote it."""

    async def main() -> None:
        async with served(FakeCore(echo)) as door:
            response = await door.http.get(url)
            assert response.status_code == 400
            error = response.json()["error"]
            assert (error["code"], error["status"]) == (400, "INVALID_ARGUMENT")
            assert error["details"][0]["reason"] == "INVALID_PARAMS"
            assert error["details"][1]["fieldViolations"][0]["field"] == field
            assert not door.core.calls

    run(main())


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (b"", {}),
        (b"contextId=", {"contextId": ""}),
        (b"a2a-version=1.0", {}),
        (b"pageSize=5&page=2", {"pageSize": "5"}),
        (b"includeArtifacts=false", {"includeArtifacts": False}),
        (b"%63ontextId=a%20b+c", {"contextId": "a b c"}),
    ],
)
def test_query_values(query: bytes, expected: dict[str, Any]) -> None:
    """R39."""
    assert query_value(ListTasksRequest, query) == expected


@pytest.mark.parametrize("query", [b"contextId=%FF", b"\xff=1"])
def test_queries_that_are_not_unicode(query: bytes) -> None:
    with pytest.raises(Exception, match="query"):
        query_value(ListTasksRequest, query)


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.reason)
def test_every_error(row: Row) -> None:
    """R12, R37, R41: google.rpc.Status with ErrorInfo, as application/json."""

    async def fail(method: str, request: Any, call: Call) -> Any:
        raise FailureError(Failure(row, "Something is wrong", {"taskId": "t"}))

    async def main() -> None:
        async with served(FakeCore(fail)) as door:
            response = await door.http.get("/tasks/t")
            assert response.status_code == row.http
            assert response.headers["content-type"] == "application/json"
            assert response.json() == {
                "error": {
                    "code": row.http,
                    "status": row.code.name,
                    "message": "Something is wrong",
                    "details": [
                        {
                            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                            "reason": row.reason,
                            "domain": row.domain,
                            "metadata": {"taskId": "t"},
                        }
                    ],
                }
            }
            assert ("www-authenticate" in response.headers) == (row.http == 401)
            response = await door.http.get("/tasks/t", headers={"accept": "application/a2a+json"})
            assert response.headers["content-type"] == "application/a2a+json"

    run(main())


def test_missing_credentials() -> None:
    """D19: google.rpc.Status with 401 and the challenges."""

    async def refuse(method: str, request: Any, call: Call) -> Any:
        raise UnauthenticatedError(challenges=("Bearer", "ApiKey"))

    async def main() -> None:
        async with served(FakeCore(refuse)) as door:
            response = await door.http.get("/tasks")
            assert response.status_code == 401
            assert response.headers.get_list("www-authenticate") == ["Bearer", "ApiKey"]
            assert response.json()["error"]["status"] == "UNAUTHENTICATED"

    run(main())


def test_bodies() -> None:
    """JR02, R8: broken JSON, other media types, fields that differ from the path."""

    async def main() -> None:
        async with served(FakeCore(echo)) as door:
            json_type = {"content-type": "application/json"}
            url = "/tasks/t/pushNotificationConfigs"
            for content, status, reason in [
                (b'{"a":', 400, "JSON_PARSE_ERROR"),
                (b"\xff", 400, "JSON_PARSE_ERROR"),
                (b"[]", 400, "INVALID_PARAMS"),
                (b'{"url":5}', 400, "INVALID_PARAMS"),
                (b'{"taskId":"other"}', 400, "INVALID_PARAMS"),
                (b'{"x":' + b"[" * 2000 + b"]" * 2000 + b"}", 400, "INVALID_REQUEST"),
            ]:
                response = await door.http.post(url, content=content, headers=json_type)
                assert response.status_code == status, content[:20]
                assert response.json()["error"]["details"][0]["reason"] == reason
            response = await door.http.post(url, content=b"a=b", headers={"content-type": "text/x"})
            assert response.status_code == 415
            assert "application/json" in response.json()["error"]["message"]
            assert not door.core.calls
            good = {"taskId": "t", "url": "https://x.example", "new": 1}
            assert (await door.http.post(url, json=good)).status_code == 200
            expected = TaskPushNotificationConfig(task_id="t", url="https://x.example")
            assert door.core.calls[0][1] == expected

    run(main())


def test_what_is_not_ours() -> None:
    """Unknown paths, other methods, OPTIONS and HEAD."""

    async def main() -> None:
        async with served(FakeCore(echo)) as door:
            response = await door.http.get("/nothing")
            assert response.status_code == 404
            assert response.json()["error"]["code"] == 404
            for method, url, allow in [
                ("PUT", "/tasks/x", "GET, HEAD, OPTIONS"),
                ("GET", "/message:send", "POST, OPTIONS"),
                ("GET", "/tasks/x:cancel", "POST, OPTIONS"),
                ("HEAD", "/tasks/x:subscribe", "POST, GET, OPTIONS"),
                ("POST", "/tasks", "GET, HEAD, OPTIONS"),
                ("PATCH", "/tasks/x/pushNotificationConfigs/y", "GET, HEAD, DELETE, OPTIONS"),
            ]:
                response = await door.http.request(method, url)
                assert response.status_code == 405
                assert response.headers["allow"] == allow
                response = await door.http.options(url)
                assert (response.status_code, response.headers["allow"]) == (204, allow)
            assert not door.core.calls
            response = await door.http.head("/tasks/x")
            assert (response.status_code, response.content) == (200, b"")
            assert int(response.headers["content-length"]) > 0

    run(main())


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_streams_of_bare_events(method: str) -> None:
    """R36, D25: bare StreamResponse messages with their sequence numbers."""

    async def stream(method: str, request: Any, call: Call) -> Any:
        yield [chunk(1), chunk(2)]
        raise UnsupportedOperationError("Enough")

    async def main() -> None:
        async with served(FakeCore(echo, stream)) as door:
            headers = {"last-event-id": "41"}
            response = await door.http.request(method, "/tasks/t:subscribe", headers=headers)
            assert response.headers["content-type"] == "text/event-stream"
            first, second, last = events(response.text)
            assert (first[0], second[0]) == ("1", "2")
            assert set(first[1]) == {"artifactUpdate"}
            assert last[1]["error"]["code"] == 400
            assert last[1]["error"]["details"][0]["reason"] == "UNSUPPORTED_OPERATION"
            assert door.core.calls[0][2].cursor == 41

    run(main())


def test_a_stream_that_fails_at_once_is_an_ordinary_error() -> None:
    """ST05: the status of the failure, not an event stream."""

    async def stream(method: str, request: Any, call: Call) -> Any:
        await asyncio.sleep(0)
        if request:
            raise ValidationError(("message.parts", "must hold at least one part"))
        yield []

    async def main() -> None:
        async with served(FakeCore(echo, stream)) as door:
            response = await door.http.post("/message:stream", json={"message": {}})
            assert response.status_code == 400
            assert "message.parts" in response.json()["error"]["message"]

    run(main())
