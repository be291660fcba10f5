"""The client's end of the stdio door: starts a program and calls it over its pipes.

The program is ours alone: it is started with the client, and ended in order with it, by the end of
its input (docs/bindings/stdio.md). Its standard error is passed on, or kept for whoever asks.
"""

import asyncio
import contextlib
import os
import shlex
import signal
import subprocess
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path

from transports.framing import Framing
from transports.session.client import SessionClient, Streams
from transports.stdio.streams import Input, Output
from transports.wire import UnreachableError

END_GRACE = 15.0
"""Seconds to end by itself after the end of its input: the grace period of our own server and
what comes after it."""
TERM_GRACE = 2.0
"""The same, after SIGTERM."""
LAST_WORDS = 1.0
"""Seconds from the end of a program's output to its exit code."""
POLL = 0.01
ERROR_LINES = 200
"""Kept of a captured standard error."""


class StdioClient(SessionClient):
    """Calls the program `command`, a text as a shell would take it or a list of words. Make it
    within a running loop. Raises `UnreachableError` where it cannot be started.

    `captures` keeps the program's standard error in `errors`; otherwise it is this process's own.
    The program gets the environment of this process unless `environment` is given.
    """

    def __init__(
        self,
        command: str | Sequence[str],
        *,
        framing: Framing = Framing.LINES,
        streams: Streams = "responses",
        parameters: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
        directory: Path | None = None,
        captures: bool = False,
        grace: float = END_GRACE,
    ):
        words = shlex.split(command) if isinstance(command, str) else list(command)
        self.errors: deque[str] = deque(maxlen=ERROR_LINES)
        """Last lines of a captured standard error."""
        self._grace = grace
        self._errors: asyncio.Task[None] | None = None
        self.process, reading, writing, errors = _start(words, environment, directory, captures)
        """The program; nobody but this client waits for it."""
        self._input = Input(reading)
        self._output = Output(writing)
        if errors is not None:
            self._errors = asyncio.create_task(self._keep_errors(Input(errors)))
        super().__init__(
            self._read_program,
            self._output.write,
            framing=framing,
            streams=streams,
            parameters=parameters,
            on_close=self._end,
            peer=f"the program {words[0]}",
        )

    async def __aenter__(self) -> "StdioClient":
        return self

    async def _read_program(self) -> bytes:
        data = await self._input.read()
        if not data:
            # its exit code says more than the end of its output
            await self._exited(LAST_WORDS)
            if code := self.process.poll():
                raise OSError(code, ended(code))
        return data

    async def _keep_errors(self, stream: Input) -> None:
        rest = b""
        with contextlib.suppress(OSError):
            while data := await stream.read():
                *lines, rest = (rest + data).split(b"\n")
                self.errors += [line.decode(errors="replace") for line in lines]
                rest = rest[-65536:]
        if rest:
            self.errors.append(rest.decode(errors="replace"))
        stream.close()

    async def _end(self) -> None:
        """The end of its input; then, if that does not help, signals."""
        self._output.close()
        self._input.close()
        for seconds, number in (
            (self._grace, signal.SIGTERM),
            (TERM_GRACE, signal.SIGKILL),
        ):
            if await self._exited(seconds):
                break
            self.process.send_signal(number)
        await self._exited(None)
        if self._errors is not None:
            # a child that it left behind may hold the pipe
            await asyncio.wait((self._errors,), timeout=LAST_WORDS)
            self._errors.cancel()

    async def _exited(self, seconds: float | None) -> bool:
        """Whether it has ended, within so many seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                # subprocess waits by blocking, and SIGCHLD is not ours to take
                while self.process.poll() is None:  # noqa: ASYNC110
                    await asyncio.sleep(POLL)
        return self.process.poll() is not None


def ended(code: int) -> str:
    """How a program ended, in words."""
    if code >= 0:
        return f"it ended with code {code}"
    try:
        return f"it was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"it was ended by signal {-code}"


def _start(
    words: Sequence[str],
    environment: Mapping[str, str] | None,
    directory: Path | None,
    captures: bool,
) -> tuple["subprocess.Popen[bytes]", int, int, int | None]:
    """The program, and our ends of its output, input and captured errors."""
    if not words:
        raise UnreachableError("there is no program to start: the command is empty")
    their_input, writing = os.pipe()
    reading, their_output = os.pipe()
    errors, their_errors = os.pipe() if captures else (None, None)
    theirs = [their_input, their_output, *([their_errors] if their_errors is not None else [])]
    ours = [reading, writing, *([errors] if errors is not None else [])]
    try:
        process = subprocess.Popen(  # noqa: S603 - the command is the caller's to choose
            words,
            stdin=their_input,
            stdout=their_output,
            stderr=their_errors,
            env=environment,
            cwd=directory,
            # a terminal's Ctrl-C is for this process, which then ends the program in order
            process_group=0,
        )
    except OSError as error:
        for descriptor in ours:
            os.close(descriptor)
        text = f"the program {words[0]} cannot be started: {error.strerror or error}"
        raise UnreachableError(text) from None
    finally:
        for descriptor in theirs:
            os.close(descriptor)
    return process, reading, writing, errors
