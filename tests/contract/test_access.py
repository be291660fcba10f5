"""Who may call, and who sees what (A2A 7.4, 13.1): the same rules at every door."""

import base64
import statistics
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from gateway.errors import Failure
from gateway.pb import ListTasksRequest, SendMessageRequest
from tests.conftest import run
from tests.contract.doors import DOORS, Door, Places
from tests.contract.everywhere import everywhere, talk, talks
from tests.contract.serving import serving
from tests.contract.talking import Talk, failure_of, request, state
from tests.contract.test_parameters import REQUESTS

ACCESS = {
    "tokens": [
        {"caller": "alice", "token": "alice-token"},
        {"caller": "bob", "token": "bob-token"},
    ],
    "api_keys": [{"caller": "carol", "key": "carol-key"}],
    "basic": [{"username": "dave", "password": "pass:word"}],
}
CHALLENGES = (
    'Bearer realm="a2a"',
    'Basic realm="a2a",charset="UTF-8"',
    'ApiKey realm="a2a",header="x-api-key"',
)


def basic(text: str) -> dict[str, str]:
    """HTTP Basic."""
    return {"authorization": "Basic " + base64.b64encode(text.encode()).decode()}


ALICE = {"authorization": "Bearer alice-token"}
BOB = {"authorization": "Bearer bob-token"}
CAROL = {"x-api-key": "carol-key"}
DAVE = basic("dave:pass:word")

GOOD: dict[str, dict[str, str]] = {
    "alice": ALICE,
    "bob": {"authorization": "bearer  bob-token"},
    "carol": CAROL,
    "dave": DAVE,
    "carol ": {"authorization": "Digest x", **CAROL},
}
BAD: list[dict[str, str]] = [
    {},
    {"authorization": ""},
    {"authorization": "Bearer"},
    {"authorization": "Bearer wrong"},
    {"authorization": "Bearer Alice-token"},
    {"authorization": "Bearer alice-token x"},
    {"authorization": "Bearer carol-key"},
    {"authorization": "Digest alice-token"},
    {"authorization": "alice-token"},
    {"x-api-key": ""},
    {"x-api-key": "alice-token"},
    {"x-api-key": "x" * 2000},
    {"authorization": "Basic !!!"},
    basic("dave"),
    basic("dave:wrong"),
    basic("alice:alice-token"),
    # a wrong credential is never made good by another one
    {"authorization": "Bearer wrong", **CAROL},
    {**basic("dave:wrong"), **CAROL},
]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Places]:
    """A gateway that knows four callers, with credentials of three kinds."""
    with serving(tmp_path_factory.mktemp("guarded"), {"access": ACCESS}) as found:
        yield found


def check_challenge(failure: Failure) -> None:
    """UNAUTHENTICATED with one challenge for each scheme."""
    assert failure.row.reason == "UNAUTHENTICATED", failure
    assert failure.challenges == CHALLENGES


@pytest.mark.parametrize("method", REQUESTS)
def test_nobody_without_credentials(guarded: Places, method: str) -> None:
    """R27, S167, D19: every operation demands them, before anything else is looked at."""

    async def behaviour(caller: Talk) -> None:
        for metadata in BAD:
            failure = await failure_of(caller.call(method, REQUESTS[method], **metadata))
            check_challenge(failure)
        # neither a wrong version nor a wrong request tells a stranger anything
        empty: Any = type(REQUESTS[method])()
        if caller.door.name == "rest":  # its paths hold ids
            empty = REQUESTS[method]
        check_challenge(await failure_of(caller.call(method, empty, a2a_version="9.9")))

    everywhere(guarded, behaviour)


def test_each_scheme(guarded: Places) -> None:
    """R28, S76: each kind of credential stands for its caller; the agent learns who it is and
    sees no credential."""

    async def behaviour(caller: Talk) -> list[object]:
        names: list[object] = []
        for name, metadata in GOOD.items():
            answer = await caller.answer(request("dump"), **metadata)
            assert state(answer.task) == "COMPLETED"
            seen = answer.task.artifacts[0].parts[0].data.struct_value
            user = seen["user"]
            assert user["isAuthenticated"] is True  # type: ignore[index]
            assert user["name"] == name.strip()  # type: ignore[index]
            text = str(answer.task).lower()
            for secret in ("token", "carol-key", "pass:word", metadata.get("authorization", "?")):
                assert secret.lower() not in text
            names.append(user["name"])  # type: ignore[index]
        return names

    everywhere(guarded, behaviour)


def own(task_id: str) -> list[tuple[str, Any]]:
    """Every operation on a task."""
    calls: list[tuple[str, Any]] = []
    for method, made in REQUESTS.items():
        mine = type(made)()
        mine.CopyFrom(made)
        if isinstance(mine, SendMessageRequest):
            mine.message.task_id = task_id
        elif method in ("GetTask", "CancelTask", "SubscribeToTask"):
            mine.id = task_id
        elif "Push" in method:
            mine.task_id = task_id
        else:
            continue
        calls.append((method, mine))
    return calls


def test_what_belongs_to_another(guarded: Places) -> None:
    """AU01, R27, S102: for every operation a task of another caller is what a task is that does
    not exist, to the letter; and nothing changes."""

    async def behaviour(caller: Talk) -> list[Failure]:
        alice, bob = caller.as_other(**ALICE), caller.as_other(**BOB)
        task = await alice.send("ask", context_id="alices")
        failures = []
        unknown = "01a22e00-0000-7000-8000-000000000000"
        for (method, made), (_, other) in zip(own(task.id), own(unknown), strict=True):
            failure = await failure_of(bob.call(method, made))
            same = await failure_of(bob.call(method, other))
            assert same.row is failure.row
            assert same.message.replace(unknown, task.id) == failure.message
            assert (same.info, same.violations) == (failure.info, failure.violations)
            failures.append(failure)
        assert await alice.get(task.id) == task
        return failures

    failures = everywhere(guarded, behaviour)
    reasons = [f.row.reason for f in failures]
    assert reasons == ["TASK_NOT_FOUND"] * 5 + ["PUSH_NOTIFICATION_NOT_SUPPORTED"] * 4


def test_lists_and_contexts(guarded: Places) -> None:
    """AU01, S76, S102, R21: a list holds what is the caller's own; a context of the same name is
    another one; keys and page tokens of others are of no use."""

    async def behaviour(caller: Talk) -> None:
        alice, bob = caller.as_other(**ALICE), caller.as_other(**BOB)
        made = request("echo", context_id="shared")
        hers = [(await alice.send("echo", context_id="shared")).id for _ in range(3)]
        keyed = await alice.answer(made, idempotency_key="k")
        his = await bob.answer(made, idempotency_key="k")
        assert his.task.id != keyed.task.id
        assert [t.id for t in (await bob.list(context_id="shared")).tasks] == [his.task.id]
        listed = await alice.list()
        assert {t.id for t in listed.tasks} == {*hers, keyed.task.id}
        assert listed.total_size == 4
        token = (await alice.list(page_size=1)).next_page_token
        failure = await failure_of(bob.list(page_token=token, page_size=1))
        assert failure.row.reason == "INVALID_PARAMS"
        related = request("dump")
        related.message.reference_task_ids.append(hers[0])
        seen = (await bob.answer(related)).task.artifacts[0].parts[0].data.struct_value
        assert not list(seen["relatedTasks"])  # type: ignore[arg-type]

    everywhere(guarded, behaviour)


def test_one_caller_by_several_doors(guarded: Places) -> None:
    """R2, R27: who somebody is does not depend on the door."""

    async def main() -> None:
        async with talks(guarded, ALICE) as callers:
            for one in callers:
                task = await one.send("ask")
                for other in callers:
                    assert await other.get(task.id) == task

    run(main())


@pytest.mark.parametrize("door", DOORS, ids=str)
def test_timing_tells_nothing(guarded: Places, door: Door) -> None:
    """AU01: a look at another caller's task takes as long as a look at none."""

    async def main() -> tuple[float, float]:
        async with talk(door, guarded) as caller:
            task = await caller.as_other(**ALICE).send("ask")
            bob = caller.as_other(**BOB)
            times: dict[str, list[float]] = {task.id: [], "01a22e00-none": []}
            for _ in range(60):
                for task_id, measured in times.items():
                    started = time.perf_counter()
                    await failure_of(bob.get(task_id))
                    measured.append(time.perf_counter() - started)
            return tuple(map(statistics.median, times.values()))  # type: ignore[return-value]

    known, unknown = run(main())
    assert abs(known - unknown) < max(0.002, 0.5 * unknown)


def test_tasks_of_nobody(tmp_path_factory: pytest.TempPathFactory) -> None:
    """AU06: what was made before there were credentials belongs to nobody who has some, and
    nobody else: no door, list or empty credential gives it away."""
    folder = tmp_path_factory.mktemp("nobody")

    async def make(caller: Talk) -> str:
        return (await caller.as_other("").send("ask", context_id="nobodys")).id

    async def look(caller: Talk) -> None:
        for metadata in (ALICE, CAROL, DAVE):
            someone = caller.as_other("", **metadata)
            for task_id in made:
                failure = await failure_of(someone.get(task_id))
                assert failure.row.reason == "TASK_NOT_FOUND"
            assert not (await someone.list()).tasks
        for empty in ({}, {"authorization": "Bearer"}, {"x-api-key": ""}, basic(":")):
            nobody = caller.as_other("", **empty)
            check_challenge(await failure_of(nobody.list()))

    with serving(folder) as places:
        made = [everywhere(places, make)]
    with serving(folder, {"access": ACCESS}) as places:
        everywhere(places, look)


@pytest.mark.parametrize(
    ("name", "value"), [(n, v) for metadata in BAD[:13] for n, v in [*metadata.items()][:1]]
)
def test_what_http_answers(guarded: Places, name: str, value: str) -> None:
    """D19, S168: 401 with a challenge for each scheme; the body of JSON-RPC is one word, that
    of REST a google.rpc.Status."""
    headers = {name: value, "a2a-version": "1.0"}
    body = {"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {}}
    with httpx.Client(base_url=guarded.http, trust_env=False) as http:
        rpc = http.post("/", json=body, headers=headers)
        rest = http.get("/tasks", headers=headers)
    for answer in (rpc, rest):
        assert answer.status_code == 401
        assert tuple(answer.headers.get_list("www-authenticate")) == CHALLENGES
    assert rpc.json() == {"error": "Unauthorized"}
    error = rest.json()["error"]
    assert (error["code"], error["status"]) == (401, "UNAUTHENTICATED")
    assert error["details"][0]["reason"] == "UNAUTHENTICATED"


def test_card_and_health_are_public(guarded: Places) -> None:
    """S28, D20, R2: they need no credentials, and the card declares the schemes."""
    with httpx.Client(base_url=guarded.http, trust_env=False) as http:
        card = http.get("/.well-known/agent-card.json")
        assert card.status_code == 200
        assert http.get("/health").json() == {"status": "healthy"}
    schemes = card.json()["securitySchemes"]
    assert schemes.keys() == {"bearerAuth", "basicAuth", "apiKeyAuth"}
    # any one of them is enough
    alternatives = [list(r["schemes"]) for r in card.json()["securityRequirements"]]
    assert sorted(alternatives) == sorted([name] for name in schemes)


def test_a_stream_needs_credentials_once(guarded: Places) -> None:
    """R27: a stream is served to its end to whoever opened it, and to nobody else."""

    async def behaviour(caller: Talk) -> int:
        alice = caller.as_other(**ALICE)
        events = await alice.stream("slow 3 20")
        failure = await failure_of(
            caller.all_events("SendStreamingMessage", request("slow 3 20"), **BAD[3])
        )
        check_challenge(failure)
        answer = await alice.unary("ListTasks", ListTasksRequest())
        assert len(answer.tasks) == 1  # type: ignore[attr-defined]
        return len(events)

    assert everywhere(guarded, behaviour) == 6
