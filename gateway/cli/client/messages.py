"""Messages from what stands on the command line: text, data, files."""

import json
import mimetypes
import sys
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from gateway.pb import Message, Part, Role, SendMessageRequest

_KEYS = uuid.UUID("5f1d3a1e-9a2b-4a39-9a53-6f1a1f0c0b57")
_STDIN = "-"


@dataclass(frozen=True, slots=True)
class Content:
    """What a message shall hold."""

    text: str | None = None
    """`-` stands for stdin."""
    data: Sequence[str] = ()
    """JSON texts."""
    files: Sequence[Path] = ()
    media_type: str = ""
    """Of the files; empty: as their names say."""


def request(
    content: Content, *, context_id: str = "", task_id: str = "", key: str = ""
) -> SendMessageRequest:
    """A request to send it. Raises `click.UsageError`."""
    parts = list(_parts(content))
    if not parts:
        raise click.UsageError("there is nothing to send; give a text, `-` for stdin, or --file")
    # who repeats a command with its key repeats its message
    message_id = str(uuid.uuid5(_KEYS, key) if key else uuid.uuid4())
    message = Message(
        message_id=message_id,
        role=Role.ROLE_USER,
        context_id=context_id,
        task_id=task_id,
        parts=parts,
    )
    return SendMessageRequest(message=message)


def _parts(content: Content) -> Any:
    text = content.text
    if text == _STDIN:
        try:
            text = sys.stdin.buffer.read().decode()
        except UnicodeDecodeError:
            raise click.UsageError("stdin is not UTF-8 text; send it by --file") from None
    if text:
        yield Part(text=text)
    for value in content.data:
        yield _data(value)
    for path in content.files:
        yield _file(path, content.media_type)


def _data(text: str) -> Part:
    from google.protobuf import json_format

    part = Part()
    try:
        json_format.ParseDict(json.loads(text, parse_constant=_refuse), part.data)
    except (ValueError, json_format.ParseError) as error:
        raise click.UsageError(f"--data is not JSON: {error}") from None
    return part


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _file(path: Path, media_type: str) -> Part:
    kind, encoding = mimetypes.guess_type(path.name)
    if kind is None or encoding is not None:
        kind = "application/octet-stream"
    try:
        return Part(raw=path.read_bytes(), filename=path.name, media_type=media_type or kind)
    except OSError as error:
        raise click.UsageError(f"--file {path} cannot be read: {error.strerror}") from None
