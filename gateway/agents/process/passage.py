"""A call of the runtime on its way through the process of an agent. Layer: agents."""

import asyncio
from collections import deque
from typing import Protocol

from gateway.agents import Turn, contract
from gateway.agents.process.frames import GRANT, MAX_BYTES, MAX_EVENTS, Kind
from gateway.errors import judge
from gateway.pb import agent_pb2


class ProcessEndedError(Exception):
    """The process ended in the middle of a call; the text says how."""


class Sender(Protocol):
    """Where frames go."""

    def send(self, kind: Kind, number: int = 0, payload: bytes = b"") -> None:
        """Send one frame."""


class Passage:
    """A call on its way through the process."""

    __slots__ = (
        "_events",
        "_sender",
        "_signal",
        "_taken_bytes",
        "_taken_events",
        "_turn",
        "error",
        "is_done",
        "is_interrupted",
        "is_settled",
        "number",
        "outcome",
    )

    def __init__(self, sender: Sender, number: int, turn: Turn):
        self._sender = sender
        self.number = number
        self._turn = turn
        self.is_done = False
        self.is_interrupted = False
        self.is_settled = False
        """The last event was one after which a turn may end."""
        self.outcome: Exception | None = None
        self.error: Exception | None = None
        """What the runtime said against an event."""
        self._events: deque[bytes] = deque()
        self._signal = asyncio.Event()
        self._taken_events = self._taken_bytes = 0

    def arrive(self, payload: bytes) -> None:
        """An event came."""
        self._events.append(payload)
        self._signal.set()

    def end(self, outcome: Exception | None) -> None:
        """The call has ended in the process, or with it."""
        if not self.is_done:
            self.outcome = outcome
            self.is_done = True
            self._signal.set()

    async def carry(self) -> None:
        """Hand events to the turn until the call has ended."""
        while True:
            while self._events:
                await self._hand_over(self._events.popleft())
            if self.is_done:
                return
            self._signal.clear()
            await self._signal.wait()

    async def _hand_over(self, payload: bytes) -> None:
        try:
            # what comes behind a refused event would hide that it is missing
            if self.error is None:
                event = contract.to_event(agent_pb2.ExecuteResponse.FromString(payload))
                self.is_settled = contract.settles(event)
                await self._turn.emit(event)
        except Exception as error:
            self.error = error
            status = judge(error).to_status().SerializeToString()
            self._sender.send(Kind.REFUSE, self.number, status)
        self._taken_events += 1
        self._taken_bytes += len(payload)
        if self._taken_events >= MAX_EVENTS // 2 or self._taken_bytes >= MAX_BYTES // 2:
            granted = GRANT.pack(self._taken_events, self._taken_bytes)
            self._sender.send(Kind.GRANT, self.number, granted)
            self._taken_events = self._taken_bytes = 0

    async def conclude(self) -> None:
        """Raise what ended the call. A process that died fails the task, with the reason."""
        error = self.outcome or self.error
        if isinstance(error, ProcessEndedError):
            if not self.is_settled and not self.is_interrupted:
                await contract.emit_failure(self._turn, str(error))
        elif error is not None:
            raise error
