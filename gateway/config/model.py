"""The configuration: what there is to set, with defaults that make everything start.

Plain dataclasses; `gateway.config.loading` reads and validates them, with pydantic. Sections and
keys are the same in files, in the environment (`A2A_GATEWAY_LIMITS__RUNNING`) and in the error
texts (`limits.running`).
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar, dataclass_transform

from gateway.config.values import (
    Addresses,
    Bytes,
    Count,
    Interval,
    OneAddress,
    Positive,
    Seconds,
    Secret,
    Text,
)

T = TypeVar("T")

MIB = 2**20


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def section(cls: type[T]) -> type[T]:
    """A part of the configuration: keys that it does not know are errors."""
    cls.__pydantic_config__ = {"extra": "forbid"}  # type: ignore[attr-defined]
    return dataclass(frozen=True, kw_only=True)(cls)


@section
class Command:
    """How an agent `command:PROGRAM [ARGUMENT...]` is run, once for each message."""

    output: Literal["text", "events"] = "text"
    """`text`: what it prints becomes an artifact; `events`: one A2A event in JSON a line."""
    environment: tuple[str, ...] = ()
    """Names of variables that it gets beside PATH, HOME, LANG, LC_*, TZ, TMPDIR and USER."""
    directory: Path | None = None
    """Where it runs; unset: where the gateway was started."""
    timeout: Interval | None = None
    """Seconds of one run; unset: without end."""
    output_bytes: Bytes = 16 * MIB
    """Of one run; a program that prints more is ended, and its task FAILED."""
    ask_code: Positive | None = 10
    """The exit code by which a program that prints text asks something back: its task becomes
    INPUT_REQUIRED."""


@section
class Agent:
    """The agent and how it is run."""

    spec: Text = ""
    """`module:attribute`, imported with the current directory and PYTHONPATH;
    `command:PROGRAM [ARGUMENT...]`; `grpc:ADDRESS`."""
    isolation: Literal["loop", "thread", "process"] = "loop"
    command: Command = field(default_factory=Command)
    cancel_timeout: Seconds = 5.0
    """An agent that ignores a cancel for so long is abandoned, and its task CANCELED."""
    watchdog: Interval = 1.0
    """A loop blocked for longer is reported, with the agent's name."""


@section
class Contexts:
    """Groups of tasks."""

    exclusive: bool = False
    """Refuse a message while a turn of the same context runs."""
    idle_timeout: Interval = 3600.0


@section
class Limits:
    """What is refused with RESOURCE_EXHAUSTED, or waited for, beyond a number."""

    message_bytes: Bytes = 16 * MIB
    """Serialized protobuf of one request or response, at each door."""
    running: Positive = 1000
    """Turns that run at once."""
    waiting: Count = 1000
    """Turns that wait for a place."""
    waiting_per_task: Count = 16
    """Messages that wait for the turn of their task to end."""
    unsaved_events: Positive = 256
    """Events of one task that the store has not taken; beyond, its agent waits."""
    unsaved_bytes: Bytes = MIB
    calls: Positive = 10000
    calls_per_link: Positive = 4096


@section
class Retention:
    """How long finished tasks are kept; None: without end. Unset: 30 days in a durable store,
    one hour and 10,000 tasks in memory."""

    finished_age: Interval | None = None
    finished_count: Count | None = None


@section
class Token:
    """A bearer token."""

    caller: Text
    token: Secret


@section
class ApiKey:
    """A key sent in the header `access.api_key_header`."""

    caller: Text
    key: Secret


@section
class Basic:
    """A user of HTTP Basic authentication; `caller` is the user name where it is not set."""

    username: Text
    password: Secret
    caller: str = ""


@section
class Access:
    """Who may call. Without any entry everybody is `anonymous`, and listens on loopback alone."""

    tokens: tuple[Token, ...] = ()
    api_keys: tuple[ApiKey, ...] = ()
    api_key_header: Text = "x-api-key"
    basic: tuple[Basic, ...] = ()
    allow_anonymous: bool = False
    """Permit listeners beyond loopback although no credentials are configured."""

    @property
    def is_configured(self) -> bool:
        """Whether any credential is."""
        return bool(self.tokens or self.api_keys or self.basic)


@section
class Tls:
    """Certificates of a listener, in PEM files; `client_ca` demands client certificates."""

    certificate: Path
    key: Path
    client_ca: Path | None = None


@section
class GrpcDoor:
    """The core's own listener for native gRPC."""

    address: Addresses = ("127.0.0.1:50051",)
    tls: Tls | None = None
    public_url: str = ""
    """What the card says instead of the address; gRPC wants a bare `host:port`."""


@section
class Transports:
    """The doors that open: those that are named, or grpc and http where none is."""

    grpc: GrpcDoor | None = None
    others: dict[str, Any] = field(default_factory=dict)
    """By public name, in their order: the section of each, an object of the class that its door
    states, or a mapping where it states none. `transports.NAME` to the user. A process that got
    the configuration from another has mappings alone, for `from_plain`."""


@section
class Link:
    """How adapters reach the core. The supervisor sets it; containers may."""

    address: OneAddress = ""
    secret: Secret | None = None


@section
class Logs:
    """Lines on stderr."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["text", "json"] = "text"


@section
class Metrics:
    """Prometheus endpoints, `GET /metrics`; None: none. Port 0 takes any free port."""

    core: OneAddress | None = "127.0.0.1:0"
    adapter: OneAddress | None = "127.0.0.1:0"


@section
class Config:
    """All of it."""

    agent: Agent = field(default_factory=Agent)
    transports: Transports = field(default_factory=Transports)
    store: Text = ""
    """`memory:` or `sqlite:///ABSOLUTE/PATH`; empty: a database in the state directory."""
    state_dir: Path = Path()
    limits: Limits = field(default_factory=Limits)
    retention: Retention = field(default_factory=Retention)
    contexts: Contexts = field(default_factory=Contexts)
    access: Access = field(default_factory=Access)
    card: dict[str, Any] | None = None
    """Fields of the AgentCard in ProtoJSON."""
    logs: Logs = field(default_factory=Logs)
    metrics: Metrics = field(default_factory=Metrics)
    link: Link = field(default_factory=Link)
    adapters: Literal["apart", "together"] = "apart"
    """Whether each door that is not the core's own runs in a process of its own."""
    grace: Seconds = 10.0
    """Seconds that running calls get to end when the gateway stops."""
