"""Calls on a link as the adapter's code sees them: a future for a unary one, an async iterator
for a stream, and what a link that broke means for each."""

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from google.rpc.status_pb2 import Status

from gateway.call import Call
from gateway.errors import (
    A2AError,
    Code,
    DeadlineExceededError,
    Failure,
    FailureError,
    UnavailableError,
    judge,
)
from gateway.link.frames import pairs
from gateway.pb import ProtoMessage, link_pb2
from transports.adapter_end import Pending
from transports.core_link import CoreLink

if TYPE_CHECKING:
    from transports.core import CoreClient

READS = frozenset(
    {
        "GetTask",
        "ListTasks",
        "SubscribeToTask",
        "GetTaskPushNotificationConfig",
        "ListTaskPushNotificationConfigs",
        "GetExtendedAgentCard",
    }
)
SENDS = frozenset({"SendMessage", "SendStreamingMessage"})

STREAM_REPEATS = 3
"""Of a stream that has given events, each without a new one: links may break in a row. One that
has given none is repeated once, as a unary call is: it may be what breaks the core."""
SETTLED_SECONDS = 10.0
"""After so long on one link a repeat is forgotten."""


class LostError(Exception):
    """The link of a call has ended. `is_unsent`: the core cannot know the call."""

    def __init__(self, is_unsent: bool):
        super().__init__("the link has ended")
        self.is_unsent = is_unsent


def can_repeat(method: str, call: Call) -> bool:
    """Whether a second run changes nothing."""
    return method in READS or (method in SENDS and bool(call.idempotency_key))


def failure(error: A2AError) -> FailureError:
    """An error as every call on a link raises it."""
    return error if isinstance(error, FailureError) else FailureError(judge(error))


def lost_failure(method: str, lost: LostError, *, is_started: bool = False) -> FailureError:
    """What the caller is told; `is_started`: it has seen events of its task."""
    if lost.is_unsent:
        return failure(UnavailableError("The core cannot be reached; nothing was done; try again"))
    if is_started:
        text = (
            "The link to the core broke; the task goes on or is kept: go on with SubscribeToTask, "
            "or read it with GetTask"
        )
    elif method in READS:
        text = "The link to the core broke; try again"
    else:
        text = (
            "The link to the core broke, outcome unknown: it may have been done. Look with "
            "ListTasks or GetTask before you repeat it; a send with an idempotency key can be "
            "repeated safely"
        )
    return failure(UnavailableError(text))


class UnaryCall(Pending):
    """A unary call under way; `future` is done when it has ended."""

    __slots__ = ("_outcome", "future")

    def __init__(self, loop: asyncio.AbstractEventLoop):
        super().__init__()
        self.future: asyncio.Future[None] = loop.create_future()
        self._outcome: link_pb2.End | Exception | None = None

    def on_end(self, end: link_pb2.End) -> None:
        """Of `Pending`."""
        self._set(end)

    def on_lost(self, is_unsent: bool) -> None:
        """Of `Pending`."""
        self._set(LostError(is_unsent))

    def on_error(self, error: A2AError) -> None:
        """Of `Pending`."""
        self._set(error)

    def _set(self, outcome: link_pb2.End | Exception) -> None:
        self._outcome = outcome
        if not self.future.done():
            self.future.set_result(None)

    def answer(self) -> tuple[bytes, dict[str, str]]:
        """Response and metadata, once `future` is done. Raises what ended the call."""
        end = self._outcome
        if isinstance(end, Exception):
            raise end
        assert end is not None
        if end.status:
            raise _error(end)
        metadata = dict(pairs(end.metadata)) if end.metadata else {}
        if self.inbox is not None and self.inbox.has_items():
            return self.inbox.take()[0][1], metadata
        return end.response, metadata


class CoreStream(Pending, AsyncIterator[list[tuple[int, bytes]]]):
    """A stream under way: non-empty lists of (sequence number, serialized StreamResponse).

    Asking for the next list says that the caller's own reader took the one before; credit goes
    back then. The stream moves to the next link by itself where the call can be repeated: it
    goes on after the last event that it gave.
    """

    __slots__ = (
        "_call",
        "_can_repeat",
        "_client",
        "_cursor",
        "_is_closed",
        "_link",
        "_method",
        "_opened",
        "_outcome",
        "_repeats",
        "_request",
        "_timer",
        "_waiter",
        "is_started",
        "metadata",
    )

    def __init__(self, client: "CoreClient", method: str, request: ProtoMessage, call: Call):
        super().__init__()
        self.metadata: dict[str, str] = {}
        """Response metadata; complete once the first list has come."""
        self.is_started = False
        """Whether a list has been given."""
        self._client = client
        self._method = method
        self._request = request.SerializeToString()
        self._call = call
        self._can_repeat = can_repeat(method, call)
        self._cursor: int | None = None
        self._link: CoreLink | None = None
        self._outcome: link_pb2.End | Exception | None = None
        """What ended the call on its link, or the stream."""
        self._waiter: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False
        self._repeats = 0
        """Since it last gave something, or was settled."""
        self._opened = 0.0

    async def __anext__(self) -> list[tuple[int, bytes]]:
        if self._link is not None:
            self._link.end.release(self)
        while not self._is_closed:
            if self.inbox is not None and self.inbox.has_items():
                return self._take(self.inbox.take())
            if self._link is None:
                await self._open()
            elif isinstance(self._outcome, LostError):
                self._check_repeat(self._outcome)
                await self._open()
            elif self._outcome is not None:
                self._finish(self._outcome)
            else:
                self._waiter = asyncio.get_running_loop().create_future()
                try:
                    await self._waiter
                finally:
                    self._waiter = None
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Give the call up, never its task. A second call does nothing."""
        self._close()

    async def __aenter__(self) -> "CoreStream":
        return self

    async def __aexit__(self, *_: object) -> None:
        self._close()

    def move(self) -> None:
        """Go over to the client's next link, if the call can be repeated."""
        if self._can_repeat and self._link is not None and self._outcome is None:
            self._link.end.cancel(self)
            self._repeats = 0
            self._set(LostError(is_unsent=False))

    def on_accept(self, metadata: dict[str, str]) -> None:
        """Of `Pending`."""
        self.metadata = metadata

    def on_messages(self) -> None:
        """Of `Pending`."""
        self._wake()

    def on_end(self, end: link_pb2.End) -> None:
        """Of `Pending`."""
        if end.metadata:
            self.metadata = dict(pairs(end.metadata))
        # a core that stops ends what it cannot finish
        is_cut = (
            end.status
            and self._can_repeat
            and self._link is not None
            and self._link.is_leaving
            and Status.FromString(end.status).code == Code.UNAVAILABLE
        )
        self._set(LostError(is_unsent=False) if is_cut else end)

    def on_error(self, error: A2AError) -> None:
        """Of `Pending`."""
        self._set(error)

    def on_lost(self, is_unsent: bool) -> None:
        """Of `Pending`."""
        self._set(LostError(is_unsent))

    def _take(self, items: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
        self.is_started = True
        self._repeats = 0
        self._cursor = items[-1][0]
        if not self._cursor:
            # without a sequence number there is no place to go on from
            self._can_repeat = False
        if not self._can_repeat:
            self._request = b""
        return items

    async def _open(self) -> None:
        loop = asyncio.get_running_loop()
        options = self._client.options
        timeout = options.resume_timeout if self.is_started else options.wait_timeout
        try:
            link = await self._client.wait_link(self._call, timeout)
            link.end.open(self, self._method, self._request, self._call, cursor=self._cursor)
        except A2AError as error:
            self._close()
            raise self._open_failure(error) from None
        self._link = link
        self._outcome = None
        self._opened = loop.time()
        if self._timer is None and (remaining := self._call.remaining()) is not None:
            self._timer = loop.call_later(remaining + options.answer_slack, self._expire)

    def _open_failure(self, error: A2AError) -> FailureError:
        known = failure(error)
        if self.is_started and known.failure.row.code == Code.UNAVAILABLE:
            # "nothing was done" would be wrong
            lost = LostError(is_unsent=False)
            return lost_failure(self._method, lost, is_started=True)
        return known

    def _check_repeat(self, lost: LostError) -> None:
        if asyncio.get_running_loop().time() - self._opened > SETTLED_SECONDS:
            self._repeats = 0
        may_repeat = lost.is_unsent or self._can_repeat
        limit = STREAM_REPEATS if self.is_started else 1
        if self._client.is_stopping or not may_repeat or self._repeats >= limit:
            self._close()
            raise lost_failure(self._method, lost, is_started=self.is_started)
        self._repeats += 1

    def _finish(self, outcome: link_pb2.End | Exception) -> None:
        """Raise what the end of the call means."""
        self._close()
        if isinstance(outcome, A2AError):
            raise failure(outcome)
        assert isinstance(outcome, link_pb2.End)
        if outcome.status:
            raise _error(outcome)

    def _expire(self) -> None:
        if self._link is not None:
            self._link.end.cancel(self)
        self._set(DeadlineExceededError())

    def _set(self, outcome: link_pb2.End | Exception) -> None:
        self._outcome = outcome
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _close(self) -> None:
        self._is_closed = True
        if self._link is not None:
            self._link.end.cancel(self)
        if self._timer is not None:
            self._timer.cancel()
        self._wake()


def _error(end: link_pb2.End) -> FailureError:
    return FailureError(Failure.from_status(Status.FromString(end.status)))
