"""A turn outside the runtime: it keeps what an agent emits."""

import asyncio
from typing import Any

from gateway.agents import Agent, Turn
from gateway.call import Call
from gateway.pb import (
    Event,
    Message,
    Part,
    Role,
    SendMessageRequest,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatusUpdateEvent,
)


class RecordingTurn(Turn):
    """Copies each event into `events`, as the runtime does."""

    def __init__(
        self,
        *parts: Part | str,
        task: Task | None = None,
        related: list[Task] | None = None,
        call: Call | None = None,
        **message: Any,
    ) -> None:
        request = SendMessageRequest(
            message=Message(
                message_id="m1",
                role=Role.ROLE_USER,
                task_id="task-1",
                context_id="context-1",
                parts=[Part(text=p) if isinstance(p, str) else p for p in parts],
                **message,
            )
        )
        super().__init__(
            call or Call("test"), request, "task-1", "context-1", task, list(related or [])
        )
        self.events: list[Event] = []
        self.memory: dict[str, Any] = {}
        self.gate: asyncio.Event | None = None
        """Where set, `emit` waits for it: the runtime's back-pressure."""
        self.error: Exception | None = None
        """Raised by `emit`, once."""

    async def emit(self, event: Event) -> None:
        if self.gate is not None:
            await self.gate.wait()
        if self.error is not None:
            error, self.error = self.error, None
            raise error
        copy: Any = type(event)()
        copy.CopyFrom(event)
        self.events.append(copy)

    @property
    def session(self) -> dict[str, Any]:
        """Only the loop's thread may ask."""
        asyncio.get_running_loop()
        return self.memory

    @property
    def states(self) -> list[str]:
        """The states that the turn went through, without their prefix."""
        return [
            TaskState.Name(event.status.state).removeprefix("TASK_STATE_")
            for event in self.events
            if isinstance(event, TaskStatusUpdateEvent | Task)
        ]

    @property
    def parts(self) -> list[Part]:
        """The parts of all artifacts, in order."""
        return [
            part
            for event in self.events
            if isinstance(event, TaskArtifactUpdateEvent)
            for part in event.artifact.parts
        ]

    @property
    def text(self) -> str:
        """The text of all artifacts."""
        return "".join(part.text for part in self.parts)

    @property
    def last_words(self) -> str:
        """The text of the last status or message."""
        last = self.events[-1]
        message = last.status.message if isinstance(last, TaskStatusUpdateEvent) else last
        assert isinstance(message, Message)
        return "".join(part.text for part in message.parts)


async def run_once(agent: Agent, turn: RecordingTurn) -> RecordingTurn:
    """Start the agent, run the turn, stop the agent."""
    await agent.start()
    try:
        await agent.run(turn)
    finally:
        await agent.stop()
    return turn
