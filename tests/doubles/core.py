"""A core that the tests script, behind the interface of `transports.core.CoreClient`."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from gateway.call import Call
from gateway.errors import FailureError, judge
from gateway.pb import AgentCard, AgentInterface, ProtoMessage

Batch = list[tuple[int, bytes]]


@dataclass
class Answer:
    """The response of a unary call, and its metadata."""

    message: ProtoMessage
    metadata: dict[str, str] = field(default_factory=dict)


@dataclass
class Card:
    """The public card as the core pushed it."""

    revision: int
    agent_card: bytes
    modified: float


class FakeStream:
    """What `FakeCore.stream` gives: batches of (sequence number, serialized StreamResponse)."""

    def __init__(self, core: "FakeCore", batches: AsyncIterator[Batch]):
        self._core = core
        self._batches = batches
        self._is_open = True
        self.metadata: dict[str, str] = {}
        core.open_streams += 1

    def __aiter__(self) -> "FakeStream":
        return self

    async def __anext__(self) -> Batch:
        try:
            batch = await anext(self._batches)
        except (StopAsyncIteration, asyncio.CancelledError):
            raise
        except Exception as error:
            raise FailureError(judge(error)) from error
        self.metadata = self._core.metadata
        return batch

    async def aclose(self) -> None:
        """Cancel the call at the core."""
        if self._is_open:
            self._is_open = False
            self._core.open_streams -= 1
            self._core.closed.set()
            await self._batches.aclose()  # type: ignore[attr-defined]


class FakeCore:
    """Answers calls by the functions `on_unary` and `on_stream`; exceptions that they raise reach
    the door as failures, as they do over the link. Keeps the calls."""

    def __init__(
        self,
        on_unary: Callable[[str, Any, Call], Awaitable[ProtoMessage]] | None = None,
        on_stream: Callable[[str, Any, Call], AsyncIterator[Batch]] | None = None,
        *,
        card: AgentCard | None = None,
        message_bytes: int = 16 * 2**20,
        credential_names: tuple[str, ...] = ("x-api-key",),
    ):
        self._on_unary = on_unary
        self._on_stream = on_stream
        self.card = Card(1, (card or AgentCard(name="test")).SerializeToString(), 1_767_225_600.5)
        self.limits = SimpleNamespace(message_bytes=message_bytes)
        self.credential_names = credential_names
        self.is_ready = True
        self.is_linked = True
        self.reason = ""
        self.metadata: dict[str, str] = {}
        """Response metadata of every call."""
        self.calls: list[tuple[str, Any, Call]] = []
        self.interfaces: list[AgentInterface] = []
        self.open_streams = 0
        self.running = 0
        self.closed = asyncio.Event()
        """A stream was closed."""

    async def unary(self, method: str, request: Any, call: Call) -> Answer:
        self.calls.append((method, request, call))
        assert self._on_unary is not None
        self.running += 1
        try:
            return Answer(await self._on_unary(method, request, call), self.metadata)
        except Exception as error:
            raise FailureError(judge(error)) from error
        finally:
            self.running -= 1

    def stream(self, method: str, request: Any, call: Call) -> FakeStream:
        self.calls.append((method, request, call))
        assert self._on_stream is not None
        return FakeStream(self, self._on_stream(method, request, call))

    def set_interfaces(self, interfaces: list[AgentInterface]) -> None:
        self.interfaces = interfaces

    async def start(self) -> None:
        """Nothing to join."""

    async def stop(self, grace: float) -> None:
        """Nothing to leave."""
