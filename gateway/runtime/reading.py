"""Reading a task's log: a cursor that takes live events from memory and older ones from the
store. A slow reader is served later, never cut off here, and slows nobody else down."""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING

from gateway.errors import TaskNotFoundError, ValidationError
from gateway.pb import SendMessageResponse, Task
from gateway.runtime.head import MESSAGE_TAG, TASK_TAG, pack
from gateway.runtime.live import LiveTask
from gateway.runtime.turn import LiveTurn
from gateway.store import LogEvent, TurnRow

if TYPE_CHECKING:
    from gateway.runtime.engine import Runtime

BATCH_EVENTS = 256
BATCH_BYTES = 1 << 20

Ends = Callable[[], int | None]
"""The sequence number after which a reader ends; None while that is not known."""


async def follow(live: LiveTask, after: int, ends: Ends) -> AsyncGenerator[list[LogEvent], None]:
    """Batches of stored events above `after`, in order without a gap, as they come."""
    live.readers += 1
    try:
        while True:
            batch = await _next_batch(live, after)
            if batch:
                after = batch[-1].seq
                yield batch
                continue
            end = ends()
            if end is not None and after >= end:
                return
            await live.changed()
    finally:
        live.readers -= 1
        live.runtime.release(live)


async def _next_batch(live: LiveTask, after: int) -> list[LogEvent]:
    if live.is_deleted:
        raise TaskNotFoundError(f"Task not found: {live.id}")
    live.check_lost()
    batch = live.tail.after(after)
    if batch is None:
        batch = await live.runtime.store.events(live.scope, live.id, after, BATCH_EVENTS)
        if not batch or batch[0].seq != after + 1:
            # deleted by retention while it was read: the log no longer holds the place
            raise TaskNotFoundError(f"Task not found: {live.id}")
    if len(batch) > 1:
        batch = _cut(batch)
    return batch


def _cut(batch: list[LogEvent]) -> list[LogEvent]:
    size = 0
    for count, event in enumerate(batch[:BATCH_EVENTS]):
        size += len(event.payload)
        if size > BATCH_BYTES:
            return batch[: count or 1]
    return batch[:BATCH_EVENTS]


def check_cursor(live: LiveTask, after: int) -> None:
    """Refuse a cursor that no event of this task can have given."""
    if after > live.seq:
        raise ValidationError(
            (
                "last-event-id",
                f"is beyond the last event of the task ({live.seq}); send one of its ids",
            )
        )


def task_event(seq: int, task: Task) -> LogEvent:
    """The snapshot that opens a stream; events go on at the next number."""
    return LogEvent(seq, pack(TASK_TAG, task.SerializeToString()))


class Sent:
    """What became of a message: the runtime's answer to `send`."""

    def __init__(self, turn: LiveTurn) -> None:
        self._turn = turn
        self.task_id = turn.task_id

    async def outcome(self, wait: bool) -> SendMessageResponse:
        """The answer of SendMessage: when the task is terminal or interrupted or the turn has
        ended (`wait`), or as soon as the task exists (A2A 3.2.2). Raises what kept the turn from
        giving one. Giving up waiting does not touch the turn."""
        turn = self._turn
        live = turn.live
        while not (turn.has_answer if wait else turn.is_accepted):
            await live.changed()
        if turn.failure is not None:
            raise turn.failure
        if turn.reply is not None:
            return turn.reply
        response = SendMessageResponse()
        _, task = await live.snapshot()
        if turn.failure is not None:
            raise turn.failure
        response.task.CopyFrom(task)
        return response

    async def events(self, after: int | None = None) -> AsyncGenerator[list[LogEvent], None]:
        """The stream of SendStreamingMessage: the Task, then its events, to the end of the turn
        or of the task (A2A 3.1.2); or the one direct Message. With `after` from that place on."""
        turn = self._turn
        live = turn.live
        live.readers += 1  # keeps the task in memory until the reader below has its place
        try:
            while not turn.has_begun:
                await live.changed()
            if turn.failure is not None:
                raise turn.failure
            if turn.reply is not None:
                if not after:
                    body = turn.reply.message.SerializeToString()
                    yield [LogEvent(0, pack(MESSAGE_TAG, body))]
                return
            if after is not None:
                check_cursor(live, after)
            elif turn.opening is not None:
                after = turn.opening.seq
                yield [turn.opening]
            async with aclosing(follow(live, after or 0, self._end)) as batches:
                async for batch in batches:
                    yield batch
            if turn.failure is not None:
                raise turn.failure
        finally:
            live.readers -= 1
            live.runtime.release(live)

    def _end(self) -> int | None:
        turn = self._turn
        live = turn.live
        if live.is_broken:
            return None
        if turn.failure is not None or live.is_ended:
            return live.saved_seq
        return turn.end_seq if 0 < turn.ended_version <= live.saved_version else None


class Repeated:
    """A send under an idempotency key that has been used before and whose turn has ended."""

    def __init__(self, runtime: "Runtime", row: TurnRow) -> None:
        self._runtime = runtime
        self._row = row
        self.task_id = row.task_id

    async def outcome(self, wait: bool) -> SendMessageResponse:
        """The first outcome: the same message, or the same task as it stands now."""
        if self._row.outcome:
            return SendMessageResponse.FromString(self._row.outcome)
        task = await self._runtime.task(self._row.scope, self.task_id)
        return SendMessageResponse(task=task)

    async def events(self, after: int | None = None) -> AsyncGenerator[list[LogEvent], None]:
        """The log of the task from `after` on, up to its end or, while it is interrupted, up to
        its last event."""
        if self._row.outcome:
            if not after:
                reply = SendMessageResponse.FromString(self._row.outcome)
                yield [LogEvent(0, pack(MESSAGE_TAG, reply.message.SerializeToString()))]
            return
        live = await self._runtime.live(self._row.scope, self.task_id)
        if after is not None:
            check_cursor(live, after)
        end = live.saved_seq
        async with aclosing(follow(live, after or 0, lambda: end)) as batches:
            async for batch in batches:
                yield batch


async def subscription(live: LiveTask, after: int | None) -> AsyncGenerator[list[LogEvent], None]:
    """The stream of SubscribeToTask: the Task first, then events; ends with the task (D31)."""
    live = live.runtime.attach(live)
    live.readers += 1
    try:
        if after is None:
            after, task = await live.snapshot()
            yield [task_event(after, task)]
        else:
            check_cursor(live, after)

        def end() -> int | None:
            return live.saved_seq if live.is_ended and not live.is_broken else None

        async with aclosing(follow(live, after, end)) as batches:
            async for batch in batches:
                yield batch
    finally:
        live.readers -= 1
        live.runtime.release(live)
