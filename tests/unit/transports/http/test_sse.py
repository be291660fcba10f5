"""Server-sent events: framing, failures, silence, clients that leave or stop reading."""

import asyncio
import json
import time
from typing import Any

import pytest
from a2a.utils.errors import ContentTypeNotSupportedError, TaskNotFoundError

from gateway.call import Call
from tests.conftest import run
from tests.doubles.core import FakeCore
from tests.unit.transports.http.serving import (
    MESSAGE,
    Served,
    chunk,
    echo,
    events,
    message_event,
    served,
)
from transports.http.protocol import Bounds

SEND = {"message": MESSAGE}


def request(call_id: str = "1") -> bytes:
    """A streaming request; the id is JSON text."""
    params = json.dumps(SEND).encode()
    return b'{"jsonrpc":"2.0","id":%b,"method":"SendStreamingMessage","params":%b}' % (
        call_id.encode(),
        params,
    )


async def three(method: str, message: Any, call: Call) -> Any:
    """Two events at once, then one."""
    yield [chunk(1), chunk(2)]
    await asyncio.sleep(0.01)
    yield [chunk(3)]


async def silent(method: str, message: Any, call: Call) -> Any:
    """One event, then nothing for ever."""
    yield [chunk(1)]
    await asyncio.Event().wait()


@pytest.mark.parametrize("accept", ["text/event-stream", "*/*"])
def test_framing(accept: str) -> None:
    """SS01, S66, S83, R36: a JSON-RPC response in each data line, with the id of the request."""

    async def main() -> None:
        async with served(FakeCore(echo, three)) as door:
            response = await door.rpc("SendStreamingMessage", SEND, "s1", accept=accept)
            assert response.status_code == 200
            assert response.headers["content-type"] == "text/event-stream"
            assert response.headers["cache-control"] == "no-cache"
            assert response.headers["connection"] == "keep-alive"
            assert response.headers["x-accel-buffering"] == "no"
            found = events(response.text)
            assert [place for place, _ in found] == ["1", "2", "3"]
            for _, data in found:
                assert (data["jsonrpc"], data["id"]) == ("2.0", "s1")
                assert data["result"]["artifactUpdate"]["taskId"] == "t1"
            assert response.text.endswith("}\n\n")

    run(main())


def test_events_that_are_ready_together_leave_together() -> None:
    """One write for a batch; each event whole."""

    async def main() -> None:
        async with served(FakeCore(echo, three)) as door:
            wire = await door.wire()
            wire.post(request())
            await wire.reader.readuntil(b"\r\n\r\n")
            sizes = []
            while size := int(await wire.reader.readline(), 16):
                data = (await wire.reader.readexactly(size + 2))[:-2]
                sizes.append(data.count(b"data: "))
                assert data.endswith(b"\n\n")
            assert sizes == [2, 1]
            await wire.close()

    run(main())


def test_an_event_without_a_place_has_no_id() -> None:
    """S67: a direct message belongs to no log."""

    async def direct(method: str, message: Any, call: Call) -> Any:
        yield [message_event("m2")]

    async def main() -> None:
        async with served(FakeCore(echo, direct)) as door:
            response = await door.rpc("SendStreamingMessage", SEND)
            expected = {
                "jsonrpc": "2.0",
                "id": 1,
                "result": {"message": {"messageId": "m2", "parts": []}},
            }
            assert events(response.text) == [("", expected)]

    run(main())


def test_streams_with_ids_that_look_alike() -> None:
    """JR05: `7`, `"7"` and `"07"` are three ids, each echoed in its stream."""

    async def main() -> None:
        async with served(FakeCore(echo, three)) as door:
            ids: list[Any] = [7, "7", "07"]
            calls = [door.rpc("SendStreamingMessage", SEND, call_id) for call_id in ids]
            for call_id, response in zip(ids, await asyncio.gather(*calls), strict=True):
                found = {json.dumps(data["id"]) for _, data in events(response.text)}
                assert found == {json.dumps(call_id)}

    run(main())


def test_a_failure_after_events_is_a_last_frame() -> None:
    """SS03, JR11: a top-level error with the right code and id, then a clean end."""

    async def fails(method: str, message: Any, call: Call) -> Any:
        yield [chunk(1)]
        yield [chunk(2)]
        raise ContentTypeNotSupportedError("No")

    async def main() -> None:
        async with served(FakeCore(echo, fails)) as door:
            response = await door.rpc("SendStreamingMessage", SEND, "x")
            *before, (place, last) = events(response.text)
            assert len(before) == 2
            assert place == ""
            assert (last["id"], last["error"]["code"]) == ("x", -32005)
            assert "result" not in last

    run(main())


def test_an_event_that_cannot_be_written() -> None:
    """SS03: those before it arrive, though they came in one batch."""

    async def odd(method: str, message: Any, call: Call) -> Any:
        yield [chunk(1), chunk(2), (3, b"\xff"), chunk(4)]

    async def main() -> None:
        async with served(FakeCore(echo, odd)) as door:
            response = await door.rpc("SendStreamingMessage", SEND, 1)
            *found, (_, last) = events(response.text)
            assert [place for place, _ in found] == ["1", "2"]
            assert last["error"]["code"] == -32603

    run(main())


def test_a_failure_before_events_is_an_ordinary_answer() -> None:
    """ST05, LC01: one JSON-RPC error, no event stream."""

    async def fails(method: str, message: Any, call: Call) -> Any:
        if message:
            raise TaskNotFoundError
        yield []

    async def main() -> None:
        async with served(FakeCore(echo, fails)) as door:
            response = await door.rpc("SubscribeToTask", {"id": "no"}, "x")
            assert response.headers["content-type"] == "application/json"
            assert response.json()["error"]["code"] == -32001

    run(main())


def test_an_unexpected_failure_and_bad_bytes() -> None:
    """GR03: neutral texts in streams too, also where the core sends what is no event."""

    async def fails(method: str, message: Any, call: Call) -> Any:
        yield [chunk(1)]
        raise ValueError("secret-123")

    async def garbage(method: str, message: Any, call: Call) -> Any:
        yield [(1, b"\xff\xff")]

    async def main() -> None:
        for script in (fails, garbage):
            async with served(FakeCore(echo, script)) as door:
                response = await door.rpc("SendStreamingMessage", SEND)
                assert "secret" not in response.text
                assert events(response.text)[-1][1]["error"]["code"] == -32603

    run(main())


def test_silence_gets_comments() -> None:
    """SS12: the head does not wait for ever; comment lines while idle, never inside an event."""

    async def late(method: str, message: Any, call: Call) -> Any:
        await asyncio.sleep(0.3)
        yield [chunk(1)]
        await asyncio.sleep(0.3)
        yield [chunk(2)]

    async def main() -> None:
        bounds = Bounds(keep_alive=0.05, patience=0.05)
        async with served(FakeCore(echo, late), bounds=bounds) as door:
            started = time.monotonic()
            async with door.http.stream(
                "POST", "/", content=request(), headers={"content-type": "application/json"}
            ) as response:
                assert time.monotonic() - started < 0.25
                text = "".join([piece async for piece in response.aiter_text()])
            blocks = text.split("\n\n")
            comments = [block for block in blocks if block == ": keep-alive"]
            assert len(comments) >= 4
            assert [place for place, _ in events(text)] == ["1", "2"]
            assert all("keep-alive" not in block for block in blocks if block.startswith("id"))

    run(main())


def test_a_failure_after_a_long_silence_is_a_frame() -> None:
    """JR11: once the head is out, a failure is an event even where no event came."""

    async def late(method: str, message: Any, call: Call) -> Any:
        await asyncio.sleep(0.1)
        if message:
            raise TaskNotFoundError
        yield []

    async def main() -> None:
        async with served(FakeCore(echo, late), bounds=Bounds(patience=0.02)) as door:
            response = await door.rpc("SendStreamingMessage", SEND)
            assert response.headers["content-type"] == "text/event-stream"
            ((_, data),) = events(response.text)
            assert data["error"]["code"] == -32001

    run(main())


async def leave(door: Served, *, abruptly: bool) -> None:
    wire = await door.wire()
    wire.post(request())
    await wire.reader.readuntil(b"}\n\n")
    if abruptly:
        wire.reset()
    else:
        await wire.close()
    await door.core.closed.wait()


@pytest.mark.parametrize("abruptly", [False, True])
def test_a_client_that_leaves_closes_its_stream_at_the_core(abruptly: bool) -> None:
    """SS09, S85: at once, with nothing left over."""

    async def main() -> None:
        async with served(FakeCore(echo, silent)) as door:
            for _ in range(20):
                door.core.closed.clear()
                await leave(door, abruptly=abruptly)
                assert door.core.open_streams == 0

    run(main())


def test_a_client_that_leaves_before_the_first_event() -> None:
    """SS09: also while the stream is still silent."""

    started = asyncio.Event()

    async def nothing(method: str, message: Any, call: Call) -> Any:
        started.set()
        await asyncio.Event().wait()
        yield []

    async def main() -> None:
        async with served(FakeCore(echo, nothing)) as door:
            wire = await door.wire()
            wire.post(request())
            await started.wait()
            wire.reset()
            await door.core.closed.wait()

    run(main())


def test_a_client_that_stops_reading_is_cut() -> None:
    """SS06: after the write limit, while another reader is served; memory stays bounded."""
    written = 0

    async def flood(method: str, message: Any, call: Call) -> Any:
        nonlocal written
        for number in range(1, 100_000):
            written = max(written, number)
            yield [chunk(number, "x" * 4000)]

    async def main() -> None:
        async with served(FakeCore(echo, flood), bounds=Bounds(write_timeout=0.3)) as door:
            wire = await door.wire()
            wire.shrink()
            wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
            wire.post(request())
            await door.core.closed.wait()
            assert written < 20_000
            wire.reset()
            # a slow reader that takes some bytes is not stuck
            door.core.closed.clear()
            async with door.http.stream(
                "POST", "/", content=request(), headers={"content-type": "application/json"}
            ) as response:
                count = 0
                async for _ in response.aiter_bytes(65536):
                    count += 1
                    await asyncio.sleep(0.05)
                    if count == 12:
                        break
            assert count == 12

    run(main())


def test_stop_lets_streams_end_and_tells_the_others() -> None:
    """SH02, SH03: within the grace period a stream that goes on ends by itself; an idle one gets
    a last error frame; nobody is left."""

    async def by_task(method: str, message: Any, call: Call) -> Any:
        yield [chunk(1)]
        if message.id == "busy":
            await asyncio.sleep(0.1)
            yield [chunk(2)]
        else:
            await asyncio.Event().wait()

    async def main() -> None:
        async with served(FakeCore(echo, by_task)) as door:
            wires = {}
            for task_id in ("busy", "idle"):
                wires[task_id] = wire = await door.wire()
                params = b'{"id":"%b"}' % task_id.encode()
                wire.post(
                    b'{"jsonrpc":"2.0","id":1,"method":"SubscribeToTask","params":%b}' % params
                )
                await wire.reader.readuntil(b"}\n\n")
            started = time.monotonic()
            await door.door.stop(0.5)
            assert time.monotonic() - started < 2
            busy = await wires["busy"].reader.read()
            assert b"id: 2\n" in busy
            assert b'"error"' not in busy
            idle = await wires["idle"].reader.read()
            assert b'"error":{"code":-32042' in idle
            assert idle.endswith(b"0\r\n\r\n")
            for wire in wires.values():
                await wire.close()
            await door.door.stop(0.5)

    run(main())


def test_stop_answers_calls_that_wait() -> None:
    """SH02: a blocking call is told that the server stops."""

    both = asyncio.Barrier(3)

    async def wait(method: str, message: Any, call: Call) -> Any:
        await both.wait()
        await asyncio.Event().wait()

    async def main() -> None:
        async with served(FakeCore(wait)) as door:
            calls = [
                asyncio.create_task(door.rpc("GetTask", {"id": "x"})),
                asyncio.create_task(door.http.get("/tasks/x")),
            ]
            await both.wait()
            await door.door.stop(0.05)
            rpc, rest = await asyncio.gather(*calls)
            assert rpc.json()["error"]["code"] == -32042
            assert rest.status_code == 503

    run(main())


def test_a_request_behind_a_stream_waits_for_its_end() -> None:
    """A pipelined request, in pieces and slow, neither cuts the stream nor is lost."""
    go_on = asyncio.Event()

    async def stream(method: str, message: Any, call: Call) -> Any:
        yield [chunk(1)]
        await go_on.wait()
        yield [chunk(2)]

    async def main() -> None:
        bounds = Bounds(head_timeout=0.05, body_timeout=0.05, keep_alive=0.05)
        async with served(FakeCore(echo, stream), bounds=bounds) as door:
            wire = await door.wire()
            wire.post(request())
            await wire.reader.readuntil(b"}\n\n")
            wire.writer.write(b"GET /health HT")
            await wire.reader.readuntil(b": keep-alive\n\n")
            wire.writer.write(b"TP/1.1\r\nHost: x\r\n\r\n")
            await wire.reader.readuntil(b": keep-alive\n\n")
            go_on.set()
            rest = await wire.reader.readuntil(b"0\r\n\r\n")
            assert b"id: 2\n" in rest
            assert await wire.answer() == (200, b'{"status":"healthy"}')
            await wire.close()

    run(main())
