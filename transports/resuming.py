"""Calls that are taken up again when they break, around the client of any wire.

What may be repeated: reads; sends with an idempotency key; whatever never left. A stream goes on
by SubscribeToTask after its last sequence number (A2A 3.1.6), so that no event comes twice and
none is lost. Where a wire or a server shows no numbers, the subscription begins with the whole
task as it stands, and so does what the caller gets: a Task event stands for all before it.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass

from gateway.call import CURSOR, IDEMPOTENCY_KEY
from gateway.errors import BY_REASON, Code, Failure, FailureError
from gateway.pb import (
    INTERRUPTED_STATES,
    TERMINAL_STATES,
    GetTaskRequest,
    ProtoMessage,
    StreamResponse,
    SubscribeToTaskRequest,
    Task,
    TaskState,
)
from transports.wire import Client, Events, Told, UnreachableError

FIRST_PAUSE = 0.2
LONGEST_PAUSE = 5.0
DOUBT = 5.0
"""The longest patience with a server that only ever broke connections, and at once: it may well
want something else, such as TLS."""
DOUBTFUL = 1.0
"""A connection that stood so long was no mistake."""

EMPTY = Failure(BY_REASON["INVALID_AGENT_RESPONSE"], "The stream ended before its first event")
_AT_WORK = frozenset({TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING})

Open = Callable[[], Awaitable[Client]]

READS = frozenset(
    {
        "GetTask",
        "ListTasks",
        "SubscribeToTask",
        "CancelTask",  # a second cancel gives the same task
        "GetTaskPushNotificationConfig",
        "ListTaskPushNotificationConfigs",
        "GetExtendedAgentCard",
    }
)


class CutError(FailureError):
    """A stream that ended in order, and too early: some proxies end what is quiet."""

    def __init__(self) -> None:
        text = "The stream ended before its task; the task goes on, read it with GetTask"
        super().__init__(Failure(BY_REASON["UNAVAILABLE"], text))


class Patience:
    """The pauses between attempts: growing, with jitter, and only while there is progress."""

    def __init__(self, seconds: float, told: Told | None = None) -> None:
        self._seconds = seconds
        self._told = told
        self.progress()

    def progress(self) -> None:
        """Something came; begin anew."""
        self._since = time.monotonic()
        self._pause = FIRST_PAUSE

    async def wait(self, error: FailureError, *, is_doubtful: bool = False) -> None:
        """Wait for the next attempt; raises `error` where there is none any more."""
        pause = max(self._pause * random.uniform(0.5, 1.0), error.failure.retry_after or 0.0)  # noqa: S311 - jitter
        self._pause = min(self._pause * 2, LONGEST_PAUSE)
        seconds = min(self._seconds, DOUBT) if is_doubtful else self._seconds
        if time.monotonic() + pause > self._since + seconds:
            raise error
        if self._told is not None:
            self._told(error.failure, pause)
        await asyncio.sleep(pause)


@dataclass(slots=True)
class Place:
    """How far a stream has come."""

    task_id: str = ""
    tenant: str = ""
    sequence: int = 0
    state: int = 0
    is_answered: bool = False
    """By a direct message, which ends a stream."""

    def note(self, sequence: int, response: StreamResponse, *, is_opening: bool = False) -> bool:
        """Take an event into account; whether it told anything new. `is_opening`: the first one of
        a send, whose task is shown as it was when the message came: waiting for it, perhaps."""
        before = self.sequence, self.state
        self.sequence = max(self.sequence, sequence)
        kind = response.WhichOneof("payload")
        match kind:
            case "task":
                self.task_id, self.state = response.task.id, response.task.status.state
                if is_opening:
                    self._goes_on()
            case "status_update":
                update = response.status_update
                self.task_id, self.state = update.task_id, update.status.state
            case "artifact_update":
                self.task_id = response.artifact_update.task_id
                self._goes_on()
            case "message":
                self.is_answered = True
        return kind != "task" or (self.sequence, self.state) != before

    @property
    def is_at_work(self) -> bool:
        """Whether something is sure to follow."""
        return bool(self.task_id) and self.state in _AT_WORK

    def _goes_on(self) -> None:
        if self.state in INTERRUPTED_STATES:
            self.state = TaskState.TASK_STATE_WORKING

    def is_over(self, *, of_turn: bool) -> bool:
        """Whether nothing can follow: of a send's stream, which ends with its turn, or of a
        subscription, which ends with its task (A2A 3.1.2, 3.1.6)."""
        if self.is_answered or self.state in TERMINAL_STATES:
            return True
        return of_turn and self.state in INTERRUPTED_STATES


class ResumingClient:
    """The look of a client, with calls that outlive the connection. Owns the clients that `open`
    gives: the first one, and another one each time that one is lost."""

    is_lost = False

    def __init__(self, open: Open, patience: float = 60.0, told: Told | None = None) -> None:
        self._open = open
        self._seconds = patience
        self._told = told
        self._clients: list[Client] = []
        self._opening = asyncio.Lock()
        self.is_reached = False
        """Whether there ever was a connection."""
        self._is_doubtful = True

    @property
    def metadata(self) -> dict[str, str]:
        """What came beside the last unary answer."""
        return self._clients[-1].metadata if self._clients else {}

    async def aclose(self) -> None:
        """Let go of the connection."""
        clients, self._clients = self._clients, []
        for client in clients:
            await client.aclose()

    async def _client(self) -> Client:
        async with self._opening:
            if not self._clients or self._clients[-1].is_lost:
                # the lost one may have calls under way: it is closed with the others
                self._clients.append(await self._open())
            return self._clients[-1]

    async def unary(
        self,
        method: str,
        request: ProtoMessage,
        metadata: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> ProtoMessage:
        """One answer; `timeout` is the deadline of all attempts together."""
        deadline = None if timeout is None else time.monotonic() + timeout
        patience = Patience(self._seconds, self._told)
        is_safe = _is_safe(method, metadata)
        while True:
            left = None if deadline is None else max(deadline - time.monotonic(), 0.001)
            started = time.monotonic()
            try:
                client = await self._client()
                answer = await client.unary(method, request, metadata, left)
                self._note_answer()
                return answer
            except FailureError as error:
                self._check(error, is_safe, time.monotonic() - started)
                await patience.wait(error, is_doubtful=self._is_doubtful)

    async def stream(
        self,
        method: str,
        request: ProtoMessage,
        metadata: Mapping[str, str] | None = None,
        headers: dict[str, str] | None = None,
    ) -> Events:
        """Events to the end of the stream, over as many connections as it takes."""
        of_turn = method == "SendStreamingMessage"
        place = Place(tenant=getattr(request, "tenant", ""))
        if method == "SubscribeToTask":
            place.task_id = getattr(request, "id", "")
        patience = Patience(self._seconds, self._told)
        is_begun = was_cut = False
        while True:
            started = time.monotonic()
            try:
                client = await self._client()
                async with aclosing(client.stream(method, request, metadata, headers)) as events:
                    async for sequence, response in events:
                        self._note_answer()
                        if sequence and sequence <= place.sequence:
                            continue
                        is_opening = of_turn and not place.task_id
                        if place.note(sequence, response, is_opening=is_opening):
                            patience.progress()
                            was_cut = False
                        is_begun = True
                        yield sequence, response
                        if method == "SubscribeToTask" and place.is_over(of_turn=of_turn):
                            return
                if of_turn and not is_begun:
                    raise FailureError(EMPTY)
                if not self._seconds or not place.is_at_work:
                    return
                raise CutError
            except FailureError as error:
                if place.is_over(of_turn=of_turn):
                    return
                if was_cut and not is_passing(error.failure):
                    return  # a server that ends streams early, and knows no other way
                was_cut = isinstance(error, CutError)
                if (ended := await self._ended(error, place, metadata)) is not None:
                    yield 0, ended
                    return
                can_go_on = bool(place.sequence or place.state) or _is_safe(method, metadata)
                self._check(error, can_go_on, time.monotonic() - started)
                await patience.wait(error, is_doubtful=self._is_doubtful)
            if place.task_id and (place.sequence or place.state):
                method = "SubscribeToTask"
                request = SubscribeToTaskRequest(id=place.task_id, tenant=place.tenant)
                metadata = _go_on(metadata, place.sequence)

    async def _ended(
        self, error: FailureError, place: Place, metadata: Mapping[str, str] | None
    ) -> StreamResponse | None:
        """The task, where a stream cannot go on because its task has ended meanwhile."""
        if error.failure.row.reason != "UNSUPPORTED_OPERATION" or not place.state:
            return None
        request = GetTaskRequest(id=place.task_id, tenant=place.tenant)
        task = await self.unary("GetTask", request, _go_on(metadata, 0))
        if not isinstance(task, Task) or task.status.state not in TERMINAL_STATES:
            return None
        return StreamResponse(task=task)

    def _note_answer(self) -> None:
        self.is_reached = True
        self._is_doubtful = False

    def _check(self, error: FailureError, is_safe: bool, seconds: float) -> None:
        """Raise the error where trying again is of no use, or could do something twice. `seconds`
        is how long the attempt took."""
        is_sent = not isinstance(error, UnreachableError)
        if is_sent and not self._clients[-1].is_lost:
            self.is_reached = True
            self._is_doubtful = self._is_doubtful and seconds < DOUBTFUL
        if not self.is_reached:
            raise error
        failure = error.failure
        if is_sent and not (is_passing(failure) and (is_safe or _did_nothing(failure))):
            raise error


def is_passing(failure: Failure) -> bool:
    """Whether the same call may succeed a little later."""
    return failure.row.code is Code.UNAVAILABLE or _did_nothing(failure)


def _did_nothing(failure: Failure) -> bool:
    return failure.row.code is Code.RESOURCE_EXHAUSTED and failure.retry_after is not None


def _is_safe(method: str, metadata: Mapping[str, str] | None) -> bool:
    return method in READS or bool(metadata and metadata.get(IDEMPOTENCY_KEY))


def _go_on(metadata: Mapping[str, str] | None, sequence: int) -> dict[str, str]:
    kept = dict(metadata or {})
    kept.pop(IDEMPOTENCY_KEY, None)
    kept.pop(CURSOR, None)
    if sequence:
        kept[CURSOR] = str(sequence)
    return kept
