"""Agents behind the real runtime, in the core's loop, in a thread and in a process of their own."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater

from gateway.agents.loader import load
from gateway.agents.sdk import SdkAgent
from gateway.agents.thread import ThreadAgent
from gateway.call import Call, Scope
from gateway.pb import (
    Message,
    Part,
    Role,
    SendMessageRequest,
    SendMessageResponse,
    Task,
    TaskState,
)
from gateway.runtime import Runtime, RuntimeOptions
from gateway.store.memory import MemoryStore
from tests.conftest import run

SCOPE = Scope("default", "", "anonymous")

pytestmark = pytest.mark.parametrize("isolation", ["loop", "thread", "process"])


@asynccontextmanager
async def running(isolation: str) -> AsyncIterator[Runtime]:
    agent = load("tests.doubles.agents:agent", isolation=isolation)
    runtime = Runtime(agent, MemoryStore(), RuntimeOptions(cancel_timeout=0.1))
    await runtime.start()
    try:
        yield runtime
    finally:
        await runtime.stop(1.0)


async def say(runtime: Runtime, text: str, task_id: str = "") -> SendMessageResponse:
    message = Message(message_id="m", role=Role.ROLE_USER, parts=[Part(text=text)], task_id=task_id)
    sent = await runtime.send(Call("test"), SendMessageRequest(message=message))
    return await sent.outcome(wait=True)


def text_of(task: Task) -> str:
    return "".join(p.text for a in task.artifacts for p in a.parts)


def state_of(task: Task) -> str:
    return TaskState.Name(task.status.state).removeprefix("TASK_STATE_")


def test_a_dialogue(isolation: str) -> None:
    """LC03, ST12: one task over three turns."""

    async def main() -> None:
        async with running(isolation) as runtime:
            first = (await say(runtime, "three")).task
            assert state_of(first) == "INPUT_REQUIRED"
            second = (await say(runtime, "more", first.id)).task
            assert state_of(second) == "INPUT_REQUIRED"
            third = (await say(runtime, "last", first.id)).task
            assert state_of(third) == "COMPLETED"
            assert text_of(third) == "You said: last"
            assert {first.context_id, second.context_id} == {third.context_id}

    run(main())


def test_many_chunks_arrive_in_order(isolation: str) -> None:
    """R16."""

    async def main() -> None:
        async with running(isolation) as runtime:
            task = (await say(runtime, "burst 2000 5")).task
            numbers = [int(p.text.strip(" .")) for a in task.artifacts for p in a.parts]
            assert numbers == list(range(2000))

    run(main())


def test_an_exception_leaves_a_failed_task_and_no_secret(isolation: str) -> None:
    """GR03: the text of the exception (`secret-123 in ...`) stays inside."""

    async def main() -> None:
        async with running(isolation) as runtime:
            task = (await say(runtime, "raise 2")).task
            assert state_of(task) == "FAILED"
            assert "secret-123" not in str(task)

    run(main())


def test_a_direct_message(isolation: str) -> None:
    async def main() -> None:
        async with running(isolation) as runtime:
            assert (await say(runtime, "message hi")).message.parts[0].text == "hi"

    run(main())


@pytest.mark.parametrize("text", ["tick {path} 1", "cancel-fails", "stubborn 0.3"])
def test_cancelling(isolation: str, text: str, tmp_path: object) -> None:
    """S82, ST14: whatever the agent makes of it, the task ends CANCELED."""

    async def main() -> None:
        async with running(isolation) as runtime:
            command = text.format(path=f"{tmp_path}/ticks")
            message = Message(message_id="m", role=Role.ROLE_USER, parts=[Part(text=command)])
            sent = await runtime.send(Call("test"), SendMessageRequest(message=message))
            # the task exists and works
            async for batch in sent.events(None):
                if batch[-1].seq > 1:
                    break
            task = await runtime.cancel(Call("test"), sent.task_id)
            assert state_of(task) == "CANCELED"
            again = await runtime.cancel(Call("test"), sent.task_id)
            assert state_of(again) == "CANCELED"

    run(main())


def test_late_events_are_dropped(isolation: str) -> None:
    """ST03: the first end stays."""

    async def main() -> None:
        async with running(isolation) as runtime:
            task = (await say(runtime, "late 0")).task
            assert state_of(task) == "COMPLETED"
            later = await runtime.task(SCOPE, task.id)
            assert later.status == task.status
            assert not later.artifacts

    run(main())


class Threads(AgentExecutor):
    """Emits from a thread, as agents over libraries that are not async do: each event by a loop
    of its own, or all by one."""

    def __init__(self, count: int, *, has_one_loop: bool) -> None:
        self.count = count
        self.has_one_loop = has_one_loop

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.task_id is not None
        assert context.context_id is not None
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)

        async def chunk(number: int) -> None:
            parts = [Part(text=f"{number} ")]
            await updater.add_artifact(parts, artifact_id="a", append=number > 0)

        async def all_of_them() -> None:
            for number in range(self.count):
                await chunk(number)
            await updater.complete()

        def work() -> None:
            if self.has_one_loop:
                asyncio.run(all_of_them())
                return
            for number in range(self.count):
                asyncio.run(chunk(number))
            asyncio.run(updater.complete())

        await asyncio.to_thread(work)

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise NotImplementedError


@pytest.mark.parametrize(("count", "has_one_loop"), [(1000, True), (200, False)])
def test_events_from_a_thread(isolation: str, count: int, has_one_loop: bool) -> None:
    """R16: in order, whole, and held back where the store cannot keep up."""

    async def main() -> None:
        inner = SdkAgent(Threads(count, has_one_loop=has_one_loop))
        agent = ThreadAgent(inner) if isolation == "thread" else inner
        runtime = Runtime(agent, MemoryStore(), RuntimeOptions(unsaved_events=16))
        await runtime.start()
        try:
            task = (await say(runtime, "x")).task
            assert state_of(task) == "COMPLETED"
            assert text_of(task) == "".join(f"{number} " for number in range(count))
        finally:
            await runtime.stop(1.0)

    run(main())
