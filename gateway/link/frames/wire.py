"""Facts of the link's protocol and its frames as bytes (proto/link.proto).

A *chunk* is one frame as a serialized `Batch` of its own: protobuf lets serialized messages be
joined, so a batch is the chunks of the frames that are ready, joined.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from gateway.call import CURSOR, EXTENSIONS, IDEMPOTENCY_KEY, VERSION, Call, Peer
from gateway.pb import AgentInterface, link_pb2

LINK_SERVICE = "a2a_gateway.link.v1.Link"
CONNECT_PATH = f"/{LINK_SERVICE}/Connect"

VERSIONS = (1,)
"""Link versions that this code speaks. Add the next one here and keep its neighbour."""

FRAME_BYTES = 64 * 1024
PIECE_BYTES = FRAME_BYTES - 512
"""Payload bytes of one frame; the rest is for the frame's own fields."""
MIN_PIECE_BYTES = FRAME_BYTES // 4
"""A large message is not cut smaller than this to fit what credit there is."""
EVENT_OVERHEAD_BYTES = 16
"""Most that a message in `events` costs besides its payload."""
METADATA_BYTES = 32 * 1024
STATUS_BYTES = 24 * 1024
WINDOW_BYTES = 256 * 1024
BATCH_BYTES = 128 * 1024
"""A batch is closed once it has as much."""
MESSAGE_BYTES = 16 * 1024 * 1024
CALLS = 10_000
PING_INTERVAL = 5.0
MISSED_PINGS = 2


class LinkError(Exception):
    """The link cannot be made or has ended; the text says why."""


class LinkProtocolError(LinkError):
    """The other end broke a rule of the link; the link cannot go on."""


class LinkRefusedError(LinkError):
    """The core refused the adapter's hello."""

    def __init__(self, reason: str, *, can_retry: bool):
        super().__init__(reason)
        self.can_retry = can_retry


class MessageSizeError(Exception):
    """A message of one call is larger than its receiver takes; the link goes on."""


class Card(NamedTuple):
    """The public agent card as the core built it."""

    revision: int
    agent_card: bytes
    """Serialized `AgentCard`."""
    modified: float
    """Seconds since the epoch at which this content came up."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What the core's welcome allows."""

    message_bytes: int = MESSAGE_BYTES
    window_bytes: int = WINDOW_BYTES
    """Of the core, for requests."""
    calls: int = CALLS
    """Open at once on one link."""


def negotiate(ours: Iterable[int], theirs: Iterable[int]) -> int | None:
    """The highest version that both ends speak."""
    return max(set(ours) & set(theirs), default=None)


# Frames


def link_frame() -> tuple[link_pb2.Batch, link_pb2.Frame]:
    """A batch of one empty frame of the link itself; serialize the batch once it is filled."""
    batch = link_pb2.Batch()
    return batch, batch.frames.add()


def call_frame(call: int) -> tuple[link_pb2.Batch, link_pb2.Frame]:
    """A batch of one empty frame of a call."""
    batch = link_pb2.Batch()
    frame = batch.frames.add()
    frame.call = call
    return batch, frame


def encode_ping(nonce: int) -> bytes:
    batch, frame = link_frame()
    frame.ping.nonce = nonce
    return batch.SerializeToString()


def encode_pong(nonce: int) -> bytes:
    batch, frame = link_frame()
    frame.pong.nonce = nonce
    return batch.SerializeToString()


def encode_goaway(reason: str) -> bytes:
    batch, frame = link_frame()
    frame.goaway.reason = reason
    return batch.SerializeToString()


def encode_refusal(reason: str, *, can_retry: bool) -> bytes:
    batch, frame = link_frame()
    frame.refusal.reason = reason
    frame.refusal.retry = can_retry
    return batch.SerializeToString()


def encode_card(card: Card) -> bytes:
    batch, frame = link_frame()
    frame.control.card.CopyFrom(to_card(card))
    return batch.SerializeToString()


def encode_readiness(is_ready: bool, reason: str) -> bytes:
    batch, frame = link_frame()
    frame.control.readiness.ready = is_ready
    frame.control.readiness.reason = reason
    return batch.SerializeToString()


def encode_interfaces(interfaces: Iterable[AgentInterface]) -> bytes:
    batch, frame = link_frame()
    frame.control.interfaces.interfaces.extend(to_interfaces(interfaces))
    frame.control.interfaces.SetInParent()
    return batch.SerializeToString()


def encode_open(
    call_id: int, method: str, request: bytes, call: Call, door: str, cursor: int | None
) -> tuple[bytes, bool]:
    """The chunk that starts a call, and whether the request has to follow as a message.

    `door` is the one of `hello`; `cursor` replaces the call's own where it is set. Raises
    `MetadataSizeError`.
    """
    batch, frame = call_frame(call_id)
    start = frame.open
    start.method = method
    start.metadata.extend(_flat(_request_metadata(call, cursor)))
    remaining = call.remaining()
    if remaining is not None:
        start.timeout_ms = max(1, round(remaining * 1000))
    if call.door != door:
        start.door = call.door
    _set_peer(start, call.peer)
    used = start.ByteSize()
    if used > METADATA_BYTES:
        raise MetadataSizeError(
            f"the call's metadata has {used} bytes; at most {METADATA_BYTES} are taken"
        )
    is_cut = len(request) > PIECE_BYTES - used
    if is_cut:
        start.request_bytes = len(request)
    else:
        start.request = request
    return batch.SerializeToString(), is_cut


class MetadataSizeError(ValueError):
    """A call's metadata is larger than a frame has room for."""


def _request_metadata(call: Call, cursor: int | None) -> Mapping[str, str]:
    # a door may fill the attributes from elsewhere than metadata (a query parameter, say); the
    # attributes are what holds, and the core reads metadata
    metadata = call.metadata
    extra = {}
    if call.version and metadata.get(VERSION) is None:
        extra[VERSION] = call.version
    if call.extensions and EXTENSIONS not in metadata:
        extra[EXTENSIONS] = ",".join(call.extensions)
    if call.idempotency_key and IDEMPOTENCY_KEY not in metadata:
        extra[IDEMPOTENCY_KEY] = call.idempotency_key
    if cursor is None:
        cursor = call.cursor
    if cursor is not None:
        extra[CURSOR] = str(cursor)
    return {**metadata, **extra} if extra else metadata


def _set_peer(start: link_pb2.Open, peer: Peer) -> None:
    if peer.address:
        start.peer.address = peer.address
    if peer.origin:
        start.peer.origin = peer.origin
    if peer.certificate:
        start.peer.certificate = peer.certificate
    if peer.uid is not None:
        start.peer.uid = peer.uid
    if peer.gid is not None:
        start.peer.gid = peer.gid
    if peer.pid is not None:
        start.peer.pid = peer.pid


def read_call(start: link_pb2.Open, door: str) -> Call:
    """The call that an `open` frame starts; `door` is the one of `hello`. Raises what
    `Call.from_metadata` raises."""
    return Call.from_metadata(
        pairs(start.metadata),
        door=start.door or door,
        peer=_read_peer(start.peer) if start.HasField("peer") else None,
        timeout=start.timeout_ms / 1000 if start.HasField("timeout_ms") else None,
    )


def _read_peer(peer: link_pb2.Peer) -> Peer:
    return Peer(
        peer.address,
        peer.origin,
        peer.certificate,
        peer.uid if peer.HasField("uid") else None,
        peer.gid if peer.HasField("gid") else None,
        peer.pid if peer.HasField("pid") else None,
    )


def encode_accept(call: int, metadata: Mapping[str, str]) -> bytes:
    batch, frame = call_frame(call)
    frame.accept.metadata.extend(_flat(metadata))
    frame.accept.SetInParent()
    return batch.SerializeToString()


def encode_end(
    call: int, *, status: bytes = b"", response: bytes = b"", metadata: Mapping[str, str] = {}
) -> bytes:
    """The last frame of a call; the caller sees to it that it fits."""
    batch, frame = call_frame(call)
    end = frame.end
    end.response = response
    if status:
        end.status = status
    if metadata:
        end.metadata.extend(_flat(metadata))
    return batch.SerializeToString()


def encode_cancel(call: int) -> bytes:
    batch, frame = call_frame(call)
    frame.cancel.SetInParent()
    return batch.SerializeToString()


def encode_credit(call: int, count: int) -> bytes:
    batch, frame = call_frame(call)
    frame.credit.bytes = count
    return batch.SerializeToString()


def _flat(metadata: Mapping[str, str]) -> list[str]:
    return [text for pair in metadata.items() for text in pair]


def pairs(flat: Iterable[str]) -> Iterable[tuple[str, str]]:
    """Names and values by turns, as pairs."""
    each = iter(flat)
    return zip(each, each, strict=False)


def to_card(card: Card) -> link_pb2.Card:
    return link_pb2.Card(revision=card.revision, agent_card=card.agent_card, modified=card.modified)


def read_card(card: link_pb2.Card) -> Card:
    return Card(card.revision, card.agent_card, card.modified)


def to_interfaces(interfaces: Iterable[AgentInterface]) -> list[link_pb2.Interface]:
    return [
        link_pb2.Interface(
            url=i.url,
            protocol_binding=i.protocol_binding,
            tenant=i.tenant,
            protocol_version=i.protocol_version,
        )
        for i in interfaces
    ]


def read_interfaces(interfaces: Iterable[link_pb2.Interface]) -> list[AgentInterface]:
    return [
        AgentInterface(
            url=i.url,
            protocol_binding=i.protocol_binding,
            tenant=i.tenant,
            protocol_version=i.protocol_version,
        )
        for i in interfaces
    ]
