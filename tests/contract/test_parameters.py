"""What travels beside a message: version, extensions, idempotency key, cursor (A2A 3.2.6, 3.6)."""

import asyncio
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from gateway.errors import Failure
from gateway.pb import (
    METHODS,
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetExtendedAgentCardRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTasksRequest,
    SubscribeToTaskRequest,
    TaskPushNotificationConfig,
)
from tests.conftest import run
from tests.contract.doors import Places
from tests.contract.everywhere import everywhere, talks
from tests.contract.serving import OPTIONAL, OTHER, serving
from tests.contract.talking import Talk, failure_of, outcome_of, request, state
from tests.contract.test_streaming import kinds

REQUIRED = "urn:example:required/v1"

PUSH_CONFIG = TaskPushNotificationConfig(task_id="t", id="c", url="https://hooks.example/x")

REQUESTS: dict[str, Any] = {
    "SendMessage": request("hello"),
    "SendStreamingMessage": request("hello"),
    "GetTask": GetTaskRequest(id="no-such-task"),
    "ListTasks": ListTasksRequest(),
    "CancelTask": CancelTaskRequest(id="no-such-task"),
    "SubscribeToTask": SubscribeToTaskRequest(id="no-such-task"),
    "CreateTaskPushNotificationConfig": PUSH_CONFIG,
    "GetTaskPushNotificationConfig": GetTaskPushNotificationConfigRequest(task_id="t", id="c"),
    "ListTaskPushNotificationConfigs": ListTaskPushNotificationConfigsRequest(task_id="t"),
    "DeleteTaskPushNotificationConfig": DeleteTaskPushNotificationConfigRequest(
        task_id="t", id="c"
    ),
    "GetExtendedAgentCard": GetExtendedAgentCardRequest(),
}
"""A good request for each operation."""


def test_every_operation_is_there() -> None:
    """S41, S42, S43: the eleven operations of the service."""
    assert REQUESTS.keys() == METHODS.keys()


def test_what_the_card_says_is_not_there(places: Places) -> None:
    """R13, S29: push notifications and the extended card are refused with their own errors, also
    inside a send."""

    async def behaviour(caller: Talk) -> dict[str, Failure]:
        inline = request("x", task_push_notification_config=PUSH_CONFIG)
        seen = {
            method: await failure_of(caller.call(method, made))
            for method, made in REQUESTS.items()
            if "Push" in method or "Card" in method
        }
        for method in ("SendMessage", "SendStreamingMessage"):
            seen[method] = await failure_of(caller.call(method, inline))
        assert not (await caller.list()).tasks
        return seen

    seen = everywhere(places, behaviour)
    extended = seen.pop("GetExtendedAgentCard")
    assert extended.row.reason == "UNSUPPORTED_OPERATION"
    assert len(seen) == 6
    assert {f.row.reason for f in seen.values()} == {"PUSH_NOTIFICATION_NOT_SUPPORTED"}


GOOD_VERSIONS = ("1.0", "1.0.0", "1.0.3", " 1.0 ")
BAD_VERSIONS = ("9.9", "abc", "1", "", "0.3", "1.1", "1.0.x", "01.0", "1.0,1.0", "x" * 500)


@pytest.mark.parametrize("method", REQUESTS)
def test_versions(places: Places, method: str) -> None:
    """VE01, R9, R10, D23: `A2A-Version` is read at every operation: only Major.Minor counts, an
    empty one means 0.3, and what is refused is refused before any work."""

    async def behaviour(caller: Talk) -> list[Failure]:
        failures = []
        for version in BAD_VERSIONS:
            call = caller.call(method, REQUESTS[method], a2a_version=version)
            failure = await failure_of(call)
            assert failure.row.reason == "VERSION_NOT_SUPPORTED", version
            assert "A2A-Version: 1.0" in failure.message
            failures.append(failure)
        assert not (await caller.list()).tasks
        for version in GOOD_VERSIONS:
            if caller.door.is_json and version != version.strip():
                continue  # HTTP has blanks around values stripped; its library does not send them
            outcome = await outcome_of(caller.call(method, REQUESTS[method], a2a_version=version))
            if isinstance(outcome, Failure):
                assert outcome.row.reason in (
                    "TASK_NOT_FOUND",
                    "UNSUPPORTED_OPERATION",
                    "PUSH_NOTIFICATION_NOT_SUPPORTED",
                ), version
        return failures

    everywhere(places, behaviour)


def test_names_of_parameters_have_no_case(places: Places) -> None:
    """R11, GR06: names in any case where the wire has cases; values keep theirs."""

    async def behaviour(caller: Talk) -> str:
        # gRPC's own library allows lower case alone
        name = "a2a-extensions" if caller.door.name == "grpc" else "A2A-EXTENSIONS"
        metadata = {name: f"{OPTIONAL.upper()}, {OTHER}"}
        reply = await caller.reply("ListTasks", ListTasksRequest(), **metadata)
        return reply.metadata["a2a-extensions"]

    assert everywhere(places, behaviour) == OTHER


def test_extensions(places: Places) -> None:
    """R11, R14, R15: those that the card has and the client names are activated and said back, in
    the client's order; unknown ones and other versions are ignored."""
    newer = OPTIONAL.replace("v1", "v2")
    cases = {
        "": None,
        "urn:unknown": None,
        OPTIONAL: OPTIONAL,
        f"{OTHER},  {OPTIONAL},urn:unknown,{OTHER}": f"{OTHER}, {OPTIONAL}",
        newer: None,
        f",,{OPTIONAL},": OPTIONAL,
    }

    async def behaviour(caller: Talk) -> list[str | None]:
        shown: list[str | None] = []
        for named in cases:
            for method in ("ListTasks", "SendMessage"):
                reply = await caller.reply(method, REQUESTS[method], a2a_extensions=named)
                shown.append(reply.metadata.get("a2a-extensions"))
            headers: dict[str, str] = {}
            async with aclosing(
                caller.events(
                    "SendStreamingMessage", request("hello"), headers, a2a_extensions=named
                )
            ) as events:
                await anext(events)
            shown.append(headers.get("a2a-extensions"))
        return shown

    assert everywhere(places, behaviour) == [told for told in cases.values() for _ in range(3)]


@pytest.fixture(scope="module")
def demanding(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Places]:
    """A gateway whose card requires an extension and says that it does not stream."""
    extensions = [{"uri": REQUIRED, "required": True}, {"uri": OPTIONAL}]
    config = {"card": {"capabilities": {"streaming": False, "extensions": extensions}}}
    with serving(tmp_path_factory.mktemp("demanding"), config) as found:
        yield found


@pytest.mark.parametrize("method", REQUESTS)
def test_a_required_extension(demanding: Places, method: str) -> None:
    """S127, R13, R14: every operation demands it, by its exact name."""

    async def behaviour(caller: Talk) -> list[Failure]:
        failures = []
        for named in ("", OPTIONAL, REQUIRED.upper(), REQUIRED + "/x"):
            call = caller.call(method, REQUESTS[method], a2a_extensions=named)
            failures.append(await failure_of(call))
            assert failures[-1].row.reason == "EXTENSION_SUPPORT_REQUIRED"
            assert REQUIRED in failures[-1].message
        return failures

    everywhere(demanding, behaviour)


def test_with_the_required_extension(demanding: Places) -> None:
    """S127, R15: who names it is served, and told that it is active."""

    async def behaviour(caller: Talk) -> list[str]:
        reply = await caller.reply(
            "SendMessage", request("hello"), a2a_extensions=f"{OPTIONAL}, {REQUIRED}"
        )
        return [state(reply.message.task), reply.metadata["a2a-extensions"]]  # type: ignore[attr-defined]

    assert everywhere(demanding, behaviour) == ["COMPLETED", f"{OPTIONAL}, {REQUIRED}"]


def test_streaming_off(demanding: Places) -> None:
    """R13, S29: streams are refused where the card says that there are none."""

    async def behaviour(caller: Talk) -> list[Failure]:
        return [
            await failure_of(caller.call(method, REQUESTS[method], a2a_extensions=REQUIRED))
            for method in ("SendStreamingMessage", "SubscribeToTask")
        ]

    failures = everywhere(demanding, behaviour)
    assert {f.row.reason for f in failures} == {"UNSUPPORTED_OPERATION"}


# -- idempotency keys --------------------------------------------------------------------


def test_a_repeat_runs_nothing_twice(places: Places, tmp_path: Path) -> None:
    """S112: the same key and message at any door, at once or after
    the end, give the one task; the agent has run once."""

    async def main() -> None:
        async with talks(places) as callers:
            path = tmp_path / "runs"
            made = request(f"counter {path}")
            again = [c.answer(made, idempotency_key="k 1") for c in callers for _ in range(3)]
            answers = await asyncio.gather(*again)
            late = [await c.answer(made, idempotency_key="k 1") for c in callers]
            assert len({a.task.id for a in [*answers, *late]}) == 1
            assert all(state(a.task) == "COMPLETED" for a in [*answers, *late])
            assert len(path.read_text().splitlines()) == 1
            # without a key, or with another, it is another task
            await callers[0].answer(made)
            await callers[0].answer(made, idempotency_key="k 2")
            assert len(path.read_text().splitlines()) == 3

    run(main())


def test_a_key_with_another_message(places: Places) -> None:
    """A key stands for one request: another one under it is refused, while the first runs and
    after its end; keys of other tenants are no matter."""

    async def behaviour(caller: Talk) -> list[Failure]:
        first = request("slow 5 100", immediate=True)
        task = (await caller.answer(first, idempotency_key="k")).task
        other = request("something else")
        failures = [await failure_of(caller.answer(other, idempotency_key="k"))]
        async with aclosing(caller.subscribe(task.id)) as events:
            async for _ in events:
                pass
        failures.append(await failure_of(caller.answer(other, idempotency_key="k")))
        failures.append(
            await failure_of(caller.call("SendStreamingMessage", other, idempotency_key="k"))
        )
        elsewhere = caller.as_other(f"{caller.tenant}-2")
        assert (await elsewhere.answer(other, idempotency_key="k")).HasField("task")
        return failures

    failures = everywhere(places, behaviour)
    assert {f.row.reason for f in failures} == {"INVALID_PARAMS"}
    assert {f.violations[0][0] for f in failures} == {"idempotency-key"}


def test_a_repeat_of_a_direct_message(places: Places) -> None:
    """S63: the one direct answer is given again."""

    async def behaviour(caller: Talk) -> None:
        made = request("message hi")
        first = await caller.answer(made, idempotency_key="k")
        assert await caller.answer(made, idempotency_key="k") == first
        [event] = await caller.all_events("SendStreamingMessage", made, idempotency_key="k")
        assert event.response.message == first.message

    everywhere(places, behaviour)


def test_a_repeated_stream_with_a_cursor(places: Places) -> None:
    """S70, S71: a streaming send repeated under its key after a cut, with the last number seen,
    goes on there: while the agent works and after the end."""

    async def behaviour(caller: Talk) -> list[list[str]]:
        made = request("slow 6 50")
        async with aclosing(
            caller.events("SendStreamingMessage", made, idempotency_key="k")
        ) as events:
            for _ in range(3):
                await anext(events)
        rest = [
            await caller.all_events(
                "SendStreamingMessage", made, idempotency_key="k", last_event_id=after
            )
            for after in ("3", "3", "0", "8")
        ]
        whole = await caller.all_events("SendStreamingMessage", made, idempotency_key="k")
        assert [e.response for e in whole] == [e.response for e in rest[2]]
        assert [e.response for e in rest[0]] == [e.response for e in rest[2][3:]]
        return [kinds(events) for events in rest]

    first, again, whole, last = everywhere(places, behaviour)
    assert len(whole) == 9
    assert first == again == whole[3:]
    assert last == ["status_update COMPLETED"]


def test_a_key_that_is_too_long(places: Places) -> None:
    """R8: refused with its name."""

    async def behaviour(caller: Talk) -> Failure:
        return await failure_of(caller.answer(request("x"), idempotency_key="k" * 257))

    failure = everywhere(places, behaviour)
    assert failure.row.reason == "INVALID_PARAMS"
    assert "idempotency-key" in failure.message
