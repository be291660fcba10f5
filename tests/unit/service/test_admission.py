"""What every operation demands before any work: who, which version, which extensions, how big."""

import asyncio
from math import isfinite
from struct import unpack
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.card import Card
from gateway.errors import (
    A2AError,
    ExtensionSupportRequiredError,
    FailureError,
    InvalidParamsError,
    MethodNotFoundError,
    TaskNotFoundError,
    UnauthenticatedError,
    ValidationError,
    VersionNotSupportedError,
)
from gateway.freeform import MAX_NESTING, MAX_VALUES
from gateway.pb import (
    METHODS,
    AgentInterface,
    GetTaskRequest,
    ListTasksRequest,
    Part,
    SendMessageRequest,
)
from gateway.service import Service, ServiceOptions
from gateway.service.validation import check_values
from tests.conftest import run
from tests.doubles.runtime import ScriptedRuntime, make_task
from tests.unit.service.making import (
    ALICE,
    BOB,
    make_access,
    make_call,
    make_send,
    make_service,
    serve,
)

EXTENSION = "https://ext.example/a/v1"
OTHER = "https://ext.example/b/v1"


def extended(required: bool = False) -> dict[str, Any]:
    return {"capabilities": {"extensions": [{"uri": EXTENSION, "required": required}]}}


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("metadata", [{}, {"authorization": "Bearer wrong"}])
def test_authenticates_every_operation_first(name: str, metadata: dict[str, str]) -> None:
    """R27, R2: no operation without credentials, whatever else is wrong with the call."""
    service = make_service(access=make_access())
    call = make_call(version="9.9", metadata=metadata)
    with pytest.raises(UnauthenticatedError) as caught:
        serve(service, name, METHODS[name].request(), call)
    assert caught.value.challenges


def test_callers_see_only_their_own() -> None:
    """AU01, S76, R27: what is not the caller's looks as if it did not exist, word for word."""
    runtime = ScriptedRuntime()
    service = make_service(runtime, access=make_access())
    call = make_call(metadata=ALICE)
    run(service.unary("ListTasks", ListTasksRequest(), call))
    assert (call.caller, call.scheme) == ("alice", "bearerAuth")
    runtime.put(make_task("t-alice"), call.scope)
    assert serve(service, "GetTask", GetTaskRequest(id="t-alice"), call)

    def as_bob(task_id: str) -> list[str]:
        texts = []
        for name in ("GetTask", "CancelTask", "SubscribeToTask"):
            request: Any = METHODS[name].request(id=task_id)
            with pytest.raises(TaskNotFoundError) as caught:
                serve(service, name, request, make_call(metadata=BOB))
            texts.append(caught.value.message)
        for name in ("SendMessage", "SendStreamingMessage"):
            send = make_send(task_id=task_id)
            with pytest.raises(TaskNotFoundError) as caught:
                serve(service, name, send, make_call(metadata=BOB))
            texts.append(caught.value.message)
        return texts

    foreign, unknown = as_bob("t-alice"), as_bob("t-none")
    assert foreign == ["Task not found: t-alice"] * 5
    assert unknown == ["Task not found: t-none"] * 5
    listed: Any = run(service.unary("ListTasks", ListTasksRequest(), make_call(metadata=BOB)))
    assert not listed.tasks


def test_everybody_is_anonymous_without_access() -> None:
    """AU06: a door cannot name the caller, the agent or the tenant."""
    runtime = ScriptedRuntime()
    service = make_service(runtime)
    call = make_call(caller="", scheme="made-up", agent="other", tenant="x")
    run(service.unary("SendMessage", make_send(), call))
    assert (call.agent, call.tenant, call.caller, call.scheme) == ("default", "", "anonymous", "")


def test_the_tenant_is_a_field_of_the_request() -> None:
    """R40: rows of one tenant are not those of another."""
    runtime = ScriptedRuntime()
    service = make_service(runtime)
    call = make_call()
    request = make_send()
    request.tenant = "acme"
    run(service.unary("SendMessage", request, call))
    assert call.tenant == "acme"
    runtime.put(make_task("t1"), call.scope)
    assert serve(service, "GetTask", GetTaskRequest(id="t1", tenant="acme"))
    with pytest.raises(TaskNotFoundError):
        run(service.unary("GetTask", GetTaskRequest(id="t1"), make_call()))


@pytest.mark.parametrize("tenant", ["a" * 129, "a\nb", "a\x00", "tasks"])
def test_refuses_tenants_that_cannot_be_keys(tenant: str) -> None:
    """R30: a tenant is a short printable text; REST has a meaning of its own for `tasks`."""
    with pytest.raises(ValidationError, match="tenant"):
        run(make_service().unary("GetTask", GetTaskRequest(id="t", tenant=tenant), make_call()))


@pytest.mark.parametrize("version", ["1.0", "1.0.3", " 1.0 ", "1.0.0"])
def test_serves_its_version(version: str) -> None:
    """VE01, R9: Major.Minor decides, the patch does not count."""
    assert serve(make_service(), "SendMessage", make_send(), make_call(version))


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize(
    "version", ["", "1", "abc", "9.9", "1.1", "0.3", "1.0.x", "1.0,1.0", "v1.0", "01.0", "١.٠"]
)
def test_refuses_other_versions(name: str, version: str) -> None:
    """VE01, R9, R10: on every operation, before any work, with what to send instead."""
    runtime = ScriptedRuntime()
    with pytest.raises(VersionNotSupportedError, match=r"A2A-Version: 1\.0"):
        serve(make_service(runtime), name, METHODS[name].request(), make_call(version))
    assert not runtime.sent


def test_activates_what_both_know() -> None:
    """R14, R15, VE05: unknown extensions are ignored, the client's order is kept."""
    call = make_call(extensions=(OTHER, EXTENSION))
    run(make_service(card=extended()).unary("SendMessage", make_send(), call))
    assert call.activated == (EXTENSION,)


@pytest.mark.parametrize("name", METHODS)
def test_demands_required_extensions(name: str) -> None:
    """S127, R13: on every operation."""
    service = make_service(card=extended(required=True))
    with pytest.raises(ExtensionSupportRequiredError, match=EXTENSION):
        serve(service, name, METHODS[name].request(), make_call(extensions=(OTHER,)))
    call = make_call(extensions=(EXTENSION,))
    assert serve(service, "SendMessage", make_send(), call)


def test_judges_the_size() -> None:
    """GR07, R30: one limit for every door, in the error's text."""
    service = make_service(options=ServiceOptions(message_bytes=1000))
    assert serve(service, "SendMessage", make_send(Part(text="x" * 900)))
    large = make_send(Part(text="x" * 1000))
    with pytest.raises(InvalidParamsError, match="1000 bytes"):
        run(service.unary("SendMessage", large, make_call()))
    with pytest.raises(InvalidParamsError, match="1000 bytes"):
        run(service.unary("SendMessage", large, make_call(), large.SerializeToString()))


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_refuses_numbers_that_json_does_not_have(number: float) -> None:
    """PB08, R43: what one door takes every door can give back."""
    request = make_send(Part(text="\x11 some text"), Part(text="hi"))
    request.message.parts[1].metadata["a"] = [1.0, {"b": number}]
    with pytest.raises(ValidationError, match=r"message\.parts\[1\]\.metadata"):
        run(make_service().unary("SendMessage", request, make_call()))
    request = make_send(Part())
    request.message.parts[0].data.number_value = number
    with pytest.raises(ValidationError, match=r"message\.parts\[0\]\.data"):
        run(make_service().unary("SendMessage", request, make_call()))


def test_looks_at_a_bounded_number_of_values() -> None:
    """R30, ML02: no request keeps all others waiting while its values are gone through."""
    request = make_send(Part(raw=b"\x09\x11aaaaaa\xff\xff"), Part())
    request.message.parts[1].data.list_value.extend(["a"] * (MAX_VALUES + 1))
    with pytest.raises(ValidationError, match=r"parts\[1\]\.data: more than 200000 values"):
        serve(make_service(), "SendMessage", request)
    del request.message.parts[1].data.list_value.values[-1]
    request.message.parts[0].raw = b"other"
    assert serve(make_service(), "SendMessage", request)


def test_looks_at_the_nesting_of_values() -> None:
    """PB08, ML02: as deep as the JSON doors take it. What is deeper could not be read back: a
    task wraps its messages once more, and a parser stops at 100."""
    request = make_send(Part())
    inner = request.message.parts[0].data
    for _ in range(MAX_NESTING):
        inner = inner.list_value.values.add()
    inner.bool_value = True
    assert serve(make_service(), "SendMessage", request)
    inner.list_value.SetInParent()
    with pytest.raises(ValidationError, match=r"parts\[0\]\.data: nests more than 30 levels"):
        serve(make_service(), "SendMessage", request)


@given(struct=st.binary(min_size=8, max_size=8), before=st.binary(max_size=9))
def test_misses_no_such_number(struct: bytes, before: bytes) -> None:
    """PB08: whatever the bits of the double and the bytes around it."""
    request = make_send(Part(raw=before), Part())
    [number] = unpack("<d", struct)
    request.message.parts[1].data.number_value = number
    raw = request.SerializeToString()
    if isfinite(number):
        check_values(request, raw)
        return
    with pytest.raises(ValidationError):
        check_values(request, raw)


def test_takes_other_numbers_and_bytes_that_look_alike() -> None:
    """PB08: every finite double passes, and so does content that only looks like NaN."""
    request = make_send(
        Part(raw=b"\x09\x11aaaaaa\xff\xff" * 3), Part(text="\x11" + "x" * 6 + "\x7f")
    )
    for number in (0.1, -1e308, 9007199254740992.0, 5e-324):
        request.message.metadata[str(number)] = number
    request.metadata["n"] = None
    assert serve(make_service(), "SendMessage", request, make_call())


def test_knows_no_other_method() -> None:
    """S46: a method that is not of this kind does not exist here."""
    service = make_service()
    for name in ("Nothing", "SendStreamingMessage", ""):
        with pytest.raises(MethodNotFoundError, match=f"Method not found: {name}"):
            run(service.unary(name, SendMessageRequest(), make_call()))
    with pytest.raises(MethodNotFoundError):
        run(anext(service.stream("SendMessage", make_send(), make_call())))


def test_follows_the_card() -> None:
    """S29: rules are those of the card as it stands."""
    card = Card()
    service = Service(ScriptedRuntime(), card)
    card.set_interfaces("core", [AgentInterface(url="h:1", protocol_binding="GRPC")])
    assert serve(service, "SendMessage", make_send())
    service.close()


def test_observes_calls() -> None:
    """S190: door, operation, code and time of each call; no name that a client made up."""
    seen: list[tuple[str, str, str, float]] = []
    runtime = ScriptedRuntime()
    service = make_service(runtime, observe=lambda *what: seen.append(what))

    async def main() -> None:
        await service.unary("SendMessage", make_send(), make_call())
        for name, request in (("GetTask", GetTaskRequest(id="x")), ("Made-up", GetTaskRequest())):
            with pytest.raises(A2AError):
                await service.unary(name, request, make_call())
        runtime.error = ValueError("secret-123")
        with pytest.raises(FailureError):
            await service.unary("GetTask", GetTaskRequest(id="x"), make_call())
        runtime.error = None
        runtime.gate = asyncio.Event()
        runtime.entered.clear()
        waiting = asyncio.create_task(service.unary("SendMessage", make_send(), make_call()))
        await runtime.entered.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    run(main())
    assert [s[:3] for s in seen] == [
        ("test", "SendMessage", "OK"),
        ("test", "GetTask", "NOT_FOUND"),
        ("test", "unknown", "UNIMPLEMENTED"),
        ("test", "GetTask", "INTERNAL"),
        ("test", "SendMessage", "CANCELLED"),
    ]
    assert all(s[3] >= 0 for s in seen)
    assert len(service.running) == 0


def test_says_nothing_of_unknown_errors(caplog: pytest.LogCaptureFixture) -> None:
    """GR03, S176: a reference for the caller, the traceback for the log, once."""
    runtime = ScriptedRuntime()
    runtime.error = ValueError("secret-123")
    runtime.put(make_task("t1"))
    with pytest.raises(FailureError) as caught:
        run(make_service(runtime).unary("GetTask", GetTaskRequest(id="t1"), make_call()))
    failure = caught.value.failure
    assert failure.row.reason == "INTERNAL_ERROR"
    assert "secret-123" not in str(failure)
    assert caplog.text.count("internal error, reference") == 1
    assert failure.info["reference"] in caplog.text
