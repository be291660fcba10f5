"""JSON-RPC 2.0 requests and responses, one at a time (JSON-RPC 2.0 s4, s5; A2A 9).

Envelope layer, no I/O. Every door that carries JSON-RPC reads and writes through it. An id is
kept as its JSON text, so that `7`, `"7"` and `7.0` stay different and come back as they were.
Batches are refused: A2A has no use for them.
"""

import json
from typing import Any

import orjson
from a2a.utils.errors import A2AError, InvalidParamsError, InvalidRequestError, JSONParseError

from gateway.errors import Failure
from transports.jsonrpc import codec
from transports.jsonrpc.errors import error_object

NULL_ID = b"null"

MAX_ID_BYTES = 1024
"""Of an id, or of a token in its place: it comes back with every event of a stream."""

_SLACK_BYTES = 64 * 1024


def text_bytes(message_bytes: int) -> int:
    """The longest JSON text that a door reads where the core takes messages of so many bytes: all
    of it may be in base64, and the rest of a request comes on top. The core judges the message."""
    return message_bytes * 4 // 3 + _SLACK_BYTES


class EnvelopeError(Exception):
    """A request that cannot be dispatched: the A2A error to answer, and the id to answer to;
    None for a notification, which is never answered."""

    def __init__(self, error: A2AError, call_id: bytes | None = NULL_ID):
        super().__init__(error.message)
        self.error = error
        self.id = call_id


class Request:
    """One request. `id` is JSON text, None for a notification; `params` is an object or None."""

    __slots__ = ("id", "method", "params")

    def __init__(self, call_id: bytes | None, method: str, params: dict[str, Any] | None):
        self.id = call_id
        self.method = method
        self.params = params


def read_request(text: bytes | bytearray | str) -> Request:
    """The request in a JSON text; raises `EnvelopeError`."""
    return to_request(read_object(text), text)


def read_object(text: bytes | bytearray | str) -> dict[str, Any]:
    """The JSON object of a text that may be a request; raises `EnvelopeError`."""
    try:
        value = codec.parse(text)
    except codec.NestingError as error:
        raise _invalid(f"the JSON {error}") from None
    except codec.NotJsonError as error:
        raise EnvelopeError(JSONParseError(f"Invalid JSON payload: {error}")) from None
    if type(value) is not dict:
        if type(value) is list:
            raise _invalid("batches are not supported; send one request at a time")
        raise _invalid("a request is a JSON object")
    return value


def to_request(value: dict[str, Any], text: bytes | bytearray | str) -> Request:
    """The request that an object is; `text` is where it was read from, for the spelling of its
    id. Raises `EnvelopeError`."""
    call_id = _read_id(value["id"], text) if "id" in value else None
    answer_to = NULL_ID if call_id is None else call_id
    if value.get("jsonrpc") != "2.0":
        raise _invalid('the member jsonrpc must be "2.0"', answer_to)
    method = value.get("method")
    if type(method) is not str or not method:
        raise _invalid("the member method must be a string that names a method", answer_to)
    if not _is_unicode(method):
        raise _invalid("the member method holds half of a surrogate pair", answer_to)
    params = value.get("params")
    if params is not None and type(params) is not dict:
        raise EnvelopeError(
            InvalidParamsError("Invalid parameters: params must be an object"), call_id
        )
    return Request(call_id, method, params)


def _read_id(value: Any, text: bytes | bytearray | str) -> bytes:
    kind = type(value)
    if kind is int:
        # a number has no negative zero, and its text may
        is_plain = value or not _has_negative_zero(text)
        return b"%d" % value if is_plain else _literal_id(text)
    if kind is str:
        if not _is_unicode(value):
            raise _invalid("the id holds half of a surrogate pair")
        return _bounded(orjson.dumps(value))
    if value is None:
        return NULL_ID
    if kind is float:
        return _literal_id(text)
    raise _invalid("the id must be a string, a number or null")


def _has_negative_zero(text: bytes | bytearray | str) -> bool:
    return "-0" in text if isinstance(text, str) else b"-0" in text


def id_text(value: Any) -> bytes | None:
    """The JSON text of an id that stands elsewhere than in its envelope; None where it is none.
    Spellings of one fractional number cannot be told apart here."""
    try:
        return None if isinstance(value, bool) else _read_id(value, b"")
    except EnvelopeError:
        return orjson.dumps(value) if type(value) is float else None


def _literal_id(text: bytes | bytearray | str) -> bytes:
    """The id as written: a double would change large and long numbers."""
    try:
        value = json.loads(text, parse_int=_Literal, parse_float=_Literal)
    except (ValueError, RecursionError):
        raise _invalid("the id cannot be read") from None
    return _bounded(str(value["id"]).encode("ascii"))


def _bounded(call_id: bytes) -> bytes:
    if len(call_id) > MAX_ID_BYTES:
        raise _invalid(f"the id is longer than {MAX_ID_BYTES} bytes")
    return call_id


class _Literal(str):
    """A number of a JSON text, as it stands there."""

    __slots__ = ()


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _invalid(reason: str, call_id: bytes = NULL_ID) -> EnvelopeError:
    return EnvelopeError(
        InvalidRequestError(f"Request payload validation error: {reason}"), call_id
    )


def result_head(call_id: bytes) -> bytes:
    """Everything of a response before its result; `RESULT_TAIL` ends it."""
    return b'{"jsonrpc":"2.0","id":' + call_id + b',"result":'


RESULT_TAIL = b"}"


def result_response(call_id: bytes, result: bytes) -> bytes:
    """A response on one line; `result` is JSON text."""
    return b'{"jsonrpc":"2.0","id":' + call_id + b',"result":' + result + b"}"


def error_response(call_id: bytes, failure: Failure) -> bytes:
    """An error response on one line (JSON-RPC 2.0 s5.1)."""
    error = orjson.dumps(error_object(failure))
    return b'{"jsonrpc":"2.0","id":' + call_id + b',"error":' + error + b"}"
