"""The adapter's end of one link, without I/O: the table of its calls, what frames do to it, what
leaves. `transports.core_link` runs it on a gRPC stream."""

from collections.abc import Callable
from typing import Protocol

from gateway.call import Call
from gateway.errors import A2AError, InvalidParamsError, ResourceExhaustedError
from gateway.link.frames import (
    Card,
    Flow,
    Inbox,
    Limits,
    LinkProtocolError,
    LinkRefusedError,
    MessageSizeError,
    MetadataSizeError,
    Outgoing,
    encode_cancel,
    encode_credit,
    encode_open,
    encode_pong,
    pairs,
    read_card,
)
from gateway.pb import link_pb2


class Pending:
    """One open call; its owner subclasses it. None of the methods may raise or wait."""

    __slots__ = ("flow", "id", "inbox")

    def __init__(self) -> None:
        self.id = 0
        """On the link that the call is on; 0: on none."""
        self.inbox: Inbox | None = None
        self.flow: Flow | None = None
        """While the request has not left wholly."""

    def on_accept(self, metadata: dict[str, str]) -> None:
        """Response metadata came."""

    def on_messages(self) -> None:
        """Something can be taken from `inbox`."""

    def on_end(self, end: link_pb2.End) -> None:
        """The call has ended at the core."""

    def on_error(self, error: A2AError) -> None:
        """The call was given up on this side."""

    def on_lost(self, is_unsent: bool) -> None:
        """The link has ended. `is_unsent`: the core cannot know the call."""


class Handler(Protocol):
    """What the end tells its owner. None of it may raise or wait."""

    def on_card(self, card: Card) -> None:
        """The card changed."""

    def on_readiness(self, is_ready: bool, reason: str) -> None:
        """Whether the core is ready."""

    def on_goaway(self, reason: str) -> None:
        """No new calls on this link."""

    def on_pong(self, nonce: int) -> None:
        """The answer to a ping."""


class AdapterEnd:
    """`door` and `window` are those of `hello`, `limits` those of the welcome."""

    def __init__(
        self,
        handler: Handler,
        wake: Callable[[], None],
        *,
        door: str,
        window: int,
        limits: Limits,
        response_bytes: int,
        unsent_bytes: int,
    ):
        self.out = Outgoing(wake)
        self.calls: dict[int, Pending] = {}
        self.on_closed: Callable[[], None] | None = None
        """Called after each call that ended."""
        self._handler = handler
        self._door = door
        self._window = window
        self._limits = limits
        self._response_bytes = response_bytes
        self._unsent_bytes = unsent_bytes
        self._last_id = 0

    # What leaves

    def open(
        self,
        pending: Pending,
        method: str,
        request: bytes,
        call: Call,
        *,
        cursor: int | None = None,
    ) -> None:
        """Start a call. `cursor` replaces the call's own. Raises `ResourceExhaustedError`, and
        `InvalidParamsError` for metadata that is too large."""
        if len(self.calls) >= self._limits.calls:
            raise ResourceExhaustedError(
                f"{self._limits.calls} calls are open at this door; try again later"
            )
        if self.out.unsent_bytes > self._unsent_bytes:
            raise ResourceExhaustedError("Too many requests wait for the core; try again later")
        call_id = self._last_id + 1
        try:
            chunk, is_cut = encode_open(call_id, method, request, call, self._door, cursor)
        except MetadataSizeError as error:
            raise InvalidParamsError(str(error)) from None
        pending.id = self._last_id = call_id
        pending.inbox = pending.flow = None
        self.calls[call_id] = pending
        self.out.put(chunk)
        # one that the core refuses for its size need not leave
        if is_cut and len(request) <= self._limits.message_bytes:
            pending.flow = Flow(call_id, self._limits.window_bytes)
            self.out.add(pending.flow, [(0, request)])

    def cancel(self, pending: Pending) -> None:
        """The caller went away; a call that has ended already is let be."""
        if self.calls.pop(pending.id, None) is pending:
            self.out.put(encode_cancel(pending.id))
            self._closed(pending)

    def release(self, pending: Pending) -> None:
        """The caller's reader took all that it was given, and waits."""
        if pending.inbox is not None:
            pending.inbox.release()
            self._pay(pending)

    def _pay(self, pending: Pending) -> None:
        assert pending.inbox is not None
        if (due := pending.inbox.credit_due()) and pending.id in self.calls:
            self.out.put_urgent(encode_credit(pending.id, due))

    def _closed(self, pending: Pending) -> None:
        if pending.flow is not None:
            self.out.drop(pending.flow)
            pending.flow = None
        pending.id = 0
        if self.on_closed is not None:
            self.on_closed()

    # What comes in

    def receive(self, batch: link_pb2.Batch) -> None:
        """Take a batch in. Raises `LinkProtocolError`, or `LinkRefusedError` where the core
        says that it ends the link."""
        for frame in batch.frames:
            match frame.WhichOneof("kind"):
                case "end":
                    if (pending := self.calls.pop(frame.call, None)) is not None:
                        self._closed(pending)
                        pending.on_end(frame.end)
                case "events":
                    if (pending := self.calls.get(frame.call)) is not None:
                        self._messages(pending, frame.events)
                case "credit":
                    pending = self.calls.get(frame.call)
                    if pending is not None and pending.flow is not None:
                        self.out.grant(pending.flow, frame.credit.bytes)
                case "accept":
                    if (pending := self.calls.get(frame.call)) is not None:
                        pending.on_accept(dict(pairs(frame.accept.metadata)))
                case "ping":
                    self.out.put_urgent(encode_pong(frame.ping.nonce))
                case "pong":
                    self._handler.on_pong(frame.pong.nonce)
                case "control":
                    self._control(frame.control)
                case "goaway":
                    self._handler.on_goaway(frame.goaway.reason)
                case "refusal":
                    raise LinkRefusedError(frame.refusal.reason, can_retry=frame.refusal.retry)
                case kind:
                    if kind is not None or frame.critical:
                        raise LinkProtocolError(f"unexpected frame: {kind or 'of an unknown kind'}")

    def _messages(self, pending: Pending, events: link_pb2.Events) -> None:
        inbox = pending.inbox
        if inbox is None:
            # of a unary call, or the first of a stream: the reader is there
            inbox = pending.inbox = Inbox(self._window, self._response_bytes, waits=True)
        try:
            is_whole = inbox.feed(events)
        except MessageSizeError as error:
            self.cancel(pending)
            pending.on_error(ResourceExhaustedError(f"The answer cannot be taken: {error}", None))
            return
        if is_whole:
            pending.on_messages()
        else:
            self._pay(pending)

    def _control(self, control: link_pb2.Control) -> None:
        match control.WhichOneof("kind"):
            case "card":
                self._handler.on_card(read_card(control.card))
            case "readiness":
                self._handler.on_readiness(control.readiness.ready, control.readiness.reason)
            case _:
                pass  # facts that a later version knows

    def lost(self) -> None:
        """The link has ended: tell all calls, forget them."""
        unsent = self.out.unsent_calls()
        calls, self.calls = self.calls, {}
        for call_id, pending in calls.items():
            self._closed(pending)
            pending.on_lost(call_id in unsent)
