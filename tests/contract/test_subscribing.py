"""SubscribeToTask: what it begins with, who sees what, and going on after a cut (A2A 3.1.6)."""

import asyncio
from contextlib import aclosing
from pathlib import Path

import httpx
import pytest

from tests.conftest import run
from tests.contract.doors import DOORS, Door, Event, Events, Places
from tests.contract.everywhere import everywhere, scrub, talk, talks
from tests.contract.talking import Talk, failure_of, request, state, text_of, until
from tests.contract.test_streaming import check_numbers, fold, kinds


async def started(caller: Talk, *content: str) -> str:
    """The id of a task that is at work now."""
    return (await caller.send(*content, immediate=True)).id


async def all_of(events: Events) -> list[Event]:
    """A stream to its end."""
    async with aclosing(events):
        return [event async for event in events]


def test_the_task_first(places: Places) -> None:
    """S71, S73, R18: the current Task first, then what follows, to the end of the task."""

    async def behaviour(caller: Talk) -> str:
        task_id = await started(caller, "slow 6 100")
        events = await all_of(caller.subscribe(task_id))
        assert kinds(events)[0].startswith("task ")
        assert kinds(events)[-1] == "status_update COMPLETED"
        check_numbers(caller, events, events[0].seq)
        stored = await caller.get(task_id)
        assert fold(events) == stored
        return text_of(stored)

    assert everywhere(places, behaviour) == "".join(f"chunk {n} " for n in range(6))


def test_refused(places: Places) -> None:
    """ST05, R18, D7, S74: a task that has ended in any way: UnsupportedOperation; an unknown one:
    TaskNotFound."""

    async def behaviour(caller: Talk) -> list[object]:
        failures: list[object] = []
        for kind in ("echo", "reject", "raise 1"):
            task = await caller.send(kind)
            failures.append(await failure_of(all_of(caller.subscribe(task.id))))
        asked = await caller.send("ask")
        await caller.cancel(asked.id)
        failures.append(await failure_of(all_of(caller.subscribe(asked.id))))
        failures.append(await failure_of(all_of(caller.subscribe("no-such-task"))))
        return failures

    failures = everywhere(places, behaviour)
    assert [f.row.reason for f in failures] == [  # type: ignore[attr-defined]
        *["UNSUPPORTED_OPERATION"] * 4,
        "TASK_NOT_FOUND",
    ]


def test_an_interrupted_task(places: Places) -> None:
    """ST07, D8, D31: an interrupted task can be followed; its stream stays open until the task
    has ended, over the turn that answers."""

    async def behaviour(caller: Talk) -> list[str]:
        task = await caller.send("three")
        async with aclosing(caller.subscribe(task.id)) as events:
            seen = [await anext(events)]
            await caller.send("red", task_id=task.id)
            await caller.send("blue", task_id=task.id)
            seen += [event async for event in events]
        stored = await caller.get(task.id)
        # a follow-up's message is no event of the log
        assert fold(seen).status == stored.status
        assert fold(seen).artifacts == stored.artifacts
        return kinds(seen)

    assert everywhere(places, behaviour) == [
        "task INPUT_REQUIRED",
        "status_update INPUT_REQUIRED",
        "artifact_update",
        "status_update COMPLETED",
    ]


def test_all_readers_see_the_same(places: Places) -> None:
    """R16: streams at every door, begun at different moments, bring the same events in the same
    order; whoever leaves disturbs neither the others nor the task."""

    async def main() -> None:
        async with talks(places) as callers:
            task_id = await started(callers[0], "slow 20 60")
            readers = [asyncio.create_task(all_of(c.subscribe(task_id))) for c in callers * 2]
            for caller in callers:
                async with aclosing(caller.subscribe(task_id)) as events:
                    await anext(events)
                    await anext(events)
            seen = await asyncio.gather(*readers)
            stored = await callers[0].get(task_id)
        assert text_of(stored) == "".join(f"chunk {n} " for n in range(20))
        for log in seen:
            assert fold(log) == stored
            # what came after the snapshot is the end of the same log
            assert scrub(log[-5:]) == scrub(seen[0][-5:])
            assert kinds(log)[-1] == "status_update COMPLETED"

    run(main())


WITH_CURSOR = [door for door in DOORS if door.has_sequence]


@pytest.mark.parametrize("other", WITH_CURSOR, ids=str)
@pytest.mark.parametrize("door", WITH_CURSOR, ids=str)
def test_going_on_after_a_cut(places: Places, door: Door, other: Door) -> None:
    """S70, S71, S86, SS07: a stream cut in its middle goes on after its last number, at the same
    door or another one, without a gap and without an event twice; also once the task is over."""

    async def main() -> None:
        async with talks(places, doors=(door, other)) as (caller, second):
            seen: list[Event] = []
            async with aclosing(
                caller.events("SendStreamingMessage", request("slow 8 60"))
            ) as events:
                async for event in events:
                    seen.append(event)
                    if len(seen) == 4:
                        break
            task_id = seen[0].response.task.id
            assert state(await second.get(task_id)) == "WORKING"
            seen += await all_of(second.subscribe(task_id, after=seen[-1].seq))
            check_numbers(caller, seen)
            assert fold(seen) == await caller.get(task_id)
            for after in (0, 3, seen[-1].seq):
                late = await all_of(second.subscribe(task_id, after=after))
                assert [e.response for e in late] == [e.response for e in seen[after:]]

    run(main())


@pytest.mark.parametrize("door", DOORS, ids=str)
def test_a_cursor_at_every_door(places: Places, door: Door) -> None:
    """S71: every door takes a cursor, also one that shows no numbers; one that no event can have
    given is refused with the name of the parameter."""

    async def main() -> list[object]:
        async with talk(door, places) as caller:
            task = await caller.send("burst 3")
            events = await all_of(caller.subscribe(task.id, after=3))
            beyond = await failure_of(all_of(caller.subscribe(task.id, after=99)))
            odd = await failure_of(
                caller.all_events("SendStreamingMessage", request("x"), last_event_id="x1")
            )
            return [kinds(events), beyond, odd]

    shown, beyond, odd = run(main())
    assert shown == ["artifact_update", "artifact_update", "status_update COMPLETED"]
    assert beyond.row.reason == odd.row.reason == "INVALID_PARAMS"  # type: ignore[attr-defined]
    assert "last-event-id" in beyond.message  # type: ignore[attr-defined]
    assert "last-event-id" in odd.message  # type: ignore[attr-defined]


def test_leaving_never_touches_the_task(places: Places) -> None:
    """SS07, S85, S86: the stream that started a task is cut after its first event; the task goes
    on, can be followed, and its end is stored with all that it made."""

    async def behaviour(caller: Talk) -> str:
        async with aclosing(caller.events("SendStreamingMessage", request("slow 10 40"))) as events:
            task_id = (await anext(events)).response.task.id
        events_after = await all_of(caller.subscribe(task_id))
        stored = await caller.get(task_id)
        assert fold(events_after) == stored
        return text_of(stored)

    assert everywhere(places, behaviour) == "".join(f"chunk {n} " for n in range(10))


def test_many_short_visits(places: Places, tmp_path: Path) -> None:
    """SS09, S85, ML02: 100 readers at each door open a stream of one task, read its first event
    and leave: the gateway's own count of open streams goes back; whoever stays gets every later
    event, and the task ends as if nobody had come."""
    release = tmp_path / "go"

    async def main() -> None:
        async with talks(places) as callers:
            task_id = await started(callers[0], f"wait {release}")
            stayed = [asyncio.create_task(all_of(c.subscribe(task_id))) for c in callers]

            async def visit(caller: Talk) -> None:
                for _ in range(25):
                    async with aclosing(caller.subscribe(task_id)) as events:
                        await anext(events)

            await asyncio.gather(*(visit(c) for c in callers for _ in range(4)))
            await streams_are(places, len(stayed))
            release.write_text("done")
            for events in await asyncio.gather(*stayed):
                assert kinds(events)[-1] == "status_update COMPLETED"
            await streams_are(places, 0)

    run(main())


async def streams_are(places: Places, number: int) -> None:
    """Wait until the core counts so many open streams."""
    async with httpx.AsyncClient(trust_env=False) as http:

        async def is_so() -> bool:
            text = (await http.get(places.metrics["core"])).text
            lines = [x for x in text.splitlines() if x.startswith("a2a_gateway_open_streams{")]
            return number == sum(float(line.rpartition(" ")[2]) for line in lines)

        await until(is_so)
