"""Between turns and the messages of `proto/agent.proto`. Layer: agents; no I/O.

Used by both ends: the gateway that asks an agent elsewhere (`remote`, `process`), and the process
that runs a Python agent for it (`process.child`).
"""

import time
from typing import Any

from gateway.agents import SECRET_NAMES, Turn
from gateway.agents.output import Writer, fail
from gateway.call import Call
from gateway.errors import InvalidAgentResponseError
from gateway.pb import (
    INTERRUPTED_STATES,
    TERMINAL_STATES,
    Event,
    Message,
    Task,
    TaskArtifactUpdateEvent,
    TaskStatusUpdateEvent,
    agent_pb2,
)

SERVICE = "a2a_gateway.agent.v1.AgentService"
EXECUTE = f"/{SERVICE}/Execute"
CANCEL = f"/{SERVICE}/Cancel"

_FIELDS: dict[type[Any], int] = {
    Task: agent_pb2.ExecuteResponse.TASK_FIELD_NUMBER,
    Message: agent_pb2.ExecuteResponse.MESSAGE_FIELD_NUMBER,
    TaskStatusUpdateEvent: agent_pb2.ExecuteResponse.STATUS_UPDATE_FIELD_NUMBER,
    TaskArtifactUpdateEvent: agent_pb2.ExecuteResponse.ARTIFACT_UPDATE_FIELD_NUMBER,
}


# What the gateway asks


def to_execute_request(
    turn: Turn, secret_names: frozenset[str] = SECRET_NAMES
) -> agent_pb2.ExecuteRequest:
    """What an agent may see of a turn."""
    return agent_pb2.ExecuteRequest(
        task_id=turn.task_id,
        context_id=turn.context_id,
        request=turn.request,
        task=turn.task,
        related_tasks=turn.related,
        call=_to_info(turn.call, secret_names),
    )


def to_cancel_request(
    turn: Turn, secret_names: frozenset[str] = SECRET_NAMES
) -> agent_pb2.CancelRequest:
    """The same of a turn that is cancelled."""
    has_message = bool(turn.request.message.parts)
    return agent_pb2.CancelRequest(
        task_id=turn.task_id,
        context_id=turn.context_id,
        request=turn.request if has_message else None,
        task=turn.task,
        call=_to_info(turn.call, secret_names),
    )


def _to_info(call: Call, secret_names: frozenset[str]) -> agent_pb2.CallInfo:
    info = agent_pb2.CallInfo(
        caller=call.caller,
        tenant=call.tenant,
        scheme=call.scheme,
        door=call.door,
        version=call.version,
        extensions=call.extensions,
        activated_extensions=call.activated,
        metadata={name: text for name, text in call.metadata.items() if name not in secret_names},
    )
    left = call.remaining()
    if left is not None:
        info.time_left.FromMilliseconds(int(left * 1000))
    return info


# What the agent's end makes of it


def to_call(info: agent_pb2.CallInfo) -> Call:
    """The call as far as it was told."""
    deadline = None
    if info.HasField("time_left"):
        deadline = time.monotonic() + info.time_left.ToMilliseconds() / 1000
    return Call(
        info.door,
        dict(info.metadata),
        version=info.version,
        extensions=tuple(info.extensions),
        activated=tuple(info.activated_extensions),
        deadline=deadline,
        tenant=info.tenant,
        caller=info.caller,
        scheme=info.scheme,
    )


# Events


def to_response(event: Event) -> bytes:
    """A serialized `ExecuteResponse`. Raises `TypeError` for what is no event."""
    number = _FIELDS.get(type(event))
    if number is None:
        raise TypeError(f"{type(event).__name__} is no event of A2A")
    body = event.SerializeToString()
    return _head(number, len(body)) + body


def _head(number: int, size: int) -> bytes:
    # a message's only field, by hand: building the message around the event would copy it
    head = bytearray((number << 3 | 2,))
    while size > 0x7F:
        head.append(size & 0x7F | 0x80)
        size >>= 7
    head.append(size)
    return bytes(head)


def to_event(response: agent_pb2.ExecuteResponse) -> Event:
    """The event of a response. Raises `InvalidAgentResponseError` where there is none."""
    kind = response.WhichOneof("event")
    if kind is None:
        raise InvalidAgentResponseError("an ExecuteResponse needs one of its events")
    event: Event = getattr(response, kind)
    return event


def settles(event: Event) -> bool:
    """Whether a turn may end well after this event."""
    return ends(event) or _state(event) in INTERRUPTED_STATES


def ends(event: Event) -> bool:
    """Whether a turn has nothing more to say after this event."""
    return isinstance(event, Message) or _state(event) in TERMINAL_STATES


def _state(event: Event) -> int | None:
    return event.status.state if isinstance(event, Task | TaskStatusUpdateEvent) else None


async def emit_failure(turn: Turn, reason: str) -> None:
    """End the task as FAILED with a reason that the client may read."""
    await Writer(turn, shows_work=False).write(fail(reason))
