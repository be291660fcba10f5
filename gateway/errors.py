"""The one error table, and the one function that judges an exception.

Every failure becomes a `Failure`, whatever raised it; each wire renders that value once: gRPC
as `google.rpc.Status`, JSON-RPC as an error object, HTTP as a status and a body. Sources: A2A
5.4 (codes), 3.3.2 and 9.5, 10.6, 11.6 (details). Errors for which A2A has no number follow our
own part of the table. Text of exceptions that the table does not know never leaves the process.
"""

import logging
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from a2a.utils.errors import (
    A2AError,
    ContentTypeNotSupportedError,
    ExtendedAgentCardNotConfiguredError,
    ExtensionSupportRequiredError,
    InternalError,
    InvalidAgentResponseError,
    InvalidParamsError,
    InvalidRequestError,
    JSONParseError,
    MethodNotFoundError,
    PushNotificationNotSupportedError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
    VersionNotSupportedError,
)
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status

__all__ = [
    "BY_REASON",
    "TABLE",
    "A2AError",
    "CallCancelledError",
    "Code",
    "ContentTypeNotSupportedError",
    "DeadlineExceededError",
    "ExtendedAgentCardNotConfiguredError",
    "ExtensionSupportRequiredError",
    "Failure",
    "FailureError",
    "InternalError",
    "InvalidAgentResponseError",
    "InvalidParamsError",
    "InvalidRequestError",
    "JSONParseError",
    "MethodNotFoundError",
    "PermissionDeniedError",
    "PushNotificationNotSupportedError",
    "ResourceExhaustedError",
    "Row",
    "TaskNotCancelableError",
    "TaskNotFoundError",
    "UnauthenticatedError",
    "UnavailableError",
    "UnsupportedOperationError",
    "ValidationError",
    "VersionNotSupportedError",
    "judge",
]

logger = logging.getLogger(__name__)

A2A_DOMAIN = "a2a-protocol.org"
OWN_DOMAIN = "a2a-gateway"

MAX_MESSAGE_LENGTH = 1024
"""Characters of an error text; gRPC carries it in headers, which peers cap at 8-16 KiB."""
MAX_VIOLATIONS = 16


class Code(IntEnum):
    """gRPC status codes, by number (google/rpc/code.proto)."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


class UnauthenticatedError(A2AError):
    """No credentials, or credentials that are not ours."""

    message = "Credentials are missing or not valid"

    def __init__(self, message: str | None = None, challenges: tuple[str, ...] = ()):
        super().__init__(message)
        self.challenges = challenges
        """Values for `WWW-Authenticate`, one for each scheme."""


class PermissionDeniedError(A2AError):
    """The caller is known and may not do this."""

    message = "The caller may not do this"


class ResourceExhaustedError(A2AError):
    """A limit is reached; nothing was done."""

    message = "The server is at its limit; try again later"

    def __init__(self, message: str | None = None, retry_after: float | None = 1.0):
        super().__init__(message)
        self.retry_after = retry_after


class UnavailableError(A2AError):
    """The core cannot be reached, or is stopping."""

    message = "The service is not available; try again"

    def __init__(self, message: str | None = None, retry_after: float | None = 1.0):
        super().__init__(message)
        self.retry_after = retry_after


class DeadlineExceededError(A2AError):
    """The caller's deadline has passed; a task that was started goes on."""

    message = "The deadline has passed; a task that was started goes on"


class CallCancelledError(A2AError):
    """The caller gave the call up; a task that was started goes on."""

    message = "The call was cancelled; a task that was started goes on"


class ValidationError(InvalidParamsError):
    """A field of the request is wrong. `violations` are (field path in proto names, reason)."""

    def __init__(self, *violations: tuple[str, str]):
        super().__init__("; ".join(f"{name}: {reason}" for name, reason in violations))
        self.violations = violations


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    error: type[A2AError]
    reason: str
    code: Code
    jsonrpc: int
    http: int
    domain: str = A2A_DOMAIN

    @property
    def is_client_fault(self) -> bool:
        """Whether the caller can mend it; the others are worth an operator's look."""
        return self.http < 500


TABLE: tuple[Row, ...] = (
    Row(TaskNotFoundError, "TASK_NOT_FOUND", Code.NOT_FOUND, -32001, 404),
    Row(TaskNotCancelableError, "TASK_NOT_CANCELABLE", Code.FAILED_PRECONDITION, -32002, 400),
    Row(
        PushNotificationNotSupportedError,
        "PUSH_NOTIFICATION_NOT_SUPPORTED",
        Code.FAILED_PRECONDITION,
        -32003,
        400,
    ),
    Row(UnsupportedOperationError, "UNSUPPORTED_OPERATION", Code.FAILED_PRECONDITION, -32004, 400),
    Row(
        ContentTypeNotSupportedError,
        "CONTENT_TYPE_NOT_SUPPORTED",
        Code.INVALID_ARGUMENT,
        -32005,
        400,
    ),
    Row(InvalidAgentResponseError, "INVALID_AGENT_RESPONSE", Code.INTERNAL, -32006, 500),
    Row(
        ExtendedAgentCardNotConfiguredError,
        "EXTENDED_AGENT_CARD_NOT_CONFIGURED",
        Code.FAILED_PRECONDITION,
        -32007,
        400,
    ),
    Row(
        ExtensionSupportRequiredError,
        "EXTENSION_SUPPORT_REQUIRED",
        Code.FAILED_PRECONDITION,
        -32008,
        400,
    ),
    Row(VersionNotSupportedError, "VERSION_NOT_SUPPORTED", Code.FAILED_PRECONDITION, -32009, 400),
    Row(InvalidParamsError, "INVALID_PARAMS", Code.INVALID_ARGUMENT, -32602, 400),
    Row(InvalidRequestError, "INVALID_REQUEST", Code.INVALID_ARGUMENT, -32600, 400),
    Row(JSONParseError, "JSON_PARSE_ERROR", Code.INVALID_ARGUMENT, -32700, 400),
    Row(MethodNotFoundError, "METHOD_NOT_FOUND", Code.UNIMPLEMENTED, -32601, 404),
    Row(InternalError, "INTERNAL_ERROR", Code.INTERNAL, -32603, 500),
    Row(UnauthenticatedError, "UNAUTHENTICATED", Code.UNAUTHENTICATED, -32000, 401, OWN_DOMAIN),
    Row(
        PermissionDeniedError, "PERMISSION_DENIED", Code.PERMISSION_DENIED, -32040, 403, OWN_DOMAIN
    ),
    Row(
        ResourceExhaustedError,
        "RESOURCE_EXHAUSTED",
        Code.RESOURCE_EXHAUSTED,
        -32041,
        429,
        OWN_DOMAIN,
    ),
    Row(UnavailableError, "UNAVAILABLE", Code.UNAVAILABLE, -32042, 503, OWN_DOMAIN),
    Row(
        DeadlineExceededError, "DEADLINE_EXCEEDED", Code.DEADLINE_EXCEEDED, -32043, 504, OWN_DOMAIN
    ),
    Row(CallCancelledError, "CANCELLED", Code.CANCELLED, -32044, 499, OWN_DOMAIN),
)

BY_REASON: Mapping[str, Row] = {row.reason: row for row in TABLE}
_BY_ERROR: Mapping[type[A2AError], Row] = {row.error: row for row in TABLE}
_BY_CODE: Mapping[Code, Row] = {
    Code.CANCELLED: BY_REASON["CANCELLED"],
    Code.INVALID_ARGUMENT: BY_REASON["INVALID_PARAMS"],
    Code.DEADLINE_EXCEEDED: BY_REASON["DEADLINE_EXCEEDED"],
    Code.NOT_FOUND: BY_REASON["TASK_NOT_FOUND"],
    Code.PERMISSION_DENIED: BY_REASON["PERMISSION_DENIED"],
    Code.RESOURCE_EXHAUSTED: BY_REASON["RESOURCE_EXHAUSTED"],
    Code.FAILED_PRECONDITION: BY_REASON["UNSUPPORTED_OPERATION"],
    Code.UNIMPLEMENTED: BY_REASON["METHOD_NOT_FOUND"],
    Code.UNAVAILABLE: BY_REASON["UNAVAILABLE"],
    Code.UNAUTHENTICATED: BY_REASON["UNAUTHENTICATED"],
}


@dataclass(frozen=True, slots=True)
class Failure:
    """A failure as every wire renders it."""

    row: Row
    message: str
    info: Mapping[str, str] = field(default_factory=dict)
    """ErrorInfo.metadata."""
    violations: tuple[tuple[str, str], ...] = ()
    """(field path, reason), rendered as BadRequest."""
    challenges: tuple[str, ...] = ()
    retry_after: float | None = None
    """Seconds, rendered as RetryInfo and `Retry-After`."""

    def details(self) -> list[Any]:
        """The typed details (protobuf messages), ErrorInfo first."""
        metadata = dict(self.info)
        if self.challenges:
            metadata["challenges"] = ", ".join(self.challenges)
        details: list[Any] = [
            ErrorInfo(reason=self.row.reason, domain=self.row.domain, metadata=metadata)
        ]
        if self.violations:
            details.append(
                BadRequest(
                    field_violations=[
                        BadRequest.FieldViolation(field=name, description=_cut(reason, 256))
                        for name, reason in self.violations[:MAX_VIOLATIONS]
                    ]
                )
            )
        if self.retry_after is not None:
            retry = RetryInfo()
            retry.retry_delay.FromMilliseconds(int(self.retry_after * 1000))
            details.append(retry)
        return details

    def to_status(self) -> Status:
        """As google.rpc.Status (A2A 10.6)."""
        status = Status(code=int(self.row.code), message=self.message)
        for detail in self.details():
            status.details.add().Pack(detail)
        return status

    @classmethod
    def from_status(cls, status: Status) -> "Failure":
        """Back from google.rpc.Status; a status without our ErrorInfo is judged by its code."""
        row = None
        info: dict[str, str] = {}
        violations: tuple[tuple[str, str], ...] = ()
        retry_after = None
        for packed in status.details:
            if packed.Is(ErrorInfo.DESCRIPTOR):
                detail = ErrorInfo()
                packed.Unpack(detail)
                row, info = BY_REASON.get(detail.reason), dict(detail.metadata)
            elif packed.Is(BadRequest.DESCRIPTOR):
                bad = BadRequest()
                packed.Unpack(bad)
                violations = tuple((v.field, v.description) for v in bad.field_violations)
            elif packed.Is(RetryInfo.DESCRIPTOR):
                retry = RetryInfo()
                packed.Unpack(retry)
                retry_after = retry.retry_delay.ToMilliseconds() / 1000
        if row is None:
            row = _row_for_code(status.code)
        challenges = tuple(filter(None, info.pop("challenges", "").split(", ")))
        return cls(row, status.message, info, violations, challenges, retry_after)


class FailureError(A2AError):
    """Carries a `Failure` through code that raises; adapters raise it for the core's answers."""

    def __init__(self, failure: Failure):
        super().__init__(failure.message)
        self.failure = failure


def judge(error: BaseException) -> Failure:
    """The failure that an exception means. The only place that decides what a caller may see.

    Unknown exceptions become INTERNAL with a reference under which the log holds the traceback.
    """
    if isinstance(error, FailureError):
        return error.failure
    if isinstance(error, A2AError):
        row = next((_BY_ERROR[c] for c in type(error).__mro__ if c in _BY_ERROR), None)
        if row is not None:
            return Failure(
                row,
                _cut(error.message, MAX_MESSAGE_LENGTH),
                _info(error),
                getattr(error, "violations", ()),
                getattr(error, "challenges", ()),
                getattr(error, "retry_after", None),
            )
    if isinstance(error, TimeoutError):
        return Failure(BY_REASON["DEADLINE_EXCEEDED"], DeadlineExceededError.message)
    reference = uuid.uuid4().hex[:12]
    logger.error("internal error, reference %s", reference, exc_info=error)
    return Failure(
        BY_REASON["INTERNAL_ERROR"],
        f"Internal error; the server's log has it under reference {reference}",
        {"reference": reference},
    )


def _info(error: A2AError) -> dict[str, str]:
    # the proto wants a map of strings (google.rpc.ErrorInfo)
    data = error.data if isinstance(error.data, dict) else {}
    return {str(k)[:64]: _cut(str(v), 256) for k, v in list(data.items())[:MAX_VIOLATIONS]}


def _row_for_code(number: int) -> Row:
    try:
        code = Code(number)
    except ValueError:
        code = Code.UNKNOWN
    return _BY_CODE.get(code, BY_REASON["INTERNAL_ERROR"])


def _cut(text: str, limit: int) -> str:
    # a lone surrogate cannot be encoded; show it as an escape instead
    text = text.encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= limit else text[: limit - 1] + "…"
