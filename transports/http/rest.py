"""HTTP+JSON (A2A 11): REST paths, bodies and query parameters, bare results.

Errors are google.rpc.Status as JSON (A2A 11.6), rendered from the one `Failure`; streams are
server-sent events of bare StreamResponse messages (A2A 11.7).
"""

import asyncio
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

import orjson
from a2a.utils.errors import InvalidParamsError, InvalidRequestError, JSONParseError

from gateway.call import VERSION
from gateway.errors import BY_REASON, Failure, ValidationError, judge
from gateway.pb import ProtoMessage
from transports.http import routes, sse
from transports.http.exchange import BodyTooLargeError, ClientGoneError, Exchange, Headers
from transports.http.hints import challenge_headers, poll_headers, retry_headers
from transports.http.media import answer_type, error_type, is_json
from transports.jsonrpc import codec
from transports.jsonrpc.dispatch import OPERATIONS, Operation
from transports.jsonrpc.errors import details, message_text

if TYPE_CHECKING:
    from transports.http.app import Door

_NO_STORE = (b"cache-control", b"no-store")


class Refusal(Exception):
    """An HTTP status that the error table does not have."""

    def __init__(self, status: int, failure: Failure, headers: Headers | None = None):
        super().__init__(failure.message)
        self.status = status
        self.failure = failure
        self.headers = headers or []


class Frames:
    """`data` holds a bare StreamResponse (A2A 11.7), or a google.rpc.Status under `error`."""

    __slots__ = ("_operation",)

    def __init__(self, operation: Operation):
        self._operation = operation

    def event(self, sequence: int, payload: bytes) -> bytes:
        text = b"data: " + self._operation.write_event(payload) + b"\n\n"
        return b"id: %d\n%b" % (sequence, text) if sequence else text

    def failure(self, failure: Failure) -> bytes:
        return b"data: " + error_body(failure) + b"\n\n"


class Rest:
    """Answers requests at the REST paths below `base`."""

    def __init__(self, door: "Door", base: bytes):
        self._door = door
        self._base = base + b"/"

    async def handle(self, exchange: Exchange) -> None:
        """One request at any path."""
        try:
            failure = await self._answer(exchange)
            if failure is not None:
                await _fail(exchange, failure.row.http, failure)
        except Refusal as refusal:
            await _fail(exchange, refusal.status, refusal.failure, refusal.headers)
        except asyncio.CancelledError:
            if exchange.is_lost or exchange.started:
                raise
            await _fail(exchange, sse.STOPPING.row.http, sse.STOPPING)
        except ClientGoneError:
            raise
        except Exception as error:
            if exchange.started:
                raise
            failure = judge(error)
            await _fail(exchange, failure.row.http, failure)

    async def _answer(self, exchange: Exchange) -> Failure | None:
        door = self._door
        match = self._find(exchange)
        called = _choose(exchange, match.route)
        if called is None:
            await exchange.reply(204, b"", extra=[_allow(match.route)])
            return None
        if exchange.method == "POST":
            value = await self._read(exchange)
        else:
            value = query_value(called.request, exchange.scope["query_string"])
        request = codec.decode(called.request, value)
        _bind(request, match.fields)
        call = exchange.call(door.names())
        if called.streaming:
            return await sse.send(
                exchange, door.client.stream(called.name, request, call), Frames(called)
            )
        answer = await door.client.unary(called.name, request, call)
        body = called.write(answer.message)
        media = answer_type(exchange.header(b"accept"), exchange.header(b"content-type"))
        extra = [_NO_STORE, *sse.metadata_headers(answer.metadata), *poll_headers(answer.message)]
        await exchange.reply(200, body, media, extra)
        return None

    def _find(self, exchange: Exchange) -> routes.Match:
        path: bytes = exchange.scope["raw_path"]
        match = routes.find(path[len(self._base) :]) if path.startswith(self._base) else None
        if match is None:
            text = "There is nothing at this path; the agent card names the URLs"
            raise Refusal(404, Failure(BY_REASON["METHOD_NOT_FOUND"], text))
        return match

    async def _read(self, exchange: Exchange) -> Any:
        """The body as a JSON value; an empty one is an empty object."""
        try:
            body = await exchange.body(self._door.body_bytes)
        except BodyTooLargeError as large:
            text = f"The request's body is larger than {large.limit} bytes"
            raise Refusal(413, judge(InvalidParamsError(text)), exchange.closing()) from None
        if not body:
            return {}
        content_type = exchange.header(b"content-type")
        if not is_json(content_type) and (content_type or exchange.header(b"origin")):
            text = "Content-Type must be application/a2a+json or application/json"
            raise Refusal(415, judge(InvalidRequestError(text)))
        try:
            return codec.parse(body)
        except codec.NotJsonError as error:
            raise JSONParseError(f"The body is not JSON: {error}") from None
        except codec.NestingError as error:
            raise InvalidRequestError(f"The body's JSON {error}") from None


def _choose(exchange: Exchange, route: routes.Route) -> Operation | None:
    """The operation that the method asks for; None for OPTIONS."""
    method = exchange.method
    name = route.operations.get("GET" if method == "HEAD" else method)
    if name is None:
        if method == "OPTIONS":
            return None
    elif method != "HEAD" or not OPERATIONS[name].streaming:
        return OPERATIONS[name]
    text = f"{method} is not served here; use {' or '.join(route.operations)}"
    raise Refusal(405, Failure(BY_REASON["METHOD_NOT_FOUND"], text), [_allow(route)])


def _allow(route: routes.Route) -> tuple[bytes, bytes]:
    methods = [*route.operations, "OPTIONS"]
    if any(m == "GET" and not OPERATIONS[o].streaming for m, o in route.operations.items()):
        methods.insert(1, "HEAD")
    return b"allow", ", ".join(methods).encode()


def _bind(request: ProtoMessage, fields: dict[str, str]) -> None:
    """Set the fields that the path holds; a body that says otherwise is refused."""
    for name, value in fields.items():
        if getattr(request, name) not in ("", value):
            raise ValidationError((name, "differs from the one in the path; send it once"))
        setattr(request, name, value)


def query_value(kind: type[ProtoMessage], query: bytes) -> dict[str, Any]:
    """Query parameters as the JSON object that they stand for (A2A 11.5), names in either
    spelling. Unknown ones are ignored, as unknown fields are."""
    value: dict[str, Any] = {}
    if not query:
        return value
    try:
        pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict")
    except ValueError:
        raise InvalidParamsError("The query is not percent-encoded UTF-8") from None
    fields = kind.DESCRIPTOR.fields_by_name
    by_json = {field.json_name: field for field in kind.DESCRIPTOR.fields}
    for name, text in pairs:
        field = by_json.get(name) or fields.get(name)
        if field is None or name.lower() == VERSION:
            continue
        if field.is_repeated:
            value.setdefault(name, []).extend(text.split(","))
        elif name in value:
            raise ValidationError((field.name, "is given twice; send it once"))
        else:
            value[name] = _query_scalar(field, text)
    return value


def _query_scalar(field: Any, text: str) -> Any:
    if field.type == field.TYPE_BOOL:
        # the codec refuses text that stands for a truth value
        return {"true": True, "false": False}.get(text, text)
    return text


def error_body(failure: Failure, status: int | None = None) -> bytes:
    """google.rpc.Status as A2A 11.6 writes it."""
    error = {
        "code": status or failure.row.http,
        "status": failure.row.code.name,
        "message": message_text(failure, standard=False),
        "details": details(failure),
    }
    return orjson.dumps({"error": error})


async def _fail(
    exchange: Exchange, status: int, failure: Failure, headers: Headers | None = None
) -> None:
    extra = [*(headers or ()), *retry_headers(failure)]
    if status == 401:
        extra += challenge_headers(failure)
    media = error_type(exchange.header(b"accept"))
    await exchange.reply(status, error_body(failure, status), media, extra)
