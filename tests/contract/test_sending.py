"""SendMessage: what is answered, when, and what it leaves behind (A2A 3.1.1, 3.2.2, 3.4)."""

import asyncio
from contextlib import aclosing
from itertools import permutations
from pathlib import Path
from uuid import UUID

import pytest

from gateway.errors import Failure
from gateway.pb import Message, Part, Role, Struct, Task
from tests.conftest import run
from tests.contract.doors import DOORS, Places
from tests.contract.everywhere import everywhere, talks
from tests.contract.talking import Talk, failure_of, outcome_of, request, state, text_of

KINDS = ("hello", "ask", "auth", "reject no", "raise 1", "message hi", "values")


def test_answers_once_the_turn_is_over(places: Places) -> None:
    """S48, S63, S64, S98, D9, R19: a send waits for a terminal or interrupted state, or gives the
    direct message; the answer is what GetTask then gives."""

    async def behaviour(caller: Talk) -> dict[str, object]:
        answers: dict[str, object] = {}
        for kind in KINDS:
            answer = await caller.answer(request(kind))
            answers[kind] = answer
            if answer.HasField("task"):
                assert await caller.get(answer.task.id) == answer.task
        return answers

    answers = everywhere(places, behaviour)
    states = {k: state(a.task) for k, a in answers.items() if a.HasField("task")}  # type: ignore[attr-defined]
    assert states == {
        "hello": "COMPLETED",
        "ask": "INPUT_REQUIRED",
        "auth": "AUTH_REQUIRED",
        "reject no": "REJECTED",
        "raise 1": "FAILED",
        "values": "COMPLETED",
    }


def test_a_direct_message_makes_no_task(places: Places) -> None:
    """S63: a Message is the whole answer; nothing is listed."""

    async def behaviour(caller: Talk) -> object:
        answer = await caller.answer(request("message good day"))
        assert answer.message.context_id
        assert not (await caller.list()).tasks
        return answer

    answer = everywhere(places, behaviour)
    assert answer.message.parts[0].text == "good day"  # type: ignore[attr-defined]


def test_an_immediate_send_gives_the_stored_task(places: Places) -> None:
    """S64, S65, R19: `returnImmediately` answers once the task exists, and it can be read then."""

    async def behaviour(caller: Talk) -> str:
        async with asyncio.timeout(5):
            task = await caller.send("slow 200 50", immediate=True)
        assert state(task) in ("SUBMITTED", "WORKING")
        assert state(await caller.get(task.id)) in ("SUBMITTED", "WORKING")
        return state(await caller.cancel(task.id))

    assert everywhere(places, behaviour) == "CANCELED"


def test_an_immediate_send_to_an_agent_that_says_nothing(places: Places) -> None:
    """S65: whatever the agent does, what is answered is a stored task."""

    async def behaviour(caller: Talk) -> Task:
        task = await caller.send("silent 0.2", immediate=True)
        return await caller.get(task.id)

    assert state(everywhere(places, behaviour)) == "COMPLETED"


def test_one_context_throughout(places: Places) -> None:
    """LC07, S89, S101, S112, R22: the ids come from the server, are UUIDs, and the same in the
    task, in each message of its history and in each event."""

    async def behaviour(caller: Talk) -> list[tuple[str, str]]:
        events = await caller.stream("ask")
        task = await caller.get(events[0].response.task.id)
        assert UUID(task.id) != UUID(task.context_id)
        messages = [*task.history, task.status.message]
        assert len(messages) == 2
        pairs = {(m.task_id, m.context_id) for m in messages}
        for event in events:
            kind = str(event.response.WhichOneof("payload"))
            body = getattr(event.response, kind)
            pairs.add((body.id if kind == "task" else body.task_id, body.context_id))
        assert pairs == {(task.id, task.context_id)}
        return list(pairs)

    everywhere(places, behaviour)


def test_a_client_may_choose_the_context(places: Places) -> None:
    """R22, S60, S90, S93, S100: a context of the client's is kept and groups tasks, which run
    side by side; a new task may refer to an old one."""

    async def behaviour(caller: Talk) -> dict[str, object]:
        old = await caller.send("old", context_id="of:the.client_1-x")
        message = request("dump", context_id="of:the.client_1-x").message
        message.reference_task_ids.append(old.id)
        message.extensions.append("urn:example:used")
        message.metadata.update({"k": [1.5, None, "x"]})
        made = request("dump")
        made.message.CopyFrom(message)
        beside = caller.send("slow 3 30", context_id=old.context_id)
        answer, other = await asyncio.gather(caller.answer(made), beside)
        assert {old.context_id, answer.task.context_id, other.context_id} == {"of:the.client_1-x"}
        assert len((await caller.list(context_id=old.context_id)).tasks) == 3
        seen = answer.task.artifacts[0].parts[0].data.struct_value
        assert list(seen["relatedTasks"]) == [old.id]  # type: ignore[arg-type]
        return {"message": seen["message"], "history": answer.task.history[0]}

    everywhere(places, behaviour)


@pytest.mark.parametrize("first", DOORS, ids=str)
def test_a_dialogue_over_several_doors(places: Places, first: object) -> None:
    """LC03, S99: three turns of one task, each by another door, in every order of doors."""

    async def main() -> None:
        async with talks(places) as callers:
            orders = [o for o in permutations(callers, 3) if o[0].door is first]
            await asyncio.gather(*map(dialogue, orders))

    async def dialogue(order: tuple[Talk, ...]) -> None:
        one, two, three = order
        task = await one.send("three")
        ids = (task.id, task.context_id)
        assert state(task) == "INPUT_REQUIRED"
        task = await two.send("red", task_id=ids[0])
        assert (state(task), task.id, task.context_id) == ("INPUT_REQUIRED", *ids)
        task = await three.send("blue", task_id=ids[0], context_id=ids[1])
        assert (state(task), task.id, task.context_id) == ("COMPLETED", *ids)
        assert [m.parts[0].text for m in task.history if m.role == Role.ROLE_USER] == [
            "three",
            "red",
            "blue",
        ]
        assert [t.id for t in (await one.list(context_id=ids[1])).tasks] == [ids[0]]

    run(main())


def test_a_message_to_a_task_whose_turn_runs_waits(places: Places, tmp_path: Path) -> None:
    """D32: it becomes the next turn; a task that ends meanwhile refuses it."""

    async def behaviour(caller: Talk) -> list[object]:
        path = tmp_path / str(caller.door)
        ends = await caller.send(f"wait {path}", immediate=True)
        asks = await caller.send(f"ask-when {path}", immediate=True)
        late = asyncio.create_task(failure_of(caller.send("and then?", task_id=ends.id)))
        answer = await caller.send("red", task_id=asks.id, immediate=True)
        assert state(answer) == state(await caller.get(asks.id)) == "WORKING"
        async with aclosing(caller.subscribe(asks.id)) as stream:
            events = [await anext(stream)]  # it may end as soon as it is let go
            path.write_text("go")
            events += [event async for event in stream]
        assert state(events[-1].response.status_update) == "COMPLETED"
        done = await caller.get(asks.id)
        return [await late, state(done), [m.parts[0].text for m in done.history[1:]]]

    late, after, said = everywhere(places, behaviour)
    assert late.row.reason == "UNSUPPORTED_OPERATION"  # type: ignore[attr-defined]
    assert (after, said) == ("COMPLETED", ["Which colour?", "red"])


def test_refused_follow_ups(places: Places) -> None:
    """LC01, D5, R22, R23, S100: an unknown task, a task of another context, a finished task;
    nothing is made and nothing changes."""

    async def behaviour(caller: Talk) -> list[object]:
        done, asked = await caller.send("echo"), await caller.send("ask")
        refused = [
            request("x", task_id="no-such"),
            request("x", task_id="no-such", context_id="some"),
            request("x", task_id=asked.id, context_id=done.context_id),
            request("x", task_id=done.id),
            request("x", task_id=done.id, context_id=done.context_id),
        ]
        failures: list[object] = []
        for message in refused:
            failures.append(await failure_of(caller.call("SendMessage", message)))
            failures.append(await failure_of(caller.call("SendStreamingMessage", message)))
        listed = await caller.list(include_artifacts=True)
        assert list(listed.tasks) == [asked, done]
        return failures

    failures = everywhere(places, behaviour)
    assert [f.row.reason for f in failures[::2]] == [  # type: ignore[attr-defined]
        "TASK_NOT_FOUND",
        "TASK_NOT_FOUND",
        "INVALID_PARAMS",
        "UNSUPPORTED_OPERATION",
        "UNSUPPORTED_OPERATION",
    ]


def test_a_bare_task_from_the_agent_loses_nothing(places: Places) -> None:
    """LC05: an agent whose second turn emits a Task with its status alone; what was said before
    is still there."""

    async def behaviour(caller: Talk) -> Task:
        asked = await caller.send("bare")
        await caller.send("answer", task_id=asked.id)
        return await caller.get(asked.id)

    task = everywhere(places, behaviour)
    assert state(task) == "COMPLETED"
    assert [m.parts[0].text for m in task.history] == ["bare", "Which colour?", "answer"]


def test_history_in_the_answer(places: Places) -> None:
    """R20, S75: `configuration.historyLength` trims the answer and the stream, not the store."""

    async def behaviour(caller: Talk) -> list[int]:
        lengths = []
        for length in (0, 1, 2, 9):
            asked = await caller.send("ask")
            task = await caller.send("red", task_id=asked.id, history_length=length)
            events = await caller.stream("three", history_length=length)
            stored = await caller.get(task.id)
            assert len(stored.history) == 3
            lengths += [len(task.history), len(events[0].response.task.history)]
        return lengths

    assert everywhere(places, behaviour) == [0, 0, 1, 1, 2, 1, 3, 1]


def test_accepted_and_sent_media_types(places: Places) -> None:
    """S62, R13: a client that takes nothing that the agent gives, and parts of a type that the
    card does not name, are refused before any work."""

    async def behaviour(caller: Talk) -> list[object]:
        answers: list[object] = []
        for accepted in (["text/plain"], ["text/*"], ["*/*"], ["image/png", "text/plain"]):
            answers.append(await caller.send("x", accepted_output_modes=accepted))
        for part in (Part(text="x", media_type="text/markdown"), Part(raw=b"\0", filename="f")):
            answers.append(await caller.send("echo", part))
        known = len((await caller.list()).tasks)
        for message in (
            request("x", accepted_output_modes=["image/png"]),
            request("x", Part(text="y", media_type="application/x-unknown")),
        ):
            answers.append(await failure_of(caller.call("SendMessage", message)))
            answers.append(await failure_of(caller.call("SendStreamingMessage", message)))
        assert len((await caller.list()).tasks) == known == 6
        return answers

    failures = everywhere(places, behaviour)[6:]
    assert {f.row.reason for f in failures} == {"CONTENT_TYPE_NOT_SUPPORTED"}  # type: ignore[attr-defined]
    assert "message.parts[1].mediaType" in failures[-1].message  # type: ignore[attr-defined]


def test_the_agent_sees_the_same_call(places: Places) -> None:
    """R11, R35, S43: message, configuration, tenant, extensions and caller reach the agent
    alike."""

    async def behaviour(caller: Talk) -> object:
        made = request("dump", accepted_output_modes=["text/plain"], history_length=3)
        made.metadata.update({"request": {"n": 1}})
        answer = await caller.answer(
            made, a2a_extensions="urn:a, urn:b", a2a_note="one", x_a2a_note="two"
        )
        seen = answer.task.artifacts[0].parts[0].data.struct_value
        assert seen["tenant"] == caller.tenant
        result = Struct()
        result.CopyFrom(seen)
        del result.fields["tenant"]
        del result.fields["state"].struct_value.fields["door"]
        return result

    seen = everywhere(places, behaviour)
    assert list(seen["requestedExtensions"]) == ["urn:a", "urn:b"]  # type: ignore[index]
    assert dict(seen["state"]["headers"]) == {  # type: ignore[index]
        "a2a-version": "1.0",
        "a2a-extensions": "urn:a, urn:b",
        "a2a-note": "one",
        "x-a2a-note": "two",
    }


def test_a_message_that_was_answered_is_kept_as_sent(places: Places) -> None:
    """S43, S60: what a client sent comes back in the history field by field."""

    async def behaviour(caller: Talk) -> Message:
        made = request(
            Part(text="hi", media_type="text/plain", filename="a.txt"),
            Part(url="https://files.example/x", media_type="image/png"),
            Part(raw=bytes(range(256))),
        )
        made.message.parts[0].metadata.update({"deep": {"list": [1, "two", None, True]}})
        made.message.metadata.update({"who": "me"})
        made.message.extensions.append("urn:example:x")
        task = (await caller.answer(made)).task
        message = Message()
        message.CopyFrom(task.history[0])
        assert list(task.artifacts[0].parts) == list(made.message.parts)
        message.ClearField("task_id")
        message.ClearField("context_id")
        assert message == made.message
        return message

    everywhere(places, behaviour)


def test_two_answers_to_one_question(places: Places) -> None:
    """D32, R23: of answers that come by all doors at once one is heard; the others wait, find the
    task ended, are refused, and leave no trace in it."""

    async def main() -> None:
        async with talks(places) as callers:
            for _ in range(5):
                task = await callers[0].send("ask")
                sends = [
                    outcome_of(caller.send(str(caller.door), task_id=task.id)) for caller in callers
                ]
                outcomes = await asyncio.gather(*sends)
                failures = [o for o in outcomes if isinstance(o, Failure)]
                [done] = [o for o in outcomes if not isinstance(o, Failure)]
                assert {f.row.reason for f in failures} == {"UNSUPPORTED_OPERATION"}
                stored = await callers[-1].get(task.id)
                assert stored == done
                assert [m.parts[0].text for m in stored.history[:2]] == ["ask", "Which colour?"]
                assert len(stored.history) == 3
                assert text_of(stored) == f"You said: {stored.history[2].parts[0].text}"

    run(main())
