"""The client's end of this door's wire, JSON-RPC or REST: for contract tests and probes.

One method call is one HTTP request. Answers that are errors are raised as `FailureError`, read
back into the same `Failure` that the server rendered.
"""

from collections.abc import AsyncIterator, Mapping
from typing import Any, Literal
from urllib.parse import quote

import httpx
import orjson

from gateway.errors import BY_REASON, TABLE, Failure, FailureError
from gateway.pb import ProtoMessage, StreamResponse
from transports.http.media import A2A_JSON
from transports.http.routes import ROUTES, Route
from transports.jsonrpc import codec
from transports.jsonrpc.dispatch import OPERATIONS, Operation
from transports.jsonrpc.errors import failure_from

Binding = Literal["jsonrpc", "rest"]

_BY_STATUS = {row.http: row for row in reversed(TABLE)}
_ROUTES: dict[str, tuple[str, Route]] = {
    name: (verb, route) for route in ROUTES for verb, name in reversed(route.operations.items())
}


class HttpClient:
    """Calls one server at `url`, the URL of the card's entry. Use as a context manager, or
    `aclose` it."""

    def __init__(
        self,
        url: str,
        binding: Binding = "jsonrpc",
        headers: Mapping[str, str] | None = None,
        *,
        verify: Any = True,
        timeout: float = 30.0,
    ):
        self._url = url.rstrip("/")
        self._is_rest = binding == "rest"
        transport = None
        if url.startswith("unix:"):
            transport = httpx.AsyncHTTPTransport(uds=url.removeprefix("unix:"))
            self._url = "http://localhost"
        self._http = httpx.AsyncClient(
            headers={"a2a-version": "1.0", **(headers or {})},
            verify=verify,
            timeout=timeout,
            transport=transport,
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
        self, method: str, request: ProtoMessage, metadata: Mapping[str, str] | None = None
    ) -> ProtoMessage:
        """The response message."""
        called = OPERATIONS[method]
        try:
            response = await self._http.send(self._request(called, request, metadata))
        except httpx.TransportError as error:
            raise _unavailable(error) from error
        self.metadata = dict(response.headers)
        return codec.decode(called.response, self._result(response.status_code, response))

    async def stream(
        self, method: str, request: ProtoMessage, metadata: Mapping[str, str] | None = None
    ) -> AsyncIterator[tuple[int, StreamResponse]]:
        """Events with their sequence numbers, 0 where there is none."""
        http_request = self._request(OPERATIONS[method], request, metadata)
        try:
            response = await self._http.send(http_request, stream=True)
        except httpx.TransportError as error:
            raise _unavailable(error) from error
        self.metadata = dict(response.headers)
        try:
            if response.headers.get("content-type") != "text/event-stream":
                await response.aread()
                self._result(response.status_code, response)
                return
            async for sequence, text in _events(response):
                value = self._event(text)
                yield sequence, codec.decode(StreamResponse, value)
        except httpx.TransportError as error:
            raise _unavailable(error) from error
        finally:
            await response.aclose()

    def _request(
        self, called: Operation, message: ProtoMessage, metadata: Mapping[str, str] | None
    ) -> httpx.Request:
        headers = dict(metadata or {})
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
        return self._http.build_request(
            "POST", self._url + "/", content=orjson.dumps(value), headers=headers
        )

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
            content = orjson.dumps(value)
            return self._http.build_request(
                verb, self._url + path, content=content, headers=headers
            )
        query = {k: str(v).lower() if isinstance(v, bool) else v for k, v in value.items()}
        return self._http.build_request(verb, self._url + path, params=query, headers=headers)

    def _result(self, status: int, response: httpx.Response) -> Any:
        if status == 401:
            challenges = tuple(response.headers.get_list("www-authenticate"))
            text = "Credentials are missing or not valid"
            raise FailureError(Failure(BY_REASON["UNAUTHENTICATED"], text, challenges=challenges))
        try:
            value = codec.parse(response.content)
        except ValueError:
            raise FailureError(
                Failure(BY_REASON["INTERNAL_ERROR"], f"HTTP {status} without a JSON body")
            ) from None
        if "error" in value:
            row = _BY_STATUS.get(status, BY_REASON["INTERNAL_ERROR"]) if self._is_rest else None
            raise FailureError(failure_from(value["error"], row))
        return value if self._is_rest else value["result"]

    def _event(self, text: str) -> Any:
        value = codec.parse(text)
        if "error" in value:
            row = _BY_STATUS.get(value["error"].get("code", 500)) if self._is_rest else None
            raise FailureError(failure_from(value["error"], row))
        return value if self._is_rest else value["result"]


async def _events(response: httpx.Response) -> AsyncIterator[tuple[int, str]]:
    """(id, data) of each server-sent event; comments are skipped."""
    sequence, data = 0, ""
    async for line in response.aiter_lines():
        if line.startswith("id:"):
            sequence = int(line[3:])
        elif line.startswith("data:"):
            data += line[5:].removeprefix(" ")
        elif not line and data:
            yield sequence, data
            sequence, data = 0, ""


def _unavailable(error: httpx.TransportError) -> FailureError:
    text = f"The server cannot be reached or broke the connection ({type(error).__name__})"
    return FailureError(Failure(BY_REASON["UNAVAILABLE"], text))
