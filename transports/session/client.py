"""The client's end of a framed session: many calls at once on one pair of byte streams.

The same look as the other wires' clients (`transports.wire.Client`), whatever carries the bytes.
docs/bindings/framed-session.md is the specification.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, TypeVar

import orjson

from gateway.errors import BY_REASON, Failure, FailureError, ValidationError
from gateway.pb import ProtoMessage, StreamResponse
from transports.framing import BadFrame, Decoder, Framing, encode
from transports.jsonrpc import codec
from transports.jsonrpc.dispatch import OPERATIONS
from transports.jsonrpc.errors import failure_from
from transports.session.carrier import Read, Write
from transports.session.outbox import Outbox
from transports.session.parameters import MEMBER, TIMEOUT
from transports.session.pending import Pending
from transports.wire import Events, UnreachableError

M = TypeVar("M", bound=ProtoMessage)

Streams = Literal["responses", "notifications"]

logger = logging.getLogger(__name__)

FRAME_BYTES = 64 * 2**20
"""The largest frame that is read; servers are trusted further than clients."""
QUEUE_BYTES = 16 * 2**20
"""Events of one stream that may wait for their reader; the others must not wait for it."""
_SURE_BYTES = 256 * 1024
"""A frame beyond it is not sent before the server has told its limit."""
BAD_FRAMES_TOLD = 3
"""What is no JSON-RPC gets a line in the log, so many times."""
SILENCE = 30.0
"""Seconds without a byte while calls wait; then the server is asked whether it lives, and has so
long again to answer."""
BAD_FRAMES = 100
"""Without a good one; then the peer is another program, and may go on for ever."""
_SLICE = 64
"""Frames that are taken before others have a turn."""
_REASON_SECONDS = 2.0
"""How long a broken output waits for the end of the input, which knows more."""
_OWN_CLOSE = "this client was closed"
_GOODBYE = 0.5
"""Seconds that the last frames get to leave."""


class SessionClient:
    """Calls the server at the other end of `read` and `write`. Make it within a running loop; use
    it as a context manager, or `aclose` it. `parameters` are service parameters of all its calls,
    `on_close` lets go of what carries the bytes; `peer` names the other end in errors."""

    def __init__(
        self,
        read: Read,
        write: Write,
        *,
        framing: Framing = Framing.LINES,
        streams: Streams = "responses",
        parameters: Mapping[str, str] | None = None,
        on_close: Callable[[], Awaitable[None]] | None = None,
        peer: str = "the server",
        silence: float | None = SILENCE,
    ):
        """`silence`: see `SILENCE`; None never asks. A server that has not answered
        `$/initialize` is not asked either: it may be loading its agent."""
        self.metadata: dict[str, str] = {}
        """Response metadata of the last unary answer."""
        self.is_leaving = False
        """Whether the server takes no new calls."""
        self.closed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """Done when the session has ended, with the reason."""
        self._write_bytes = write
        self._framing = framing
        self._is_strict = streams == "notifications"
        self._on_close = on_close
        self._peer = peer
        self._last_id = 0
        self._has_heard = False
        """Whether any frame was good."""
        self._bad_frames = 0
        self._calls: dict[int, Pending] = {}
        self._is_heard = False
        """Since the watch looked last."""
        self._outbox = Outbox(self._send, room_bytes=2**20, timeout=None, on_lost=self._cannot_send)
        values = {"a2a-version": "1.0", **(parameters or {})}
        self._started = self._add_call("$/initialize", {"streams": streams, MEMBER: values})
        self._limit = asyncio.create_task(self._read_limit())
        self._reader = asyncio.create_task(self._read(read))
        self._watch = asyncio.create_task(self._watch_silence(silence))

    @property
    def is_lost(self) -> bool:
        """Whether it takes no more calls."""
        return self.is_leaving or self.closed.done()

    async def __aenter__(self) -> "SessionClient":
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Give up all calls (never their tasks) and let go of the connection. A second call does
        nothing."""
        for pending in tuple(self._calls.values()):
            self._cancel(pending)
            pending.end(_closed_failure(self._peer, _OWN_CLOSE))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_GOODBYE):
                await self._outbox.flush()
        self._lose(_OWN_CLOSE)
        self._reader.cancel()
        self._watch.cancel()
        await asyncio.wait((self._reader, self._limit, self._watch))
        await self._outbox.close()
        on_close, self._on_close = self._on_close, None
        if on_close is not None:
            await on_close()

    # Calls

    async def unary(
        self,
        method: str,
        request: ProtoMessage,
        metadata: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> ProtoMessage:
        """The response message."""
        called = OPERATIONS[method]
        params = _params(request, metadata, timeout)
        try:
            async with asyncio.timeout(timeout):
                value = await self._ask(method, params)
        except TimeoutError:
            text = f"{self._peer} did not answer within {timeout:.3g} seconds"
            raise FailureError(Failure(BY_REASON["DEADLINE_EXCEEDED"], text)) from None
        self.metadata = _metadata(value)
        return self._decode(called.response, value.get("result"))

    async def stream(
        self,
        method: str,
        request: ProtoMessage,
        metadata: Mapping[str, str] | None = None,
        headers: dict[str, str] | None = None,
    ) -> Events:
        """Events with their sequence numbers, 0 where there is none."""
        pending = await self._call(method, _params(request, metadata, None), streaming=True)
        try:
            while (value := await pending.take()) is not None:
                if headers is not None:
                    headers.update(_metadata(value))
                event = value.get("value", value.get("result"))
                if event is not None:
                    yield _sequence(value), self._decode(StreamResponse, event)
        finally:
            self._cancel(pending)

    async def ping(self, timeout: float | None = None) -> float:
        """Seconds of a round trip to the session's other end, which need not be the core."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        async with asyncio.timeout(timeout):
            await self._ask("$/ping", {})
        return loop.time() - began

    async def _ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        pending = await self._call(method, params)
        try:
            value = await pending.take()
        finally:
            self._cancel(pending)
        assert value is not None
        return value

    async def _call(
        self, method: str, params: dict[str, Any], *, streaming: bool = False
    ) -> Pending:
        self._check_open()
        pending = self._add_call(method, params, streaming=streaming, limit=_SURE_BYTES)
        if pending.id:
            return pending
        # so large that it must be known whether the server would read it
        limit = await asyncio.shield(self._limit)
        self._check_open()
        pending = self._add_call(method, params, streaming=streaming, limit=limit)
        if not pending.id:
            text = f"the request is larger than the {limit} bytes that {self._peer} takes"
            raise FailureError(Failure(BY_REASON["INVALID_PARAMS"], text))
        return pending

    def _check_open(self) -> None:
        if self.closed.done():
            raise UnreachableError(f"{self._peer} cannot be reached: {self.closed.result()}")
        if self.is_leaving:
            raise UnreachableError(f"{self._peer} is stopping and takes no new calls")

    def _add_call(
        self,
        method: str,
        params: dict[str, Any],
        *,
        streaming: bool = False,
        limit: int = FRAME_BYTES,
    ) -> Pending:
        """Send a call. One that is larger than `limit` is not sent, and has no id."""
        call_id = self._last_id + 1
        frame = orjson.dumps({"jsonrpc": "2.0", "id": call_id, "method": method, "params": params})
        if len(frame) > limit:
            return Pending(0, streaming)
        self._last_id = call_id
        pending = self._calls[call_id] = Pending(call_id, streaming)
        self._outbox.put(frame)
        return pending

    def _cancel(self, pending: Pending) -> None:
        """Give up a call that has not ended."""
        if self._calls.pop(pending.id, None) is not None:
            self._outbox.put(
                b'{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":%d}}' % pending.id
            )

    def _decode(self, kind: type[M], value: Any) -> M:
        try:
            return codec.decode(kind, value)
        except ValidationError as error:
            raise self._odd(f"does not fit: {error.message}") from None

    def _odd(self, what: str) -> FailureError:
        text = f"the answer of {self._peer} {what}"
        return FailureError(Failure(BY_REASON["INVALID_AGENT_RESPONSE"], text))

    # The session

    async def _send(self, payloads: list[bytes]) -> None:
        await self._write_bytes(encode(self._framing, payloads))

    async def _read_limit(self) -> int:
        """The largest frame that the server takes."""
        try:
            value = await self._started.take()
        except FailureError as error:
            self._lose(f"it refused the session: {error.failure.message}")
            return 0
        limit = _member(_member((value or {}).get("result"), "limits"), "frameBytes")
        return limit if type(limit) is int else FRAME_BYTES

    async def _watch_silence(self, seconds: float | None) -> None:
        """End the session with a server that has frozen. One that is slow answers a ping."""
        await asyncio.shield(self._limit)
        while seconds is not None and not self.closed.done():
            self._is_heard = False
            await asyncio.sleep(seconds)
            if self._is_heard or not self._calls:
                continue
            try:
                await self.ping(seconds)
            except TimeoutError:
                if not self._is_heard:
                    self._lose(f"it has not answered for {2 * seconds:g} seconds")
            except FailureError:
                pass  # an answer, or the end, which is known then

    async def _read(self, read: Read) -> None:
        decoder = Decoder(FRAME_BYTES, self._framing)
        reason = "it ended the connection"
        try:
            while data := await read():
                self._is_heard = True
                for number, frame in enumerate(decoder.feed(data), 1):
                    self._take(frame)
                    if not number % _SLICE:
                        await asyncio.sleep(0)
                if self.closed.done():
                    break
        except OSError as error:
            reason = f"the connection broke: {error.strerror or type(error).__name__}"
        except Exception:
            logger.exception("cannot read from %s", self._peer)
            reason = "reading failed"
        self._lose(reason)

    def _cannot_send(self, reason: str) -> None:
        loop = asyncio.get_running_loop()
        # why the server has gone is told by its end, which may be on its way
        loop.call_later(_REASON_SECONDS, self._lose, reason)

    def _lose(self, reason: str) -> None:
        if self.closed.done():
            return
        if self._bad_frames and not self._has_heard:
            reason = f"nothing that it sent is JSON-RPC, so it is no A2A agent; {reason}"
        self.closed.set_result(reason)
        failure = _closed_failure(self._peer, reason)
        calls, self._calls = self._calls, {}
        for pending in calls.values():
            pending.end(failure)

    def _take(self, frame: bytes | BadFrame) -> None:
        try:
            if isinstance(frame, BadFrame):
                if frame.is_too_large:
                    # it may have been any answer: better none than to wait for it for ever
                    self._lose(f"it sent what cannot be read: {frame.reason}")
                raise ValueError(frame.reason)
            value = codec.parse(frame)
            if type(value) is not dict:
                raise ValueError("it is no object")
        except ValueError as error:
            self._bad_frames += 1
            if self._bad_frames <= BAD_FRAMES_TOLD:
                logger.warning("%s sent what is no JSON-RPC: %s", self._peer, error)
            if self._bad_frames == BAD_FRAMES and not self._has_heard:
                self._lose("it was left")
            return
        self._has_heard = True
        method = value.get("method")
        if method is not None:
            self._take_request(method, value, len(frame))
            return
        pending = self._find(value.get("id"))
        if pending is not None:
            self._take_answer(pending, value, len(frame))
        elif value.get("id") is None and "error" in value:
            text = failure_from(value["error"]).message
            logger.warning("%s could not read a frame: %s", self._peer, text)

    def _find(self, call_id: Any) -> Pending | None:
        return self._calls.get(call_id) if type(call_id) is int else None

    def _take_answer(self, pending: Pending, value: dict[str, Any], size: int) -> None:
        if "error" in value:
            del self._calls[pending.id]
            pending.end(failure_from(value["error"]))
        elif pending.streaming and not self._is_strict and "streamEnd" not in value:
            self._add_event(pending, value, size)
        else:
            del self._calls[pending.id]
            if pending.streaming:
                value = {MEMBER: value.get(MEMBER)}
            pending.add(value, size)
            pending.end()

    def _take_request(self, method: Any, value: dict[str, Any], size: int) -> None:
        params = value.get("params")
        if method == "$/progress" and isinstance(params, dict):
            pending = self._find(params.get("token"))
            if pending is not None and pending.streaming and "value" in params:
                self._add_event(pending, params, size)
        elif method == "$/goaway":
            self.is_leaving = True
        elif "id" in value:
            answer: dict[str, Any] = {"jsonrpc": "2.0", "id": value["id"]}
            if method == "$/ping":
                answer["result"] = {}
            else:
                answer["error"] = {"code": -32601, "message": "Method not found"}
            self._outbox.put(orjson.dumps(answer))

    def _add_event(self, pending: Pending, value: dict[str, Any], size: int) -> None:
        pending.add(value, size)
        if pending.queued_bytes > QUEUE_BYTES:
            text = "events of this stream came faster than they were read; go on after the last one"
            pending.end(Failure(BY_REASON["RESOURCE_EXHAUSTED"], text))
            self._cancel(pending)


def _params(
    request: ProtoMessage, metadata: Mapping[str, str] | None, timeout: float | None
) -> dict[str, Any]:
    params: dict[str, Any] = codec.encode(request)
    if not metadata and timeout is None:
        return params
    values = dict(metadata or {})
    if timeout is not None:
        values[TIMEOUT] = str(max(0, round(timeout * 1000)))
    return {**params, MEMBER: values}


def _closed_failure(peer: str, reason: str) -> Failure:
    text = f"{peer}: {reason}; whether the call was done is not known"
    return Failure(BY_REASON["UNAVAILABLE"], text)


def _metadata(value: dict[str, Any]) -> dict[str, str]:
    found = value.get(MEMBER)
    values = found if isinstance(found, dict) else {}
    return {name: text for name, text in values.items() if isinstance(text, str)}


def _sequence(value: dict[str, Any]) -> int:
    found = value.get("seq")
    return found if type(found) is int else 0


def _member(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None
