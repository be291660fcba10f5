"""Connections: heads, bodies and clients that are too large, too slow or too many."""

import asyncio
import json
from contextlib import suppress
from typing import Any

import pytest

from tests.conftest import run
from tests.doubles.core import FakeCore
from tests.unit.transports.http.serving import Wire, chunk, echo, events, served
from transports.http.protocol import Bounds

CALL = b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"x"}}'
RESULT = {"jsonrpc": "2.0", "id": 1, "result": {"id": "x"}}


async def ended(wire: Wire) -> bytes:
    """What comes until the server closes."""
    data = await wire.reader.read()
    await wire.close()
    return data


@pytest.mark.parametrize("pieces", [1, 100])
def test_a_head_that_is_too_large(pieces: int) -> None:
    """S174: refused with 431 while it arrives, never kept."""

    async def main() -> None:
        async with served(FakeCore(echo), bounds=Bounds(head_bytes=8192)) as door:
            wire = await door.wire()
            wire.writer.write(b"GET /health HTTP/1.1\r\nHost: x\r\nX-Big: ")
            for _ in range(pieces):
                wire.writer.write(b"x" * (400_000 // pieces))
                await asyncio.sleep(0)
            answer = await ended(wire)
            assert answer.startswith(b"HTTP/1.1 431 ")
            assert b"8192" in answer
            # a large head within the bound, split at will
            wire = await door.wire()
            wire.writer.write(b"GET /health HTTP/1.1\r\nHost: x\r\nX-Big: " + b"x" * 4000)
            await asyncio.sleep(0.01)
            wire.writer.write(b"x" * 4000 + b"\r\n\r\n")
            assert await wire.answer() == (200, b'{"status":"healthy"}')
            await wire.close()

    run(main())


def test_a_head_that_takes_too_long() -> None:
    """S174: a client that sends byte by byte is let go with 408. One that sends nothing goes
    without a word, which it would take for the answer to its next request."""

    async def main() -> None:
        async with served(FakeCore(echo), bounds=Bounds(head_timeout=0.1)) as door:
            silent, slow = await door.wire(), await door.wire()
            slow.writer.write(b"GET /health HT")
            assert (await ended(slow)).startswith(b"HTTP/1.1 408 ")
            assert await ended(silent) == b""

    run(main())


def test_a_body_that_takes_too_long() -> None:
    """S174: also one that trickles in; the call never starts."""

    async def main() -> None:
        bounds = Bounds(body_timeout=0.2, body_rate=1000)
        async with served(FakeCore(echo), bounds=bounds) as door:
            wire = await door.wire()
            wire.writer.write(
                b"POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                b"Content-Length: 100000\r\n\r\n"
            )

            async def trickle() -> None:
                while True:
                    wire.writer.write(b" ")
                    await asyncio.sleep(0.02)

            task = asyncio.create_task(trickle())
            assert (await ended(wire)).startswith(b"HTTP/1.1 408 ")
            task.cancel()
            assert not door.core.calls

    run(main())


def test_a_large_body_over_a_slow_line_is_served() -> None:
    """The time of a body grows with what came of it."""

    async def main() -> None:
        bounds = Bounds(body_timeout=0.1, body_rate=10_000)
        async with served(FakeCore(echo), bounds=bounds) as door:
            wire = await door.wire()
            wire.writer.write(
                b"POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                b"Content-Length: %d\r\n\r\n" % (20_000 + len(CALL))
            )
            for _ in range(10):
                wire.writer.write(b" " * 2000)
                await asyncio.sleep(0.04)
            wire.writer.write(CALL)
            assert json.loads((await wire.answer())[1]) == RESULT
            await wire.close()

    run(main())


def test_idle_connections_are_closed_and_busy_ones_not() -> None:
    """A connection that waits for an answer is not idle."""

    async def main() -> None:
        async def slowly(method: str, request: Any, call: Any) -> Any:
            await asyncio.sleep(0.3)
            return await echo(method, request, call)

        async with served(FakeCore(slowly), bounds=Bounds(idle_timeout=0.1)) as door:
            wire = await door.wire()
            wire.post(CALL)
            assert json.loads((await wire.answer())[1]) == RESULT
            assert await ended(wire) == b""

    run(main())


def test_connections_beyond_the_limit() -> None:
    """S185: refused at once with 503; the others go on, and places become free again."""

    async def main() -> None:
        async with served(FakeCore(echo), bounds=Bounds(connections=2)) as door:
            first, second = await door.wire(), await door.wire()
            for wire in (first, second):
                wire.post(CALL)
                assert (await wire.answer())[0] == 200
            third = await door.wire()
            assert (await ended(third)).startswith(b"HTTP/1.1 503 ")
            await first.close()
            await asyncio.sleep(0.02)
            third = await door.wire()
            third.post(CALL)
            assert (await third.answer())[0] == 200
            for wire in (second, third):
                await wire.close()

    run(main())


@pytest.mark.parametrize(
    "data",
    [
        b"\x00\x01\r\n\r\n",
        b"GET\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03",
        b"CONNECT x:80 HTTP/1.1\r\n\r\n",
    ],
)
def test_what_is_not_http(data: bytes) -> None:
    """A clean 400 and a close, no traceback."""

    async def main() -> None:
        async with served(FakeCore(echo), bounds=Bounds(head_timeout=0.2)) as door:
            wire = await door.wire()
            wire.writer.write(data)
            assert (await ended(wire)).startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 408 "))

    run(main())


@pytest.mark.parametrize("is_split", [False, True])
@pytest.mark.parametrize("upgrade", [b"Upgrade: h2c", b"UPGRADE: websocket", b"upgrade: h2c"])
def test_an_offered_upgrade_is_ignored(upgrade: bytes, is_split: bool) -> None:
    """RFC 9110 s7.8; Java's HTTP client offers h2c with its requests."""

    async def main() -> None:
        async with served(FakeCore(echo)) as door:
            wire = await door.wire()
            headers = [b"Connection: Upgrade, HTTP2-Settings", upgrade, b"HTTP2-Settings: AAMA"]
            if is_split:
                lines = [
                    b"POST / HTTP/1.1",
                    b"Host: x",
                    b"Content-Type: application/json",
                    *headers,
                ]
                wire.writer.write(b"\r\n".join(lines) + b"\r\nContent-Length: 63\r\n\r\n")
                await asyncio.sleep(0.02)
                wire.writer.write(CALL)
            else:
                wire.post(CALL, *headers)
            assert json.loads((await wire.answer())[1]) == RESULT
            wire.post(CALL)
            assert json.loads((await wire.answer())[1]) == RESULT
            await wire.close()

    run(main())


def test_an_upgrade_cut_in_two_is_refused() -> None:
    """Where the header comes in pieces the parser sees it: a clean 400, no wrong answer."""

    async def main() -> None:
        async with served(FakeCore(echo)) as door:
            wire = await door.wire()
            wire.writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nConnection: Upgr")
            await asyncio.sleep(0.02)
            wire.writer.write(b"ade\r\nUpg")
            await asyncio.sleep(0.02)
            wire.writer.write(b"rade: h2c\r\nContent-Length: 63\r\n\r\n" + CALL)
            assert (await ended(wire)).startswith(b"HTTP/1.1 400 ")
            assert not door.core.calls

    run(main())


def test_expect_continue() -> None:
    """RFC 9110 s10.1.1: the body is asked for, or refused before it is sent."""

    async def main() -> None:
        async with served(FakeCore(echo, message_bytes=1000)) as door:
            wire = await door.wire()
            wire.writer.write(
                b"POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(CALL)
            )
            assert await wire.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            wire.writer.write(CALL)
            assert json.loads((await wire.answer())[1]) == RESULT
            wire.writer.write(
                b"POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                b"Expect: 100-continue\r\nContent-Length: 100000000\r\n\r\n"
            )
            assert (await ended(wire)).startswith(b"HTTP/1.1 413 ")

    run(main())


def test_a_refused_body_without_end_is_cut() -> None:
    """S174: what follows a refusal is dropped unread, and not for ever."""

    async def main() -> None:
        bounds = Bounds(surplus_bytes=500_000)
        async with served(FakeCore(echo, message_bytes=1000), bounds=bounds) as door:
            wire = await door.wire()
            wire.writer.write(
                b"POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                b"Transfer-Encoding: chunked\r\n\r\n"
            )
            sent = 0
            try:
                while True:
                    wire.writer.write(b"ffff\r\n" + b"x" * 0xFFFF + b"\r\n")
                    await wire.writer.drain()
                    sent += 0xFFFF
                    assert sent < 50_000_000
            except ConnectionError:
                pass
            await wire.close()

    run(main())


def test_the_date_is_sent() -> None:
    """RFC 9110 s6.6.1."""

    async def main() -> None:
        async with served(FakeCore(echo)) as door:
            response = await door.http.get("/health")
            assert response.headers["date"].endswith("GMT")
            assert "server" not in response.headers

    run(main())


def test_garbage_behind_a_stream() -> None:
    """Nothing but events is written into a stream: the connection is dropped."""

    async def stream(method: str, request: Any, call: Any) -> Any:
        yield [chunk(1)]
        await asyncio.Event().wait()

    async def main() -> None:
        async with served(FakeCore(echo, stream)) as door:
            wire = await door.wire()
            wire.post(CALL.replace(b"GetTask", b"SubscribeToTask"))
            await wire.reader.readuntil(b"}\n\n")
            wire.writer.write(b"\x00\x01\x02\r\n\r\n")
            await door.core.closed.wait()
            with suppress(ConnectionError):
                assert b"400" not in await wire.reader.read()
            await wire.close()

    run(main())


@pytest.mark.parametrize("body", [b"", CALL])
def test_a_large_head_in_one_piece(body: bytes) -> None:
    """S174: the bound does not depend on how the bytes arrive."""

    async def main() -> None:
        async with served(FakeCore(echo), bounds=Bounds(head_bytes=8192)) as door:
            wire = await door.wire()
            wire.post(body, *[b"X-%d: y" % number for number in range(1500)])
            answer = await ended(wire)
            assert answer.startswith(b"HTTP/1.1 431 ")
            # a large body behind a small head is none
            wire = await door.wire()
            wire.post(CALL + b" " * 20_000)
            assert (await wire.answer())[0] == 200
            await wire.close()
        assert len(door.core.calls) == 1

    run(main())


def test_trailers_are_no_headers() -> None:
    """RFC 9110 s6.5.1: what a proxy before the door has not seen as a header is none here."""

    async def main() -> None:
        core = FakeCore(echo)
        async with served(core) as door:
            wire = await door.wire()
            wire.writer.write(
                b"POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                b"Transfer-Encoding: chunked\r\n\r\n"
            )
            await asyncio.sleep(0.01)
            wire.writer.write(
                b"%x\r\n%b\r\n0\r\nAuthorization: Bearer x\r\nX-Api-Key: y\r\n\r\n"
                % (len(CALL), CALL)
            )
            assert (await wire.answer())[0] == 200
            await wire.close()
        assert core.calls[0][2].metadata == {}

    run(main())


@pytest.mark.parametrize("flood", [b"x: y\r\n", b"x", b""], ids=["lines", "one", "extension"])
def test_trailers_and_extensions_without_end(flood: bytes) -> None:
    """S174: what is not content is bounded, too, and never kept."""

    async def main() -> None:
        async with served(FakeCore(echo), bounds=Bounds(head_bytes=8192)) as door:
            wire = await door.wire()
            wire.writer.write(
                b"POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                b"Transfer-Encoding: chunked\r\n\r\n"
            )
            wire.writer.write(b"5\r\n     \r\n0\r\nx: " if flood else b"5;e=")
            with suppress(ConnectionError):
                for _ in range(40):
                    wire.writer.write((flood or b"x") * (6000 // len(flood or b"x")))
                    await wire.writer.drain()
                    await asyncio.sleep(0.001)
            assert (await ended(wire)).startswith(b"HTTP/1.1 400 ")
        assert door.core.calls == []

    run(main())


@pytest.mark.parametrize("silence", [0.0, 0.3])
def test_a_stream_for_a_client_of_http_1_0(silence: float) -> None:
    """RFC 9112 s6.1: no chunks, also in comments; the close is the end. A proxy may speak it."""

    async def stream(method: str, request: Any, call: Any) -> Any:
        yield [chunk(1)]
        await asyncio.sleep(silence)
        yield [chunk(2)]

    async def main() -> None:
        async with served(FakeCore(on_stream=stream), bounds=Bounds(keep_alive=0.1)) as door:
            wire = await door.wire()
            wire.writer.write(b"GET /tasks/x:subscribe HTTP/1.0\r\nA2A-Version: 1.0\r\n\r\n")
            head, _, body = (await ended(wire)).partition(b"\r\n\r\n")
            assert b"transfer-encoding" not in head
            assert head.count(b"connection:") == 1
            assert b"connection: close" in head
            assert [place for place, _ in events(body.decode())] == ["1", "2"]
            assert b"\r" not in body
            assert (b": keep-alive" in body) == (silence > 0)

    run(main())
