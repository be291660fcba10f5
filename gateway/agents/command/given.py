"""What a program gets: its stdin and its variables. Pure. Layer: agents. Guide: docs/agents.md."""

import json
from collections.abc import Iterable, Mapping

from google.protobuf.json_format import MessageToDict

from gateway.agents import Turn
from gateway.agents.contract import to_execute_request
from gateway.agents.input import to_python
from gateway.errors import ContentTypeNotSupportedError
from gateway.pb import Part, Role

USUAL = ("HOME", "LANG", "PATH", "TMPDIR", "TZ", "USER")
"""Variables that every program gets, and those that begin with LC_."""
NO_FILES = (
    "This agent takes text and data, and a file only by its address; put what the file holds into "
    "a text part"
)


def environment(surrounding: Mapping[str, str], more: Iterable[str]) -> dict[str, str]:
    """The variables that a program gets of those around the gateway."""
    names = {*USUAL, *more}
    return {k: v for k, v in surrounding.items() if k in names or k.startswith("LC_")}


def variables(turn: Turn) -> dict[str, str]:
    """What tells the program about its turn."""
    said = [] if turn.task is None else [m for m in turn.task.history if m.role == Role.ROLE_USER]
    return {
        "A2A_TASK_ID": turn.task_id,
        "A2A_CONTEXT_ID": turn.context_id,
        "A2A_MESSAGE_ID": turn.request.message.message_id.replace("\0", ""),
        "A2A_TURN": str(len(said) or 1),
        "A2A_CALLER": turn.call.caller.replace("\0", ""),
        "A2A_TENANT": turn.call.tenant.replace("\0", ""),
    }


def to_text(turn: Turn) -> bytes:
    """The message as text: each part on lines of its own, the last line ended too. Raises
    `ContentTypeNotSupportedError` for a file that came by its bytes."""
    text = "\n".join(_as_text(part) for part in turn.request.message.parts)
    return text.encode() if text.endswith("\n") else f"{text}\n".encode()


def _as_text(part: Part) -> str:
    if part.HasField("raw"):
        raise ContentTypeNotSupportedError(NO_FILES)
    if part.HasField("data"):
        return json.dumps(to_python(part.data), ensure_ascii=False)
    return part.url if part.HasField("url") else part.text


def to_line(turn: Turn, secret_names: frozenset[str]) -> bytes:
    """The turn as one line of JSON: the `ExecuteRequest` of proto/agent.proto."""
    request = MessageToDict(to_execute_request(turn, secret_names))
    return json.dumps(request, ensure_ascii=False).encode() + b"\n"
