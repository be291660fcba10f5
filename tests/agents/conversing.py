"""One client of one agent, by the runtime, for the tests of this folder."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from gateway.call import Call, Scope
from gateway.pb import (
    Message,
    Part,
    Role,
    SendMessageRequest,
    SendMessageResponse,
    StreamResponse,
    Task,
    TaskState,
)
from gateway.runtime import Runtime, RuntimeOptions, Sent
from gateway.store.memory import MemoryStore
from tests.agents.kinds import CANCEL_TIMEOUT, Kind

SCOPE = Scope("default", "", "anonymous")


class Client:
    """Speaks to the runtime as a service does."""

    def __init__(self, runtime: Runtime):
        self.runtime = runtime

    async def begin(self, *parts: str | Part, task_id: str = "", **message: Any) -> Sent:
        """Send a message and wait for nothing."""
        given = [Part(text=part) if isinstance(part, str) else part for part in parts]
        said = Message(message_id="m", role=Role.ROLE_USER, parts=given, task_id=task_id, **message)
        sent = await self.runtime.send(Call("test"), SendMessageRequest(message=said))
        assert isinstance(sent, Sent)
        return sent

    async def send(self, *parts: str | Part, **message: Any) -> SendMessageResponse:
        """Send a message and wait for the answer."""
        return await (await self.begin(*parts, **message)).outcome(wait=True)

    async def ask(self, *parts: str | Part, **message: Any) -> Task:
        """The same, where the answer is a task."""
        response = await self.send(*parts, **message)
        assert response.HasField("task"), response
        return response.task

    async def working(self, text: str) -> Sent:
        """Send a message; returns once its task works."""
        sent = await self.begin(text)
        async for event in events(sent):
            if state_of(event) == "WORKING":
                break
        return sent

    async def cancel(self, task_id: str) -> Task:
        """Cancel a task."""
        return await self.runtime.cancel(Call("test"), task_id)


@asynccontextmanager
async def client_of(
    kind: Kind, folder: Path, *, grace: float = 2.0, cancel_timeout: float = CANCEL_TIMEOUT
) -> AsyncIterator[Client]:
    """A client of a new agent, which is stopped at the end."""
    async with kind.made(folder) as agent:
        options = RuntimeOptions(cancel_timeout=cancel_timeout)
        runtime = Runtime(agent, MemoryStore(), options)
        await runtime.start()
        try:
            yield Client(runtime)
        finally:
            await runtime.stop(grace)


async def events(sent: Sent) -> AsyncIterator[StreamResponse]:
    """The events of a turn, one by one."""
    async for batch in sent.events(None):
        for event in batch:
            yield StreamResponse.FromString(event.payload)


def state_of(found: Task | StreamResponse) -> str:
    """The state that a task has, or an event brings; empty where it brings none."""
    if isinstance(found, StreamResponse):
        kind = found.WhichOneof("payload")
        if kind not in ("task", "status_update"):
            return ""
        status = getattr(found, kind).status
    else:
        status = found.status
    return TaskState.Name(status.state).removeprefix("TASK_STATE_")


def text_of(task: Task) -> str:
    """What the agent has made."""
    return "".join(part.text for artifact in task.artifacts for part in artifact.parts)


def words_of(task: Task) -> str:
    """What the agent says to its state."""
    return "".join(part.text for part in task.status.message.parts)


async def is_still(path: Path, seconds: float = 10.0) -> None:
    """Wait until nobody writes the file any more; all who do write it every few milliseconds."""
    async with asyncio.timeout(seconds):
        size = -1
        while size != _size(path):
            size = _size(path)
            await asyncio.sleep(0.15)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
