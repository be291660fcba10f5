"""JSON-RPC over HTTP (A2A 9): one URL, POST; streams as server-sent events.

Errors of JSON-RPC travel with HTTP status 200, as its specification for HTTP has them; refusals
that belong to HTTP have HTTP's status and a JSON-RPC error as body. A missing or wrong
credential is 401 with a challenge and `{"error":"Unauthorized"}`. A notification is carried out
and answered 204.
"""

import asyncio
from typing import TYPE_CHECKING, Any

from a2a.utils.errors import InvalidParamsError, InvalidRequestError

from gateway.errors import Failure, judge
from gateway.pb import ProtoMessage
from transports.http import sse
from transports.http.exchange import JSON, BodyTooLargeError, Exchange
from transports.http.hints import challenge_headers, poll_headers, retry_headers
from transports.http.media import is_json
from transports.jsonrpc.dispatch import Operation, operation
from transports.jsonrpc.envelope import (
    NULL_ID,
    EnvelopeError,
    Request,
    error_response,
    read_request,
    result_response,
)

if TYPE_CHECKING:
    from transports.http.app import Door

_ALLOW = (b"allow", b"POST, OPTIONS")


class JsonRpc:
    """Answers requests at the JSON-RPC URL."""

    def __init__(self, door: "Door"):
        self._door = door

    async def handle(self, exchange: Exchange) -> None:
        """One request of any method."""
        if exchange.method != "POST":
            await _refuse_method(exchange)
            return
        content_type = exchange.header(b"content-type")
        if not is_json(content_type) and (content_type or exchange.header(b"origin")):
            error = InvalidRequestError("Content-Type must be application/json")
            await exchange.reply(415, error_response(NULL_ID, judge(error)))
            return
        try:
            body = await exchange.body(self._door.body_bytes)
        except BodyTooLargeError as large:
            await _refuse_size(exchange, large)
            return
        await self._answer(exchange, body)

    async def _answer(self, exchange: Exchange, body: bytes) -> None:
        call_id: bytes | None = NULL_ID
        try:
            request = read_request(body)
            call_id = request.id
            called = operation(request.method)
            message = called.read(request.params)
            if called.streaming:
                failure = await self._stream(exchange, request, called, message)
            else:
                await self._unary(exchange, request, called, message)
                return
        except EnvelopeError as error:
            call_id, failure = error.id, judge(error.error)
        except asyncio.CancelledError:
            if exchange.is_lost or exchange.started:
                raise
            failure = sse.STOPPING
        except Exception as error:
            failure = judge(error)
        if failure is not None:
            await _fail(exchange, call_id, failure)

    async def _unary(
        self, exchange: Exchange, request: Request, called: Operation, message: ProtoMessage
    ) -> None:
        door = self._door
        answer = await door.client.unary(called.name, message, exchange.call(door.names()))
        if request.id is None:
            await exchange.reply(204, b"")
            return
        body = result_response(request.id, called.write(answer.message))
        extra = sse.metadata_headers(answer.metadata) + poll_headers(answer.message)
        await exchange.reply(200, body, JSON, extra)

    async def _stream(
        self, exchange: Exchange, request: Request, called: Operation, message: ProtoMessage
    ) -> Failure | None:
        door = self._door
        stream = door.client.stream(called.name, message, exchange.call(door.names()))
        if request.id is not None:
            return await sse.send(exchange, stream, sse.JsonRpcFrames(called, request.id))
        try:
            # carried out once its first event is there; nobody reads the others
            await anext(stream, None)
        finally:
            await stream.aclose()
        await exchange.reply(204, b"")
        return None


async def _fail(exchange: Exchange, call_id: bytes | None, failure: Failure) -> None:
    if failure.row.http == 401:
        await exchange.reply(401, b'{"error":"Unauthorized"}', JSON, challenge_headers(failure))
    elif call_id is None:
        await exchange.reply(204, b"")
    else:
        body = error_response(call_id, failure)
        await exchange.reply(200, body, JSON, retry_headers(failure))


async def _refuse_method(exchange: Exchange) -> None:
    if exchange.method == "OPTIONS":
        await exchange.reply(204, b"", extra=[_ALLOW])
        return
    error = InvalidRequestError("send JSON-RPC requests with POST")
    await exchange.reply(405, error_response(NULL_ID, judge(error)), JSON, [_ALLOW])


async def _refuse_size(exchange: Exchange, large: BodyTooLargeError) -> None:
    error: Any = InvalidParamsError(f"The request's body is larger than {large.limit} bytes")
    body = error_response(NULL_ID, judge(error))
    await exchange.reply(413, body, JSON, exchange.closing())
