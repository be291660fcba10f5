"""Messages of calls as frames: cutting and joining, credit, turns, and the state of the link.

- A message larger than a frame is cut (`Flow`) and joined (`Inbox`).
- Payload bytes of `events` are paid with credit, one window for each call and direction. The
  receiver gives credit back when its reader took the bytes, or at once while the reader waits for
  the rest of a message. So what an end holds for one call is at most a window and one message.
- `Outgoing` fills each batch in this order: frames of the link and credits; calls that need one
  frame only; one frame of each call with more to send, by turns. Each batch holds a turn of the
  third kind where one is ready, so that no kind starves another.
"""

from collections import deque
from collections.abc import Callable, Sequence

from gateway.link.frames.wire import (
    BATCH_BYTES,
    EVENT_OVERHEAD_BYTES,
    FRAME_BYTES,
    MIN_PIECE_BYTES,
    MISSED_PINGS,
    PIECE_BYTES,
    LinkProtocolError,
    MessageSizeError,
    call_frame,
)
from gateway.pb import link_pb2


class Flow:
    """What one end still has to send for one call. Owned by an `Outgoing`, which changes it."""

    __slots__ = (
        "call",
        "credit",
        "is_queued",
        "offset",
        "on_room",
        "on_tail",
        "pending",
        "pending_bytes",
        "tail",
    )

    def __init__(self, call: int, credit: int):
        self.call = call
        self.credit = credit
        self.pending: deque[tuple[int, bytes]] = deque()
        self.pending_bytes = 0
        """Payload bytes not sent yet."""
        self.offset = 0
        """Bytes of the first message that have left already."""
        self.tail: bytes | None = None
        """The chunk that ends the call, sent after all messages."""
        self.on_tail: Callable[[], None] | None = None
        """Called once the end has left."""
        self.on_room: Callable[[], None] | None = None
        """Called after each frame that left; whoever waits for room looks at `pending_bytes`."""
        self.is_queued = False

    def is_ready(self) -> bool:
        """Whether a frame could leave now."""
        if self.pending:
            left = len(self.pending[0][1]) - self.offset
            return self.credit >= (left if left < MIN_PIECE_BYTES else MIN_PIECE_BYTES)
        return self.tail is not None

    def take(self) -> bytes:
        """The next frame; only while `is_ready`."""
        if not self.pending:
            tail, self.tail = self.tail, None
            assert tail is not None
            return tail
        batch, frame = call_frame(self.call)
        events = frame.events
        size = len(self.pending[0][1]) - self.offset
        room = min(self.credit, PIECE_BYTES)
        sent = (
            self._take_piece(events, room)
            if self.offset or size > room
            else self._take_whole(events, room)
        )
        self.credit -= sent
        self.pending_bytes -= sent
        return batch.SerializeToString()

    def _take_piece(self, events: link_pb2.Events, room: int) -> int:
        sequence, payload = self.pending[0]
        piece = payload[self.offset : self.offset + room]
        events.sequences.append(sequence)
        events.payloads.append(piece)
        self.offset += len(piece)
        if self.offset < len(payload):
            events.more = True
        else:
            self.pending.popleft()
            self.offset = 0
        return len(piece)

    def _take_whole(self, events: link_pb2.Events, room: int) -> int:
        pending = self.pending
        sequences: list[int] = []
        payloads: list[bytes] = []
        sent = 0
        space = PIECE_BYTES + EVENT_OVERHEAD_BYTES
        while pending:
            sequence, payload = pending[0]
            size = len(payload)
            space -= size + EVENT_OVERHEAD_BYTES
            if sent + size > room or space < 0:
                break
            pending.popleft()
            sequences.append(sequence)
            payloads.append(payload)
            sent += size
        events.sequences.extend(sequences)
        events.payloads.extend(payloads)
        return sent


class Outgoing:
    """What one end has to send on one link. `wake` is called when there is something to take;
    the writer takes a batch whenever the one before has been written, and never waits for more.
    """

    def __init__(self, wake: Callable[[], None], batch_bytes: int = BATCH_BYTES):
        self._wake = wake
        self._batch_bytes = batch_bytes
        self._urgent: deque[bytes] = deque()
        self._singles: deque[bytes] = deque()
        self._turns: deque[Flow] = deque()
        self.unsent_bytes = 0
        """Of all calls; frames of the link are not counted."""

    def put_urgent(self, chunk: bytes) -> None:
        """A frame of the link, or a credit."""
        self._urgent.append(chunk)
        self._wake()

    def put(self, chunk: bytes) -> None:
        """A frame of a call that needs no turns. Such frames leave in the order of their put."""
        self._singles.append(chunk)
        self.unsent_bytes += len(chunk)
        self._wake()

    def add(self, flow: Flow, messages: Sequence[tuple[int, bytes]]) -> None:
        """More messages (sequence number, payload) of a call."""
        flow.pending.extend(messages)
        size = sum([len(payload) for _, payload in messages])
        flow.pending_bytes += size
        self.unsent_bytes += size
        self._queue(flow)

    def finish(self, flow: Flow, tail: bytes) -> None:
        """The frame that ends a call, to leave after its messages."""
        flow.tail = tail
        self.unsent_bytes += len(tail)
        self._queue(flow)

    def grant(self, flow: Flow, count: int) -> None:
        """The other end returned credit."""
        flow.credit += count
        self._queue(flow)

    def drop(self, flow: Flow) -> None:
        """Forget what a call has not sent."""
        self.unsent_bytes -= flow.pending_bytes + (len(flow.tail) if flow.tail else 0)
        flow.pending.clear()
        flow.pending_bytes = flow.offset = 0
        flow.tail = flow.on_tail = flow.on_room = None
        # where it has a place among the turns, it loses it when it comes to it

    def _queue(self, flow: Flow) -> None:
        if not flow.is_queued and flow.is_ready():
            flow.is_queued = True
            self._turns.append(flow)
            self._wake()

    def has_ready(self) -> bool:
        """Whether `take` would give something."""
        is_turn = any(flow.is_ready() for flow in self._turns)
        return bool(self._urgent or self._singles or is_turn)

    def take(self) -> bytes:
        """The next batch; empty where nothing is ready. May call `on_room` and `on_tail`."""
        parts: list[bytes] = []
        size = 0
        while self._urgent:
            parts.append(self._urgent.popleft())
        singles = self._singles
        limit = self._batch_bytes - FRAME_BYTES if self._turns else self._batch_bytes
        while singles and size < limit:
            chunk = singles.popleft()
            size += len(chunk)
            self.unsent_bytes -= len(chunk)
            parts.append(chunk)
        turns = self._turns
        while turns and size < self._batch_bytes:
            flow = turns.popleft()
            if flow.is_ready():
                chunk = self._take_turn(flow)
                size += len(chunk)
                parts.append(chunk)
            else:
                flow.is_queued = False
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _take_turn(self, flow: Flow) -> bytes:
        before = flow.pending_bytes
        is_tail = not flow.pending
        chunk = flow.take()
        self.unsent_bytes -= len(chunk) if is_tail else before - flow.pending_bytes
        if flow.is_ready():
            self._turns.append(flow)
        else:
            flow.is_queued = False
        if is_tail and flow.on_tail is not None:
            flow.on_tail()
        elif flow.on_room is not None:
            flow.on_room()
        return chunk

    def put_back(self, batch: bytes) -> None:
        """A batch that was taken and surely did not leave, on a link that is over."""
        self._singles.appendleft(batch)

    def unsent_calls(self) -> set[int]:
        """Ids of the calls whose `open` frame has not left: the other end cannot know them.
        Slow; for a link that is over."""
        frames = link_pb2.Batch.FromString(b"".join(self._singles)).frames
        return {frame.call for frame in frames if frame.WhichOneof("kind") == "open"}


class Inbox:
    """Messages of one call as they come in, and the credit that they cost the sender.

    The reader alternates `release` (done with all it took) and `take`. What it took earns credit
    at its next `release`.
    """

    __slots__ = (
        "_items",
        "_joined_bytes",
        "_max_bytes",
        "_owed",
        "_part_bytes",
        "_parts",
        "_taken_bytes",
        "_waits",
        "_whole_bytes",
        "_window",
    )

    def __init__(self, window: int, max_bytes: int, *, waits: bool = False):
        """`waits` starts it as if `release` had been called: the reader is there already."""
        self._window = window
        self._max_bytes = max_bytes
        self._items: list[tuple[int, bytes]] = []
        self._parts: list[bytes] = []
        self._joined_bytes = 0
        """Bytes of the message that is not whole yet."""
        self._part_bytes = 0
        """Those of them that earned no credit yet."""
        self._whole_bytes = 0
        self._taken_bytes = 0
        self._owed = 0
        self._waits = waits

    def feed(self, events: link_pb2.Events) -> bool:
        """Take a frame in; whether there is something to take. Raises `LinkProtocolError`, and
        `MessageSizeError`, after which the call has to be given up."""
        payloads = events.payloads
        size = sum(map(len, payloads))
        if size + self.held_bytes > self._window:
            raise LinkProtocolError(f"more than the window of {self._window} bytes in one call")
        if len(events.sequences) != len(payloads):
            raise LinkProtocolError("as many sequence numbers as payloads are expected")
        if events.more or self._parts:
            self._feed_part(events, size)
        else:
            self._items.extend(zip(events.sequences, payloads, strict=True))
            self._whole_bytes += size
        return bool(self._items)

    def _feed_part(self, events: link_pb2.Events, size: int) -> None:
        if len(events.payloads) != 1 or (events.more and not size):
            raise LinkProtocolError("a piece of a message stands alone in its frame")
        self._joined_bytes += size
        if self._joined_bytes > self._max_bytes:
            raise MessageSizeError(f"a message of more than {self._max_bytes} bytes")
        self._parts.append(events.payloads[0])
        self._part_bytes += size
        if not events.more:
            self._items.append((events.sequences[0], b"".join(self._parts)))
            self._whole_bytes += self._part_bytes
            self._parts.clear()
            self._joined_bytes = self._part_bytes = 0
        elif self._waits and not self._items:
            self._pay_parts()

    def _pay_parts(self) -> None:
        # without this a message larger than the window would never become whole
        self._owed += self._part_bytes
        self._part_bytes = 0

    @property
    def held_bytes(self) -> int:
        """Bytes that came and for which no credit has been sent."""
        return self._whole_bytes + self._part_bytes + self._taken_bytes + self._owed

    @property
    def joined_bytes(self) -> int:
        """Bytes of the message that is not whole yet."""
        return self._joined_bytes

    def has_items(self) -> bool:
        return bool(self._items)

    def take(self) -> list[tuple[int, bytes]]:
        """All whole messages (sequence number, payload), maybe none."""
        items, self._items = self._items, []
        if items:
            self._taken_bytes += self._whole_bytes
            self._whole_bytes = 0
            self._waits = False
        return items

    def release(self) -> None:
        """The reader is done with what it took and waits for more."""
        self._owed += self._taken_bytes
        self._taken_bytes = 0
        self._waits = True
        if not self._items:
            self._pay_parts()

    def credit_due(self) -> int:
        """Credit to send now; 0 while it is not worth a frame."""
        if self._owed * 4 < self._window:
            return 0
        due, self._owed = self._owed, 0
        return due


class Heartbeat:
    """Whether the other end lives. Call `tick` once an interval and send a ping after it."""

    def __init__(self, interval: float, now: float):
        self.interval = interval
        self._due = now + interval
        self._is_heard = True
        self._missed = 0

    def heard(self) -> None:
        """Any frame came; a busy peer may answer the ping later than that."""
        self._is_heard = True

    def tick(self, now: float) -> bool:
        """False once `MISSED_PINGS` intervals in a row were silent."""
        # when this process stood still itself, what came meanwhile has not been read yet
        was_late = now - self._due > self.interval / 2
        self._missed = 0 if self._is_heard or was_late else self._missed + 1
        self._is_heard = False
        self._due = now + self.interval
        return self._missed < MISSED_PINGS
