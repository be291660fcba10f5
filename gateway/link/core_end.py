"""The core's end of one link, without I/O: the table of its calls, what frames do to it, what
leaves. `gateway.link.server` runs it on a gRPC stream and gives it the calls' tasks."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from google.rpc.status_pb2 import Status

from gateway.errors import A2AError, Failure, ResourceExhaustedError, judge
from gateway.link.frames import (
    PIECE_BYTES,
    STATUS_BYTES,
    Flow,
    Inbox,
    LinkProtocolError,
    MessageSizeError,
    Outgoing,
    encode_accept,
    encode_credit,
    encode_end,
    encode_pong,
    read_interfaces,
)
from gateway.pb import AgentInterface, link_pb2
from gateway.service.validation import check_size


class Handler(Protocol):
    """What the end tells its owner. None of it may raise or wait."""

    def on_call(self, entry: "Entry", start: link_pb2.Open, request: bytes) -> None:
        """Run a call; `respond`, or `finish` or `abort`, ends it."""

    def on_cancel(self, entry: "Entry") -> None:
        """The adapter gave the call up; nothing more can be sent for it."""

    def on_interfaces(self, interfaces: list[AgentInterface]) -> None:
        """Where the adapter's doors listen now."""

    def on_pong(self, nonce: int) -> None:
        """The answer to a ping."""


class Entry:
    """One open call."""

    __slots__ = ("flow", "id", "inbox", "is_open", "start", "task")

    def __init__(self, call_id: int):
        self.id = call_id
        self.is_open = True
        self.flow: Flow | None = None
        self.inbox: Inbox | None = None
        """While the request is not whole."""
        self.start: link_pb2.Open | None = None
        self.task: Any = None
        """Of the handler."""


class CoreEnd:
    """`admit` says whether one more call may start; it counts calls over all links."""

    def __init__(
        self,
        handler: Handler,
        wake: Callable[[], None],
        *,
        send_window: int,
        receive_window: int,
        calls: int,
        message_bytes: int,
        unsent_bytes: int,
        request_bytes: int,
        admit: Callable[[], bool] = lambda: True,
    ):
        self.out = Outgoing(wake)
        self.calls: dict[int, Entry] = {}
        self._handler = handler
        self._send_window = send_window
        self._receive_window = receive_window
        self._max_calls = calls
        self._message_bytes = message_bytes
        self._unsent_bytes = unsent_bytes
        self._request_bytes = request_bytes
        self._admit = admit
        self._last_id = 0
        self._incoming_bytes = 0
        """Announced bytes of the requests that are not whole."""
        self.on_closed: Callable[[], None] | None = None
        """Called after each call that ended."""

    # What comes in

    def receive(self, batch: link_pb2.Batch) -> None:
        """Take a batch in. Raises `LinkProtocolError` where the link cannot go on."""
        for frame in batch.frames:
            match frame.WhichOneof("kind"):
                case "open":
                    self._open(frame.call, frame.open)
                case "credit":
                    entry = self.calls.get(frame.call)
                    if entry is not None and entry.flow is not None:
                        self.out.grant(entry.flow, frame.credit.bytes)
                case "cancel":
                    self._cancel(frame.call)
                case "events":
                    self._piece(frame.call, frame.events)
                case "ping":
                    self.out.put_urgent(encode_pong(frame.ping.nonce))
                case "pong":
                    self._handler.on_pong(frame.pong.nonce)
                case "control":
                    if frame.control.WhichOneof("kind") == "interfaces":
                        interfaces = read_interfaces(frame.control.interfaces.interfaces)
                        self._handler.on_interfaces(interfaces)
                case kind:
                    if kind is not None or frame.critical:
                        raise LinkProtocolError(f"unexpected frame: {kind or 'of an unknown kind'}")

    def _open(self, call_id: int, start: link_pb2.Open) -> None:
        if call_id <= self._last_id:
            raise LinkProtocolError(f"call id {call_id} was used before on this link")
        self._last_id = call_id
        try:
            self._check_bounds(start.request_bytes)
        except A2AError as error:
            status = judge(error).to_status().SerializeToString()
            self.out.put(encode_end(call_id, status=status))
            return
        entry = self.calls[call_id] = Entry(call_id)
        if not start.request_bytes:
            self._handler.on_call(entry, start, start.request)
            return
        entry.start = start
        entry.inbox = Inbox(self._receive_window, start.request_bytes, waits=True)
        self._incoming_bytes += start.request_bytes

    def _check_bounds(self, size: int) -> None:
        if len(self.calls) >= self._max_calls:
            raise ResourceExhaustedError(
                f"{self._max_calls} calls are open on this link; try again later"
            )
        if not self._admit():
            raise ResourceExhaustedError("The server has too many open calls; try again later")
        if self.out.unsent_bytes > self._unsent_bytes:
            raise ResourceExhaustedError("Too many answers wait for their readers; try again later")
        if not size:
            return
        check_size(size, self._message_bytes)
        if self._incoming_bytes and self._incoming_bytes + size > self._request_bytes:
            raise ResourceExhaustedError(
                "Too many large requests are on their way; try again later"
            )

    def _piece(self, call_id: int, events: link_pb2.Events) -> None:
        entry = self.calls.get(call_id)
        if entry is None:
            return
        inbox, start = entry.inbox, entry.start
        if inbox is None or start is None:
            raise LinkProtocolError("a request goes on after its end")
        try:
            is_whole = inbox.feed(events)
        except MessageSizeError:
            raise LinkProtocolError("a request is larger than announced") from None
        if is_whole:
            [(_, request)] = inbox.take()
            self._forget_request(entry)
            if len(request) != start.request_bytes:
                raise LinkProtocolError("a request is smaller than announced")
            self._handler.on_call(entry, start, request)
        elif due := inbox.credit_due():
            self.out.put_urgent(encode_credit(call_id, due))

    def _cancel(self, call_id: int) -> None:
        entry = self.calls.get(call_id)
        if entry is not None:
            self.close(entry)
            self._handler.on_cancel(entry)

    # What leaves

    def accept(self, entry: Entry, metadata: Mapping[str, str]) -> None:
        """Response metadata of a stream, before its first message."""
        if entry.is_open:
            # ahead of the messages, wherever they wait
            self.out.put_urgent(encode_accept(entry.id, metadata))

    def send(self, entry: Entry, messages: Sequence[tuple[int, bytes]]) -> Flow | None:
        """Messages of a call; its flow, which shows how much waits. None once it has ended."""
        if not entry.is_open:
            return None
        if entry.flow is None:
            entry.flow = Flow(entry.id, self._send_window)
        self.out.add(entry.flow, messages)
        return entry.flow

    def respond(self, entry: Entry, response: bytes, metadata: Mapping[str, str]) -> None:
        """End a unary call that succeeded."""
        if not entry.is_open:
            return
        if len(response) <= PIECE_BYTES // 2:
            self.out.put(encode_end(entry.id, response=response, metadata=metadata))
            self.close(entry)
        else:
            self.send(entry, [(0, response)])
            self.finish(entry, b"", metadata)

    def finish(self, entry: Entry, status: bytes, metadata: Mapping[str, str]) -> None:
        """End a call after what it has still to send. `status` is empty where it succeeded."""
        if not entry.is_open:
            return
        chunk = encode_end(entry.id, status=_fitting(status), metadata=metadata)
        flow = entry.flow
        if flow is None or not (flow.pending or flow.is_queued):
            self.out.put(chunk)
            self.close(entry)
        else:
            # the entry stays while credit has to find its flow
            flow.on_tail = lambda: self.close(entry)
            self.out.finish(flow, chunk)

    def abort(self, entry: Entry, status: bytes) -> None:
        """End a call now; what it has not sent is dropped."""
        if entry.is_open:
            self.close(entry)
            self.out.put(encode_end(entry.id, status=_fitting(status)))

    def close(self, entry: Entry) -> None:
        """Forget a call without a word."""
        if not entry.is_open:
            return
        entry.is_open = False
        self.calls.pop(entry.id, None)
        self._forget_request(entry)
        if entry.flow is not None:
            self.out.drop(entry.flow)
        if self.on_closed is not None:
            self.on_closed()

    def lost(self) -> list[Entry]:
        """The link is gone: forget all calls; returns them."""
        entries = list(self.calls.values())
        for entry in entries:
            self.close(entry)
        return entries

    def _forget_request(self, entry: Entry) -> None:
        if entry.start is not None:
            self._incoming_bytes -= entry.start.request_bytes
            entry.inbox = entry.start = None


def _fitting(status: bytes) -> bytes:
    """A status that a frame has room for: details go first."""
    if len(status) <= STATUS_BYTES:
        return status
    failure = Failure.from_status(Status.FromString(status))
    message = f"{failure.message[:512]} (details left out: {len(status)} bytes)"
    short: bytes = Failure(failure.row, message).to_status().SerializeToString()
    return short
