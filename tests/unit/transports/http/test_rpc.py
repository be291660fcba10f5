"""JSON-RPC over HTTP: statuses, bodies, metadata."""

import asyncio
import json
from typing import Any

import pytest
from a2a.utils.errors import TaskNotFoundError

from gateway.call import Call
from gateway.errors import ResourceExhaustedError, UnauthenticatedError
from gateway.pb import Task, TaskStatus
from tests.conftest import run
from tests.doubles.core import FakeCore
from tests.unit.transports.http.serving import MESSAGE, echo, served


async def unknown(method: str, request: Any, call: Call) -> Any:
    raise TaskNotFoundError(f"Task not found: {request.id}")


def test_a_call_and_its_answer() -> None:
    """S33, S45, R34: POST at the root, the result under the caller's id."""

    async def main() -> None:
        async with served(FakeCore(echo)) as door:
            response = await door.rpc("SendMessage", {"message": MESSAGE}, "abc")
            assert response.status_code == 200
            assert response.headers["content-type"] == "application/json"
            answer = response.json()
            assert (answer["jsonrpc"], answer["id"]) == ("2.0", "abc")
            assert answer["result"]["task"]["history"][0] == MESSAGE
            ((method, request, call),) = door.core.calls
            assert (method, request.message.message_id, call.door) == ("SendMessage", "m1", "http")

    run(main())


@pytest.mark.parametrize(
    ("path", "urls"), [("/", ["/"]), ("/a2a", ["/a2a", "/a2a/"]), ("/a/b/", ["/a/b", "/a/b/"])]
)
def test_the_path_with_and_without_a_slash(path: str, urls: list[str]) -> None:
    """S40: one URL, no path prescribed, no redirect; REST stands below it."""

    async def main() -> None:
        async with served(FakeCore(echo), path=path) as door:
            body = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "x"}}
            for url in urls:
                assert (await door.http.post(url, json=body)).json()["result"] == {"id": "x"}
            rest = await door.http.get(path.rstrip("/") + "/tasks/y")
            assert rest.json() == {"id": "y"}
            assert [i.url for i in door.door.interfaces()] == [
                door.url + path.rstrip("/") + "/",
                door.url + path.rstrip("/"),
            ]

    run(main())


@pytest.mark.parametrize(
    "body", [b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":', b"", b" "]
)
def test_broken_json_and_the_next_request(body: bytes) -> None:
    """JR02: -32700 with id null as JSON, and the connection goes on."""

    async def main() -> None:
        async with served(FakeCore(echo)) as door:
            wire = await door.wire()
            wire.post(body)
            status, answer = await wire.answer()
            assert status == 200
            assert json.loads(answer)["error"]["code"] == -32700
            assert json.loads(answer)["id"] is None
            wire.post(b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"x"}}')
            assert json.loads((await wire.answer())[1])["result"] == {"id": "x"}
            await wire.close()

    run(main())


def test_errors_keep_status_200() -> None:
    """S109, R37: the error object is the answer; HTTP carried it well."""

    async def main() -> None:
        async with served(FakeCore(unknown)) as door:
            response = await door.rpc("GetTask", {"id": "no"}, 7)
            assert response.status_code == 200
            answer = response.json()
            assert answer["id"] == 7
            assert "result" not in answer
            assert answer["error"]["code"] == -32001
            assert answer["error"]["message"] == "Task not found: no"
            assert answer["error"]["data"][0]["reason"] == "TASK_NOT_FOUND"
            response = await door.rpc("message/send", {})
            assert response.json()["error"]["message"] == "Method not found: message/send"
            response = await door.rpc("GetTask", {"id": 5})
            assert response.json()["error"]["code"] == -32602

    run(main())


def test_unexpected_errors_show_nothing() -> None:
    """GR03, S176."""

    async def broken(method: str, request: Any, call: Call) -> Any:
        raise ValueError("secret-123 in /home/user")

    async def main() -> None:
        async with served(FakeCore(broken)) as door:
            response = await door.rpc("GetTask", {"id": "x"})
            assert response.json()["error"]["code"] == -32603
            assert "secret" not in response.text
            assert "/home" not in response.text

    run(main())


def test_notifications_are_carried_out_and_not_answered() -> None:
    """JR07: no JSON-RPC body, whatever became of it."""

    async def stream(method: str, request: Any, call: Call) -> Any:
        yield [(1, b"")]
        await asyncio.Event().wait()

    async def main() -> None:
        async with served(FakeCore(unknown, stream)) as door:
            for method, params in [
                ("GetTask", {"id": "no"}),
                ("SendStreamingMessage", {"message": MESSAGE}),
                ("Unknown", {}),
                ("GetTask", {"id": 5}),
                ("GetTask", []),
            ]:
                response = await door.rpc(method, params, ...)
                assert response.status_code == 204
                assert response.content == b""
            assert [call[0] for call in door.core.calls] == ["GetTask", "SendStreamingMessage"]
            # null is an id
            assert (await door.rpc("GetTask", {"id": "no"}, None)).json()["id"] is None

    run(main())


def test_missing_credentials() -> None:
    """S168, D19: 401 with a challenge for each scheme; for notifications too."""

    async def refuse(method: str, request: Any, call: Call) -> Any:
        raise UnauthenticatedError(challenges=("Bearer", 'Basic realm="a2a"'))

    async def main() -> None:
        async with served(FakeCore(refuse)) as door:
            for call_id in (1, ...):
                response = await door.rpc("GetTask", {"id": "x"}, call_id)
                assert response.status_code == 401
                assert response.json() == {"error": "Unauthorized"}
                challenges = response.headers.get_list("www-authenticate")
                assert challenges == ["Bearer", 'Basic realm="a2a"']

    run(main())


def test_metadata_of_the_call() -> None:
    """R10, R11, VE05, GR06: service parameters, credentials and a2a names are passed on."""

    async def main() -> None:
        async with served(FakeCore(echo)) as door:
            await door.http.post(
                "/",
                json={"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "x"}},
                headers=[
                    ("A2A-Version", "1.0"),
                    ("A2A-Extensions", "urn:a, urn:b"),
                    ("a2a-extensions", "urn:c"),
                    ("Authorization", "Bearer Tok"),
                    ("X-API-Key", "Key"),
                    ("X-A2A-Extensions", "urn:old"),
                    ("Idempotency-Key", "k1"),
                    ("Last-Event-ID", "7"),
                    ("Traceparent", "00-1-2-01"),
                    ("Cookie", "no"),
                    ("Origin", "https://app.example"),
                ],
            )
            call = door.core.calls[0][2]
            assert call.version == "1.0"
            assert call.extensions == ("urn:a", "urn:b", "urn:c")
            assert (call.idempotency_key, call.cursor) == ("k1", 7)
            assert call.metadata["authorization"] == "Bearer Tok"
            assert call.metadata["x-api-key"] == "Key"
            assert call.metadata["x-a2a-extensions"] == "urn:old"
            assert call.metadata["traceparent"] == "00-1-2-01"
            assert "cookie" not in call.metadata
            assert call.peer.address.startswith("127.0.0.1:")
            assert call.peer.origin == "https://app.example"

    run(main())


@pytest.mark.parametrize(
    ("query", "header", "version"),
    [("?A2A-Version=1.0", None, "1.0"), ("?a2a-version=2.0", "1.0", "1.0"), ("", None, "")],
)
def test_the_version_as_a_query_parameter(query: str, header: str | None, version: str) -> None:
    """R10, D23, A2A 3.6.1; the header wins, an absent one stays empty."""

    async def main() -> None:
        async with served(FakeCore(echo)) as door:
            body = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "x"}}
            headers = {"a2a-version": header} if header else {}
            await door.http.post("/" + query, json=body, headers=headers)
            await door.http.get("/tasks/x" + query, headers=headers)
            assert [call.version for _, _, call in door.core.calls] == [version, version]

    run(main())


def test_metadata_of_the_answer() -> None:
    """R15: activated extensions."""

    async def main() -> None:
        core = FakeCore(echo)
        core.metadata = {"a2a-extensions": "urn:a", "other": "no"}
        async with served(core) as door:
            for response in (
                await door.rpc("GetTask", {"id": "x"}),
                await door.http.get("/tasks/x"),
            ):
                assert response.headers["A2A-Extensions"] == "urn:a"
                assert "other" not in response.headers

    run(main())


def test_polling_hints() -> None:
    """S88: how long to wait before the next look at a task that is at work."""

    async def task(method: str, request: Any, call: Call) -> Any:
        return Task(id=request.id, status=TaskStatus(state=f"TASK_STATE_{request.id}"))

    async def main() -> None:
        async with served(FakeCore(task)) as door:
            for state, expected in [
                ("SUBMITTED", "1"),
                ("WORKING", "1"),
                ("INPUT_REQUIRED", None),
                ("COMPLETED", None),
            ]:
                for response in (
                    await door.rpc("GetTask", {"id": state}),
                    await door.http.get(f"/tasks/{state}"),
                ):
                    assert response.headers.get("retry-after") == expected

    run(main())


def test_when_to_come_back_after_a_refusal() -> None:
    """S185: Retry-After in whole seconds."""

    async def full(method: str, request: Any, call: Call) -> Any:
        raise ResourceExhaustedError(retry_after=1.2)

    async def main() -> None:
        async with served(FakeCore(full)) as door:
            assert (await door.rpc("GetTask", {"id": "x"})).headers["retry-after"] == "2"
            response = await door.http.get("/tasks/x")
            assert (response.status_code, response.headers["retry-after"]) == (429, "2")

    run(main())


def test_methods_and_media_types_that_are_not_ours() -> None:
    """Proper refusals of HTTP itself, with a body that says what to do."""

    async def main() -> None:
        async with served(FakeCore(echo)) as door:
            for method in ("GET", "HEAD", "PUT", "DELETE"):
                response = await door.http.request(method, "/")
                assert response.status_code == 405
                assert response.headers["allow"] == "POST, OPTIONS"
            response = await door.http.options("/")
            assert (response.status_code, response.headers["allow"]) == (204, "POST, OPTIONS")
            body = b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"x"}}'
            for media, status in [
                ("text/plain", 415),
                ("application/x-www-form-urlencoded", 415),
                ("application/json; charset=utf-8", 200),
                ("Application/JSON", 200),
                ("application/a2a+json", 200),
            ]:
                response = await door.http.post("/", content=body, headers={"content-type": media})
                assert response.status_code == status
                assert ("application/json" in response.text) == (status == 415)
            # no media type: from a program; with an origin: a browser that asked nobody
            assert (await door.http.post("/", content=body)).status_code == 200
            response = await door.http.post("/", content=body, headers={"origin": "https://x"})
            assert response.status_code == 415
            assert len(door.core.calls) == 4

    run(main())


@pytest.mark.parametrize("is_chunked", [False, True])
def test_bodies_that_are_too_large(is_chunked: bool) -> None:
    """GR07, WS01: refused with the limit, early where the length is known; the next request is
    answered."""

    async def main() -> None:
        core = FakeCore(echo, message_bytes=3000)
        limit = 4000 + 64 * 1024
        async with served(core) as door:

            async def pieces() -> Any:
                for _ in range(40):
                    yield b" " * 10_000

            content = pieces() if is_chunked else b" " * 400_000
            headers = {"content-type": "application/json"}
            for url in ("/", "/message:send"):
                content = pieces() if is_chunked else b" " * 400_000
                response = await door.http.post(url, content=content, headers=headers)
                assert response.status_code == 413
                assert str(limit) in response.json()["error"]["message"]
            assert (await door.rpc("GetTask", {"id": "x"})).json()["result"] == {"id": "x"}
            message = {**MESSAGE, "parts": [{"text": "x" * (limit - 1000)}]}
            assert "result" in (await door.rpc("SendMessage", {"message": message})).json()

    run(main())


def test_a_client_that_leaves_frees_its_call() -> None:
    """GR10, SS09: a call whose client is gone is given up at once."""

    async def main() -> None:
        started, ended = asyncio.Event(), asyncio.Event()

        async def wait(method: str, request: Any, call: Call) -> Any:
            started.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        async with served(FakeCore(wait)) as door:
            for leave in ("close", "reset"):
                started.clear()
                ended.clear()
                wire = await door.wire()
                wire.post(b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"x"}}')
                await started.wait()
                if leave == "close":
                    await wire.close()
                else:
                    wire.reset()
                await ended.wait()

    run(main())


def test_many_calls_on_one_connection_in_order() -> None:
    """Pipelined requests are answered one after another (RFC 9112 s9.3.2)."""

    async def main() -> None:
        async with served(FakeCore(echo)) as door:
            wire = await door.wire()
            for number in range(20):
                wire.post(
                    b'{"jsonrpc":"2.0","id":%d,"method":"GetTask","params":{"id":"x"}}' % number
                )
            for number in range(20):
                assert json.loads((await wire.answer())[1])["id"] == number
            await wire.close()

    run(main())
