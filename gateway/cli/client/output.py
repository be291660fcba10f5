"""What the client commands print: answers on stdout, states and hints on stderr, or JSON.

Text that comes from an agent is shown on a terminal without control characters, which could
move the cursor, rewrite what stands there or worse.
"""

import hashlib
import io
import json
import os
import re
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from gateway.errors import Failure
from gateway.pb import Artifact, Message, Part, ProtoMessage, StreamResponse, Task, TaskState
from transports.client import error_object, to_json

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_NO_NAME = re.compile(r"[^\w .()+,=@#-]")


def harmless(text: str) -> str:
    """Text without control characters, line ends and tabs excepted."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def one_line(text: str) -> str:
    """Text on one line, without control characters."""
    return " ".join(harmless(text).split())


def state_name(state: int) -> str:
    """As people write it: `input required`."""
    try:
        name = TaskState.Name(TaskState.ValueType(state))
    except ValueError:
        return f"state {state}"
    return name.removeprefix("TASK_STATE_").lower().replace("_", " ")


class OutputError(Exception):
    """Stdout cannot be written. `reason` is empty where nobody reads it any more."""

    def __init__(self, reason: str):
        super().__init__(reason)
        self.reason = reason


class Output:
    """One command's stdout and stderr. Raises `OutputError`; what stderr does not take is
    lost."""

    def __init__(
        self,
        *,
        as_json: bool = False,
        is_quiet: bool = False,
        out: TextIO | None = None,
        err: TextIO | None = None,
    ) -> None:
        self.as_json = as_json
        self._is_quiet = is_quiet
        found = out or sys.stdout
        if found is None:
            raise OutputError("it is closed")
        if isinstance(found, io.TextIOWrapper):
            # JSON is UTF-8 everywhere (RFC 8259 s8.1); words are for the user's terminal
            found.reconfigure(encoding="utf-8" if as_json else None, errors="replace")
        self._out: TextIO = found
        # where it is closed, something has to be in its place
        self._err: TextIO = err or sys.stderr or open(os.devnull, "w")  # noqa: SIM115
        self._is_terminal = self._out.isatty()
        self._is_mixed = _are_one(self._out, self._err)
        self._at_line_start = True

    def text(self, text: str) -> None:
        """A piece of an answer, as it comes."""
        if not text:
            return
        try:
            self._out.write(harmless(text) if self._is_terminal else text)
            self._out.flush()
        except OSError as error:
            self._give_up()
            is_left = isinstance(error, BrokenPipeError)
            raise OutputError("" if is_left else error.strerror or str(error)) from None
        self._at_line_start = text.endswith("\n")

    def _give_up(self) -> None:
        """What is unwritten is dropped: else the interpreter would try again at its end."""
        self._at_line_start = True
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._out.fileno())

    def end_line(self) -> None:
        """End the line of what was printed last, where it is open."""
        if not self._at_line_start:
            self.text("\n")

    def line(self, text: str) -> None:
        """A whole line of an answer."""
        self.end_line()
        self.text(text + "\n")

    def json(self, message: ProtoMessage) -> None:
        """A message as one line."""
        self.line(to_json(message).decode())

    def hint(self, text: str) -> None:
        """A line for people."""
        if not self._is_quiet:
            self.error(text)

    def error(self, text: str) -> None:
        """A line for people, also for those who asked for quiet."""
        if self._is_mixed:
            self.end_line()
        with suppress(OSError):
            self._err.write(harmless(text) + "\n")
            self._err.flush()

    def failure(self, failure: Failure) -> None:
        """How a call failed: for machines on stdout, for people on stderr."""
        if self.as_json:
            self.line(json.dumps({"error": error_object(failure)}, ensure_ascii=False))
        self.error(f"a2a-gateway: {one_line(failure.message)}")


def _are_one(out: TextIO, err: TextIO) -> bool:
    """Whether both are read together: on a terminal, or in one pipe or file."""
    if out.isatty() and err.isatty():
        return True
    try:
        return os.path.sameopenfile(out.fileno(), err.fileno())
    except (OSError, ValueError):
        return False


class Answers:
    """Prints what an agent says, each piece once, also where a stream begins anew with the whole
    task. Knows how far it has come."""

    def __init__(self, output: Output, *, save: Path | None = None, is_follow_up: bool = False):
        """`save`: where files go. `is_follow_up`: the task had artifacts before; they are not
        shown again."""
        self.task_id = ""
        self.context_id = ""
        self.state = 0
        self.sequence = 0
        self.is_message = False
        self._output = output
        self._files = Files(output, save)
        self._skips_first = is_follow_up
        self._shown: dict[str, str] = {}
        self._last_artifact = ""
        self._has_text = False

    @property
    def has_begun(self) -> bool:
        """Whether anything came."""
        return self.is_message or bool(self.task_id)

    def event(self, sequence: int, response: StreamResponse) -> None:
        """One event of a stream."""
        self.sequence = max(self.sequence, sequence)
        if self._output.as_json:
            self._output.json(response)
        match response.WhichOneof("payload"):
            case "task":
                self.task(response.task)
            case "message":
                self.message(response.message)
            case "status_update":
                update = response.status_update
                self._status(update.task_id, update.context_id, update.status)
            case "artifact_update":
                chunk = response.artifact_update
                self._about(chunk.task_id, chunk.context_id)
                self._chunk(chunk.artifact, append=chunk.append)

    def message(self, message: Message) -> None:
        """A direct answer."""
        self.is_message = True
        self.context_id = message.context_id or self.context_id
        self._say(message.parts)

    def task(self, task: Task) -> None:
        """A task as it stands."""
        if self._skips_first:
            self.skip(task)
        for artifact in task.artifacts:
            self._whole(artifact)
        self._status(task.id, task.context_id, task.status)

    def note(self, task: Task) -> None:
        """Take a task into account, and show nothing of it."""
        self.task_id, self.context_id = task.id, task.context_id
        self.state = task.status.state

    def skip(self, task: Task) -> None:
        """What a task holds already is not shown again."""
        self._skips_first = False
        for artifact in task.artifacts:
            self._shown[artifact.artifact_id] = _text(artifact.parts)
            self._files.skip(artifact)

    def end(self) -> None:
        """Nothing more comes."""
        if not self._output.as_json:
            self._output.end_line()

    def _status(self, task_id: str, context_id: str, status: object) -> None:
        state: int = status.state  # type: ignore[attr-defined]
        message: Message = status.message  # type: ignore[attr-defined]
        is_new = state != self.state or bool(message.parts)
        self._about(task_id, context_id)
        self.state = state
        if self._output.as_json or not is_new:
            return
        text = _text(message.parts)
        if state in (TaskState.TASK_STATE_INPUT_REQUIRED, TaskState.TASK_STATE_AUTH_REQUIRED) or (
            state == TaskState.TASK_STATE_COMPLETED and not self._has_text
        ):
            self._ask(message.parts, text)
            text = ""
        shown = f"{state_name(state)}: {one_line(text)}" if text else state_name(state)
        is_bad = state in (TaskState.TASK_STATE_FAILED, TaskState.TASK_STATE_REJECTED)
        (self._output.error if is_bad else self._output.hint)(shown)

    def _ask(self, parts: Iterable[Part], text: str) -> None:
        """A question, unless it stands there already as the end of what was printed last: agents
        that print what they say ask by the last line of it."""
        printed = self._shown.get(self._last_artifact, "") if self._last_artifact else ""
        if text.strip() and f"\n{printed}".rstrip().endswith(f"\n{text.strip()}"):
            self._files.take(parts)
        else:
            self._say(parts)

    def _about(self, task_id: str, context_id: str) -> None:
        if task_id and task_id != self.task_id:
            self.task_id = task_id
            self._output.hint(f"task {one_line(task_id)}")
        self.context_id = context_id or self.context_id

    def _say(self, parts: Iterable[Part]) -> None:
        if self._output.as_json:
            return
        parts = list(parts)
        if text := _text(parts):
            self._output.end_line()
            self._output.text(text)
            self._output.end_line()
            self._has_text = True
        self._files.take(parts)

    def _chunk(self, artifact: Artifact, *, append: bool) -> None:
        if not append:
            self._whole(artifact)
            return
        text = _text(artifact.parts)
        name = artifact.artifact_id
        self._shown[name] = self._shown.get(name, "") + text
        self._print(name, text)
        self._keep(artifact)

    def _whole(self, artifact: Artifact) -> None:
        """An artifact as it stands: what goes beyond what is shown of it already."""
        name, text = artifact.artifact_id, _text(artifact.parts)
        shown = self._shown.get(name)
        self._shown[name] = text
        if shown is not None and text.startswith(shown):
            self._print(name, text[len(shown) :])
        else:
            self._last_artifact = ""
            self._print(name, text)
        self._keep(artifact)

    def _print(self, name: str, text: str) -> None:
        if self._output.as_json or not text:
            return
        if name != self._last_artifact:
            self._output.end_line()
            self._last_artifact = name
        self._output.text(text)
        self._has_text = True

    def _keep(self, artifact: Artifact) -> None:
        if not self._output.as_json:
            self._files.take(artifact.parts, artifact)


class Files:
    """Files of an answer: written to a folder, or named."""

    def __init__(self, output: Output, folder: Path | None) -> None:
        self._output = output
        self._folder = folder
        self._seen: set[tuple[str, bytes]] = set()

    def take(self, parts: Iterable[Part], artifact: Artifact | None = None) -> None:
        """Each file once, however often it comes."""
        for part in parts:
            if part.WhichOneof("content") != "raw":
                continue
            identity = _identity(part, artifact)
            if identity not in self._seen:
                self._seen.add(identity)
                self._take(part)

    def skip(self, artifact: Artifact) -> None:
        """Count its files as taken."""
        self._seen.update(_identity(part, artifact) for part in artifact.parts)

    def _take(self, part: Part) -> None:
        name, kind, size = one_line(part.filename), one_line(part.media_type), len(part.raw)
        about = f"{name or 'a file'} ({kind or 'unknown type'}, {size} bytes)"
        if self._folder is None:
            self._output.hint(f"{about} is not shown; keep it by --save FOLDER")
            return
        path = self._free(part.filename)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with path.open("xb") as file:
                file.write(part.raw)
        except OSError as error:
            self._output.error(f"{about} cannot be saved to {path}: {error.strerror}")
        else:
            self._output.hint(f"{about} is saved to {path}")

    def _free(self, name: str) -> Path:
        """A path inside the folder where nothing is yet: the name is the agent's choice."""
        assert self._folder is not None
        name = _NO_NAME.sub("_", name.replace("\\", "/").rpartition("/")[2]).strip(". ")[:128]
        name = name or "file"
        path, number = self._folder / name, 1
        while path.exists() or path.is_symlink():
            number += 1
            path = self._folder / f"{Path(name).stem} ({number}){Path(name).suffix}"
        return path


def _identity(part: Part, artifact: Artifact | None) -> tuple[str, bytes]:
    digest = hashlib.sha256(part.raw).digest()
    return artifact.artifact_id if artifact is not None else "", digest


def _text(parts: Iterable[Part]) -> str:
    """What can be read of parts: their texts as they stand; data and links on lines of their
    own."""
    text = ""
    for part in parts:
        match part.WhichOneof("content"):
            case "text":
                text += part.text
            case "data":
                text = _own_line(text, to_json(part.data).decode())
            case "url":
                text = _own_line(text, part.url)
    return text


def _own_line(text: str, line: str) -> str:
    return f"{text}{line}\n" if not text or text.endswith("\n") else f"{text}\n{line}\n"
