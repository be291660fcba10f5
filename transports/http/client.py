"""The client's end of this door's wire, JSON-RPC or REST (A2A 9, 11).

One method call is one HTTP request. Answers that are errors are raised as `FailureError`, read
back into the same `Failure` that the server rendered; answers that are no A2A are failures too.
"""

import asyncio
import math
import os
import socket
import ssl
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Literal, TypeVar
from urllib.parse import quote

import httpx
import orjson

from gateway.errors import BY_REASON, TABLE, Failure, FailureError, Row, ValidationError
from gateway.pb import ProtoMessage, StreamResponse
from transports.http.event_stream import EventStream
from transports.http.media import A2A_JSON
from transports.http.routes import ROUTES, Route
from transports.jsonrpc import codec
from transports.jsonrpc.dispatch import OPERATIONS, Operation
from transports.jsonrpc.errors import failure_from
from transports.wire import Events, UnreachableError

M = TypeVar("M", bound=ProtoMessage)

Binding = Literal["jsonrpc", "rest"]

MAX_ANSWER_BYTES = 64 << 20
"""Of one answer, decompressed; the same as of one event."""
CONNECTIONS = httpx.Limits(max_connections=None, max_keepalive_connections=20)

_BY_STATUS: dict[int, Row] = {
    **{row.http: row for row in reversed(TABLE)},
    # rows that share a status: the plainest one, where the answer does not say which
    400: BY_REASON["INVALID_PARAMS"],
    500: BY_REASON["INTERNAL_ERROR"],
    502: BY_REASON["UNAVAILABLE"],
    504: BY_REASON["UNAVAILABLE"],
}
_ROUTES: dict[str, tuple[str, Route]] = {
    name: (verb, route) for route in ROUTES for verb, name in reversed(route.operations.items())
}


class HttpClient:
    """Calls one server at `url`, the URL of the card's entry, or `unix:PATH`. Use as a context
    manager, or `aclose` it."""

    is_lost = False
    """It connects anew by itself."""

    def __init__(
        self,
        url: str,
        binding: Binding = "jsonrpc",
        headers: Mapping[str, str] | None = None,
        *,
        verify: Any = True,
        timeout: float | None = 30.0,
        connect_timeout: float | None = None,
    ):
        """`timeout` is how long the server may be silent, None for ever."""
        path = url.removeprefix("unix:") if url.startswith("unix:") else None
        self._place = url
        """In words."""
        self._url = url if path is None else "http://localhost"
        self._base = self._url.rstrip("/")
        self._is_rest = binding == "rest"
        self._http = httpx.AsyncClient(
            headers={"a2a-version": "1.0", **(headers or {})},
            timeout=httpx.Timeout(timeout, connect=connect_timeout or timeout),
            transport=http_transport(verify if url.startswith("https:") else None, path),
            trust_env=False,
        )
        self._last_id = 0
        self.metadata: dict[str, str] = {}
        """Headers of the last answer."""

    async def __aenter__(self) -> "HttpClient":
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def unary(
        self,
        method: str,
        request: ProtoMessage,
        metadata: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> ProtoMessage:
        """The response message."""
        called = OPERATIONS[method]
        http_request = self._request(called, request, metadata)
        try:
            async with asyncio.timeout(timeout), self._open(http_request) as response:
                body = await _body(response)
        except httpx.HTTPError as error:
            raise self._broken(error) from error
        except TimeoutError:
            raise _late(timeout) from None
        self.metadata = dict(response.headers)
        return _decode(called.response, self._result(response, body))

    async def stream(
        self,
        method: str,
        request: ProtoMessage,
        metadata: Mapping[str, str] | None = None,
        headers: dict[str, str] | None = None,
    ) -> Events:
        """Events with their sequence numbers, 0 where there is none."""
        http_request = self._request(OPERATIONS[method], request, metadata)
        try:
            async with self._open(http_request) as response:
                self.metadata = dict(response.headers)
                if not _is_event_stream(response):
                    self._result(response, await _body(response))
                    raise _odd("is no stream of events")
                reader = EventStream()
                async for piece in response.aiter_bytes():
                    for sequence, data in reader.feed(piece):
                        event = _decode(StreamResponse, self._event(data))
                        if headers is not None:
                            headers.update(headers or self.metadata)
                        yield sequence, event
        except httpx.HTTPError as error:
            raise self._broken(error) from error
        except ValueError as error:  # of the reader
            raise _odd(f"cannot be read: {error}") from None

    @asynccontextmanager
    async def _open(self, request: httpx.Request) -> AsyncIterator[httpx.Response]:
        response = await self._http.send(request, stream=True)
        try:
            yield response
        finally:
            await response.aclose()

    def _request(
        self, called: Operation, message: ProtoMessage, metadata: Mapping[str, str] | None
    ) -> httpx.Request:
        headers = dict(metadata or {})
        if called.streaming:
            headers.setdefault("accept", "text/event-stream")
        if self._is_rest:
            return self._rest_request(called, message, headers)
        self._last_id += 1
        value = {
            "jsonrpc": "2.0",
            "id": self._last_id,
            "method": called.name,
            "params": codec.encode(message),
        }
        headers["content-type"] = "application/json"
        return self._build("POST", self._url, headers, content=orjson.dumps(value))

    def _rest_request(
        self, called: Operation, message: ProtoMessage, headers: dict[str, str]
    ) -> httpx.Request:
        verb, route = _ROUTES[called.name]
        value = codec.encode(message)
        path = "/" + route.pattern
        for field in message.DESCRIPTOR.fields:
            place = "{" + field.name + "}"
            if place in path:
                text = value.pop(field.json_name, "")
                path = path.replace(place, quote(str(text), safe=""))
        if tenant := value.pop("tenant", ""):
            path = f"/{quote(tenant, safe='')}{path}"
        if verb == "POST":
            headers["content-type"] = A2A_JSON.decode()
            return self._build(verb, self._base + path, headers, content=orjson.dumps(value))
        query = {k: str(v).lower() if isinstance(v, bool) else v for k, v in value.items()}
        return self._build(verb, self._base + path, headers, params=query)

    def _build(self, verb: str, url: str, headers: Mapping[str, str], **body: Any) -> httpx.Request:
        try:
            return self._http.build_request(verb, url, headers=headers, **body)
        except (httpx.InvalidURL, UnicodeEncodeError) as error:
            # the text of the second one may hold a header's value
            why = str(error) if isinstance(error, httpx.InvalidURL) else "a header is not ASCII"
            failure = Failure(BY_REASON["INVALID_REQUEST"], f"The request cannot be sent: {why}")
            raise FailureError(failure) from None

    def _broken(self, error: httpx.HTTPError) -> FailureError:
        if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
            return UnreachableError(f"{self._place} cannot be reached: {connect_reason(error)}")
        if isinstance(error, httpx.DecodingError):
            return _odd("cannot be decompressed")
        if isinstance(error, httpx.ReadTimeout):
            text = f"{self._place} was silent for too long"
            return FailureError(Failure(BY_REASON["UNAVAILABLE"], text))
        text = f"{self._place} broke the connection ({type(error).__name__})"
        return FailureError(Failure(BY_REASON["UNAVAILABLE"], text))

    def _result(self, response: httpx.Response, body: bytes) -> Any:
        status = response.status_code
        if status == 401:
            challenges = tuple(response.headers.get_list("www-authenticate"))
            text = "Credentials are missing or not valid"
            raise FailureError(Failure(BY_REASON["UNAUTHENTICATED"], text, challenges=challenges))
        value = _parse(body)
        if not isinstance(value, dict):
            raise FailureError(self._without_body(response))
        # an empty message is {} in REST, and an error has a status that says so
        if "error" in value and (not self._is_rest or status >= 400):
            row = _BY_STATUS.get(status, BY_REASON["INTERNAL_ERROR"]) if self._is_rest else None
            raise FailureError(failure_from(value["error"], row))
        if status >= 300:
            raise FailureError(self._without_body(response))
        return self._unwrap(value)

    def _without_body(self, response: httpx.Response) -> Failure:
        """What an answer without a body of this protocol means: it comes from a proxy, or from
        something else at this URL."""
        status = response.status_code
        if response.is_redirect:
            place = response.headers.get("location", "")
            text = f"{self._place} redirects to {place[:256]}; give that URL, if you trust it"
            return Failure(BY_REASON["INVALID_REQUEST"], text)
        if response.is_success:
            return _odd("is no JSON of A2A").failure
        row = _BY_STATUS.get(status, BY_REASON["INTERNAL_ERROR"])
        if status in (400, 404, 405):
            row = BY_REASON["METHOD_NOT_FOUND"]
        text = f"HTTP {status} from {self._place}, without an error of A2A; is the URL right?"
        return Failure(row, text, retry_after=_retry_after(response))

    def _event(self, text: bytes) -> Any:
        try:
            value = codec.parse(text)
        except ValueError:
            raise _odd("holds an event that is no JSON") from None
        if not isinstance(value, dict):
            raise _odd("holds an event that is no JSON object")
        if "error" in value:
            error = value["error"]
            code = error.get("code", 500) if isinstance(error, dict) else 500
            row = _BY_STATUS.get(code) if self._is_rest else None
            raise FailureError(failure_from(error, row))
        return self._unwrap(value)

    def _unwrap(self, value: dict[str, Any]) -> Any:
        if self._is_rest:
            return value
        if "result" not in value:
            raise _odd("has neither a result nor an error")
        return value["result"]


def http_transport(verify: Any = None, socket_path: str | None = None) -> httpx.AsyncHTTPTransport:
    """One connection pool. Connections that are quiet are probed: a peer that has gone without a
    word, as when this machine slept, is found out within about a minute."""
    if verify is None:
        # nothing of TLS is used; the authorities of the system would take long to load
        verify = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    options = [] if socket_path else [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
    if sys.platform == "linux" and not socket_path:
        for option, value in (("TCP_KEEPIDLE", 20), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 4)):
            options.append((socket.IPPROTO_TCP, getattr(socket, option), value))
    return httpx.AsyncHTTPTransport(
        verify=verify, uds=socket_path, socket_options=options, limits=CONNECTIONS, trust_env=False
    )


def connect_reason(error: BaseException) -> str:
    """Why no connection came about, in words: the innermost cause knows."""
    if isinstance(error, httpx.ConnectTimeout):
        return "it does not answer"
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            # asyncio puts the address into the text; names that are not found have numbers below 0
            is_plain = not isinstance(cause, ssl.SSLError) and (cause.errno or 0) > 0
            return os.strerror(cause.errno) if is_plain and cause.errno else cause.strerror
        cause = cause.__cause__ or cause.__context__
    return str(error) or type(error).__name__


def _decode(kind: type[M], value: Any) -> M:
    try:
        return codec.decode(kind, value)
    except ValidationError as error:
        raise _odd(f"does not fit: {error.message}") from None


async def _body(response: httpx.Response) -> bytes:
    """All of an answer, as far as it is one that a memory can hold."""
    body = bytearray()
    async for piece in response.aiter_bytes():
        body += piece
        if len(body) > MAX_ANSWER_BYTES:
            raise _odd(f"is larger than {MAX_ANSWER_BYTES} bytes")
    return bytes(body)


def _parse(body: bytes) -> Any:
    try:
        return codec.parse(body)
    except ValueError:
        return None


def _is_event_stream(response: httpx.Response) -> bool:
    kind: str = response.headers.get("content-type", "")
    return response.status_code == 200 and kind.partition(";")[0].strip() == "text/event-stream"


def _retry_after(response: httpx.Response) -> float | None:
    with suppress(ValueError):
        seconds = float(response.headers.get("retry-after", ""))
        return seconds if math.isfinite(seconds) and seconds >= 0 else None
    return None


def _odd(text: str) -> FailureError:
    failure = Failure(BY_REASON["INVALID_AGENT_RESPONSE"], f"The server's answer {text}")
    return FailureError(failure)


def _late(timeout: float | None) -> FailureError:
    text = f"No answer within {timeout:.3g} s; a task that was started goes on"
    return FailureError(Failure(BY_REASON["DEADLINE_EXCEEDED"], text))
