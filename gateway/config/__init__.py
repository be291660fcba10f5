"""The configuration of every process: one typed model from file, environment and flags."""

from gateway.config.loading import ConfigError, load
from gateway.config.model import (
    Access,
    Agent,
    ApiKey,
    Basic,
    Config,
    Contexts,
    GrpcDoor,
    Limits,
    Link,
    Logs,
    Metrics,
    Retention,
    Tls,
    Token,
    Transports,
    section,
)
from gateway.config.values import Address, Secret
from gateway.config.wire import from_plain, from_wire, secrets_of, to_wire

__all__ = [
    "Access",
    "Address",
    "Agent",
    "ApiKey",
    "Basic",
    "Config",
    "ConfigError",
    "Contexts",
    "GrpcDoor",
    "Limits",
    "Link",
    "Logs",
    "Metrics",
    "Retention",
    "Secret",
    "Tls",
    "Token",
    "Transports",
    "from_plain",
    "from_wire",
    "load",
    "secrets_of",
    "section",
    "to_wire",
]
