"""What a function agent gets: the message of its turn and what belongs to it. Layer: agents."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from gateway.agents import Turn
from gateway.pb import Message, Part, Task, Value

T = TypeVar("T")

SESSION_TIMEOUT = 10.0
"""Seconds that a function in a thread waits for the loop to hand it the session."""


class Input:
    """What a function agent gets: the message of this turn and what belongs to it."""

    __slots__ = ("_loop", "_turn")

    def __init__(self, turn: Turn, loop: asyncio.AbstractEventLoop | None = None):
        self._turn = turn
        self._loop = loop
        """The turn's loop, where the function runs in a thread."""

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
    def session(self) -> dict[str, Any]:
        """The agent's memory of this context, shared by its turns. It lives in memory alone: gone
        after a restart, or once the context has been idle for long."""
        if self._loop is None:
            return self._turn.session
        return call_on(self._loop, lambda: self._turn.session)

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


def call_on(loop: asyncio.AbstractEventLoop, function: Callable[[], T]) -> T:
    """Call a function on a loop from another thread, and wait for what it returns."""
    future: Future[T] = Future()

    def call() -> None:
        try:
            future.set_result(function())
        except Exception as error:
            future.set_exception(error)

    loop.call_soon_threadsafe(call)
    return future.result(SESSION_TIMEOUT)
