"""Failures as JSON: the error object of JSON-RPC (A2A 9.5) and the details that REST shares.

Renders `gateway.errors.Failure` and decides nothing: codes and reasons come from its table.
`failure_from` reads an error object back, for the clients of our own wires.
"""

import re
from typing import Any

from gateway.errors import BY_REASON, MAX_MESSAGE_LENGTH, TABLE, Failure, Row

_TYPE = "type.googleapis.com/google.rpc."

STANDARD_TEXTS = {
    -32700: "Invalid JSON payload",
    -32600: "Request payload validation error",
    -32601: "Method not found",
    -32602: "Invalid parameters",
    -32603: "Internal error",
}
"""First words of the messages of JSON-RPC's own codes (A2A 9.5)."""

_BY_NUMBER = {row.jsonrpc: row for row in TABLE}
_DURATION = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,9})?)s")
_WORD_BREAK = re.compile(r"_([a-z0-9])")


def json_path(path: str) -> str:
    """A field path in JSON's spelling: `message.message_id` becomes `message.messageId`."""
    return _WORD_BREAK.sub(lambda found: found[1].upper(), path)


def message_text(failure: Failure, *, standard: bool = True) -> str:
    """The failure's message, fields in JSON's spelling; for JSON-RPC's own codes after their
    standard text, where that is wanted."""
    text = failure.message
    for name, _ in failure.violations:
        # the text was cut to its limit before, so that it is the same at each door
        text = text.replace(name, json_path(name)) if "_" in name else text
        if len(text) > MAX_MESSAGE_LENGTH:
            text = text[: MAX_MESSAGE_LENGTH - 1] + "…"
    first = STANDARD_TEXTS.get(failure.row.jsonrpc, "") if standard else ""
    if not text.startswith(first):
        text = f"{first}: {text}"
    # texts of agents and stores may hold what JSON cannot carry
    return text.encode("utf-8", "backslashreplace").decode()


def details(failure: Failure) -> list[dict[str, Any]]:
    """Typed details as ProtoJSON `Any` objects, ErrorInfo first."""
    shown: list[dict[str, Any]] = []
    for detail in failure.details():
        match detail.DESCRIPTOR.name:
            case "ErrorInfo":
                value: dict[str, Any] = {"reason": detail.reason, "domain": detail.domain}
                if detail.metadata:
                    value["metadata"] = dict(detail.metadata)
            case "BadRequest":
                value = {
                    "fieldViolations": [
                        {"field": json_path(v.field), "description": v.description}
                        for v in detail.field_violations
                    ]
                }
            case "RetryInfo":
                value = {"retryDelay": detail.retry_delay.ToJsonString()}
            case name:
                raise NotImplementedError(f"no JSON form for the detail {name}")
        shown.append({"@type": _TYPE + detail.DESCRIPTOR.name, **value})
    return shown


def error_object(failure: Failure) -> dict[str, Any]:
    """The `error` member of a JSON-RPC response."""
    return {
        "code": failure.row.jsonrpc,
        "message": message_text(failure),
        "data": details(failure),
    }


def failure_from(error: Any, row: Row | None = None) -> Failure:
    """Back from an error object of JSON-RPC, or of REST, which gives its own `row` to fall back
    on. An object without our ErrorInfo is judged by its number; what does not fit is passed
    over."""
    if not isinstance(error, dict):
        error = {}
    info: dict[str, str] = {}
    violations: tuple[tuple[str, str], ...] = ()
    retry_after = None
    code = error.get("code")
    found = row or _BY_NUMBER.get(code if type(code) is int else 0, BY_REASON["INTERNAL_ERROR"])
    for detail in _objects(error.get("data") or error.get("details")):
        match str(detail.get("@type", "")).removeprefix(_TYPE):
            case "ErrorInfo":
                found = BY_REASON.get(str(detail.get("reason", "")), found)
                metadata = detail.get("metadata")
                values = metadata if isinstance(metadata, dict) else {}
                info = {name: str(value) for name, value in values.items()}
            case "BadRequest":
                violations = tuple(
                    (str(v.get("field", "")), str(v.get("description", "")))
                    for v in _objects(detail.get("fieldViolations"))
                )
            case "RetryInfo":
                retry_after = _seconds(detail.get("retryDelay"))
    challenges = tuple(filter(None, info.pop("challenges", "").split(", ")))
    said = error.get("message")
    text = said if isinstance(said, str) else ""
    text = text.removeprefix(STANDARD_TEXTS.get(found.jsonrpc, "") + ": ")
    text = text or f"{found.reason}; the server did not say why"
    if len(text) > MAX_MESSAGE_LENGTH:
        text = text[: MAX_MESSAGE_LENGTH - 1] + "…"
    return Failure(found, text, info, violations, challenges, retry_after)


def _objects(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _seconds(duration: Any) -> float | None:
    """A google.protobuf.Duration in ProtoJSON, such as `1.5s`."""
    found = _DURATION.fullmatch(duration) if isinstance(duration, str) else None
    return float(found[1]) if found is not None else None
