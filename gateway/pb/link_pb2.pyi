from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Batch(_message.Message):
    __slots__ = ("frames",)
    FRAMES_FIELD_NUMBER: _ClassVar[int]
    frames: _containers.RepeatedCompositeFieldContainer[Frame]
    def __init__(self, frames: _Optional[_Iterable[_Union[Frame, _Mapping]]] = ...) -> None: ...

class Frame(_message.Message):
    __slots__ = ("call", "hello", "welcome", "refusal", "open", "accept", "events", "credit", "cancel", "end", "ping", "pong", "goaway", "control", "critical")
    CALL_FIELD_NUMBER: _ClassVar[int]
    HELLO_FIELD_NUMBER: _ClassVar[int]
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    OPEN_FIELD_NUMBER: _ClassVar[int]
    ACCEPT_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    CREDIT_FIELD_NUMBER: _ClassVar[int]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    PING_FIELD_NUMBER: _ClassVar[int]
    PONG_FIELD_NUMBER: _ClassVar[int]
    GOAWAY_FIELD_NUMBER: _ClassVar[int]
    CONTROL_FIELD_NUMBER: _ClassVar[int]
    CRITICAL_FIELD_NUMBER: _ClassVar[int]
    call: int
    hello: Hello
    welcome: Welcome
    refusal: Refusal
    open: Open
    accept: Accept
    events: Events
    credit: Credit
    cancel: Cancel
    end: End
    ping: Ping
    pong: Ping
    goaway: GoAway
    control: Control
    critical: bool
    def __init__(self, call: _Optional[int] = ..., hello: _Optional[_Union[Hello, _Mapping]] = ..., welcome: _Optional[_Union[Welcome, _Mapping]] = ..., refusal: _Optional[_Union[Refusal, _Mapping]] = ..., open: _Optional[_Union[Open, _Mapping]] = ..., accept: _Optional[_Union[Accept, _Mapping]] = ..., events: _Optional[_Union[Events, _Mapping]] = ..., credit: _Optional[_Union[Credit, _Mapping]] = ..., cancel: _Optional[_Union[Cancel, _Mapping]] = ..., end: _Optional[_Union[End, _Mapping]] = ..., ping: _Optional[_Union[Ping, _Mapping]] = ..., pong: _Optional[_Union[Ping, _Mapping]] = ..., goaway: _Optional[_Union[GoAway, _Mapping]] = ..., control: _Optional[_Union[Control, _Mapping]] = ..., critical: _Optional[bool] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("versions", "door", "secret", "interfaces", "window_bytes")
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    DOOR_FIELD_NUMBER: _ClassVar[int]
    SECRET_FIELD_NUMBER: _ClassVar[int]
    INTERFACES_FIELD_NUMBER: _ClassVar[int]
    WINDOW_BYTES_FIELD_NUMBER: _ClassVar[int]
    versions: _containers.RepeatedScalarFieldContainer[int]
    door: str
    secret: bytes
    interfaces: _containers.RepeatedCompositeFieldContainer[Interface]
    window_bytes: int
    def __init__(self, versions: _Optional[_Iterable[int]] = ..., door: _Optional[str] = ..., secret: _Optional[bytes] = ..., interfaces: _Optional[_Iterable[_Union[Interface, _Mapping]]] = ..., window_bytes: _Optional[int] = ...) -> None: ...

class Interface(_message.Message):
    __slots__ = ("url", "protocol_binding", "tenant", "protocol_version")
    URL_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_BINDING_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    url: str
    protocol_binding: str
    tenant: str
    protocol_version: str
    def __init__(self, url: _Optional[str] = ..., protocol_binding: _Optional[str] = ..., tenant: _Optional[str] = ..., protocol_version: _Optional[str] = ...) -> None: ...

class Welcome(_message.Message):
    __slots__ = ("version", "window_bytes", "frame_bytes", "message_bytes", "calls", "ping_interval", "credential_names", "card", "readiness")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    WINDOW_BYTES_FIELD_NUMBER: _ClassVar[int]
    FRAME_BYTES_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_BYTES_FIELD_NUMBER: _ClassVar[int]
    CALLS_FIELD_NUMBER: _ClassVar[int]
    PING_INTERVAL_FIELD_NUMBER: _ClassVar[int]
    CREDENTIAL_NAMES_FIELD_NUMBER: _ClassVar[int]
    CARD_FIELD_NUMBER: _ClassVar[int]
    READINESS_FIELD_NUMBER: _ClassVar[int]
    version: int
    window_bytes: int
    frame_bytes: int
    message_bytes: int
    calls: int
    ping_interval: float
    credential_names: _containers.RepeatedScalarFieldContainer[str]
    card: Card
    readiness: Readiness
    def __init__(self, version: _Optional[int] = ..., window_bytes: _Optional[int] = ..., frame_bytes: _Optional[int] = ..., message_bytes: _Optional[int] = ..., calls: _Optional[int] = ..., ping_interval: _Optional[float] = ..., credential_names: _Optional[_Iterable[str]] = ..., card: _Optional[_Union[Card, _Mapping]] = ..., readiness: _Optional[_Union[Readiness, _Mapping]] = ...) -> None: ...

class Refusal(_message.Message):
    __slots__ = ("reason", "retry")
    REASON_FIELD_NUMBER: _ClassVar[int]
    RETRY_FIELD_NUMBER: _ClassVar[int]
    reason: str
    retry: bool
    def __init__(self, reason: _Optional[str] = ..., retry: _Optional[bool] = ...) -> None: ...

class Card(_message.Message):
    __slots__ = ("revision", "agent_card", "modified")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    AGENT_CARD_FIELD_NUMBER: _ClassVar[int]
    MODIFIED_FIELD_NUMBER: _ClassVar[int]
    revision: int
    agent_card: bytes
    modified: float
    def __init__(self, revision: _Optional[int] = ..., agent_card: _Optional[bytes] = ..., modified: _Optional[float] = ...) -> None: ...

class Peer(_message.Message):
    __slots__ = ("address", "origin", "certificate", "uid", "gid", "pid")
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    GID_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    address: str
    origin: str
    certificate: str
    uid: int
    gid: int
    pid: int
    def __init__(self, address: _Optional[str] = ..., origin: _Optional[str] = ..., certificate: _Optional[str] = ..., uid: _Optional[int] = ..., gid: _Optional[int] = ..., pid: _Optional[int] = ...) -> None: ...

class Open(_message.Message):
    __slots__ = ("method", "request", "request_bytes", "timeout_ms", "metadata", "peer", "door")
    METHOD_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    REQUEST_BYTES_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    PEER_FIELD_NUMBER: _ClassVar[int]
    DOOR_FIELD_NUMBER: _ClassVar[int]
    method: str
    request: bytes
    request_bytes: int
    timeout_ms: int
    metadata: _containers.RepeatedScalarFieldContainer[str]
    peer: Peer
    door: str
    def __init__(self, method: _Optional[str] = ..., request: _Optional[bytes] = ..., request_bytes: _Optional[int] = ..., timeout_ms: _Optional[int] = ..., metadata: _Optional[_Iterable[str]] = ..., peer: _Optional[_Union[Peer, _Mapping]] = ..., door: _Optional[str] = ...) -> None: ...

class Accept(_message.Message):
    __slots__ = ("metadata",)
    METADATA_FIELD_NUMBER: _ClassVar[int]
    metadata: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, metadata: _Optional[_Iterable[str]] = ...) -> None: ...

class Events(_message.Message):
    __slots__ = ("sequences", "payloads", "more")
    SEQUENCES_FIELD_NUMBER: _ClassVar[int]
    PAYLOADS_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    sequences: _containers.RepeatedScalarFieldContainer[int]
    payloads: _containers.RepeatedScalarFieldContainer[bytes]
    more: bool
    def __init__(self, sequences: _Optional[_Iterable[int]] = ..., payloads: _Optional[_Iterable[bytes]] = ..., more: _Optional[bool] = ...) -> None: ...

class Credit(_message.Message):
    __slots__ = ("bytes",)
    BYTES_FIELD_NUMBER: _ClassVar[int]
    bytes: int
    def __init__(self, bytes: _Optional[int] = ...) -> None: ...

class Cancel(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class End(_message.Message):
    __slots__ = ("status", "response", "metadata")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    status: bytes
    response: bytes
    metadata: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, status: _Optional[bytes] = ..., response: _Optional[bytes] = ..., metadata: _Optional[_Iterable[str]] = ...) -> None: ...

class Ping(_message.Message):
    __slots__ = ("nonce",)
    NONCE_FIELD_NUMBER: _ClassVar[int]
    nonce: int
    def __init__(self, nonce: _Optional[int] = ...) -> None: ...

class GoAway(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...

class Control(_message.Message):
    __slots__ = ("card", "interfaces", "readiness")
    CARD_FIELD_NUMBER: _ClassVar[int]
    INTERFACES_FIELD_NUMBER: _ClassVar[int]
    READINESS_FIELD_NUMBER: _ClassVar[int]
    card: Card
    interfaces: Interfaces
    readiness: Readiness
    def __init__(self, card: _Optional[_Union[Card, _Mapping]] = ..., interfaces: _Optional[_Union[Interfaces, _Mapping]] = ..., readiness: _Optional[_Union[Readiness, _Mapping]] = ...) -> None: ...

class Interfaces(_message.Message):
    __slots__ = ("interfaces",)
    INTERFACES_FIELD_NUMBER: _ClassVar[int]
    interfaces: _containers.RepeatedCompositeFieldContainer[Interface]
    def __init__(self, interfaces: _Optional[_Iterable[_Union[Interface, _Mapping]]] = ...) -> None: ...

class Readiness(_message.Message):
    __slots__ = ("ready", "reason")
    READY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    ready: bool
    reason: str
    def __init__(self, ready: _Optional[bool] = ..., reason: _Optional[str] = ...) -> None: ...
