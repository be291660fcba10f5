"""An agent whose turns the test writes: `run` and `cancel` are plain coroutines over a `Turn`."""

import asyncio
from collections.abc import Awaitable, Callable

from gateway.agents import Turn
from gateway.pb import Artifact, Part, TaskArtifactUpdateEvent, TaskState, TaskStatusUpdateEvent

Script = Callable[[Turn], Awaitable[None]]


async def nothing(turn: Turn) -> None:
    """Does nothing."""


class ScriptedAgent:
    """Runs the script for each turn and notes the turns it got."""

    name = "scripted"

    def __init__(self, run: Script, cancel: Script = nothing) -> None:
        self._run = run
        self._cancel = cancel
        self.turns: list[Turn] = []
        self.canceled: list[Turn] = []
        self.is_started = False

    async def start(self) -> None:
        self.is_started = True

    async def stop(self) -> None:
        self.is_started = False

    async def run(self, turn: Turn) -> None:
        self.turns.append(turn)
        await self._run(turn)

    async def cancel(self, turn: Turn) -> None:
        self.canceled.append(turn)
        await self._cancel(turn)


def status(state: int, text: str = "") -> TaskStatusUpdateEvent:
    """A status update without ids: the runtime fills them in."""
    event = TaskStatusUpdateEvent()
    event.status.state = state  # type: ignore[assignment]
    if text:
        event.status.message.parts.add(text=text)
    return event


def chunk(text: str, *, append: bool = True, artifact_id: str = "a1") -> TaskArtifactUpdateEvent:
    """A piece of a text artifact."""
    artifact = Artifact(artifact_id=artifact_id, parts=[Part(text=text)])
    return TaskArtifactUpdateEvent(artifact=artifact, append=append)


async def echo(turn: Turn) -> None:
    """WORKING, one artifact with the message's text, COMPLETED."""
    await turn.emit(status(TaskState.TASK_STATE_WORKING))
    await turn.emit(chunk(turn.request.message.parts[0].text, append=False))
    await turn.emit(status(TaskState.TASK_STATE_COMPLETED))


async def ask(turn: Turn) -> None:
    """Asks at the first message, completes at the second."""
    if turn.task is None:
        await turn.emit(status(TaskState.TASK_STATE_INPUT_REQUIRED, "Which one?"))
    else:
        await turn.emit(status(TaskState.TASK_STATE_COMPLETED, "Thanks"))


class Gate:
    """Holds an agent until the test opens it; tells when the agent has come to it."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.opened = asyncio.Event()

    async def wait(self) -> None:
        """The agent's side."""
        self.reached.set()
        await self.opened.wait()

    async def work(self, turn: Turn) -> None:
        """A script: WORKING, the gate, COMPLETED."""
        await turn.emit(status(TaskState.TASK_STATE_WORKING))
        await self.wait()
        await turn.emit(status(TaskState.TASK_STATE_COMPLETED))
