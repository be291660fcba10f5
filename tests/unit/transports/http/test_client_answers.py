"""The client against servers that answer anything at all: each answer is a result or a failure."""

import asyncio
import gzip
import json
from typing import Any

import pytest

from gateway.errors import MAX_MESSAGE_LENGTH, Failure, FailureError
from gateway.pb import GetTaskRequest, SubscribeToTaskRequest, Task
from tests.conftest import run
from tests.doubles.web import Said, web
from transports.http import client
from transports.http.client import Binding, HttpClient
from transports.wire import UnreachableError

STREAM = {"content-type": "text/event-stream; charset=utf-8"}
EVENT = b'id: 1\ndata: {"task":{"id":"t"}}\n\n'
INFO = "type.googleapis.com/google.rpc.ErrorInfo"
RETRY = "type.googleapis.com/google.rpc.RetryInfo"
RPC_EVENT = b'id: 1\ndata: {"jsonrpc":"2.0","id":1,"result":{"task":{"id":"t"}}}\n\n'


def unary(said: Said, binding: Binding = "jsonrpc") -> Any:
    """The answer, or the failure, of GetTask."""

    async def main() -> Any:
        async with web(lambda asked: said) as server, HttpClient(server.url, binding) as client:
            try:
                return await client.unary("GetTask", GetTaskRequest(id="t"))
            except FailureError as error:
                return error.failure

    return run(main())


def stream(said: Said, binding: Binding = "rest") -> tuple[list[int], Failure | None]:
    """The numbers of the events of SubscribeToTask, and how it failed."""

    async def main() -> tuple[list[int], Failure | None]:
        found = []
        async with web(lambda asked: said) as server, HttpClient(server.url, binding) as client:
            try:
                async for seq, event in client.stream(
                    "SubscribeToTask", SubscribeToTaskRequest(id="t")
                ):
                    assert event.task.id == "t"
                    found.append(seq)
            except FailureError as error:
                return found, error.failure
        return found, None

    return run(main())


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>", b"[]", b"null", b'"x"', b"{", b"\xff", b'{"jsonrpc":"2.0","id":1}'],
)
def test_answers_that_are_none(body: bytes) -> None:
    """S163: 200 alone makes no answer."""
    assert unary(Said(body)).row.reason == "INVALID_AGENT_RESPONSE"


def test_answers_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """No server fills the memory, and none with few bytes that are many."""
    monkeypatch.setattr(client, "MAX_ANSWER_BYTES", 100_000)
    small = gzip.compress(b" " * 1_000_000)
    for said in (Said(b" " * 100_001), Said(small, headers={"content-encoding": "gzip"})):
        failure = unary(said)
        assert failure.row.reason == "INVALID_AGENT_RESPONSE"
        assert "larger than 100000 bytes" in failure.message


def test_answers_that_cannot_be_decompressed() -> None:
    """No fault of the connection, and so not asked for again."""
    failure = unary(Said(b"{}", headers={"content-encoding": "gzip"}))
    assert failure.row.reason == "INVALID_AGENT_RESPONSE"


@pytest.mark.parametrize("message", ["x" * 100_000, {"a": 1}])
def test_reasons_of_any_form(message: Any) -> None:
    """What a server says of an error is shown as far as it can be read."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "error": {"code": -32001, "message": message}})
    failure = unary(Said(body.encode()))
    assert failure.row.reason == "TASK_NOT_FOUND"
    assert 0 < len(failure.message) <= MAX_MESSAGE_LENGTH


@pytest.mark.parametrize("result", [{"id": 1}, [], "x", {"status": {"state": "NO_SUCH"}}])
def test_results_that_do_not_fit(result: Any) -> None:
    """S163: the field is named."""
    failure = unary(Said(json.dumps({"jsonrpc": "2.0", "id": 1, "result": result}).encode()))
    assert failure.row.reason == "INVALID_AGENT_RESPONSE"


def test_fields_of_later_versions() -> None:
    """R8: passed over."""
    assert unary(Said(b'{"id":"t","later":{"x":[1]}}'), "rest") == Task(id="t")


@pytest.mark.parametrize(
    "error",
    [
        "x",
        None,
        [],
        {},
        {"code": []},
        {"code": 1, "data": 5},
        {"data": [1, {}, {"@type": INFO, "metadata": 3, "reason": []}, {"@type": RETRY}]},
    ],
)
def test_errors_of_any_form(error: Any) -> None:
    """An error is an error, whatever it holds."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "error": error}).encode()
    for binding, status in (("jsonrpc", 200), ("rest", 500)):

        async def main(binding: Any = binding, status: int = status) -> None:
            said = Said(body, status)
            async with web(lambda asked: said) as server, HttpClient(server.url, binding) as client:
                with pytest.raises(FailureError) as caught:
                    await client.unary("GetTask", GetTaskRequest(id="t"))
                assert caught.value.failure.row.reason == "INTERNAL_ERROR"
                assert caught.value.failure.message  # also where the server gave none

        run(main())


@pytest.mark.parametrize(
    ("status", "headers", "reason", "words"),
    [
        (404, {}, "METHOD_NOT_FOUND", "is the URL right?"),
        (405, {}, "METHOD_NOT_FOUND", "HTTP 405"),
        (429, {"retry-after": "3"}, "RESOURCE_EXHAUSTED", "HTTP 429"),
        (403, {}, "PERMISSION_DENIED", "HTTP 403"),
        (500, {}, "INTERNAL_ERROR", "HTTP 500"),
        (502, {}, "UNAVAILABLE", "HTTP 502"),
        (503, {"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, "UNAVAILABLE", "HTTP 503"),
        (504, {}, "UNAVAILABLE", "HTTP 504"),
        (307, {"location": "https://other/"}, "INVALID_REQUEST", "redirects to https://other/"),
    ],
)
def test_what_stands_between(status: int, headers: Any, reason: str, words: str) -> None:
    """Answers of proxies and of other servers, which are no A2A; a redirection is not followed,
    because it could lead credentials away."""
    failure = unary(Said(b"<html>", status, headers))
    assert failure.row.reason == reason
    assert words in failure.message
    assert failure.retry_after == (3.0 if status == 429 else None)


def test_challenges() -> None:
    """R37: what the server asks for is passed on."""

    async def main() -> None:
        said = Said(b"{}", 401, {"www-authenticate": "Bearer realm=x"})
        async with web(lambda asked: said) as server, HttpClient(server.url) as client:
            with pytest.raises(FailureError) as caught:
                await client.unary("GetTask", GetTaskRequest(id="t"))
            assert caught.value.failure.challenges == ("Bearer realm=x",)

    run(main())


def test_a_stream_of_another_server() -> None:
    """Without ids, or with ids that are no numbers: the events come, without numbers."""
    body = EVENT + EVENT.replace(b"id: 1", b"id: abc") + EVENT.replace(b"id: 1\n", b"")
    assert stream(Said(body, headers=STREAM)) == ([1, 0, 0], None)
    assert stream(Said(RPC_EVENT, headers=STREAM), "jsonrpc") == ([1], None)


@pytest.mark.parametrize(
    "tail",
    [b"data: {\n\n", b"data: []\n\n", b'data: {"task":{"id":5}}\n\n'],
)
def test_events_that_are_none(tail: bytes) -> None:
    """What came before them came."""
    numbers, failure = stream(Said(EVENT + tail, headers=STREAM))
    assert numbers == [1]
    assert failure is not None
    assert failure.row.reason == "INVALID_AGENT_RESPONSE"


def test_an_answer_instead_of_a_stream() -> None:
    """It is no stream, whatever it says."""
    assert stream(Said(b'{"id":"t"}'))[1].row.reason == "INVALID_AGENT_RESPONSE"  # type: ignore[union-attr]
    failure = stream(Said(b'{"error":{"code":404,"message":"no"}}', 404))[1]
    assert failure is not None
    assert failure.row.reason == "TASK_NOT_FOUND"


def test_headers_that_cannot_be_sent() -> None:
    """Neither sent nor shown."""

    async def main() -> None:
        async with HttpClient("http://127.0.0.1:9") as client:
            for value in ("secret\u20ac", "secret\r\nx: y", "secret\x00"):
                with pytest.raises(FailureError) as caught:
                    await client.unary("GetTask", GetTaskRequest(), {"authorization": value})
                assert "secret" not in str(caught.value)
                assert not isinstance(caught.value, UnreachableError) or "9" in str(caught.value)

    run(main())


def test_the_callers_own_limit() -> None:
    """DEADLINE_EXCEEDED, from this side."""

    async def main() -> Failure:
        closed = asyncio.Event()

        async def never(reader: Any, writer: Any) -> None:
            await reader.read()
            writer.close()
            await writer.wait_closed()
            closed.set()

        server = await asyncio.start_server(never, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server, HttpClient(f"http://127.0.0.1:{port}") as client:
            with pytest.raises(FailureError) as caught:
                await client.unary("GetTask", GetTaskRequest(id="t"), timeout=0.05)
        await closed.wait()
        return caught.value.failure

    failure = run(main())
    assert failure.row.reason == "DEADLINE_EXCEEDED"
    assert "0.05 s" in failure.message
