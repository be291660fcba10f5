"""Server-sent events, read back."""

import pytest

from transports.http.event_stream import EventStream, SentEvent

STREAM = (
    b"\xef\xbb\xbf: a comment\n\n"
    b'id: 1\ndata: {"a":1}\n\n'
    b"id:2\r\ndata:x\r\ndata: y\r\n\r\n"
    b"event: other\rid: seven\rdata: z\r\r"
    b"id: 9\n\n" + "data: line\u2028separator\n\n".encode() + b"data: never ended\n"
)
EVENTS = [
    SentEvent(1, b'{"a":1}'),
    SentEvent(2, b"x\ny"),
    SentEvent(0, b"z"),
    SentEvent(0, "line\u2028separator".encode()),
]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_cut_anywhere(size: int) -> None:
    """Comments, ends of lines of each kind and several lines of data, however the bytes come;
    only these ends end a line, and an event without its blank line is none."""
    reader = EventStream()
    found = []
    for start in range(0, len(STREAM), size):
        found += reader.feed(STREAM[start : start + size])
    assert found == EVENTS


def test_an_event_without_end() -> None:
    """A server cannot fill the memory."""
    reader = EventStream(max_event_bytes=1000)
    reader.feed(b"data: " + b"x" * 900)
    with pytest.raises(ValueError, match="larger than 1000 bytes"):
        reader.feed(b"x" * 100)
    lines = EventStream(max_event_bytes=1000)
    lines.feed(b"data: 1234567\n" * 125)
    with pytest.raises(ValueError, match="larger"):
        lines.feed(b"data: 1234567\n")


def test_a_large_event_costs_its_size() -> None:
    """Bytes that are searched once are not searched again."""
    reader = EventStream()
    found = reader.feed(b"data: ")
    for _ in range(2000):
        found += reader.feed(b"x" * 1000)
    found += reader.feed(b"\n\n")
    assert [len(event.data) for event in found] == [2_000_000]
