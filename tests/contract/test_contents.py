"""What travels inside: values of any JSON kind, numbers, bytes, and sizes up to the limit."""

import os
from contextlib import aclosing
from typing import Any

import pytest
from google.protobuf import json_format
from google.protobuf.struct_pb2 import Struct, Value

from gateway.errors import Failure
from gateway.pb import Part, Task
from tests.conftest import run
from tests.contract.doors import DOORS, Door, Places
from tests.contract.everywhere import everywhere, talk, talks
from tests.contract.talking import Talk, failure_of, request, state

MIB = 2**20
LIMIT = 16 * MIB


def value_of(content: Any) -> Value:
    """A free-form value."""
    return json_format.ParseDict(content, Value())


def test_nulls(places: Places) -> None:
    """PB01: a null anywhere in free-form content comes back as null, at every door."""
    metadata: dict[str, Any] = {"a": None, "b": [None, {"c": None}], "d": {}, "e": []}

    async def main() -> None:
        async with talks(places) as callers:
            for caller in callers:
                made = request("echo", Part(data=value_of(None)), Part(data=value_of([None])))
                made.message.metadata.update(metadata)
                sent = (await caller.answer(made)).task
                for other in callers:
                    task = await other.get(sent.id)
                    assert task.history[0].metadata == made.message.metadata
                    assert json_format.MessageToDict(task.artifacts[0].metadata) == metadata
                    assert list(task.artifacts[0].parts) == list(made.message.parts)

    run(main())


def test_values_of_the_agent(places: Places) -> None:
    """PB14: what an agent gives as data is data at every door, not the text of a language."""

    async def behaviour(caller: Talk) -> Task:
        return await caller.send("values")

    task = everywhere(places, behaviour)
    assert json_format.MessageToDict(task.artifacts[0].parts[0].data) == {
        "ok": True,
        "n": None,
        "s": "it's",
        "i": 1,
        "f": 0.1,
        "list": [None, {"c": None}],
    }


def test_numbers(places: Places) -> None:
    """PB08: every number is the same double at every door; whole ones stay whole."""
    data = {
        "n": 9007199254740993.0,
        "m": 9007199254740992.0,
        "i": 1.0,
        "f": 0.1,
        "big": 1.7976931348623157e308,
        "small": 5e-324,
        "negative": -(2.0**53),
        "zero": -0.0,
    }

    async def behaviour(caller: Talk) -> list[str]:
        task = await caller.send("echo", Part(data=value_of(data)))
        found = (await caller.get(task.id)).artifacts[0].parts[1].data.struct_value
        assert dict(found) == data
        return [repr(found[key]) for key in data]

    shown = everywhere(places, behaviour)
    assert shown[0] == shown[1] == "9007199254740992.0"


def test_texts(places: Places) -> None:
    """R7, PB11: every character that Unicode has comes back, control characters included, and
    names of any kind inside free-form content."""
    text = "".join(map(chr, (*range(0x300), 0x2028, 0x2029, 0xFEFF, 0xFFFF, 0x1F600, 0x10FFFF)))
    inside = Struct()
    inside.update({text: text, "@type": "x", "__proto__": {"a": 1}, "": "empty name"})

    async def behaviour(caller: Talk) -> None:
        made = request(f"echo {text}", Part(data=Value(struct_value=inside)))
        task = (await caller.answer(made)).task
        got = await caller.get(task.id)
        assert list(got.artifacts[0].parts) == list(made.message.parts)

    everywhere(places, behaviour)


def test_deep_values(places: Places) -> None:
    """PB01: content nested 25 deep comes back."""
    deep: Any = "bottom"
    for _ in range(12):
        deep = {"k": [deep]}

    async def behaviour(caller: Talk) -> None:
        part = Part(data=value_of(deep))
        task = await caller.send("echo", part)
        assert (await caller.get(task.id)).artifacts[0].parts[1] == part

    everywhere(places, behaviour)


@pytest.mark.parametrize("door", DOORS, ids=str)
def test_big_content(places: Places, door: Door) -> None:
    """GR07: 5 MB in, 5 MB out, and a task of 10 MB and more by GetTask, in a list, and as the
    first event of a subscription."""
    content = os.urandom(5 * MIB)

    async def main() -> None:
        async with talk(door, places) as caller:
            task = await caller.send("echo", Part(raw=content))
            assert task.artifacts[0].parts[1].raw == content
            assert await caller.get(task.id) == task
            [listed] = (await caller.list(include_artifacts=True)).tasks
            assert listed == task
            made = await caller.send("big 5")
            assert len(made.artifacts[0].parts[0].raw) == 5 * MIB
            asked = await caller.send("ask", Part(raw=content))
            async with aclosing(caller.subscribe(asked.id)) as events:
                first = await anext(events)
            assert first.response.task == asked
            events = caller.events("SendStreamingMessage", request("big 5"))
            sizes = [e.response.ByteSize() async for e in events]
            assert max(sizes) > 5 * MIB

    run(main())


def test_too_big(places: Places) -> None:
    """GR07, S46: 17 MiB are refused with the same reason at every door, before any work; just
    below the limit is served; the task that it was meant for stays readable."""

    async def behaviour(caller: Talk) -> list[str]:
        task = await caller.send("ask")
        huge = request("echo", Part(raw=bytes(17 * MIB)), task_id=task.id)
        failures = []
        for method in ("SendMessage", "SendStreamingMessage"):
            failure: Failure = await failure_of(caller.call(method, huge))
            failures.append(failure.row.reason)
        assert await caller.get(task.id) == task
        assert len((await caller.list()).tasks) == 1
        return failures

    assert everywhere(places, behaviour) == ["INVALID_PARAMS"] * 2


@pytest.mark.parametrize("door", DOORS, ids=str)
def test_at_the_limit(places: Places, door: Door) -> None:
    """GR07: the limit is one of bytes of serialized protobuf, to the byte, at every door."""

    async def main() -> None:
        async with talk(door, places) as caller:
            made = request("counter /dev/null", Part(raw=b""))
            made.tenant = caller.tenant
            made.message.parts[1].raw = bytes(LIMIT - made.ByteSize() - 14)
            made.message.parts[1].raw += bytes(LIMIT - made.ByteSize())
            assert made.ByteSize() == LIMIT
            answer = await caller.answer(made)
            assert state(answer.task) == "COMPLETED"
            made.message.parts[1].raw += b"x"
            failure = await failure_of(caller.answer(made))
            assert failure.row.reason == "INVALID_PARAMS"
            assert str(LIMIT) in failure.message

    run(main())


def test_an_event_that_is_too_big(places: Places) -> None:
    """GR07, SS03: an agent's event beyond the limit fails its task with a text that says why;
    the task stays readable at every door."""

    async def behaviour(caller: Talk) -> Task:
        events = await caller.stream("big 17")
        task = await caller.get(events[0].response.task.id)
        assert state(task) == "FAILED"
        task.status.message.parts[0].text = task.status.message.parts[0].text.split(" has ")[0]
        return task

    task = everywhere(places, behaviour)
    assert task.status.message.parts[0].text == "the event"


def test_a_task_larger_than_a_message(places: Places) -> None:
    """GR07: the limit is one of requests and events; a task that has grown beyond it is read at
    every door, whole, as a list's entry and as the first event of a subscription."""

    async def main() -> None:
        async with talks(places) as callers:
            content = os.urandom(9 * MIB)
            task = await callers[0].send("three", Part(raw=content))
            task = await callers[1].send("red", Part(raw=content), task_id=task.id)
            assert task.ByteSize() > LIMIT
            for caller in callers:
                assert await caller.get(task.id) == task
                [listed] = (await caller.list()).tasks
                assert listed == task
                assert not (await caller.get(task.id, 0)).history
                async with aclosing(caller.subscribe(task.id)) as events:
                    assert (await anext(events)).response.task == task

    run(main())
