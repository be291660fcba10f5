"""Both ends of a link, joined without I/O, under any interleaving of what can happen on it."""

from collections import deque
from typing import Any

import pytest
from google.rpc.status_pb2 import Status
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gateway.call import Call
from gateway.errors import Code, DeadlineExceededError, ResourceExhaustedError, judge
from gateway.link.core_end import CoreEnd, Entry
from gateway.link.frames import (
    BATCH_BYTES,
    FRAME_BYTES,
    WINDOW_BYTES,
    Limits,
    LinkProtocolError,
    LinkRefusedError,
    encode_end,
    encode_refusal,
)
from gateway.pb import AgentInterface, link_pb2
from transports.adapter_end import AdapterEnd, Pending

CALLS = 8
MESSAGE_BYTES = 1_000_000
FAILED: bytes = judge(DeadlineExceededError()).to_status().SerializeToString()

sizes = st.one_of(
    st.integers(0, 500), st.sampled_from([20_000, FRAME_BYTES, 200_000, WINDOW_BYTES + 1, 700_000])
)


class Reader(Pending):
    """A caller of the adapter: keeps what it is given."""

    __slots__ = (
        "ends",
        "is_lost",
        "is_reading",
        "is_unsent",
        "messages",
        "request",
        "response",
        "status",
    )

    def __init__(self, request: bytes):
        super().__init__()
        self.request = request
        self.messages: list[tuple[int, bytes]] = []
        self.ends = 0
        self.status = b""
        self.response = b""
        self.is_lost = self.is_unsent = False
        self.is_reading = True

    def on_end(self, end: link_pb2.End) -> None:
        self.ends += 1
        self.status = end.status
        self.response = end.response

    def on_lost(self, is_unsent: bool) -> None:
        self.ends += 1
        self.is_lost = True
        self.is_unsent = is_unsent

    def read(self) -> bool:
        """Take what there is; whether there was something."""
        items = self.inbox.take() if self.inbox is not None else []
        self.messages += items
        return bool(items)


class Core:
    """The handler of the core's end: keeps the calls that it was given."""

    def __init__(self) -> None:
        self.requests: dict[int, bytes] = {}
        self.entries: dict[int, Entry] = {}
        self.sent: dict[int, list[tuple[int, bytes]]] = {}
        self.interfaces: list[list[AgentInterface]] = []

    def on_call(self, entry: Entry, start: link_pb2.Open, request: bytes) -> None:
        assert entry.id not in self.requests
        self.requests[entry.id] = request
        self.entries[entry.id] = entry
        self.sent[entry.id] = []

    def on_cancel(self, entry: Entry) -> None:
        self.entries.pop(entry.id, None)

    def on_interfaces(self, interfaces: list[AgentInterface]) -> None:
        self.interfaces.append(interfaces)

    def on_pong(self, nonce: int) -> None:
        raise AssertionError("no ping was sent")


class Pair:
    """Two ends and the two wires between them."""

    def __init__(self, calls: int = CALLS, **options: Any):
        self.core = Core()
        self.goaways: list[str] = []
        self.cards: list[Any] = []
        self.adapter_end = AdapterEnd(
            self,  # type: ignore[arg-type]
            lambda: None,
            door="test",
            window=WINDOW_BYTES,
            limits=Limits(MESSAGE_BYTES, WINDOW_BYTES, calls),
            response_bytes=1 << 30,
            unsent_bytes=1 << 30,
        )
        bounds: dict[str, Any] = {
            "send_window": WINDOW_BYTES,
            "receive_window": WINDOW_BYTES,
            "calls": calls,
            "message_bytes": MESSAGE_BYTES,
            "unsent_bytes": 1 << 30,
            "request_bytes": 1 << 30,
        }
        self.core_end = CoreEnd(self.core, lambda: None, **{**bounds, **options})
        self.up: deque[bytes] = deque()
        self.down: deque[bytes] = deque()

    def on_goaway(self, reason: str) -> None:
        self.goaways.append(reason)

    def on_card(self, card: Any) -> None:
        self.cards.append(card)

    def write(self) -> None:
        """Each end's writer takes one batch."""
        for end, wire in ((self.adapter_end, self.up), (self.core_end, self.down)):
            if data := end.out.take():
                assert len(data) <= BATCH_BYTES + FRAME_BYTES
                wire.append(data)

    def read(self, wire: deque[bytes], end: Any) -> bool:
        """One batch arrives."""
        if not wire:
            return False
        batch = link_pb2.Batch.FromString(wire.popleft())
        assert all(frame.ByteSize() <= FRAME_BYTES for frame in batch.frames)
        end.receive(batch)
        return True

    def settle(self) -> None:
        """Until nothing is on its way."""
        is_busy = True
        while is_busy:
            self.write()
            is_busy = self.read(self.up, self.core_end) | self.read(self.down, self.adapter_end)

    def open(self, request: bytes = b"r") -> Reader:
        reader = Reader(request)
        self.adapter_end.open(reader, "SendMessage", request, Call("test"))
        return reader


class Links(RuleBasedStateMachine):
    """Calls, cancels, slow readers, big messages and broken links in any order. Each call's order
    is kept, each call ends once, and nothing is left at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.pair = Pair()
        self.readers: dict[int, Reader] = {}
        self.responses: dict[int, bytes] = {}
        self.statuses: dict[int, bytes] = {}
        self.tag = 0

    def payload(self, size: int) -> bytes:
        self.tag = self.tag % 250 + 1
        return bytes([self.tag]) * size

    # the adapter

    @rule(size=sizes)
    def open(self, size: int) -> None:
        try:
            reader = self.pair.open(self.payload(size))
        except ResourceExhaustedError:
            assert len(self.pair.adapter_end.calls) == CALLS
        else:
            self.readers[reader.id] = reader

    @precondition(lambda self: self.readers)
    @rule(data=st.data())
    def cancel(self, data: Any) -> None:
        reader = self.readers.pop(data.draw(st.sampled_from(sorted(self.readers))))
        self.pair.adapter_end.cancel(reader)
        ends = reader.ends
        self.pair.adapter_end.cancel(reader)
        assert reader.ends == ends

    @precondition(lambda self: self.readers)
    @rule(data=st.data())
    def slow_down(self, data: Any) -> None:
        reader = self.readers[data.draw(st.sampled_from(sorted(self.readers)))]
        reader.is_reading = not reader.is_reading

    @rule()
    def take(self) -> None:
        for reader in self.readers.values():
            if reader.is_reading:
                self.pair.adapter_end.release(reader)
                reader.read()

    # the core

    def pick(self, data: Any) -> Entry:
        entries = self.pair.core.entries
        return entries[data.draw(st.sampled_from(sorted(entries)))]

    @precondition(lambda self: self.pair.core.entries)
    @rule(data=st.data(), lengths=st.lists(sizes, min_size=1, max_size=5))
    def send(self, data: Any, lengths: list[int]) -> None:
        entry = self.pick(data)
        sent = self.pair.core.sent[entry.id]
        messages = [(len(sent) + n + 1, self.payload(size)) for n, size in enumerate(lengths)]
        sent += messages
        self.pair.core_end.send(entry, messages)

    @precondition(lambda self: self.pair.core.entries)
    @rule(data=st.data(), size=sizes)
    def respond(self, data: Any, size: int) -> None:
        entry = self.pick(data)
        if not self.pair.core.sent[entry.id]:
            self.responses[entry.id] = self.payload(size)
            self.pair.core_end.respond(entry, self.responses[entry.id], {})
            del self.pair.core.entries[entry.id]

    @precondition(lambda self: self.pair.core.entries)
    @rule(data=st.data(), status=st.sampled_from([b"", FAILED]))
    def finish(self, data: Any, status: bytes) -> None:
        entry = self.pick(data)
        self.statuses[entry.id] = status
        self.pair.core_end.finish(entry, status, {})
        del self.pair.core.entries[entry.id]

    @precondition(lambda self: self.pair.core.entries)
    @rule(data=st.data())
    def abort(self, data: Any) -> None:
        entry = self.pick(data)
        self.statuses[entry.id] = b"aborted"
        self.pair.core_end.abort(entry, FAILED)
        del self.pair.core.entries[entry.id]

    # the wires

    @rule(times=st.integers(1, 4))
    def write(self, times: int) -> None:
        for _ in range(times):
            self.pair.write()

    @rule(times=st.integers(1, 6))
    def arrive_at_core(self, times: int) -> None:
        for _ in range(times):
            self.pair.read(self.pair.up, self.pair.core_end)

    @rule(times=st.integers(1, 6))
    def arrive_at_adapter(self, times: int) -> None:
        for _ in range(times):
            self.pair.read(self.pair.down, self.pair.adapter_end)

    @rule()
    def settle(self) -> None:
        self.pair.settle()

    @precondition(lambda self: len(self.readers) > 3)
    @rule(really=st.integers(0, 4))
    def break_link(self, really: int) -> None:
        if really:
            return
        open_ids = set(self.pair.adapter_end.calls)
        self.pair.adapter_end.lost()
        self.pair.core_end.lost()
        for call_id in open_ids & set(self.readers):
            assert self.readers[call_id].is_lost
        self.check_empty()
        self.pair = Pair()
        self.readers, self.responses, self.statuses = {}, {}, {}

    # what holds

    @invariant()
    def keeps_order(self) -> None:
        for call_id, reader in self.readers.items():
            sent = self.pair.core.sent.get(call_id, [])
            if call_id not in self.responses:
                assert reader.messages == sent[: len(reader.messages)]
            assert reader.ends <= 1

    @invariant()
    def never_exceeds_the_window(self) -> None:
        for reader in self.readers.values():
            assert reader.inbox is None or reader.inbox.held_bytes <= WINDOW_BYTES

    def check_empty(self) -> None:
        for end in (self.pair.adapter_end, self.pair.core_end):
            assert not end.calls
        assert self.pair.core_end._incoming_bytes == 0

    def teardown(self) -> None:
        pair = self.pair
        is_moving = True
        while is_moving:
            pair.settle()
            for entry in list(pair.core.entries.values()):
                self.finish_one(entry)
            is_moving = False
            for reader in self.readers.values():
                pair.adapter_end.release(reader)
                is_moving |= reader.read()
            is_moving |= pair.adapter_end.out.has_ready() or pair.core_end.out.has_ready()
        for call_id, reader in self.readers.items():
            self.check_call(call_id, reader)
        self.check_empty()
        for end in (pair.adapter_end, pair.core_end):
            assert end.out.unsent_bytes == 0
            assert not end.out.has_ready()

    def finish_one(self, entry: Entry) -> None:
        self.statuses[entry.id] = b""
        self.pair.core_end.finish(entry, b"", {})
        del self.pair.core.entries[entry.id]

    def check_call(self, call_id: int, reader: Reader) -> None:
        assert reader.ends == 1
        assert self.pair.core.requests[call_id] == reader.request
        sent = self.pair.core.sent[call_id]
        if call_id in self.responses:
            got = reader.messages[0][1] if reader.messages else reader.response
            assert got == self.responses[call_id]
        elif self.statuses[call_id] == b"aborted":
            assert reader.messages == sent[: len(reader.messages)]
            assert reader.status == FAILED
        else:
            assert reader.messages == sent
            assert reader.status == self.statuses[call_id]


TestLinks = Links.TestCase
TestLinks.settings = settings(
    max_examples=60,
    stateful_step_count=60,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def status_of(reader: Reader) -> Status:
    assert reader.ends == 1
    return Status.FromString(reader.status)


def test_calls_of_one_link_are_bounded() -> None:
    """Refused at once, at the adapter without a word to the core."""
    pair = Pair(calls=2)
    pair.open()
    pair.open()
    with pytest.raises(ResourceExhaustedError, match="2 calls"):
        pair.open()


def test_the_core_counts_for_itself() -> None:
    pair = Pair(calls=1)
    pair.adapter_end._limits = Limits(MESSAGE_BYTES, WINDOW_BYTES, 10)
    pair.open()
    second = pair.open()
    pair.settle()
    assert status_of(second).code == Code.RESOURCE_EXHAUSTED
    assert len(pair.core_end.calls) == 1


def test_calls_in_all_are_bounded() -> None:
    pair = Pair(admit=lambda: False)
    reader = pair.open()
    pair.settle()
    assert status_of(reader).code == Code.RESOURCE_EXHAUSTED


def test_a_request_above_the_limit_does_not_travel() -> None:
    """GR07. The refusal is the one of the other doors, and names both sizes."""
    pair = Pair()
    reader = pair.open(b"x" * (MESSAGE_BYTES + 1))
    assert pair.adapter_end.out.unsent_bytes < 1000
    pair.settle()
    status = status_of(reader)
    assert status.code == Code.INVALID_ARGUMENT
    assert str(MESSAGE_BYTES + 1) in status.message
    assert str(MESSAGE_BYTES) in status.message


def test_large_requests_on_their_way_are_bounded() -> None:
    pair = Pair(request_bytes=500_000)
    pair.open(b"x" * 400_000)
    pair.write()
    second = pair.open(b"x" * 400_000)
    while pair.core_end._last_id < second.id:
        pair.write()
        pair.read(pair.up, pair.core_end)
    pair.settle()
    assert status_of(second).code == Code.RESOURCE_EXHAUSTED
    third = pair.open(b"x" * 400_000)
    pair.settle()
    assert third.ends == 0


def test_unread_answers_are_bounded() -> None:
    pair = Pair(unsent_bytes=100_000)
    first = pair.open()
    pair.settle()
    pair.core_end.send(pair.core.entries[first.id], [(1, b"x" * 400_000)])
    second = pair.open()
    pair.settle()
    assert status_of(second).code == Code.RESOURCE_EXHAUSTED


def test_unsent_requests_are_bounded() -> None:
    pair = Pair()
    pair.adapter_end._unsent_bytes = 1000
    pair.open(b"x" * 2000)
    with pytest.raises(ResourceExhaustedError):
        pair.open()


def test_cancelled_before_its_request_is_whole() -> None:
    pair = Pair()
    reader = pair.open(b"x" * 900_000)
    pair.write()
    pair.read(pair.up, pair.core_end)
    assert pair.core_end.calls
    pair.adapter_end.cancel(reader)
    pair.settle()
    assert not pair.core_end.calls
    assert pair.core_end._incoming_bytes == 0
    assert reader.ends == 0


def test_frames_of_ended_calls_are_dropped() -> None:
    pair = Pair()
    reader = pair.open()
    pair.settle()
    pair.core_end.send(pair.core.entries[reader.id], [(1, b"late")])
    pair.adapter_end.cancel(reader)
    pair.settle()
    assert reader.messages == []
    assert reader.ends == 0


def test_a_call_id_is_never_used_twice() -> None:
    pair = Pair()
    pair.open()
    pair.settle()
    again = link_pb2.Batch(frames=[link_pb2.Frame(call=1, open=link_pb2.Open(method="GetTask"))])
    with pytest.raises(LinkProtocolError, match="used before"):
        pair.core_end.receive(again)


@pytest.mark.parametrize("end", ["adapter_end", "core_end"])
def test_unknown_frames_are_skipped_unless_critical(end: str) -> None:
    """A neighbouring version may send frames that this one does not know."""
    unknown = b"\x08\x05" + b"\xa2\x06\x01x"  # call 5, field 100
    pair = Pair()
    getattr(pair, end).receive(link_pb2.Batch(frames=[link_pb2.Frame.FromString(unknown)]))
    critical = link_pb2.Frame.FromString(unknown)
    critical.critical = True
    with pytest.raises(LinkProtocolError, match="unknown kind"):
        getattr(pair, end).receive(link_pb2.Batch(frames=[critical]))


@pytest.mark.parametrize("end", ["adapter_end", "core_end"])
def test_a_second_hello_ends_the_link(end: str) -> None:
    hello = link_pb2.Batch(frames=[link_pb2.Frame(hello=link_pb2.Hello(versions=[1]))])
    with pytest.raises(LinkProtocolError, match="hello"):
        getattr(Pair(), end).receive(hello)


def test_a_request_that_goes_on_after_its_end() -> None:
    pair = Pair()
    reader = pair.open()
    pair.settle()
    more = link_pb2.Events(sequences=[0], payloads=[b"x"])
    with pytest.raises(LinkProtocolError, match="after its end"):
        pair.core_end.receive(link_pb2.Batch(frames=[link_pb2.Frame(call=reader.id, events=more)]))


def test_a_late_refusal_names_its_reason() -> None:
    batch = link_pb2.Batch.FromString(encode_refusal("protocol error: x", can_retry=True))
    with pytest.raises(LinkRefusedError, match="protocol error: x"):
        Pair().adapter_end.receive(batch)


@pytest.mark.parametrize(("size", "word"), [(5, "smaller"), (60, "larger")])
def test_a_request_of_another_size_than_announced(size: int, word: str) -> None:
    start = link_pb2.Open(method="SendMessage", request_bytes=10)
    piece = link_pb2.Events(sequences=[0], payloads=[b"x" * size], more=size > 10)
    frames = [link_pb2.Frame(call=1, open=start), link_pb2.Frame(call=1, events=piece)]
    with pytest.raises(LinkProtocolError, match=word):
        Pair().core_end.receive(link_pb2.Batch(frames=frames))


def test_an_end_for_nobody_is_dropped() -> None:
    Pair().adapter_end.receive(link_pb2.Batch.FromString(encode_end(77)))


def test_calls_that_never_left_are_known() -> None:
    """They may be run again whatever they do: the core has not seen them."""
    pair = Pair()
    sent = pair.open()
    pair.write()
    unsent = pair.open(b"x" * 500_000)
    pair.adapter_end.out.put_back(pair.adapter_end.out.take())
    pair.adapter_end.lost()
    assert (sent.is_lost, sent.is_unsent) == (True, False)
    assert (unsent.is_lost, unsent.is_unsent) == (True, True)


def test_a_status_too_large_for_a_frame_loses_its_details() -> None:
    pair = Pair()
    reader = pair.open()
    pair.settle()
    failure = judge(ResourceExhaustedError())
    status = failure.to_status()
    status.details.add(type_url="type.example/x", value=b"x" * 100_000)
    entry = pair.core.entries[reader.id]
    pair.core_end.finish(entry, status.SerializeToString(), {})
    pair.settle()
    assert status_of(reader).code == Code.RESOURCE_EXHAUSTED
    assert len(reader.status) < 1000
