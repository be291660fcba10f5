"""From what a function agent yields to the events of its turn (A2A 4.1, 4.2). Layer: agents."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from google.protobuf import json_format

from gateway.agents import Turn
from gateway.ids import new_id
from gateway.pb import (
    INTERRUPTED_STATES,
    TERMINAL_STATES,
    Artifact,
    Event,
    Message,
    Part,
    Role,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
    Value,
)


@dataclass(frozen=True, slots=True)
class Status:
    """A state of the task with a text for the client; made by the functions below."""

    state: TaskState
    text: str

    @property
    def ends_turn(self) -> bool:
        """Whether the function is closed after it."""
        return self.state in TERMINAL_STATES or self.state in INTERRUPTED_STATES


def status(text: str) -> Status:
    """Says what is being done; the task is WORKING."""
    return Status(TaskState.TASK_STATE_WORKING, text)


def ask(question: str) -> Status:
    """Ends the turn with a question (INPUT_REQUIRED); the answer starts the next turn."""
    return Status(TaskState.TASK_STATE_INPUT_REQUIRED, question)


def ask_auth(text: str) -> Status:
    """Ends the turn (AUTH_REQUIRED); the text says what to authorise and where."""
    return Status(TaskState.TASK_STATE_AUTH_REQUIRED, text)


def done(text: str) -> Status:
    """Completes the task with a closing text."""
    return Status(TaskState.TASK_STATE_COMPLETED, text)


def reject(reason: str) -> Status:
    """Ends the task: the agent does not take it on (REJECTED)."""
    return Status(TaskState.TASK_STATE_REJECTED, reason)


def fail(reason: str) -> Status:
    """Ends the task as FAILED with a text that the client sees, unlike that of an exception."""
    return Status(TaskState.TASK_STATE_FAILED, reason)


def reply(text: str) -> Message:
    """A direct answer: a message and no task, when it is the first thing yielded."""
    return Message(message_id=new_id(), role=Role.ROLE_AGENT, parts=[Part(text=text)])


def file(content: bytes, name: str = "", media_type: str = "application/octet-stream") -> Part:
    """A file by its bytes."""
    return Part(raw=content, filename=name, media_type=media_type)


def link(url: str, name: str = "", media_type: str = "") -> Part:
    """A file by its address."""
    return Part(url=url, filename=name, media_type=media_type)


class Writer:
    """Turns what a function yields into events of its turn."""

    def __init__(self, turn: Turn, *, shows_work: bool):
        self._turn = turn
        self._text_id = ""
        self._state: TaskState = TaskState.TASK_STATE_UNSPECIFIED
        self._shows_work = shows_work
        self._is_silent = True
        self.is_ended = False
        """The turn has its end; nothing more may be written."""

    async def write(self, value: Any) -> None:
        """Emit the events of one value; raises `TypeError` for one that has no meaning."""
        if value is None:
            return
        for kind, write in _WRITERS:
            if isinstance(value, kind):
                await write(self, value)
                return
        raise TypeError(
            f"an agent function yields str, bytes, dict, list, Part, Message, Artifact, an event, "
            f"or one of status(), ask(), reply(), file(), ...; not {type(value).__name__}"
        )

    async def finish(self) -> None:
        """The function ended well: complete the task, unless it has said otherwise."""
        if not self.is_ended:
            await self._status(done(""))

    async def _emit(self, event: Event) -> None:
        self._is_silent = False
        await self._turn.emit(event)

    async def _status(self, value: Status) -> None:
        message = self._addressed(reply(value.text)) if value.text else None
        current = TaskStatus(state=value.state, message=message)
        current.timestamp.GetCurrentTime()
        await self._status_event(TaskStatusUpdateEvent(status=current))

    async def _status_event(self, event: TaskStatusUpdateEvent) -> None:
        self._address(event)
        self._note(event.status.state)
        await self._emit(event)

    async def _text(self, text: str) -> None:
        if not text:
            return
        first = not self._text_id
        if first:
            self._text_id = new_id()
        artifact = Artifact(artifact_id=self._text_id, parts=[Part(text=text)])
        await self._artifact_event(TaskArtifactUpdateEvent(artifact=artifact, append=not first))

    async def _bytes(self, content: bytes) -> None:
        await self._part(file(content))

    async def _data(self, value: Any) -> None:
        try:
            data = json_format.ParseDict(value, Value())
        except (json_format.ParseError, TypeError, ValueError) as error:
            raise TypeError(f"a dict or list must hold JSON values only: {error}") from error
        await self._part(Part(data=data, media_type="application/json"))

    async def _part(self, part: Part) -> None:
        await self._artifact(Artifact(name=part.filename, parts=[part]))

    async def _artifact(self, artifact: Artifact) -> None:
        if not artifact.artifact_id:
            artifact.artifact_id = new_id()
        await self._artifact_event(TaskArtifactUpdateEvent(artifact=artifact, last_chunk=True))

    async def _artifact_event(self, event: TaskArtifactUpdateEvent) -> None:
        if self._shows_work and self._state == TaskState.TASK_STATE_UNSPECIFIED:
            await self._status(status(""))
        self._address(event)
        await self._emit(event)

    async def _message(self, message: Message) -> None:
        message.role = Role.ROLE_AGENT
        if not message.message_id:
            message.message_id = new_id()
        if self._is_silent and self._turn.task is None:
            self.is_ended = True
            message.context_id = self._turn.context_id
            await self._emit(message)
            return
        # a task has begun: its messages travel in its status (A2A 3.1.2)
        current = TaskStatus(state=TaskState.TASK_STATE_WORKING, message=self._addressed(message))
        current.timestamp.GetCurrentTime()
        await self._status_event(TaskStatusUpdateEvent(status=current))

    async def _task(self, task: Task) -> None:
        task.id, task.context_id = self._turn.task_id, self._turn.context_id
        self._note(task.status.state)
        await self._emit(task)

    def _note(self, state: TaskState) -> None:
        self._state = state
        self.is_ended = state in TERMINAL_STATES or state in INTERRUPTED_STATES

    def _address(self, event: TaskStatusUpdateEvent | TaskArtifactUpdateEvent) -> None:
        event.task_id, event.context_id = self._turn.task_id, self._turn.context_id

    def _addressed(self, message: Message) -> Message:
        message.task_id, message.context_id = self._turn.task_id, self._turn.context_id
        return message


_WRITERS: tuple[tuple[type | tuple[type, ...], Callable[[Writer, Any], Any]], ...] = (
    (str, Writer._text),
    ((dict, list, tuple), Writer._data),
    ((bytes, bytearray), Writer._bytes),
    (Status, Writer._status),
    (Part, Writer._part),
    (Message, Writer._message),
    (Artifact, Writer._artifact),
    (TaskArtifactUpdateEvent, Writer._artifact_event),
    (TaskStatusUpdateEvent, Writer._status_event),
    (Task, Writer._task),
)
