"""From what a program prints to the events of its turn (A2A 4.1, 4.2). Layer: agents."""

import asyncio
import codecs
import signal
from typing import Protocol

from google.protobuf import json_format

from gateway.agents import Turn
from gateway.agents.output import Writer, ask, fail, status
from gateway.errors import InvalidAgentResponseError
from gateway.pb import Event, StreamResponse

LARGE_BYTES = 64 * 1024
QUESTION_CHARACTERS = 4096
"""Of the last line, where it is a question."""


class Output(Protocol):
    """Takes what a program prints, in order."""

    @property
    def is_settled(self) -> bool:
        """Whether the program has said itself how its turn ends."""

    async def begin(self) -> None:
        """Before the program starts."""

    async def feed(self, data: bytes) -> None:
        """Emit what the bytes make whole. Raises `InvalidAgentResponseError`."""

    async def finish(self, code: int) -> None:
        """The program has ended, by an exit code or minus a signal's number."""

    async def fail(self, reason: str) -> None:
        """The program was ended, for a reason that the client may read."""


class TextOutput:
    """Text, each piece a chunk of one artifact; bytes that are no UTF-8 become U+FFFD."""

    def __init__(self, turn: Turn, ask_code: int | None):
        self._writer = Writer(turn, shows_work=True)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._ask_code = ask_code
        self._tail = ""
        """The end of what was printed, for the question that it may be."""

    @property
    def is_settled(self) -> bool:
        return False

    async def begin(self) -> None:
        await self._writer.write(status(""))

    async def feed(self, data: bytes) -> None:
        await self._write(self._decoder.decode(data))

    async def finish(self, code: int) -> None:
        await self._write(self._decoder.decode(b"", final=True))
        if code == 0:
            await self._writer.finish()
        elif code == self._ask_code:
            lines = self._tail.strip().splitlines()
            await self._writer.write(ask(lines[-1].strip() if lines else ""))
        else:
            await self._writer.write(fail(describe(code)))

    async def fail(self, reason: str) -> None:
        await self._write(self._decoder.decode(b"", final=True))
        await self._writer.write(fail(reason))

    async def _write(self, text: str) -> None:
        self._tail = (self._tail + text)[-QUESTION_CHARACTERS:]
        await self._writer.write(text)


class EventOutput:
    """Events, one `StreamResponse` in ProtoJSON a line; empty lines are skipped."""

    def __init__(self, turn: Turn) -> None:
        self._writer = Writer(turn, shows_work=True)
        self._pieces: list[bytes] = []
        """Of a line whose end has not come."""
        self._count = 0

    @property
    def is_settled(self) -> bool:
        return self._writer.is_ended

    async def begin(self) -> None:
        """Nothing is said yet: the first event may be a direct answer."""

    async def feed(self, data: bytes) -> None:
        first, *lines = data.split(b"\n")
        self._pieces.append(first)
        for line in lines:
            await self._line()
            self._pieces = [line]

    async def finish(self, code: int) -> None:
        await self._line()
        if code == 0:
            await self._writer.finish()
        elif not self.is_settled:
            await self.fail(describe(code))

    async def fail(self, reason: str) -> None:
        await self._writer.write(fail(reason))

    async def _line(self) -> None:
        line = b"".join(self._pieces).strip()
        self._pieces = []
        self._count += 1
        if len(line) > LARGE_BYTES:
            # to read it takes long: the loop goes on meanwhile
            event = await asyncio.to_thread(to_event, line, self._count)
            await self._writer.write(event)
        elif line:
            await self._writer.write(to_event(line, self._count))


def to_event(line: bytes, number: int) -> Event:
    """The event of one line. Raises `InvalidAgentResponseError`, without what the line says."""
    try:
        response = json_format.Parse(line, StreamResponse())
    except (json_format.ParseError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidAgentResponseError(
            f"line {number} of the agent's output is no StreamResponse in JSON"
        ) from error
    kind = response.WhichOneof("payload")
    if kind is None:
        raise InvalidAgentResponseError(
            f"line {number} of the agent's output has none of task, message, statusUpdate and "
            "artifactUpdate"
        )
    event: Event = getattr(response, kind)
    return event


def describe(code: int) -> str:
    """How a program ended, for the client."""
    if code >= 0:
        return f"The agent ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"The agent was ended by {name}"
