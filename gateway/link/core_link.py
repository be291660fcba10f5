"""One link at the core: `CoreEnd` on a stream, and the tasks of its calls.

Reading and writing have a task each, and so has every call. A call's task ends with its call,
whoever ends it; the agent's task goes on (only CancelTask ends that).
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Protocol

import grpc.aio
from google.protobuf.message import DecodeError

from gateway.call import EXTENSIONS, Call
from gateway.errors import (
    CallCancelledError,
    DeadlineExceededError,
    InvalidParamsError,
    MethodNotFoundError,
    judge,
)
from gateway.link.core_end import CoreEnd, Entry
from gateway.link.frames import (
    CALLS,
    FRAME_BYTES,
    MESSAGE_BYTES,
    PING_INTERVAL,
    WINDOW_BYTES,
    Flow,
    LinkProtocolError,
    encode_refusal,
    read_call,
)
from gateway.link.pulse import Bell, Pulse
from gateway.pb import METHODS, AgentInterface, Method, ProtoMessage, link_pb2

logger = logging.getLogger(__name__)

Messages = Sequence[tuple[int, bytes]]
"""A batch of (sequence number, serialized StreamResponse)."""


class LinkService(Protocol):
    """What runs the calls: `gateway.service.Service`."""

    credential_names: tuple[str, ...]

    async def unary(
        self, method: str, request: ProtoMessage, call: Call, raw: bytes | None = None
    ) -> ProtoMessage:
        """`raw` is the request as it came."""

    def stream(
        self, method: str, request: ProtoMessage, call: Call, raw: bytes | None = None
    ) -> AsyncGenerator[Any, None]:
        """Non-empty batches (`Messages`)."""


@dataclass(frozen=True, slots=True)
class LinkLimits:
    """Bounds of links and of the calls on them."""

    message_bytes: int = MESSAGE_BYTES
    """The largest request."""
    calls_per_link: int = CALLS
    calls: int = 2 * CALLS
    """Over all links."""
    window_bytes: int = WINDOW_BYTES
    unsent_bytes: int = 64 * 1024 * 1024
    """Answers of one link that have not left; more, and new calls are refused."""
    request_bytes: int = 64 * 1024 * 1024
    """Large requests of one link that are not whole yet."""
    ping_interval: float = PING_INTERVAL
    hello_timeout: float = 5.0
    close_timeout: float = 1.0
    """How long a link that ends here waits for the adapter to hang up."""


LARGE_READS = frozenset({"GetTask", "ListTasks"})
"""Small requests for answers of any size."""
READS = 64
"""Of those at work on one link at once, until their answers have left; more wait."""
ROOM_BYTES = FRAME_BYTES
"""A stream asks its source for more once it has no more than this to send."""
SQUEEZE = 8
"""Above this part of `unsent_bytes`, streams ask once they have nothing to send at all."""
DEADLINE_SLACK = 0.1
"""Seconds that the service has to notice a deadline itself, and to say it better."""


class CoreLink:
    """One welcomed link. `unwinding` keeps the tasks of cancelled calls until they end."""

    def __init__(
        self,
        name: str,
        door: str,
        context: Any,
        service: LinkService,
        limits: LinkLimits,
        *,
        send_window: int,
        admit: Callable[[], bool],
        on_interfaces: Callable[[list[AgentInterface]], None],
        on_ping: Callable[[float], None],
        unwinding: set[asyncio.Task[None]],
    ):
        self.name = name
        self._bell = Bell()
        self.end = CoreEnd(
            self,
            self._bell.ring,
            send_window=send_window,
            receive_window=limits.window_bytes,
            calls=limits.calls_per_link,
            message_bytes=limits.message_bytes,
            unsent_bytes=limits.unsent_bytes,
            request_bytes=limits.request_bytes,
            admit=admit,
        )
        self.on_interfaces = on_interfaces
        self._door = door
        self._context = context
        self._service = service
        self._squeeze_bytes = limits.unsent_bytes // SQUEEZE
        self._reads = asyncio.Semaphore(READS)
        self._unwinding = unwinding
        self._loop = asyncio.get_running_loop()
        self._over: asyncio.Future[str] = self._loop.create_future()
        self._gone = asyncio.Event()
        self._farewell = b""
        self._close_timeout = limits.close_timeout
        self._pulse = Pulse(
            self.end.out,
            limits.ping_interval,
            on_ping,
            lambda: self._finish("the adapter does not answer"),
        )
        self.on_pong = self._pulse.on_pong
        """Of `Handler`."""

    async def run(self) -> None:
        """Until the link ends, whoever ends it. Leaves no call behind."""
        tasks = [self._loop.create_task(self._read()), self._loop.create_task(self._write())]
        self._pulse.start()
        try:
            reason = await self._over
            logger.info("%s (%s) ended: %s", self.name, self._door, reason)
        finally:
            self._pulse.stop()
            for entry in self.end.lost():
                self._stop_task(entry)
            for task in tasks:
                task.cancel()
            self._gone.set()
            # nothing after this: gRPC may cancel this task, too
            await asyncio.wait(tasks)

    async def close(self) -> None:
        """End the link once all that is ready has been read at the other end, or after a while."""
        self._begin_close("the core is stopping")
        await self._gone.wait()

    def _begin_close(self, reason: str) -> None:
        """Say good-bye as the last frame, and let the adapter hang up: if the core did, what
        the adapter has not read could be lost to its next write."""
        self._farewell = encode_refusal(reason, can_retry=True)
        self._bell.ring()
        self._loop.call_later(self._close_timeout, self._finish, reason)

    def _finish(self, reason: str) -> None:
        if not self._over.done():
            self._over.set_result(reason)

    # Frames in and out

    async def _write(self) -> None:
        out = self.end.out
        try:
            while True:
                if batch := out.take():
                    # whatever becomes ready meanwhile makes the next batch
                    await self._context.write(batch)
                elif self._farewell:
                    await self._context.write(self._farewell)
                    return
                else:
                    await self._bell.wait()
        except asyncio.CancelledError:
            raise
        except Exception as error:
            self._finish(f"cannot write: {error!r}")

    async def _read(self) -> None:
        try:
            while not is_end(batch := await self._context.read()):
                self._pulse.heard()
                self.end.receive(batch)
            self._finish("the adapter left")
        except asyncio.CancelledError:
            raise
        except LinkProtocolError as error:
            logger.warning("%s (%s) broke the link's rules: %s", self.name, self._door, error)
            self._begin_close(f"protocol error: {error}")
        except Exception as error:
            self._finish(f"cannot read: {error!r}")

    # Calls

    def on_call(self, entry: Entry, start: link_pb2.Open, request: bytes) -> None:
        """Of `Handler`."""
        method = METHODS.get(start.method)
        if method is None:
            error = MethodNotFoundError(f"Method not found: {start.method[:64]}")
            self.end.abort(entry, _status(error))
            return
        run = self._run_stream if method.streaming else self._run_unary
        entry.task = self._loop.create_task(run(entry, method, start, request))

    def on_cancel(self, entry: Entry) -> None:
        """Of `Handler`."""
        self._stop_task(entry)

    def _stop_task(self, entry: Entry) -> None:
        task = entry.task
        if task is not None and not task.done():
            task.cancel()
            self._unwinding.add(task)
            task.add_done_callback(self._unwinding.discard)

    def _expire(self, entry: Entry) -> None:
        self.end.abort(entry, _status(DeadlineExceededError()))
        self._stop_task(entry)

    async def _run_unary(
        self, entry: Entry, method: Method, start: link_pb2.Open, request: bytes
    ) -> None:
        timer = call = None
        try:
            call = read_call(start, self._door)
            timer = self._limit(entry, call)
            message = _parse(method, request)
            if method.name in LARGE_READS:
                async with self._reads:
                    await self._answer(entry, method, message, call, request)
                    if entry.is_open:
                        await self._left(entry)
            else:
                await self._answer(entry, method, message, call, request)
        except asyncio.CancelledError:
            # nothing to say where the adapter gave the call up, or its deadline has passed
            self.end.abort(entry, _status(CallCancelledError()))
            raise
        except Exception as error:
            self.end.finish(entry, _status(error), _metadata(call))
        finally:
            if timer is not None:
                timer.cancel()

    async def _answer(
        self, entry: Entry, method: Method, message: ProtoMessage, call: Call, request: bytes
    ) -> None:
        answer = await self._service.unary(method.name, message, call, request)
        self.end.respond(entry, answer.SerializeToString(), _metadata(call))

    async def _left(self, entry: Entry) -> None:
        """Until an answer in pieces has left. Who drops its flow ends the task."""
        flow = entry.flow
        if flow is None or flow.on_tail is None:
            return
        close, left = flow.on_tail, self._loop.create_future()

        def closed() -> None:
            close()
            if not left.done():
                left.set_result(None)

        flow.on_tail = closed
        await left

    async def _run_stream(
        self, entry: Entry, method: Method, start: link_pb2.Open, request: bytes
    ) -> None:
        timer = call = None
        metadata: dict[str, str] | None = None
        try:
            call = read_call(start, self._door)
            timer = self._limit(entry, call)
            message = _parse(method, request)
            source = self._service.stream(method.name, message, call, request)
            async with aclosing(source) as batches:
                async for batch in batches:
                    if metadata is None and (metadata := _metadata(call)):
                        self.end.accept(entry, metadata)
                    flow = self.end.send(entry, batch)
                    if flow is not None and flow.pending_bytes > ROOM_BYTES:
                        await self._room(flow)
            self.end.finish(entry, b"", _metadata(call) if metadata is None else {})
        except asyncio.CancelledError:
            self.end.abort(entry, _status(CallCancelledError()))
            raise
        except Exception as error:
            self.end.finish(entry, _status(error), _metadata(call) if metadata is None else {})
        finally:
            if timer is not None:
                timer.cancel()

    def _limit(self, entry: Entry, call: Call) -> asyncio.TimerHandle | None:
        remaining = call.remaining()
        if remaining is None:
            return None
        return self._loop.call_later(remaining + DEADLINE_SLACK, self._expire, entry)

    async def _room(self, flow: Flow) -> None:
        """Until the stream should ask its source for more. Who drops the flow ends the task."""
        is_full = self.end.out.unsent_bytes > self._squeeze_bytes
        limit = 0 if is_full else ROOM_BYTES
        room = self._loop.create_future()

        def look() -> None:
            if flow.pending_bytes <= limit and not room.done():
                room.set_result(None)

        flow.on_room = look
        try:
            await room
        finally:
            flow.on_room = None


def is_end(batch: Any) -> bool:
    """Whether a stream, of either kind, has ended instead of giving a batch."""
    return batch is None or batch is grpc.aio.EOF


def _parse(method: Method, request: bytes) -> ProtoMessage:
    try:
        return method.request.FromString(request)
    except DecodeError:
        name = method.request.DESCRIPTOR.full_name
        raise InvalidParamsError(f"The request is not a serialized {name}") from None


def _status(error: BaseException) -> bytes:
    status: bytes = judge(error).to_status().SerializeToString()
    return status


def _metadata(call: Call | None) -> dict[str, str]:
    return {EXTENSIONS: ", ".join(call.activated)} if call is not None and call.activated else {}
