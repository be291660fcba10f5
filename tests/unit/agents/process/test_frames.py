"""Frames between the core and an agent's process."""

import pytest

from gateway.agents.process.frames import HEAD, Decoder, FrameError, Kind, encode

FRAMES = [
    (Kind.SETUP, 0, b"{}"),
    (Kind.EXECUTE, 1, b"x" * 1000),
    (Kind.PING, 0, b""),
    (Kind.EVENT, 2**63, b"\x00\xff"),
]
WIRE = b"".join(encode(kind, number, payload) for kind, number, payload in FRAMES)


@pytest.mark.parametrize("size", [1, 2, 7, 13, 14, 500, len(WIRE)])
def test_frames_come_whole_however_they_are_cut(size: int) -> None:
    decoder = Decoder(1000)
    got = []
    for at in range(0, len(WIRE), size):
        got += list(decoder.feed(WIRE[at : at + size]))
    assert got == FRAMES


def test_a_frame_beyond_the_limit() -> None:
    decoder = Decoder(10)
    with pytest.raises(FrameError, match="11 bytes"):
        list(decoder.feed(encode(Kind.EVENT, 1, b"x" * 11)))


def test_its_head_is_enough() -> None:
    decoder = Decoder(10)
    head = HEAD.pack(2**31, Kind.EVENT, 1)
    assert list(decoder.feed(head[:5])) == []
    with pytest.raises(FrameError):
        list(decoder.feed(head[5:]))
