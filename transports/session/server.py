"""The server's end of a framed session: frames in, calls at the core, frames out (A2A 12, JSON-RPC
2.0).

Session layer; whoever owns the connection feeds it and lends it a way to send. Many calls run at
once, each in a task of its own; answers leave in the order in which they are ready. Nothing is
decided here: the core judges the calls. docs/bindings/framed-session.md is the specification.
"""

import asyncio
from dataclasses import dataclass
from typing import Any

import orjson

from gateway.call import Call, Peer
from gateway.errors import (
    BY_REASON,
    Failure,
    InvalidParamsError,
    InvalidRequestError,
    JSONParseError,
    MethodNotFoundError,
    ResourceExhaustedError,
    judge,
)
from gateway.pb import ProtoMessage, Task, TaskState
from transports.framing import BadFrame
from transports.jsonrpc.dispatch import Operation, operation
from transports.jsonrpc.envelope import (
    NULL_ID,
    EnvelopeError,
    Request,
    error_response,
    id_text,
    read_object,
    text_bytes,
    to_request,
)
from transports.session import parameters
from transports.session.outbox import Outbox, Send
from transports.session.parameters import MEMBER, Parameters
from transports.session.replies import (
    Notifications,
    Responses,
    StreamStyle,
    in_turn,
    notification,
    result,
)

PARTIAL_RESULT = "partialResultToken"
"""Member of `params`: events of this stream are to come as notifications that bear it."""
STYLES = ("responses", "notifications")

SLICE = 64
"""Events of one stream that are written before the others have a turn."""

LARGE_READS = frozenset({"GetTask", "ListTasks"})
"""A small request for an answer of any size: a thousand of them must not fill the memory."""
READS = 32
"""Of those at the core at once; more wait, and all wait for a client that does not read."""

STOPPING = Failure(
    BY_REASON["UNAVAILABLE"],
    "The server is stopping; a task that was started goes on",
    retry_after=1.0,
)
CANCELLED = Failure(
    BY_REASON["CANCELLED"], "The call was cancelled; a task that was started goes on"
)

_AT_WORK = frozenset({TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING})
_POLL = {parameters.RETRY_AFTER: "1"}


@dataclass(frozen=True, slots=True)
class Options:
    """What a session can be told. `door` names the calls in logs and metrics, `binding` is the
    URI of the door's specification."""

    door: str = "session"
    binding: str = ""
    calls: int = 1024
    """Under way at once; more are refused."""
    room_bytes: int = 64 * 1024
    """Streams wait while so much is unsent."""
    congested_bytes: int = 4 * 2**20
    """No more is read while so much is unsent."""
    write_timeout: float | None = 30.0
    """A client that takes nothing for so long is cut off (SS06)."""


class _Running:
    """A call under way; it may answer for as long as it stands in the session's table."""

    __slots__ = ("id", "task")

    def __init__(self, call_id: bytes | None):
        self.id = call_id
        self.task: asyncio.Task[None] | None = None


class Session:
    """One connection. `client` is a `transports.core.CoreClient`; `send` writes payloads, see
    `outbox.Send`. Make it within a running loop.

    Feed it frames while `is_congested` is false; then `drain` it and `close` it. `lost` is done
    when the session has ended by itself, with the reason: its peer is gone, or takes nothing.
    """

    def __init__(
        self,
        client: Any,
        send: Send,
        options: Options | None = None,
        *,
        peer: Peer | None = None,
    ):
        self._client = client
        self._options = options or Options()
        self._loop = asyncio.get_running_loop()
        self.lost: asyncio.Future[str] = self._loop.create_future()
        self._outbox = Outbox(
            send,
            room_bytes=self._options.room_bytes,
            timeout=self._options.write_timeout,
            on_lost=self._lose,
        )
        self._parameters = Parameters(client, self._options.door, peer or Peer())
        self._is_strict = False
        self._calls: dict[object, _Running] = {}
        """By the JSON text of the id; notifications by themselves."""
        self._reads = asyncio.Semaphore(READS)
        self._ending: set[asyncio.Task[None]] = set()
        """Cancelled, and not at their end yet."""
        self._idle: asyncio.Future[None] | None = None
        self._is_draining = False
        self._is_closed = False

    # For the owner of the connection

    @property
    def frame_bytes(self) -> int:
        """The largest frame to read: as much as every door with JSON takes."""
        return text_bytes(self._client.limits.message_bytes)

    @property
    def open_calls(self) -> int:
        """Calls under way."""
        return len(self._calls)

    @property
    def is_congested(self) -> bool:
        """Whether the client takes so little that nothing more should be read from it."""
        return self._outbox.unsent_bytes >= self._options.congested_bytes

    async def ready(self) -> None:
        """Wait while it is congested."""
        if self.is_congested:
            await self._outbox.flush()

    def progressed(self) -> None:
        """For a `send` that takes long: the client took a part of it."""
        self._outbox.progressed()

    def feed(self, frame: bytes | BadFrame) -> None:
        """Take one frame; its answer comes by itself, if it has one. Never raises."""
        if self._is_closed:
            return
        call_id: bytes | None = NULL_ID
        try:
            if isinstance(frame, BadFrame):
                raise _bad(frame)
            value = read_object(frame)
            if "method" not in value and self._is_no_request(value):
                return
            request = to_request(value, frame)
            call_id = request.id
            if request.method[:2] == "$/":
                self._control(request)
            else:
                self._start(request)
        except EnvelopeError as error:
            if error.id is not None:
                self._outbox.put(error_response(error.id, judge(error.error)))
        except Exception as error:
            failure = judge(error)
            if call_id is not None:
                self._outbox.put(error_response(call_id, failure))

    async def drain(self, grace: float, *, announce: bool = True) -> None:
        """Take no new calls, let those under way end within `grace` seconds, tell the others that
        the server stops, and write it all out. `announce`: tell the client at once, so that it
        goes elsewhere with new calls; pointless where it has ended its input."""
        end = self._loop.time() + grace
        if announce and not self._is_draining and not self._is_closed:
            self._outbox.put(notification("$/goaway", {"reason": "the server is stopping"}))
        self._is_draining = True
        if self._calls and grace > 0:
            self._idle = self._loop.create_future()
            await asyncio.wait(
                (self._idle, self.lost), timeout=grace, return_when="FIRST_COMPLETED"
            )
            self._idle = None
        for key in tuple(self._calls):
            self._cancel(key, STOPPING)
        if self._ending:
            await asyncio.wait(tuple(self._ending), timeout=max(0.1, end - self._loop.time()))
        try:
            async with asyncio.timeout(max(0.5, end - self._loop.time())):
                await self._outbox.flush()
        except TimeoutError:
            pass  # a client that does not read does not learn how its calls ended

    async def close(self) -> None:
        """End it now: calls are given up at the core (their tasks go on), nothing more is sent. A
        second call does nothing."""
        self._end()
        await self._outbox.close()
        if self._ending:
            await asyncio.wait(tuple(self._ending))

    def _lose(self, reason: str) -> None:
        self._end()
        if not self.lost.done():
            self.lost.set_result(reason)

    def _end(self) -> None:
        self._is_closed = True
        for key in tuple(self._calls):
            self._cancel(key, None)

    # Calls

    def _start(self, request: Request) -> None:
        key: object = request.id
        if request.id is not None and request.id in self._calls:
            # the answer must not look like that of the call which runs
            raise EnvelopeError(
                InvalidRequestError(
                    "Request payload validation error: the id of a call that is under way",
                    data={"id": request.id.decode()[:128]},
                )
            )
        if self._is_draining:
            self._refuse(request, STOPPING)
            return
        if len(self._calls) >= self._options.calls:
            raise ResourceExhaustedError(
                f"{self._options.calls} calls are under way in this session; try again later"
            )
        params = request.params or {}
        override = params.pop(MEMBER, None)
        token = params.pop(PARTIAL_RESULT, None)
        called = operation(request.method)
        message = called.read(params)
        call = self._parameters.call(override)
        running = _Running(request.id)
        if request.id is None:
            key = running
        if called.streaming:
            style = self._style(called, request.id, token)
            work = self._stream(key, running, called, message, call, style)
        else:
            work = self._unary(key, running, called, message, call)
        self._calls[key] = running
        running.task = self._loop.create_task(work)

    def _refuse(self, request: Request, failure: Failure) -> None:
        if request.id is not None:
            self._outbox.put(error_response(request.id, failure))

    def _style(self, called: Operation, call_id: bytes | None, token: Any) -> StreamStyle | None:
        if call_id is None:
            return None
        if token is None:
            if not self._is_strict:
                return Responses(called, call_id)
            return Notifications(called, call_id, call_id)
        text = id_text(token)
        if text is None:
            raise InvalidParamsError(
                f"Invalid parameters: {PARTIAL_RESULT} must be a string or a number"
            )
        return Notifications(called, call_id, text)

    async def _unary(
        self, key: object, running: _Running, called: Operation, message: ProtoMessage, call: Call
    ) -> None:
        if called.name not in LARGE_READS:
            await self._answer(key, running, called, message, call)
            return
        async with self._reads:
            await self._outbox.turn()
            await self._answer(key, running, called, message, call)

    async def _answer(
        self, key: object, running: _Running, called: Operation, message: ProtoMessage, call: Call
    ) -> None:
        call_id = running.id
        try:
            answer = await self._client.unary(called.name, message, call)
            if call_id is None:
                frame = None
            else:
                metadata = parameters.shown(answer.metadata) if answer.metadata else {}
                if type(answer.message) is Task and answer.message.status.state in _AT_WORK:
                    metadata |= _POLL
                frame = result(call_id, called.write(answer.message), metadata)
        except Exception as error:
            failure = judge(error)
            frame = None if call_id is None else error_response(call_id, failure)
        self._finish(key, running, frame)

    async def _stream(
        self,
        key: object,
        running: _Running,
        called: Operation,
        message: ProtoMessage,
        call: Call,
        style: StreamStyle | None,
    ) -> None:
        stream = self._client.stream(called.name, message, call)
        try:
            if style is None:
                # carried out once its first event is there; nobody reads the others
                await anext(stream, None)
                frame = None
            else:
                await self._events(stream, style)
                frame = style.end()
        except Exception as error:
            failure = judge(error)
            frame = None if running.id is None else error_response(running.id, failure)
        finally:
            await stream.aclose()
        self._finish(key, running, frame)

    async def _events(self, stream: Any, style: StreamStyle) -> None:
        outbox = self._outbox
        batch = await anext(stream, None)
        style.metadata = parameters.shown(stream.metadata)
        while batch is not None:
            for start in range(0, len(batch), SLICE):
                if start:
                    await asyncio.sleep(0)
                if not outbox.has_room:
                    await outbox.room()
                for frames in in_turn(style, batch[start : start + SLICE]):
                    outbox.put_all(frames)
            # asking for more gives back credit: the core sends more for as long as it is taken
            batch = await anext(stream, None)

    def _finish(self, key: object, running: _Running, frame: bytes | None) -> None:
        if self._calls.get(key) is not running:
            return  # cancelled, and answered then
        del self._calls[key]
        if frame is not None:
            self._outbox.put(frame)
        if self._idle is not None and not self._calls and not self._idle.done():
            self._idle.set_result(None)

    def _cancel(self, key: object, failure: Failure | None) -> None:
        """End a call now; with `failure` as its answer, if it may have one."""
        running = self._calls.pop(key, None)
        if running is None:
            return
        if failure is not None and running.id is not None:
            self._outbox.put(error_response(running.id, failure))
        assert running.task is not None
        self._ending.add(running.task)
        running.task.add_done_callback(self._ending.discard)
        running.task.cancel()
        if self._idle is not None and not self._calls and not self._idle.done():
            self._idle.set_result(None)

    # What belongs to the session itself

    def _is_no_request(self, value: dict[str, Any]) -> bool:
        """Take what is neither request nor notification: a response, or the short form of a
        cancel."""
        if value.get("cancelStream") is True and "id" in value:
            key = id_text(value["id"])
            if key is not None:
                self._cancel(key, CANCELLED)
                return True
        # answering an answer would go on for ever
        return "result" in value or "error" in value

    def _control(self, request: Request) -> None:
        params = request.params or {}
        if request.method == "$/cancelRequest":
            key = id_text(params.get("id"))
            if key is not None and "id" in params:
                self._cancel(key, CANCELLED)
            value: dict[str, Any] = {}
        elif request.method == "$/ping":
            value = {}
        elif request.method == "$/initialize":
            value = self._initialize(params)
        elif request.id is None:
            return  # those that begin so may be ignored, and are
        else:
            raise MethodNotFoundError(f"Method not found: {request.method[:128]}")
        if request.id is not None:
            self._outbox.put(result(request.id, orjson.dumps(value), {}))

    def _initialize(self, params: dict[str, Any]) -> dict[str, Any]:
        style = params.get("streams", STYLES[self._is_strict])
        if style not in STYLES:
            raise InvalidParamsError(
                f"Invalid parameters: streams must be one of {', '.join(STYLES)}"
            )
        if MEMBER in params:
            self._parameters.set(params[MEMBER])
        self._is_strict = style == "notifications"
        return {
            "binding": self._options.binding,
            "protocolVersions": ["1.0"],
            "streams": style,
            "limits": {"frameBytes": self.frame_bytes, "calls": self._options.calls},
        }


def _bad(frame: BadFrame) -> EnvelopeError:
    if frame.is_too_large:
        # the same error as at the other doors; nobody knows its id
        return EnvelopeError(InvalidParamsError(f"Invalid parameters: {frame.reason}"))
    return EnvelopeError(JSONParseError(f"Invalid JSON payload: {frame.reason}"))
