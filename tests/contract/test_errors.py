"""How each wire of the standard writes one failure: codes, reasons and details, raw (A2A 5.4)."""

import asyncio
import json
from typing import Any

import grpc
import grpc.aio
import httpx
import pytest
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo
from google.rpc.status_pb2 import Status

from gateway.pb import (
    METHODS,
    CancelTaskRequest,
    GetExtendedAgentCardRequest,
    GetTaskRequest,
    ListTasksRequest,
    ListTasksResponse,
    ProtoMessage,
    SendMessageRequest,
    SubscribeToTaskRequest,
    TaskPushNotificationConfig,
)
from tests.conftest import run
from tests.contract.doors import Places
from tests.contract.talking import request
from transports.http.client import HttpClient
from transports.jsonrpc import codec

DOMAIN = "a2a-protocol.org"


class Raw:
    """One request over the three standard wires, each answer in its own form."""

    def __init__(self, places: Places):
        self._places = places
        self._channel: Any = None

    async def finished(self) -> str:
        """The id of a task that has ended."""
        async with HttpClient(self._places.http) as client:
            answer: Any = await client.unary("SendMessage", request("echo"))
        return str(answer.task.id)

    async def grpc(self, method: str, message: Any, version: str = "1.0") -> grpc.aio.AioRpcError:
        """The status of a call that has to fail."""
        called = METHODS[method]
        metadata = (("a2a-version", version),)
        async with grpc.aio.insecure_channel(self._places.grpc) as channel:
            data = message.SerializeToString()
            try:
                if called.streaming:
                    stream: Any = channel.unary_stream(called.path)(data, metadata=metadata)
                    await stream.read()
                    await stream.read()
                else:
                    unary: Any = channel.unary_unary(called.path)(data, metadata=metadata)
                    await unary
            except grpc.aio.AioRpcError as error:
                return error
        raise AssertionError("did not fail")

    async def rpc(self, method: str, message: ProtoMessage, version: str = "1.0") -> httpx.Response:
        """A JSON-RPC request."""
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": codec.encode(message)}
        async with self._http() as http:
            return await http.post("/", json=body, headers={"a2a-version": version})

    async def rest(self, verb: str, path: str, body: Any, version: str = "1.0") -> httpx.Response:
        """A REST request."""
        async with self._http() as http:
            content = None if body is None else json.dumps(body).encode()
            headers = {"a2a-version": version, "content-type": "application/json"}
            return await http.request(verb, path, content=content, headers=headers)

    def _http(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=self._places.http, trust_env=False)


HELLO = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}]}
PUSH = TaskPushNotificationConfig(task_id="t", url="https://hooks.example/")
BAD_TYPE = request("x")
BAD_TYPE.message.parts[0].media_type = "application/x-odd"

CASES: list[tuple[str, str, int, int, Any]] = [
    ("TASK_NOT_FOUND", "NOT_FOUND", -32001, 404, ("GetTask", GetTaskRequest(id="none"))),
    (
        "TASK_NOT_CANCELABLE",
        "FAILED_PRECONDITION",
        -32002,
        400,
        ("CancelTask", CancelTaskRequest(id="DONE")),
    ),
    (
        "PUSH_NOTIFICATION_NOT_SUPPORTED",
        "FAILED_PRECONDITION",
        -32003,
        400,
        ("CreateTaskPushNotificationConfig", PUSH),
    ),
    (
        "UNSUPPORTED_OPERATION",
        "FAILED_PRECONDITION",
        -32004,
        400,
        ("SubscribeToTask", SubscribeToTaskRequest(id="DONE")),
    ),
    (
        "UNSUPPORTED_OPERATION",
        "FAILED_PRECONDITION",
        -32004,
        400,
        ("GetExtendedAgentCard", GetExtendedAgentCardRequest()),
    ),
    (
        "CONTENT_TYPE_NOT_SUPPORTED",
        "INVALID_ARGUMENT",
        -32005,
        400,
        ("SendMessage", BAD_TYPE),
    ),
    (
        "INVALID_AGENT_RESPONSE",
        "INTERNAL",
        -32006,
        500,
        ("SendStreamingMessage", request("foreign")),
    ),
    (
        "INVALID_PARAMS",
        "INVALID_ARGUMENT",
        -32602,
        400,
        ("SendMessage", SendMessageRequest()),
    ),
    ("INTERNAL_ERROR", "INTERNAL", -32603, 500, ("SendMessage", request("raise"))),
]


def rest_of(method: str, message: Any) -> tuple[str, str, Any]:
    """The same request over REST."""
    match method:
        case "GetTask":
            return "GET", f"/tasks/{message.id}", None
        case "CancelTask":
            return "POST", f"/tasks/{message.id}:cancel", {}
        case "SubscribeToTask":
            return "POST", f"/tasks/{message.id}:subscribe", {}
        case "CreateTaskPushNotificationConfig":
            return "POST", "/tasks/t/pushNotificationConfigs", {"url": "https://hooks.example/"}
        case "GetExtendedAgentCard":
            return "GET", "/extendedAgentCard", None
        case "SendMessage":
            return "POST", "/message:send", codec.encode(message)
        case _:
            return "POST", "/message:stream", codec.encode(message)


@pytest.mark.parametrize(("reason", "status", "number", "http", "call"), CASES)
def test_the_table(
    places: Places, reason: str, status: str, number: int, http: int, call: Any
) -> None:
    """D6, R12, R37, R41, S46, S109, S110: each failure as gRPC status, JSON-RPC error object and
    HTTP body, with the same reason, text and details."""
    method, message = call

    async def main() -> tuple[Any, Any, Any]:
        raw = Raw(places)
        made = type(message)()
        made.CopyFrom(message)
        if getattr(made, "id", "") == "DONE":
            made.id = await raw.finished()
        return await asyncio.gather(
            raw.grpc(method, made), raw.rpc(method, made), raw.rest(*rest_of(method, made))
        )

    by_grpc, by_rpc, by_rest = run(main())

    assert by_grpc.code().name == status
    packed = Status.FromString(dict(by_grpc.trailing_metadata())["grpc-status-details-bin"])
    assert packed.code == by_grpc.code().value[0]
    info = ErrorInfo()
    assert packed.details[0].Unpack(info)
    assert (info.reason, info.domain) == (reason, DOMAIN)

    assert by_rpc.status_code == 200
    assert by_rpc.headers["content-type"] == "application/json"
    error = by_rpc.json()["error"]
    assert error.keys() == {"code", "message", "data"}
    assert error["code"] == number
    check_info(error["data"], reason)

    assert by_rest.status_code == http
    assert by_rest.headers["content-type"] == "application/json"
    body = by_rest.json()["error"]
    assert body.keys() == {"code", "status", "message", "details"}
    assert (body["code"], body["status"]) == (http, status)
    check_info(body["details"], reason)

    if reason == "INTERNAL_ERROR":  # each has a reference of its own
        assert by_grpc.details().startswith("Internal error; the server's log has it under")
        return
    text = by_grpc.details()
    assert packed.message == text
    if reason != "INVALID_AGENT_RESPONSE":  # each names its own task
        assert body["message"] == text
        assert error["message"].endswith(text)
        assert error["data"] == body["details"]
    if reason == "INVALID_PARAMS":
        bad = BadRequest()
        assert packed.details[1].Unpack(bad)
        assert [v.field for v in bad.field_violations] == ["message"]
        assert error["data"][1]["fieldViolations"][0]["field"] == "message"


def check_info(details: list[Any], reason: str) -> None:
    """Typed details, ErrorInfo first."""
    assert all(detail["@type"].startswith("type.googleapis.com/google.rpc.") for detail in details)
    info = details[0]
    assert info["@type"] == "type.googleapis.com/google.rpc.ErrorInfo"
    assert (info["reason"], info["domain"]) == (reason, DOMAIN)
    assert all(isinstance(value, str) for value in info.get("metadata", {}).values())


def test_versions_raw(places: Places) -> None:
    """VE01, R12, R41: the refusal of a version on the three wires."""

    async def main() -> None:
        raw = Raw(places)
        made = ListTasksRequest()
        by_grpc = await raw.grpc("ListTasks", made, "9.9")
        assert by_grpc.code() is grpc.StatusCode.FAILED_PRECONDITION
        by_rpc = (await raw.rpc("ListTasks", made, "9.9")).json()["error"]
        assert by_rpc["code"] == -32009
        by_rest = await raw.rest("GET", "/tasks", None, "9.9")
        assert by_rest.status_code == 400
        assert by_rest.json()["error"]["details"] == by_rpc["data"]
        assert by_rpc["data"][0]["metadata"] == {"supported": "1.0"}

    run(main())


def test_no_protobuf(places: Places) -> None:
    """R8, R38: bytes that are no request are INVALID_ARGUMENT, not UNKNOWN or INTERNAL; a method
    that does not exist is UNIMPLEMENTED; a field that is not known is ignored."""

    async def main() -> None:
        async with grpc.aio.insecure_channel(places.grpc) as channel:
            for data in (b"\xff", b"\x0a\xff", b"\x12\x05abc"):
                call = unary(channel, METHODS["GetTask"].path, data)
                assert await call.code() is grpc.StatusCode.INVALID_ARGUMENT
            nothing = unary(channel, "/lf.a2a.v1.A2AService/Nothing", b"")
            assert await nothing.code() is grpc.StatusCode.UNIMPLEMENTED
            unknown_field = b"\xfa\x07\x03abc"
            listed = unary(channel, METHODS["ListTasks"].path, unknown_field)
            assert ListTasksResponse.FromString(await listed).page_size == 50

    run(main())


def unary(channel: grpc.aio.Channel, path: str, data: bytes) -> Any:
    """Any bytes to any path."""
    called: Any = channel.unary_unary(path)
    return called(data, metadata=(("a2a-version", "1.0"),))


def test_no_traces(places: Places) -> None:
    """GR03, S176: no answer to an error holds a path, a module or a trace of ours."""

    async def main() -> list[str]:
        raw = Raw(places)
        texts = []
        for kind in ("raise", "raise 2", "foreign", "refuse", "raise 0 /srv/secret-123"):
            made = request(kind)
            answers = await asyncio.gather(
                raw.rpc("SendMessage", made),
                raw.rpc("SendStreamingMessage", made),
                raw.rest("POST", "/message:send", codec.encode(made)),
                raw.rest("POST", "/message:stream", codec.encode(made)),
            )
            texts += [a.text.replace(kind, "") for a in answers]
            texts += [str(a.headers) for a in answers]
        return texts

    for text in run(main()):
        for leak in (
            "Traceback",
            'File "',
            ".py",
            "/etc",
            "/root",
            "/srv",
            "secret-123",
            "ValueError",
        ):
            assert leak not in text
