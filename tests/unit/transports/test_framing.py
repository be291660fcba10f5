"""Frames out of bytes that are cut anywhere: lines and `Content-Length` blocks."""

import time
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transports.framing import MAX_HEADER_BYTES, BadFrame, Decoder, Framing, Item, encode

GOOD = b'{"jsonrpc":"2.0","id":1,"method":"x"}'
BLOCK = b"Content-Length: %d\r\n\r\n%b" % (len(GOOD), GOOD)


def decode(data: bytes, *cuts: int, limit: int = 1000) -> list[Item]:
    """All items of a peer that sends `data`, cut at these places, and ends."""
    decoder = Decoder(limit)
    items: list[Item] = []
    places = [0, *sorted(cuts), len(data)]
    for start, end in pairwise(places):
        items += decoder.feed(data[start:end])
    return items + decoder.finish()


def byte_by_byte(data: bytes, limit: int = 1000) -> list[Item]:
    """The same, one byte at a time."""
    return decode(data, *range(1, len(data)), limit=limit)


def kinds(items: list[Item]) -> list[object]:
    """Frames as they are, bad ones by whether they were too large."""
    return [
        ("too large" if i.is_too_large else "bad") if isinstance(i, BadFrame) else i for i in items
    ]


def test_lines() -> None:
    """Lines end with a line feed, or both; empty ones and white space count for nothing; the last
    needs no end (SD10)."""
    assert decode(b"\n \r\n" + GOOD + b"\n\n\t\n{}\r\n[]") == [GOOD, b"{}\r", b"[]"]


def test_a_byte_order_mark_counts_for_nothing() -> None:
    mark = "\ufeff".encode()
    assert decode(mark + GOOD) == [GOOD]
    assert byte_by_byte(mark + b"\r\n" + BLOCK) == [GOOD]
    assert kinds(decode(mark[:2])) == ["bad"]


def test_blocks() -> None:
    """The base protocol of LSP: names without case, other fields, an empty body, bare line
    feeds, white space between blocks."""
    data = (
        BLOCK
        + b"content-type: application/vscode-jsonrpc; charset=utf-8\r\nCONTENT-LENGTH:2\r\n\r\n{}"
        + b"\r\n\r\nContent-Length: 0\r\n\r\n"
        + b"Content-Length: 2\nX-Other: y\n\n[]"
    )
    assert decode(data) == [GOOD, b"{}", b"", b"[]"]
    assert byte_by_byte(data) == [GOOD, b"{}", b"", b"[]"]


@pytest.mark.parametrize(
    ("first", "framing"),
    [
        (b"{", Framing.LINES),
        (b" \r\n[", Framing.LINES),
        (b"\xff", Framing.LINES),
        (b"x", Framing.LINES),
        (b"C", Framing.HEADERS),
        (b"\n c", Framing.HEADERS),
    ],
)
def test_the_first_byte_that_counts_decides(first: bytes, framing: Framing) -> None:
    decoder = Decoder(100)
    assert decoder.framing is None
    decoder.feed(first)
    assert decoder.framing is framing


@pytest.mark.parametrize("bad", [b"\xff\xfe", b'{"a":"\xe9"}', b"\xed\xa0\x80"])
def test_bytes_that_are_not_utf_8(bad: bytes) -> None:
    """One bad frame, and the next is read (SD01)."""
    items = decode(bad + b"\n" + GOOD + b"\n")
    assert kinds(items) == ["bad", GOOD]
    assert "UTF-8" in items[0].reason  # type: ignore[union-attr]
    block = b"Content-Length: %d\r\n\r\n%b" % (len(bad), bad)
    assert kinds(decode(block + BLOCK)) == ["bad", GOOD]


@pytest.mark.parametrize("framing", Framing)
def test_the_limit(framing: Framing) -> None:
    """What is larger is refused once, not kept, and the next frame is read (SD05)."""
    fits, too_large = b"1" * 100, b"2" * 101
    data = encode(framing, [fits, too_large, too_large, fits])
    assert kinds(decode(data, limit=100)) == [fits, "too large", "too large", fits]
    assert kinds(byte_by_byte(data, limit=100)) == [fits, "too large", "too large", fits]


@pytest.mark.parametrize("framing", Framing)
def test_a_refused_frame_is_not_kept(framing: Framing) -> None:
    """However large it is, and refused before its end is there."""
    decoder = Decoder(1000, framing)
    huge = encode(framing, [b"1" * 10_000_000])
    items = decoder.feed(huge[:5000])
    assert kinds(items) == ["too large"]
    assert decoder.feed(huge[5000:-1]) == []
    assert len(decoder._buffer) < 2000
    assert decoder.feed(huge[-1:] + encode(framing, [GOOD])) == [GOOD]


@pytest.mark.parametrize(
    ("header", "word"),
    [
        (b"Content-Type: application/json\r\n\r\n", "without Content-Length"),
        (b"Content-Length: ten\r\n\r\n", "whole number"),
        (b"Content-Length: -1\r\n\r\n", "whole number"),
        (b"Content-Length: 9999999999999999\r\n\r\n", "whole number"),
        (b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n", "whole number"),
        (b"Content-Length: 2\r\nno field\r\n\r\n", "Name: value"),
        (b"Content-Type: x; charset=latin1\r\nContent-Length: 2\r\n\r\n", "charset"),
        (b"Content-Length: 2" + b" " * MAX_HEADER_BYTES + b"\r\n\r\n", "longer than"),
        (b"C" * 3 * MAX_HEADER_BYTES + b"\r\n\r\n", "longer than"),
    ],
)
def test_a_bad_header(header: bytes, word: str) -> None:
    """One bad frame; reading goes on at the next header that can be found."""
    data = BLOCK + header + b'{"lost":"Content-Length: 5"}' + BLOCK + BLOCK
    items = decode(data)
    assert kinds(items) == [GOOD, "bad", GOOD, GOOD]
    assert word in items[1].reason  # type: ignore[union-attr]
    assert byte_by_byte(data) == items


def test_a_stray_line_before_a_header() -> None:
    """What a library printed costs one error, not the session."""
    assert kinds(decode(BLOCK + b"a warning\r\n" + BLOCK)) == [GOOD, "bad", GOOD]


@pytest.mark.parametrize("data", [BLOCK[:-1], BLOCK + b"Content-Le", b"Content-Length: 5\r\n\r\n"])
def test_the_input_ends_within_a_block(data: bytes) -> None:
    assert kinds(decode(data))[-1] == "bad"


def test_an_end_between_frames() -> None:
    assert decode(b"") == []
    assert decode(b"\xef\xbb\xbf\r\n") == []
    assert decode(BLOCK + b"\r\n") == [GOOD]


@pytest.mark.parametrize(
    "data", [GOOD + b"\n" + b"\xc3\xa4 \n\n{}", b"\r\n" + BLOCK + b"\n" + BLOCK]
)
def test_every_cut(data: bytes) -> None:
    """Wherever the bytes are cut in three, the frames are the same."""
    whole = decode(data)
    for first in range(len(data) + 1):
        for second in range(first, len(data) + 1):
            assert decode(data, first, second) == whole


PIECES = st.sampled_from(
    [
        GOOD,
        BLOCK,
        b"\n",
        b"\r\n",
        b"\r\n\r\n",
        b"Content-Length: ",
        b"Content-Length: 3\r\n\r\n",
        b"Content-Type: a/b; charset=x\r\n",
        b"\xef\xbb\xbf",
        b"\xff",
        b'"\xc3\xa4"',
        b"{}",
        b"12",
        b" ",
        b"x" * 70,
        b"C",
    ]
)


@settings(max_examples=400)
@given(st.lists(PIECES | st.binary(max_size=6), max_size=12), st.data())
def test_cuts_change_nothing(pieces: list[bytes], data: st.DataObject) -> None:
    """Any bytes: never an exception, and the same items byte by byte, cut anywhere, or whole."""
    stream = b"".join(pieces)
    whole = decode(stream, limit=60)
    assert byte_by_byte(stream, limit=60) == whole
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=5))
    assert decode(stream, *cuts, limit=60) == whole
    assert all(len(item) <= 60 for item in whole if not isinstance(item, BadFrame))


@settings(max_examples=100)
@given(
    st.sampled_from(Framing),
    st.lists(
        st.text(
            alphabet=st.characters(exclude_categories=("Cs", "Cc", "Zs", "Zl", "Zp")), min_size=1
        )
    ),
)
def test_what_is_encoded_is_decoded(framing: Framing, texts: list[str]) -> None:
    payloads = [b'"%b"' % text.encode() for text in texts]
    data = encode(framing, payloads)
    decoder = Decoder(10_000, framing)
    assert decoder.feed(data) + decoder.finish() == payloads


@pytest.mark.parametrize("framing", Framing)
def test_large_frames_in_small_reads(framing: Framing) -> None:
    """A frame of 5 MB in reads of 1 KB takes time in proportion to its size (SD05)."""
    data = encode(framing, [b'"%b"' % (b"x" * 5_000_000)])
    decoder = Decoder(10_000_000, framing)
    began = time.perf_counter()
    items: list[Item] = []
    for start in range(0, len(data), 1024):
        items += decoder.feed(data[start : start + 1024])
    assert len(items) == 1
    assert time.perf_counter() - began < 2.0
