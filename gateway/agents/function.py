"""Runs a plain function as an agent. Layer: agents. Guide: docs/agents.md.

The function takes one argument, an `Input`, and is an async generator, a coroutine, a generator
or a function; the last two run in threads. What it yields or returns becomes events; its normal
end completes the task, an exception fails it (the runtime does that). All that a writer of such
an agent needs is imported from here.
"""

import asyncio
import contextvars
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing
from typing import Any

from gateway.agents import AgentError, Turn
from gateway.agents.input import Input
from gateway.agents.output import (
    Status,
    Writer,
    ask,
    ask_auth,
    done,
    fail,
    file,
    link,
    reject,
    reply,
    status,
)
from gateway.agents.threads import DaemonThreads

__all__ = [
    "FunctionAgent",
    "Input",
    "Status",
    "ask",
    "ask_auth",
    "done",
    "fail",
    "file",
    "link",
    "reject",
    "reply",
    "status",
]

MAX_THREADS = 32
"""Turns of a function that is not async which run at once; more wait."""


class FunctionAgent:
    """Runs a function once for each turn."""

    def __init__(self, function: Callable[[Input], Any], *, name: str | None = None):
        self.name = name or str(getattr(function, "__name__", type(function).__name__))
        check_signature(function, self.name)
        self._function = function
        self._threads: DaemonThreads | None = None
        self._drive = self._driver()

    async def start(self) -> None:
        """Nothing to make ready; threads start when they are needed."""

    async def stop(self) -> None:
        if self._threads is not None:
            self._threads.shutdown()
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
            return lambda turn: self._stream(turn, self._steps(self._function(_outside(turn))))
        return lambda turn: self._answer(turn, self._in_thread(self._function, _outside(turn)))

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
            self._pool().submit(steps.close)

    async def _in_thread(self, function: Callable[..., Any], *args: Any) -> Any:
        pool = self._pool()
        job = pool.submit(contextvars.copy_context().run, function, *args)
        try:
            return await asyncio.wrap_future(job)
        except asyncio.CancelledError:
            # what has begun cannot be broken off
            if not job.done():
                pool.give_up(job)
            raise

    def _pool(self) -> DaemonThreads:
        if self._threads is None:
            self._threads = DaemonThreads(MAX_THREADS, f"agent-{self.name}")
        return self._threads


_END = object()


def _outside(turn: Turn) -> Input:
    """The input of a function that does not run on the loop's thread."""
    return Input(turn, asyncio.get_running_loop())


class _Steps:
    """A generator that one thread at a time may touch."""

    def __init__(self, generator: Iterator[Any]):
        self._generator = generator
        self._lock = threading.Lock()
        self._is_closing = False

    def next(self) -> Any:
        try:
            with self._lock:
                return next(self._generator, _END)
        finally:
            if self._is_closing:
                self.close()

    def close(self) -> None:
        """At once, or after the step that is under way, by the thread that takes it."""
        self._is_closing = True
        if self._lock.acquire(blocking=False):
            try:
                self._generator.close()  # type: ignore[attr-defined]
            finally:
                self._lock.release()


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
