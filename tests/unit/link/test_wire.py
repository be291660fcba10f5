"""Frames as bytes: what one end writes, the other reads (proto/link.proto)."""

import pytest

from gateway.call import Call, Peer
from gateway.errors import InvalidParamsError
from gateway.link.frames import (
    FRAME_BYTES,
    METADATA_BYTES,
    MetadataSizeError,
    encode_cancel,
    encode_end,
    encode_interfaces,
    encode_open,
    encode_ping,
    negotiate,
    pairs,
    read_call,
    read_interfaces,
)
from gateway.pb import AgentInterface, link_pb2


def frames(data: bytes) -> list[link_pb2.Frame]:
    return list(link_pb2.Batch.FromString(data).frames)


def opened(call: Call, request: bytes = b"request", cursor: int | None = None) -> link_pb2.Open:
    chunk, _ = encode_open(7, "GetTask", request, call, "http", cursor)
    [frame] = frames(chunk)
    assert frame.call == 7
    return frame.open


def test_joined_chunks_are_one_batch() -> None:
    joined = encode_ping(1) + encode_end(2, response=b"r") + encode_cancel(3)
    assert [f.WhichOneof("kind") for f in frames(joined)] == ["ping", "end", "cancel"]


def test_empty_end_is_still_an_end() -> None:
    [frame] = frames(encode_end(9))
    assert frame.WhichOneof("kind") == "end"


def test_call_travels_whole() -> None:
    """R35: service parameters reach the core as metadata; peer facts are fields of `open`."""
    peer = Peer("10.0.0.1:5", "https://a.example", "CN=x", 0, 0, 77)
    metadata = [("A2A-Version", "1.0"), ("a2a-extensions", "urn:a, urn:b"), ("last-event-id", "9")]
    call = Call.from_metadata(metadata, door="http", peer=peer, timeout=5)
    call.metadata["idempotency-key"] = call.idempotency_key = "k"
    read = read_call(opened(call), "http")
    assert (read.door, read.version, read.extensions) == ("http", "1.0", ("urn:a", "urn:b"))
    assert (read.idempotency_key, read.cursor, read.peer) == ("k", 9, peer)
    remaining = read.remaining()
    assert remaining is not None
    assert 4.5 < remaining <= 5


def test_attributes_without_metadata_travel_too() -> None:
    """A door may take the version from a query parameter (A2A 3.6.1)."""
    call = Call("http", version="1.0", extensions=("urn:a",), idempotency_key="k", cursor=3)
    read = read_call(opened(call), "http")
    assert (read.version, read.extensions) == ("1.0", ("urn:a",))
    assert (read.idempotency_key, read.cursor) == ("k", 3)
    assert call.metadata == {}


def test_absent_things_stay_absent() -> None:
    read = read_call(opened(Call("http")), "http")
    assert read == Call("http")


def test_cursor_of_a_moved_stream_wins() -> None:
    call = Call.from_metadata([("last-event-id", "3")], door="http")
    assert read_call(opened(call, cursor=12), "http").cursor == 12


def test_door_is_named_where_it_differs() -> None:
    assert opened(Call("http")).door == ""
    assert read_call(opened(Call("ws")), "http").door == "ws"


def test_bad_metadata_is_the_callers_fault() -> None:
    start = link_pb2.Open(metadata=["last-event-id", "x"])
    with pytest.raises(InvalidParamsError, match="last-event-id"):
        read_call(start, "http")


@pytest.mark.parametrize("size", [0, 1, 30_000, 40_000, 1_000_000])
def test_open_fits_a_frame(size: int) -> None:
    call = Call("http", {"x": "v" * (METADATA_BYTES - 300)}, peer=Peer("a" * 100))
    chunk, is_cut = encode_open(1, "SendMessage", b"x" * size, call, "d" * 50, None)
    assert len(chunk) <= FRAME_BYTES
    start = frames(chunk)[0].open
    assert is_cut == (size > 30_000)
    assert len(start.request) == (0 if is_cut else size)
    assert start.request_bytes == (size if is_cut else 0)


@pytest.mark.parametrize("letter", ["v", "é", "😀"])
def test_too_much_metadata_is_refused(letter: str) -> None:
    count = METADATA_BYTES // len(letter.encode()) + 1
    with pytest.raises(MetadataSizeError, match=str(METADATA_BYTES)):
        opened(Call("http", {"x": letter * count}))


def test_interfaces_travel() -> None:
    entry = AgentInterface(
        url="http://a", protocol_binding="JSONRPC", tenant="t", protocol_version="1.0"
    )
    [frame] = frames(encode_interfaces([entry]))
    assert read_interfaces(frame.control.interfaces.interfaces) == [entry]
    [frame] = frames(encode_interfaces([]))
    assert frame.control.WhichOneof("kind") == "interfaces"


def test_odd_metadata_is_cut() -> None:
    assert list(pairs(["a", "1", "b"])) == [("a", "1")]


@pytest.mark.parametrize(
    ("ours", "theirs", "common"),
    [((1,), (1,), 1), ((1, 2), (2, 3), 2), ((1, 2), (1,), 1), ((1,), (2,), None), ((1,), (), None)],
)
def test_the_highest_common_version_is_taken(
    ours: tuple[int, ...], theirs: tuple[int, ...], common: int | None
) -> None:
    assert negotiate(ours, theirs) == common
