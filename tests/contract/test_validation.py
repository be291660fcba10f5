"""What is refused before any work, with the field named, the same at every door (A2A 5.7)."""

from collections.abc import Callable
from typing import Any

import pytest

from gateway.errors import Failure
from gateway.pb import (
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    SubscribeToTaskRequest,
    Timestamp,
)
from tests.contract.doors import DOORS, Places
from tests.contract.everywhere import everywhere
from tests.contract.talking import Talk, failure_of, request

BAD_IDS = ("a b", "a/b", "ä", "x" * 129, "a\n", "a,b", "%41")
HUGE = 2**31 - 1

Change = Callable[[SendMessageRequest], object]


def _configured(**fields: Any) -> Change:
    return lambda r: r.configuration.CopyFrom(SendMessageConfiguration(**fields))


SENDS: dict[str, tuple[Change, list[str]]] = {
    "no message": (lambda r: r.ClearField("message"), ["message"]),
    "empty message": (
        lambda r: r.message.CopyFrom(Message()),
        ["message.messageId", "message.role", "message.parts"],
    ),
    "no messageId": (lambda r: r.message.ClearField("message_id"), ["message.messageId"]),
    "no role": (lambda r: r.message.ClearField("role"), ["message.role"]),
    "the agent's role": (
        lambda r: setattr(r.message, "role", Role.ROLE_AGENT),
        ["message.role"],
    ),
    "no parts": (lambda r: r.message.ClearField("parts"), ["message.parts"]),
    "an empty part": (lambda r: r.message.parts.append(Part()), ["message.parts[1]"]),
    "a part with a name alone": (
        lambda r: r.message.parts.append(Part(filename="x")),
        ["message.parts[1]"],
    ),
    "negative history": (_configured(history_length=-1), ["configuration.historyLength"]),
    "a bad reference": (
        lambda r: r.message.reference_task_ids.extend(["good", "not good"]),
        ["message.referenceTaskIds[1]"],
    ),
    **{
        f"taskId {bad!r}": (
            lambda r, bad=bad: setattr(r.message, "task_id", bad),  # type: ignore[misc]
            ["message.taskId"],
        )
        for bad in BAD_IDS
    },
    **{
        f"contextId {bad!r}": (
            lambda r, bad=bad: setattr(r.message, "context_id", bad),  # type: ignore[misc]
            ["message.contextId"],
        )
        for bad in BAD_IDS
    },
}


def _is_refused(failure: Failure, fields: list[str]) -> None:
    assert failure.row.reason == "INVALID_PARAMS", failure
    assert [name for name, _ in failure.violations] == fields
    assert all(name in failure.message for name in fields)


def test_sends(places: Places) -> None:
    """LC09, S49, S59, S95, D22, D27, R8: each flaw of a message, unary and streaming: InvalidParams
    with the field in BadRequest and in the text, and no task made."""

    async def behaviour(caller: Talk) -> dict[str, list[Failure]]:
        failures = {}
        for name, (change, fields) in SENDS.items():
            made = request("hello")
            change(made)
            failures[name] = [
                await failure_of(caller.call(method, made))
                for method in ("SendMessage", "SendStreamingMessage")
            ]
            for failure in failures[name]:
                _is_refused(failure, fields)
        assert not (await caller.list()).tasks
        return failures

    everywhere(places, behaviour)


def test_many_flaws_at_once(places: Places) -> None:
    """GR02: 500 bad parts give one short error of the right kind, not the transport's own for
    headers that are too large."""

    async def behaviour(caller: Talk) -> Failure:
        made = request(*[Part(filename="ä" * 100)] * 500)
        return await failure_of(caller.answer(made))

    failure = everywhere(places, behaviour)
    assert failure.row.reason == "INVALID_PARAMS"
    assert failure.violations[0][0] == "message.parts[0]"
    assert 0 < len(failure.violations) <= 16


READS: list[tuple[str, Any, list[str]]] = [
    *[
        (method, kind(id=bad), ["id"])
        for method, kind in (
            ("GetTask", GetTaskRequest),
            ("CancelTask", CancelTaskRequest),
            ("SubscribeToTask", SubscribeToTaskRequest),
        )
        for bad in BAD_IDS
    ],
    ("GetTask", GetTaskRequest(id="x", history_length=-1), ["historyLength"]),
    ("ListTasks", ListTasksRequest(history_length=-1), ["historyLength"]),
    ("ListTasks", ListTasksRequest(page_size=0), ["pageSize"]),
    ("ListTasks", ListTasksRequest(page_size=-1), ["pageSize"]),
    ("ListTasks", ListTasksRequest(page_size=101), ["pageSize"]),
    ("ListTasks", ListTasksRequest(page_size=HUGE), ["pageSize"]),
    ("ListTasks", ListTasksRequest(context_id="a b"), ["contextId"]),
    ("ListTasks", ListTasksRequest(page_token="nonsense"), ["pageToken"]),
    ("ListTasks", ListTasksRequest(page_token="ä" * 2000), ["pageToken"]),
]


def test_reads(places: Places) -> None:
    """S95, HP01, D11, R8: ids, lengths, page sizes and page tokens that cannot be."""

    async def behaviour(caller: Talk) -> list[Failure]:
        failures = []
        for method, made, fields in READS:
            failure = await failure_of(caller.call(method, made))
            _is_refused(failure, fields)
            failures.append(failure)
        return failures

    everywhere(places, behaviour)


def test_an_empty_id(places: Places) -> None:
    """S95: an id has at least one character. (REST has no path without one.)"""
    doors = [door for door in DOORS if door.name != "rest"]

    async def behaviour(caller: Talk) -> list[Failure]:
        kinds = {"GetTask": GetTaskRequest, "CancelTask": CancelTaskRequest}
        failures = []
        for method, kind in kinds.items():
            failures.append(await failure_of(caller.call(method, kind())))
            _is_refused(failures[-1], ["id"])
        return failures

    everywhere(places, behaviour, doors=doors)


def test_largest_numbers(places: Places) -> None:
    """HP01, R20: the largest numbers that fit are served."""

    async def behaviour(caller: Talk) -> list[int]:
        task = await caller.send("echo", history_length=HUGE)
        got = await caller.get(task.id, HUGE)
        listed = await caller.list(history_length=HUGE, page_size=100)
        return [len(t.history) for t in (task, got, listed.tasks[0])]

    assert everywhere(places, behaviour) == [1, 1, 1]


BINARY = [door for door in DOORS if not door.is_json]
"""Doors that can carry what JSON has no form for."""


@pytest.mark.parametrize(
    ("made", "field"),
    [
        (
            ListTasksRequest(status_timestamp_after=Timestamp(seconds=10**15)),
            "statusTimestampAfter",
        ),
        (ListTasksRequest(status_timestamp_after=Timestamp(nanos=-1)), "statusTimestampAfter"),
        (ListTasksRequest(status_timestamp_after=Timestamp(nanos=10**9)), "statusTimestampAfter"),
        (ListTasksRequest(status=99), "status"),  # type: ignore[arg-type]
        (ListTasksRequest(status=-1), "status"),  # type: ignore[arg-type]
    ],
)
def test_what_only_protobuf_can_say(places: Places, made: Any, field: str) -> None:
    """PB03, R8: times out of range and numbers that are no state, which ProtoJSON cannot even
    write down; its side is in test_json_doors."""

    async def behaviour(caller: Talk) -> Failure:
        failure = await failure_of(caller.call("ListTasks", made))
        _is_refused(failure, [field])
        return failure

    everywhere(places, behaviour, doors=BINARY)


def test_unknown_roles_and_odd_numbers(places: Places) -> None:
    """R8, PB08: a role that does not exist, and numbers that JSON has no form for, which would make
    the task unreadable at the JSON doors."""

    async def behaviour(caller: Talk) -> list[Failure]:
        unknown = request("hello")
        unknown.message.role = 99  # type: ignore[assignment]
        nan, deep = request("hello"), request(Part())
        nan.message.metadata.update({"n": float("nan")})
        deep.message.parts[0].data.list_value.values.add().number_value = float("-inf")
        failures = []
        for made, field in (
            (unknown, "message.role"),
            (nan, "message.metadata"),
            (deep, "message.parts[0].data"),
        ):
            failures.append(await failure_of(caller.call("SendMessage", made)))
            _is_refused(failures[-1], [field])
        return failures

    everywhere(places, behaviour, doors=BINARY)
