"""GetTask and ListTasks (A2A 3.1.3, 3.1.4, 3.2.4)."""

import asyncio
from typing import Any

from gateway.errors import Failure
from gateway.pb import ListTasksRequest, ListTasksResponse, Task, TaskState, Timestamp
from tests.conftest import run
from tests.contract.doors import DOORS, Places
from tests.contract.everywhere import everywhere, talk, talks
from tests.contract.talking import Talk, failure_of, request, state

MANY = 120


async def five_messages(caller: Talk) -> Task:
    """A finished task with five messages, and another task of its context."""
    task = await caller.send("three")
    await caller.send("red", task_id=task.id)
    task = await caller.send("blue", task_id=task.id)
    await caller.send("three", context_id=task.context_id)
    assert len(task.history) == 5
    return task


def test_history_length(places: Places) -> None:
    """HP01, S75, R20: unset all, 0 none, n the last n, more than there are all; negative refused;
    the stored task stays whole."""

    async def behaviour(caller: Talk) -> list[object]:
        task = await five_messages(caller)
        texts = [m.parts[0].text for m in task.history]
        for length, expected in ((0, []), (1, texts[-1:]), (3, texts[-3:]), (5, texts), (9, texts)):
            got = await caller.get(task.id, length)
            assert [m.parts[0].text for m in got.history] == expected
            listed = await caller.list(history_length=length)
            [same] = [t for t in listed.tasks if t.id == task.id]
            assert [m.parts[0].text for m in same.history] == expected
        assert await caller.get(task.id) == task
        return [texts, await failure_of(caller.get(task.id, -1))]

    texts, failure = everywhere(places, behaviour)
    assert texts == ["three", "And then?", "red", "And then?", "blue"]
    assert failure.row.reason == "INVALID_PARAMS"  # type: ignore[attr-defined]


def test_unknown_task(places: Places) -> None:
    """S109, R41: not found, with the id in the text."""

    async def behaviour(caller: Talk) -> Failure:
        return await failure_of(caller.get("no-such-task"))

    failure = everywhere(places, behaviour)
    assert failure.row.reason == "TASK_NOT_FOUND"
    assert failure.message == "Task not found: no-such-task"


def test_an_empty_list(places: Places) -> None:
    """HP03, D10, D11: nothing found is an answer with all its paging fields."""

    async def behaviour(caller: Talk) -> ListTasksResponse:
        return await caller.list()

    listed = everywhere(places, behaviour)
    assert (list(listed.tasks), listed.next_page_token) == ([], "")
    assert (listed.page_size, listed.total_size) == (50, 0)


def test_artifacts_only_on_request(places: Places) -> None:
    """HP03, S80, R21: artifacts are left out unless `includeArtifacts` asks for them; without
    them a listed task is the stored one."""

    async def behaviour(caller: Talk) -> None:
        task = await caller.send("echo")
        assert task.artifacts
        [listed] = (await caller.list(include_artifacts=True)).tasks
        assert listed == task
        for without in ({}, {"include_artifacts": False}):
            [listed] = (await caller.list(**without)).tasks
            assert not listed.artifacts
        task.ClearField("artifacts")
        assert listed == task

    everywhere(places, behaviour)


def test_filters(places: Places) -> None:
    """S76, S78, D11, PB03: context, state and time, alone and together; the count is that of all
    that match, whatever the page."""

    async def behaviour(caller: Talk) -> list[list[str]]:
        names: dict[str, str] = {}
        cut = None
        for n, kind in enumerate(("echo", "ask", "echo", "raise 1", "ask")):
            task = await caller.send(kind, context_id=f"ctx-{n % 2}")
            names[task.id] = f"{n}"
            cut = task.status.timestamp if n == 2 else cut
            await asyncio.sleep(0.002)  # a status has whole milliseconds
        completed, asking = TaskState.TASK_STATE_COMPLETED, TaskState.TASK_STATE_INPUT_REQUIRED
        shown = []
        for fields in FILTERS:
            wanted: dict[str, Any] = dict(fields)
            if "status" in wanted:
                wanted["status"] = {"completed": completed, "asking": asking}[wanted["status"]]
            if wanted.pop("after", None):
                wanted["status_timestamp_after"] = cut
            listed = await caller.list(**wanted)
            shown.append([names[t.id] for t in listed.tasks])
            assert listed.total_size == len(listed.tasks)
        later = Timestamp(seconds=253_402_300_799)
        assert not (await caller.list(status_timestamp_after=later)).tasks
        return shown

    assert everywhere(places, behaviour) == [
        ["4", "3", "2", "1", "0"],
        ["4", "2", "0"],
        ["2", "0"],
        ["4", "1"],
        ["4"],
        ["4", "3", "2"],
        ["4", "2"],
        [],
    ]


FILTERS: list[dict[str, Any]] = [
    {},
    {"context_id": "ctx-0"},
    {"status": "completed"},
    {"status": "asking"},
    {"status": "asking", "context_id": "ctx-0"},
    {"after": True},
    {"after": True, "context_id": "ctx-0"},
    {"context_id": "ctx-none"},
]


def order(tasks: list[Task]) -> list[tuple[int, str]]:
    """What a list is sorted by."""
    return [(t.status.timestamp.ToMicroseconds(), t.id) for t in tasks]


def test_paging(places: Places) -> None:
    """S77, S79, R21, D10, D11: 120 tasks, by every door and page size: newest status first, then
    by id; no task twice, none left out; a token while there is more, none at the end."""

    async def main() -> None:
        async with talks(places) as callers:
            sends = [callers[n % len(callers)].send(f"t {n}") for n in range(MANY)]
            made = {task.id for task in await asyncio.gather(*sends)}
            pages = [(c, size) for c in callers for size in (None, 1, 7, 40, 100)]
            lists = await asyncio.gather(*(walk(caller, size) for caller, size in pages))
        for tasks in lists:
            assert order(tasks) == sorted(order(tasks), reverse=True)
            assert [t.id for t in tasks] == [t.id for t in lists[0]]
            assert {t.id for t in tasks} == made

    run(main())


async def walk(caller: Talk, size: int | None) -> list[Task]:
    """All pages of a list."""
    tasks: list[Task] = []
    token = ""
    while True:
        page = await caller.list(page_size=size, page_token=token)
        assert page.total_size == MANY
        assert page.page_size == (size or 50)
        assert len(page.tasks) == min(page.page_size, MANY - len(tasks))
        tasks += page.tasks
        token = page.next_page_token
        if not token:
            assert len(tasks) == MANY
            return tasks
        assert len(tasks) < MANY


def test_paging_while_tasks_come_and_change(places: Places) -> None:
    """S77, R21: what is there before the walk and is not touched comes exactly once, although
    tasks are added and others move to the top meanwhile."""

    async def behaviour(caller: Talk) -> None:
        old = [(await caller.send("ask")).id for _ in range(12)]
        first = await caller.list(page_size=4)
        await caller.send("echo")
        await caller.send("red", task_id=old[0])
        seen = [t.id for t in first.tasks]
        token = first.next_page_token
        while token:
            page = await caller.list(page_size=4, page_token=token)
            seen += [t.id for t in page.tasks]
            token = page.next_page_token
        assert sorted(t for t in seen if t != old[0]) == sorted(old[1:])

    everywhere(places, behaviour)


def test_tokens_are_bound(places: Places) -> None:
    """R21, S76: a token works at another door and with another page size, not with other filters
    and not in another tenant."""

    async def main() -> list[str]:
        async with talks(places) as callers:
            made = [await callers[0].send("echo", context_id="c") for _ in range(4)]
            token = (await callers[0].list(page_size=2, context_id="c")).next_page_token
            reasons = []
            for caller in callers:
                page = await caller.list(page_size=1, page_token=token, context_id="c")
                assert [t.id for t in page.tasks] == [made[1].id]
                other = caller.as_other("another-tenant")
                for refused in (
                    caller.list(page_token=token),
                    caller.list(page_token=token, context_id="d"),
                    caller.list(page_token=token[:-2] + "AA", context_id="c"),
                    other.list(page_token=token, context_id="c"),
                ):
                    failure = await failure_of(refused)
                    reasons.append(failure.violations[0][0])
            return reasons

    assert set(run(main())) == {"pageToken"}


def test_statuses_in_lists_are_stored_ones(places: Places) -> None:
    """S87, R21: a task at work shows in the list with its state of now, at every door."""

    async def main() -> None:
        async with talks(places) as callers:
            for caller in callers:
                task = await caller.send("slow 100 50", immediate=True)
                for other in callers:
                    states = {t.id: state(t) for t in (await other.list()).tasks}
                    assert states[task.id] in ("SUBMITTED", "WORKING")
                await caller.cancel(task.id)
                for other in callers:
                    states = {t.id: state(t) for t in (await other.list()).tasks}
                    assert states[task.id] == "CANCELED"

    run(main())


def test_tenants(places: Places) -> None:
    """R40: what was made in one tenant is found in no other, at any door."""

    async def main() -> None:
        async with talk(DOORS[0], places) as one, talks(places) as others:
            task = await one.send("ask", context_id="shared-name")
            for other in others:
                assert not (await other.list()).tasks
                assert not (await other.list(context_id="shared-name")).tasks
                assert (await failure_of(other.get(task.id))).row.reason == "TASK_NOT_FOUND"
                follow = request("red", task_id=task.id)
                failure = await failure_of(other.answer(follow))
                assert failure.row.reason == "TASK_NOT_FOUND"
                assert (await failure_of(other.cancel(task.id))).row.reason == "TASK_NOT_FOUND"
            assert await one.get(task.id) == task

    run(main())


def test_query_and_body_mean_the_same(places: Places) -> None:
    """R39, S78: every field of a list request, all at once, at every door."""

    async def behaviour(caller: Talk) -> ListTasksResponse:
        for n in range(5):
            await caller.send("ask" if n % 2 else "echo", context_id="all")
        made = ListTasksRequest(
            context_id="all",
            status=TaskState.TASK_STATE_COMPLETED,
            page_size=2,
            history_length=0,
            include_artifacts=True,
            status_timestamp_after=Timestamp(seconds=1, nanos=500_000_000),
        )
        answer = await caller.unary("ListTasks", made)
        assert isinstance(answer, ListTasksResponse)
        made.page_token = answer.next_page_token
        rest = await caller.unary("ListTasks", made)
        assert isinstance(rest, ListTasksResponse)
        assert [len(rest.tasks), rest.next_page_token] == [1, ""]
        answer.next_page_token = ""
        return answer

    listed = everywhere(places, behaviour)
    assert [len(listed.tasks), listed.total_size] == [2, 3]
    assert all(t.artifacts and not t.history for t in listed.tasks)
