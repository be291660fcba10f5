"""What an agent emits, checked and completed before the runtime applies it. Pure.

Ids that the agent left out are filled in, so that everything in a task carries the task's ids
(A2A 3.4.1); ids of another task or context are the agent's fault. All raise
`InvalidAgentResponseError` with what to do instead.
"""

from gateway.errors import InvalidAgentResponseError
from gateway.freeform import find_fault
from gateway.ids import new_id
from gateway.pb import (
    TASK_STATE_SUBMITTED,
    TASK_STATE_UNSPECIFIED,
    Event,
    Message,
    Role,
    SendMessageResponse,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from gateway.runtime.head import stamp

_STATES = frozenset(TaskState.values())
_ROLES = frozenset({int(Role.ROLE_AGENT), int(Role.ROLE_USER)})
# google.protobuf.Timestamp holds years 1 to 9999
_FIRST_SECOND = -62_135_596_800
_LAST_SECOND = 253_402_300_799


def check_artifact(event: TaskArtifactUpdateEvent, task_id: str, context_id: str) -> None:
    """An artifact or a chunk of one."""
    _own_event(event, task_id, context_id)
    if not event.artifact.artifact_id:
        raise InvalidAgentResponseError("an artifact needs an artifact_id")
    if not event.artifact.parts and not event.append:
        raise InvalidAgentResponseError("an artifact needs at least one part")


def check_status(event: TaskStatusUpdateEvent, task_id: str, context_id: str) -> None:
    """A status update; gets its time where it has none."""
    _own_event(event, task_id, context_id)
    status = event.status
    if status.state == TASK_STATE_UNSPECIFIED:
        raise InvalidAgentResponseError("a status needs a state")
    _check_status(status)
    if status.HasField("message"):
        _own_message(status.message, task_id, context_id)


def _check_status(status: TaskStatus) -> None:
    """Refuse what JSON could not write; give the status its time where it has none."""
    if status.state not in _STATES:
        raise InvalidAgentResponseError(f"{int(status.state)} is no task state")
    if not status.HasField("timestamp"):
        stamp(status)
    elif not _FIRST_SECOND <= status.timestamp.seconds <= _LAST_SECOND:
        raise InvalidAgentResponseError("a status's time must lie in the years 1 to 9999")
    elif not 0 <= status.timestamp.nanos < 1_000_000_000:
        raise InvalidAgentResponseError("a status's time has 0 to 999999999 nanoseconds")


def check_task(event: Task, task_id: str, context_id: str) -> None:
    """A whole task with what is in it."""
    if not event.id:
        event.id = task_id
    if not event.context_id:
        event.context_id = context_id
    _check_ids(event.id, event.context_id, task_id, context_id)
    if event.status.state == TASK_STATE_UNSPECIFIED:
        event.status.state = TASK_STATE_SUBMITTED
    _check_status(event.status)
    if event.artifacts:
        _check_artifact_ids([artifact.artifact_id for artifact in event.artifacts])
    for message in event.history:
        _own_message(message, task_id, context_id)
    if event.status.HasField("message"):
        _own_message(event.status.message, task_id, context_id)


def _check_artifact_ids(ids: list[str]) -> None:
    if not all(ids):
        raise InvalidAgentResponseError("an artifact needs an artifact_id")
    if len(set(ids)) < len(ids):
        raise InvalidAgentResponseError("two artifacts of the task have the same artifact_id")


def new_task(event: Task | None, message: Message) -> Task:
    """The task at its beginning: the agent's own, or one made around its first update; the
    message that started it is in the history in any case."""
    task = Task()
    if event is not None:
        task.CopyFrom(event)
    else:
        task.id = message.task_id
        task.context_id = message.context_id
        task.status.state = TASK_STATE_SUBMITTED
        stamp(task.status)
    if all(known.message_id != message.message_id for known in task.history):
        task.history.append(message)
    return task


def to_reply(event: Message, context_id: str, limit: int) -> SendMessageResponse:
    """A direct answer of at most `limit` bytes. It names no task: none with the turn's id will
    ever exist."""
    if not event.parts:
        raise InvalidAgentResponseError("a message needs at least one part")
    to_body(event, limit)
    response = SendMessageResponse()
    reply = response.message
    reply.CopyFrom(event)
    reply.role = Role.ROLE_AGENT
    reply.message_id = reply.message_id or new_id()
    reply.context_id = reply.context_id or context_id
    reply.ClearField("task_id")
    return response


def to_body(event: Event, limit: int) -> bytes:
    """The event as bytes, at most `limit` of them beside what clients have said: a message that
    was taken in has to fit into its task."""
    body = event.SerializeToString()
    if len(body) > limit and len(body) - _said_by_clients(event) > limit:
        raise InvalidAgentResponseError(
            f"the event has {len(body)} bytes, the limit is {limit}: send it in chunks"
        )
    if fault := find_fault(event, body):
        raise InvalidAgentResponseError("{}: {}".format(*fault))
    return body


def _said_by_clients(event: Event) -> int:
    if not isinstance(event, Task):
        return 0
    return sum(m.ByteSize() for m in event.history if m.role == Role.ROLE_USER)


def _own_event(
    event: TaskArtifactUpdateEvent | TaskStatusUpdateEvent, task_id: str, context_id: str
) -> None:
    if not event.task_id:
        event.task_id = task_id
    if not event.context_id:
        event.context_id = context_id
    _check_ids(event.task_id, event.context_id, task_id, context_id)


def _check_ids(task_id: str, context_id: str, own_task: str, own_context: str) -> None:
    if task_id != own_task:
        raise InvalidAgentResponseError(f"the event names task {task_id}, the turn is {own_task}")
    if context_id != own_context:
        raise InvalidAgentResponseError(
            f"the event names context {context_id}, the turn's is {own_context}"
        )


def _own_message(message: Message, task_id: str, context_id: str) -> None:
    message.task_id = task_id
    message.context_id = context_id
    if not message.message_id:
        message.message_id = new_id()
    if message.role not in _ROLES:
        message.role = Role.ROLE_AGENT
