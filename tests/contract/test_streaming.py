"""SendStreamingMessage: which events, in which order, and when it ends (A2A 3.1.2, 3.5.2)."""

import asyncio
from contextlib import aclosing

from gateway.pb import StreamResponse, Task
from gateway.runtime.head import Head
from tests.conftest import run
from tests.contract.doors import Event, Places
from tests.contract.everywhere import everywhere, talks
from tests.contract.talking import Talk, failure_of, request, state, text_of

CHUNKS = 40


def kinds(events: list[Event]) -> list[str]:
    """What each event is: its member, with the state where it has one."""
    shown = []
    for _, response in events:
        kind = str(response.WhichOneof("payload"))
        body = getattr(response, kind)
        shown.append(f"{kind} {state(body)}" if kind in ("task", "status_update") else kind)
    return shown


def fold(events: list[Event]) -> Task:
    """The task that a client puts together from a stream (S70)."""
    task = Task()
    task.CopyFrom(events[0].response.task)
    head = Head(task)
    for event in events[1:]:
        head.replay(event.response)
    return head.task


def check_numbers(caller: Talk, events: list[Event], first: int = 1) -> None:
    """Sequence numbers go up by one, where the door shows them."""
    numbers = [event.seq for event in events]
    if caller.door.has_sequence:
        assert numbers == list(range(first, first + len(events)))
    else:
        assert set(numbers) == {0}


def test_a_stream_of_chunks(places: Places) -> None:
    """S66-S70, S72, S84, S87, R16, R17, R36: the Task first, then each change as an event, the end
    at the terminal state; put together they are the stored task; numbered without a gap."""

    async def behaviour(caller: Talk) -> list[Event]:
        events = await caller.stream(f"burst {CHUNKS} 8")
        check_numbers(caller, events)
        task_id = events[0].response.task.id
        stored = await caller.get(task_id)
        assert fold(events) == stored
        assert text_of(stored) == "".join(f"{n} ".ljust(8, ".") for n in range(CHUNKS))
        return events

    events = everywhere(places, behaviour)
    assert kinds(events) == [
        "task SUBMITTED",
        "status_update WORKING",
        *["artifact_update"] * CHUNKS,
        "status_update COMPLETED",
    ]
    chunks = [e.response.artifact_update for e in events[2:-1]]
    assert [c.append for c in chunks] == [False] + [True] * (CHUNKS - 1)
    assert [c.last_chunk for c in chunks] == [False] * (CHUNKS - 1) + [True]


def test_each_event_comes_at_once(places: Places) -> None:
    """S87, SS01: an event is there while the agent still works, not when the stream ends."""

    async def behaviour(caller: Talk) -> list[str]:
        seen = []
        async with aclosing(caller.events("SendStreamingMessage", request("slow 3 600"))) as events:
            async for event in events:
                seen.append(event)
                if event.response.HasField("artifact_update") and len(seen) == 3:
                    task = await caller.get(event.response.artifact_update.task_id)
                    assert state(task) == "WORKING"
                    assert text_of(task) == "chunk 0 "
        return kinds(seen)

    assert len(everywhere(places, behaviour)) == 6


def test_a_stream_of_one_message(places: Places) -> None:
    """S63, R17: a direct answer is a stream with exactly one Message."""

    async def behaviour(caller: Talk) -> list[Event]:
        return await caller.stream("message hello")

    [event] = everywhere(places, behaviour)
    assert event.response.message.parts[0].text == "hello"


def test_interrupted_states(places: Places) -> None:
    """ST12, S99, D31, R19: an interrupted task is announced at once; the stream ends with its
    turn, and stays open where the turn goes on; no state is made up."""

    async def behaviour(caller: Talk) -> dict[str, object]:
        seen: dict[str, object] = {}
        async with asyncio.timeout(5):
            for kind in ("ask", "auth", "auth-wait 0.2"):
                seen[kind] = kinds(await caller.stream(kind))
                seen[f"blocking {kind}"] = state(await caller.send(kind))
        return seen

    assert everywhere(places, behaviour) == {
        "ask": ["task SUBMITTED", "status_update INPUT_REQUIRED"],
        "blocking ask": "INPUT_REQUIRED",
        "auth": ["task SUBMITTED", "status_update AUTH_REQUIRED"],
        "blocking auth": "AUTH_REQUIRED",
        "auth-wait 0.2": [
            "task SUBMITTED",
            "status_update AUTH_REQUIRED",
            "status_update COMPLETED",
        ],
        "blocking auth-wait 0.2": "AUTH_REQUIRED",
    }


def test_the_stream_of_a_follow_up(places: Places) -> None:
    """S68, R17, S73: it begins with the Task, the new message in it, and has the whole turn."""

    async def behaviour(caller: Talk) -> list[Event]:
        task = await caller.send("ask")
        events = await caller.stream("red", task_id=task.id)
        assert fold(events) == await caller.get(task.id)
        if caller.door.has_sequence:
            assert events[0].seq == 2
            check_numbers(caller, events, 2)
        return events

    events = everywhere(places, behaviour)
    assert kinds(events) == [
        "task INPUT_REQUIRED",
        "artifact_update",
        "status_update COMPLETED",
    ]
    assert [m.parts[0].text for m in events[0].response.task.history] == [
        "ask",
        "Which colour?",
        "red",
    ]


def test_late_updates_are_dropped(places: Places) -> None:
    """ST03, S100, D28: COMPLETED, then WORKING, FAILED and an artifact: the task stays as it was,
    its time included, and the stream has ended at COMPLETED."""

    async def behaviour(caller: Talk) -> list[str]:
        events = await caller.stream("late 100")
        last = events[-1].response.status_update
        await asyncio.sleep(0.3)  # the case is about what the agent does 0.1 s after the end
        task = await caller.get(last.task_id)
        assert task.status == last.status
        assert not task.artifacts
        return kinds(events)

    assert everywhere(places, behaviour)[-1] == "status_update COMPLETED"


def test_an_agent_that_fails(places: Places) -> None:
    """GR03, SS03, D30, S176: an exception of the agent makes a FAILED task as the last event, a
    typed one with its own text; nothing of another one's text leaves the process."""

    async def behaviour(caller: Talk) -> list[object]:
        outcomes: list[object] = []
        for kind in ("raise 3", "refuse 3"):
            events = await caller.stream(kind)
            task = await caller.get(events[0].response.task.id)
            assert fold(events) == task
            outcomes += [kinds(events), task.status.message.parts[0].text]
            outcomes.append(state(await caller.send(kind)))
        return outcomes

    unknown, text, blocking, typed, typed_text, typed_blocking = everywhere(places, behaviour)
    ending = ["task SUBMITTED", "artifact_update", "artifact_update", "status_update FAILED"]
    assert unknown == typed == ending
    assert blocking == typed_blocking == "FAILED"
    assert "secret" not in str(text)
    assert "/etc" not in str(text)
    assert typed_text == "this agent takes no such content"


def test_an_agent_that_fails_before_its_first_event(places: Places) -> None:
    """GR03, R12: there is no task, so the call fails: INTERNAL with a neutral text for what the
    protocol does not know, the right code for what it does."""

    async def behaviour(caller: Talk) -> list[object]:
        failures: list[object] = []
        for kind in ("raise", "refuse", "foreign"):
            for method in ("SendMessage", "SendStreamingMessage"):
                failures.append(await failure_of(caller.call(method, request(kind))))
        assert not (await caller.list()).tasks
        return failures

    failures = everywhere(places, behaviour)
    assert [f.row.reason for f in failures] == [  # type: ignore[attr-defined]
        *["INTERNAL_ERROR"] * 2,
        *["CONTENT_TYPE_NOT_SUPPORTED"] * 2,
        *["INVALID_AGENT_RESPONSE"] * 2,
    ]
    assert "secret" not in str(failures)


def test_a_long_error_of_the_agent(places: Places) -> None:
    """GR02: 20 KB of text in an exception: the right state, a short text, at every door."""
    text = "x" * 20_000

    async def behaviour(caller: Talk) -> list[object]:
        failed = await caller.send(f"raise 1 {text}")
        failure = await failure_of(caller.send(f"raise 0 {text}"))
        return [failed.status.message, failure]

    message, failure = everywhere(places, behaviour)
    assert len(message.parts[0].text) < 1100  # type: ignore[attr-defined]
    assert failure.row.reason == "INTERNAL_ERROR"  # type: ignore[attr-defined]


def test_events_are_read_while_stored(places: Places) -> None:
    """ST10, S86: on the terminal event the task is terminal at every other door, all there."""

    async def main() -> None:
        async with talks(places) as callers:
            for caller in callers:
                others = [c for c in callers if c is not caller]
                await asyncio.gather(*(look(caller, others) for _ in range(15)))

    async def look(caller: Talk, others: list[Talk]) -> None:
        async with aclosing(caller.events("SendStreamingMessage", request("burst 5"))) as events:
            async for event in events:
                response: StreamResponse = event.response
                if state(response.status_update) != "COMPLETED":
                    continue
                reads = [other.get(response.status_update.task_id) for other in others]
                for task in await asyncio.gather(*reads):
                    assert state(task) == "COMPLETED"
                    assert len(task.artifacts[0].parts) == 5

    run(main())
