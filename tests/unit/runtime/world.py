"""A runtime with its parts, for the tests of this folder."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from gateway.agents import Agent
from gateway.call import Call, Scope
from gateway.pb import Message, Part, Role, SendMessageRequest, StreamResponse
from gateway.runtime import Runtime, RuntimeOptions
from gateway.store import LogEvent, Store
from gateway.store.memory import MemoryStore

SCOPE = Scope("default", "", "anonymous")


@asynccontextmanager
async def running(
    agent: Agent, store: Store | None = None, **options: Any
) -> AsyncIterator[Runtime]:
    """A started runtime, stopped at the end; nothing may be left in memory then."""
    runtime = Runtime(agent, store or MemoryStore(), RuntimeOptions(**options))
    await runtime.start()
    try:
        yield runtime
    finally:
        await runtime.stop(1.0)


def call(key: str = "", caller: str = "anonymous") -> Call:
    """A call as the service hands it over."""
    return Call("test", idempotency_key=key, caller=caller)


def say(text: str = "hi", task_id: str = "", context_id: str = "", mid: str = "m1") -> Any:
    """A request with one text part."""
    message = Message(message_id=mid, role=Role.ROLE_USER, parts=[Part(text=text)])
    message.task_id, message.context_id = task_id, context_id
    return SendMessageRequest(message=message)


def parse(events: list[LogEvent]) -> list[StreamResponse]:
    """The payloads."""
    return [StreamResponse.FromString(event.payload) for event in events]


async def until(is_so: Callable[[], bool]) -> None:
    """Let the loop turn until something is so that no event tells of; `run` bounds it."""
    while not is_so():  # noqa: ASYNC110  no event tells
        await asyncio.sleep(0)


async def collect(stream: AsyncIterator[list[LogEvent]]) -> list[LogEvent]:
    """All events of a stream."""
    return [event async for batch in stream for event in batch]
