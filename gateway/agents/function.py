"""Runs a plain function as an agent. Layer: agents. Guide: docs/agents.md.

The function takes one argument, an `Input`, and is an async generator, a coroutine, a generator
or a function; the last two run in threads. What it yields or returns becomes events (A2A 4.1,
4.2); its normal end completes the task, an exception fails it (the runtime does that).
"""

import asyncio
import contextvars
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from google.protobuf import json_format

from gateway.agents import AgentError, Turn
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

MAX_THREADS = 32
"""Turns of a function that is not async which run at once; more wait."""


class Input:
    """What a function agent gets: the message of this turn and what belongs to it."""

    __slots__ = ("_turn",)

    def __init__(self, turn: Turn):
        self._turn = turn

    @property
    def message(self) -> Message:
        """The message itself."""
        return self._turn.request.message

    @property
    def text(self) -> str:
        """The text parts of the message, one a line."""
        return "\n".join(p.text for p in self.message.parts if p.HasField("text"))

    @property
    def data(self) -> list[Any]:
        """The data parts of the message, as plain Python values."""
        return [to_python(p.data) for p in self.message.parts if p.HasField("data")]

    @property
    def files(self) -> list[Part]:
        """The file parts of the message, by bytes (`raw`) or by address (`url`)."""
        return [p for p in self.message.parts if p.HasField("raw") or p.HasField("url")]

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata of the message."""
        return {name: to_python(value) for name, value in self.message.metadata.fields.items()}

    @property
    def task_id(self) -> str:
        return self._turn.task_id

    @property
    def context_id(self) -> str:
        return self._turn.context_id

    @property
    def task(self) -> Task | None:
        """The task so far, this message included; None on its first turn."""
        return self._turn.task

    @property
    def history(self) -> list[Message]:
        """The messages of the task before this one."""
        if self._turn.task is None:
            return []
        this = self.message.message_id
        return [m for m in self._turn.task.history if m.message_id != this]

    @property
    def related(self) -> list[Task]:
        """The tasks that the message refers to and its caller may see."""
        return self._turn.related

    @property
    def caller(self) -> str:
        """Who sent the message; `anonymous` where nobody had to say."""
        return self._turn.call.caller

    @property
    def tenant(self) -> str:
        return self._turn.call.tenant

    @property
    def extensions(self) -> tuple[str, ...]:
        """The extensions that the client asked for."""
        return self._turn.call.extensions

    @property
    def accepts(self) -> list[str]:
        """The media types that the client takes; empty for any."""
        return list(self._turn.request.configuration.accepted_output_modes)


def to_python(value: Value) -> Any:
    """A JSON value as Python has it; whole numbers are ints, as `json.loads` would give them."""
    kind = value.WhichOneof("kind")
    if kind == "struct_value":
        return {name: to_python(item) for name, item in value.struct_value.fields.items()}
    if kind == "list_value":
        return [to_python(item) for item in value.list_value.values]
    if kind == "number_value":
        number = value.number_value
        return int(number) if number.is_integer() else number
    return None if kind in (None, "null_value") else getattr(value, kind)


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


class FunctionAgent:
    """Runs a function once for each turn."""

    def __init__(self, function: Callable[[Input], Any], *, name: str | None = None):
        self.name = name or str(getattr(function, "__name__", type(function).__name__))
        check_signature(function, self.name)
        self._function = function
        self._threads: ThreadPoolExecutor | None = None
        self._drive = self._driver()

    async def start(self) -> None:
        """Nothing to make ready; threads start when they are needed."""

    async def stop(self) -> None:
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._threads = None

    async def run(self, turn: Turn) -> None:
        try:
            await self._drive(turn)
        except SystemExit as error:
            # it would end the loop, and every other task with it
            raise RuntimeError("the agent called sys.exit()") from error

    async def cancel(self, turn: Turn) -> None:
        """The function has been told by `asyncio.CancelledError` or, in a thread, by close."""

    def _driver(self) -> Callable[[Turn], Any]:
        if _is_kind(self._function, inspect.isasyncgenfunction):
            return lambda turn: self._stream(turn, self._function(Input(turn)))
        if _is_kind(self._function, inspect.iscoroutinefunction):
            return lambda turn: self._answer(turn, self._function(Input(turn)))
        if _is_kind(self._function, inspect.isgeneratorfunction):
            return lambda turn: self._stream(turn, self._steps(self._function(Input(turn))))
        return lambda turn: self._answer(turn, self._in_thread(self._function, Input(turn)))

    async def _stream(self, turn: Turn, values: Any) -> None:
        writer = Writer(turn, shows_work=True)
        # closed on every way out, so that the function's own clean-up runs now and not later
        async with aclosing(values):
            async for value in values:
                await writer.write(value)
                if writer.is_ended:
                    return
        await writer.finish()

    async def _answer(self, turn: Turn, answer: Any) -> None:
        writer = Writer(turn, shows_work=False)
        await writer.write(await answer)
        await writer.finish()

    async def _steps(self, generator: Iterator[Any]) -> AsyncIterator[Any]:
        steps = _Steps(generator)
        try:
            while (value := await self._in_thread(steps.next)) is not _END:
                yield value
        finally:
            # a step under way cannot be broken off: the generator is closed after it
            self._pool().submit(steps.close)

    def _in_thread(self, function: Callable[..., Any], *args: Any) -> "asyncio.Future[Any]":
        context = contextvars.copy_context()
        loop = asyncio.get_running_loop()
        return loop.run_in_executor(self._pool(), context.run, function, *args)

    def _pool(self) -> ThreadPoolExecutor:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(MAX_THREADS, thread_name_prefix=f"agent-{self.name}")
        return self._threads


_END = object()


class _Steps:
    """A generator that one thread at a time may touch."""

    def __init__(self, generator: Iterator[Any]):
        self._generator = generator
        self._lock = threading.Lock()

    def next(self) -> Any:
        with self._lock:
            return next(self._generator, _END)

    def close(self) -> None:
        with self._lock:
            self._generator.close()  # type: ignore[attr-defined]


def _is_kind(function: Any, test: Callable[[Any], bool]) -> bool:
    # an instance with an async __call__ is a function too
    return test(function) or test(getattr(function, "__call__", None))  # noqa: B004


def is_async(function: Any) -> bool:
    """Whether it is an async generator function or a coroutine function."""
    return _is_kind(function, inspect.isasyncgenfunction) or _is_kind(
        function, inspect.iscoroutinefunction
    )


def check_signature(function: Callable[..., Any], name: str) -> None:
    """Raises `AgentError` unless the function can be called with one argument."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(None)
    except TypeError:
        raise AgentError(
            f"agent {name}: the function must take one argument, the input of the turn, as in "
            f"`async def agent(input)`; it is {name}{signature}"
        ) from None
