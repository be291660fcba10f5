"""The task as it stands, kept up to date event by event. Pure: no I/O, no clock but the one given.

Folding one event costs the same at the ten-thousandth chunk as at the first: no copy of the
task, artifacts found by an index. Rules: A2A 3.7 (history and status messages), 4.1, 4.2; a
status message moves into the history when the next status replaces it.
"""

import time

from gateway.ids import new_id
from gateway.pb import (
    INTERRUPTED_STATES,
    TASK_STATE_UNSPECIFIED,
    TERMINAL_STATES,
    Artifact,
    Message,
    Part,
    Role,
    StreamResponse,
    Task,
    TaskArtifactUpdateEvent,
    TaskStatus,
    TaskStatusUpdateEvent,
    Timestamp,
)

SETTLED_STATES = TERMINAL_STATES | INTERRUPTED_STATES
"""States at which a blocking send returns (A2A 3.2.2)."""


class Head:
    """One task with an index of its artifacts. Owns `task`; callers copy what they give away."""

    __slots__ = ("_artifacts", "is_settled", "is_terminal", "state", "status_us", "task")

    def __init__(self, task: Task) -> None:
        self._take(task)

    def apply_status(self, event: TaskStatusUpdateEvent) -> None:
        """Take a status over; the message of the one before moves into the history."""
        task = self.task
        if task.status.HasField("message"):
            task.history.append(task.status.message)
        task.status.CopyFrom(event.status)
        if event.HasField("metadata"):
            task.metadata.MergeFrom(event.metadata)
        self._note_status()

    def apply_artifact(self, event: TaskArtifactUpdateEvent) -> None:
        """Add, replace or extend an artifact. A chunk that appends to an artifact nobody has
        seen starts it: its content must not be lost."""
        new = event.artifact
        known = self._artifacts.get(new.artifact_id)
        if known is None:
            known = self.task.artifacts.add()
            known.CopyFrom(new)
            self._artifacts[new.artifact_id] = known
        elif event.append:
            _extend(known, new)
        else:
            known.CopyFrom(new)
        if event.HasField("metadata"):
            self.task.metadata.MergeFrom(event.metadata)

    def apply_task(self, event: Task) -> bool:
        """Merge a whole task that the agent published again. What was said and made before
        stays; new messages and artifacts are added. True where the status is another one."""
        task = self.task
        known = {m.message_id for m in task.history}
        task.history.extend(m for m in event.history if m.message_id not in known)
        for artifact in event.artifacts:
            self.apply_artifact(TaskArtifactUpdateEvent(artifact=artifact))
        if event.HasField("metadata"):
            task.metadata.MergeFrom(event.metadata)
        if not self._is_new_status(event.status):
            return False
        self.apply_status(TaskStatusUpdateEvent(status=event.status))
        return True

    def add_user_message(self, message: Message) -> None:
        """Append a follow-up to the history, behind the question that it answers."""
        task = self.task
        if task.status.HasField("message"):
            task.history.append(task.status.message)
            task.status.ClearField("message")
        task.history.append(message)

    def replay(self, event: StreamResponse) -> None:
        """Fold an event read from the log."""
        kind = event.WhichOneof("payload")
        if kind == "status_update":
            self.apply_status(event.status_update)
        elif kind == "artifact_update":
            self.apply_artifact(event.artifact_update)
        elif kind == "task":
            # the log holds the merged task: it replaces all
            self._take(event.task)

    def _take(self, task: Task) -> None:
        self.task = task
        self._artifacts = {a.artifact_id: a for a in task.artifacts}
        self._note_status()

    def _is_new_status(self, status: TaskStatus) -> bool:
        # an agent that hands back the task it was given does not set a status
        if status.state == TASK_STATE_UNSPECIFIED:
            return False
        own = self.task.status
        if status.state != own.state:
            return True
        return status.HasField("message") and status.message != own.message

    def _note_status(self) -> None:
        status = self.task.status
        self.state: int = status.state
        self.is_terminal = self.state in TERMINAL_STATES
        """Whether the task can never change again."""
        self.is_settled = self.state in SETTLED_STATES
        """Whether the task is terminal or waits for its client."""
        self.status_us = to_us(status.timestamp)


def _extend(known: Artifact, chunk: Artifact) -> None:
    known.parts.extend(chunk.parts)
    if chunk.HasField("metadata"):
        known.metadata.MergeFrom(chunk.metadata)
    if chunk.name:
        known.name = chunk.name
    if chunk.description:
        known.description = chunk.description


def stamp(status: TaskStatus) -> None:
    """Give a status its time where the agent gave none: UTC, whole milliseconds (A2A 5.6.1)."""
    if not status.HasField("timestamp"):
        millis = time.time_ns() // 1_000_000
        status.timestamp.seconds = millis // 1000
        status.timestamp.nanos = millis % 1000 * 1_000_000


def to_us(timestamp: Timestamp) -> int:
    """Microseconds since the epoch."""
    return timestamp.seconds * 1_000_000 + timestamp.nanos // 1000


def agent_message(text: str, task_id: str, context_id: str) -> Message:
    """A message in the agent's name, for what the runtime itself has to say."""
    return Message(
        message_id=new_id(),
        role=Role.ROLE_AGENT,
        parts=[Part(text=text)],
        task_id=task_id,
        context_id=context_id,
    )


def status_event(state: int, task_id: str, context_id: str, text: str) -> TaskStatusUpdateEvent:
    """A status that the runtime sets itself."""
    event = TaskStatusUpdateEvent(task_id=task_id, context_id=context_id)
    event.status.state = state  # type: ignore[assignment]
    event.status.message.CopyFrom(agent_message(text, task_id, context_id))
    stamp(event.status)
    return event


def _tag(number: int) -> bytes:
    return bytes((number << 3 | 2,))  # wire type 2: a length and bytes


TASK_TAG = _tag(StreamResponse.TASK_FIELD_NUMBER)
MESSAGE_TAG = _tag(StreamResponse.MESSAGE_FIELD_NUMBER)
STATUS_TAG = _tag(StreamResponse.STATUS_UPDATE_FIELD_NUMBER)
ARTIFACT_TAG = _tag(StreamResponse.ARTIFACT_UPDATE_FIELD_NUMBER)


def pack(tag: bytes, body: bytes) -> bytes:
    """A serialized `StreamResponse` around a serialized member: tag, length, bytes. Saves a copy
    of the member into a message made only to be serialized."""
    size = len(body)
    if size < 0x80:
        return tag + bytes((size,)) + body
    length = bytearray()
    while size > 0x7F:
        length.append(size & 0x7F | 0x80)
        size >>= 7
    length.append(size)
    return b"".join((tag, length, body))
