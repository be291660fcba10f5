"""Cutting and joining, credit, turns, and the heartbeat."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.link.frames import (
    BATCH_BYTES,
    FRAME_BYTES,
    WINDOW_BYTES,
    Flow,
    Heartbeat,
    Inbox,
    LinkProtocolError,
    MessageSizeError,
    Outgoing,
    encode_credit,
    encode_end,
    encode_ping,
)
from gateway.pb import link_pb2

MAX = 1 << 30

sizes = st.one_of(
    st.integers(0, 300), st.sampled_from([FRAME_BYTES // 4, FRAME_BYTES, 3 * FRAME_BYTES, 700_000])
)


def outgoing() -> Outgoing:
    return Outgoing(lambda: None)


def frames(data: bytes) -> list[link_pb2.Frame]:
    found = list(link_pb2.Batch.FromString(data).frames)
    assert all(frame.ByteSize() <= FRAME_BYTES for frame in found)
    return found


def kinds(data: bytes) -> list[tuple[int, str | None]]:
    return [(frame.call, frame.WhichOneof("kind")) for frame in frames(data)]


def events(*payloads: bytes, more: bool = False) -> link_pb2.Events:
    return link_pb2.Events(sequences=range(1, len(payloads) + 1), payloads=payloads, more=more)


def fill(messages: Iterable[int]) -> list[tuple[int, bytes]]:
    return [(n + 1, bytes([n % 251]) * size) for n, size in enumerate(messages)]


class TestOneCall:
    @given(
        st.lists(sizes, max_size=12), st.sampled_from([FRAME_BYTES, WINDOW_BYTES, 4 * WINDOW_BYTES])
    )
    def test_messages_arrive_whole_and_in_order(self, lengths: list[int], window: int) -> None:
        """R16. Whatever the sizes and the window, within the window, and without a standstill."""
        out, flow, inbox = outgoing(), Flow(1, window), Inbox(window, MAX, waits=True)
        messages = fill(lengths)
        out.add(flow, messages)
        out.finish(flow, encode_end(1))
        received: list[tuple[int, bytes]] = []
        is_over = False
        while batch := out.take():
            for frame in frames(batch):
                if frame.WhichOneof("kind") == "end":
                    is_over = True
                    continue
                inbox.feed(frame.events)
                received += inbox.take()
                inbox.release()
                if due := inbox.credit_due():
                    out.grant(flow, due)
        assert is_over
        assert received == messages
        assert out.unsent_bytes == flow.pending_bytes == 0

    @given(st.lists(sizes, min_size=1, max_size=12))
    def test_a_reader_that_takes_nothing_holds_a_window_at_most(self, lengths: list[int]) -> None:
        """Credit comes back only for what the reader took: a slow client costs a window."""
        out, flow, inbox = outgoing(), Flow(1, WINDOW_BYTES), Inbox(WINDOW_BYTES, MAX)
        out.add(flow, fill(lengths))
        while batch := out.take():
            for frame in frames(batch):
                inbox.feed(frame.events)
        assert inbox.held_bytes <= WINDOW_BYTES
        assert inbox.held_bytes + flow.pending_bytes == sum(lengths)
        assert inbox.credit_due() == 0

    def test_taking_is_not_yet_paying(self) -> None:
        """A credit means that the client's socket took the bytes, not that they were handed on."""
        inbox = Inbox(WINDOW_BYTES, MAX)
        inbox.feed(events(b"x" * (WINDOW_BYTES // 2)))
        inbox.take()
        assert inbox.credit_due() == 0
        inbox.release()
        assert inbox.credit_due() == WINDOW_BYTES // 2

    def test_small_credits_are_gathered(self) -> None:
        inbox = Inbox(WINDOW_BYTES, MAX)
        for _ in range(3):
            inbox.feed(events(b"x" * (WINDOW_BYTES // 10)))
            inbox.take()
            inbox.release()
        assert inbox.credit_due() == 3 * (WINDOW_BYTES // 10)
        assert inbox.credit_due() == 0

    def test_many_small_messages_share_a_frame(self) -> None:
        out, flow = outgoing(), Flow(1, WINDOW_BYTES)
        out.add(flow, fill([100] * 300))
        [frame] = frames(out.take())
        assert len(frame.events.payloads) == 300

    def test_dropped_call_sends_nothing(self) -> None:
        out, flow = outgoing(), Flow(1, WINDOW_BYTES)
        out.add(flow, fill([100_000, 5]))
        out.finish(flow, encode_end(1))
        out.take()
        out.drop(flow)
        assert out.take() == b""
        assert out.unsent_bytes == 0

    def test_waiting_for_room(self) -> None:
        out, flow = outgoing(), Flow(1, WINDOW_BYTES)
        seen: list[int] = []
        flow.on_room = lambda: seen.append(flow.pending_bytes)
        out.add(flow, fill([150_000]))
        while out.take():
            pass
        assert seen == sorted(seen, reverse=True)
        assert seen[-1] == 0


class TestInboxRules:
    @pytest.mark.parametrize(
        "wrong",
        [
            events(b"a", b"b", more=True),
            events(b"", more=True),
            events(more=True),
            link_pb2.Events(sequences=[1, 2], payloads=[b"a"]),
            events(b"x" * (WINDOW_BYTES + 1)),
        ],
    )
    def test_broken_rules_end_the_link(self, wrong: link_pb2.Events) -> None:
        with pytest.raises(LinkProtocolError):
            Inbox(WINDOW_BYTES, MAX, waits=True).feed(wrong)

    def test_message_larger_than_allowed(self) -> None:
        inbox = Inbox(WINDOW_BYTES, 100, waits=True)
        inbox.feed(events(b"x" * 60, more=True))
        with pytest.raises(MessageSizeError, match="100 bytes"):
            inbox.feed(events(b"x" * 60))

    def test_pieces_earn_credit_only_while_the_reader_waits(self) -> None:
        size = WINDOW_BYTES // 2
        busy, waiting = Inbox(WINDOW_BYTES, MAX), Inbox(WINDOW_BYTES, MAX, waits=True)
        for inbox in (busy, waiting):
            inbox.feed(events(b"x" * size, more=True))
        assert busy.credit_due() == 0
        assert waiting.credit_due() == size
        busy.release()
        assert busy.credit_due() == size


class TestTurns:
    def test_control_goes_first_then_small_calls(self) -> None:
        out = outgoing()
        flow = Flow(1, WINDOW_BYTES)
        out.add(flow, fill([FRAME_BYTES * 2]))
        out.put(encode_end(2))
        out.put_urgent(encode_credit(3, 1))
        assert kinds(out.take())[:3] == [(3, "credit"), (2, "end"), (1, "events")]

    def test_large_calls_take_turns(self) -> None:
        out = outgoing()
        for call in range(1, 5):
            out.add(Flow(call, WINDOW_BYTES), fill([FRAME_BYTES * 3]))
        order = []
        while batch := out.take():
            order += [call for call, _ in kinds(batch)]
        assert order[:8] == [1, 2, 3, 4, 1, 2, 3, 4]

    def test_small_calls_do_not_starve_a_large_one(self) -> None:
        out = outgoing()
        out.add(Flow(1, WINDOW_BYTES), fill([FRAME_BYTES * 2]))
        for call in range(2, 100):
            out.put(encode_end(call, response=b"x" * 30_000))
        assert (1, "events") in kinds(out.take())

    def test_a_small_call_waits_for_one_batch_at_most(self) -> None:
        """One 5 MB message does not hold the others up."""
        out = outgoing()
        for call in range(1, 4):
            out.add(Flow(call, 1 << 30), fill([5_000_000]))
        out.take()
        out.put(encode_end(9))
        batch = out.take()
        assert kinds(batch)[0] == (9, "end")
        assert len(batch) <= BATCH_BYTES + FRAME_BYTES

    def test_nothing_waits_for_more(self) -> None:
        """What is ready leaves; the rest gathers behind the write under way."""
        woken = []
        out = Outgoing(lambda: woken.append(True))
        out.put_urgent(encode_ping(1))
        assert woken
        assert kinds(out.take()) == [(0, "ping")]
        for call in (1, 2, 3):
            out.put(encode_end(call))
        assert kinds(out.take()) == [(1, "end"), (2, "end"), (3, "end")]
        assert not out.has_ready()

    @given(st.lists(st.tuples(st.integers(1, 4), sizes), max_size=30))
    def test_unsent_bytes_are_those_that_wait(self, puts: list[tuple[int, int]]) -> None:
        out = outgoing()
        flows = {call: Flow(call, WINDOW_BYTES) for call in range(1, 5)}
        for call, size in puts:
            out.add(flows[call], fill([size]))
        while out.take():
            assert out.unsent_bytes == sum(flow.pending_bytes for flow in flows.values())


class TestHeartbeat:
    def test_two_silent_intervals_break_the_link(self) -> None:
        heart = Heartbeat(5.0, 100.0)
        assert [heart.tick(105.0), heart.tick(110.0), heart.tick(115.0)] == [True, True, False]

    def test_any_frame_counts(self) -> None:
        heart = Heartbeat(5.0, 100.0)
        for beat in range(1, 10):
            heart.heard()
            assert heart.tick(100.0 + 5 * beat)

    def test_own_standstill_is_not_the_others_fault(self) -> None:
        """A process that was stopped itself has not read yet what came meanwhile."""
        heart = Heartbeat(5.0, 100.0)
        assert heart.tick(105.0)
        assert heart.tick(110.0)
        assert heart.tick(190.0)
        assert heart.tick(195.0)
        assert not heart.tick(200.0)
