"""Server-sent events as bytes: the format, comments while nothing happens, clients that stop
reading (A2A 9.4.2, 11.7; WHATWG HTML s9.2)."""

import asyncio
import json
import socket
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import httpx
import pytest

from tests.conftest import run
from tests.contract.doors import DOORS, Places
from tests.contract.everywhere import talk
from tests.contract.talking import Talk, request, state, until
from tests.contract.test_subscribing import streams_are
from transports.jsonrpc import codec

TYPED = {"content-type": "application/json", "a2a-version": "1.0"}


def rpc(text: str) -> bytes:
    """A JSON-RPC request for a stream, with an id that is easy to find."""
    params = codec.encode(request(text))
    body = {"jsonrpc": "2.0", "id": "my id", "method": "SendStreamingMessage", "params": params}
    return json.dumps(body).encode()


def rest(text: str) -> bytes:
    """The same for REST."""
    return json.dumps(codec.encode(request(text))).encode()


BINDINGS = pytest.mark.parametrize(
    ("path", "body"), [("/", rpc), ("/message:stream", rest)], ids=["jsonrpc", "rest"]
)


@pytest.fixture
def http(places: Places) -> Iterator[httpx.Client]:
    """A client that knows nothing of events."""
    with httpx.Client(base_url=places.http, trust_env=False, headers=TYPED) as client:
        yield client


def value(block: str) -> Any:
    """The StreamResponse of a block, whatever is around it."""
    [data] = [line for line in block.split("\n") if line.startswith("data: ")]
    found = json.loads(data.removeprefix("data: "))
    return found.get("result", found)


@BINDINGS
@pytest.mark.parametrize("accept", ["text/event-stream", "*/*", "application/json", ""])
def test_format(http: httpx.Client, path: str, body: Any, accept: str) -> None:
    """SS01, S66, S83, D3, R36: an id, one line of data and a blank line for each event, whatever
    Accept says; headers that keep caches and proxies out."""
    answer = http.post(path, content=body("slow 3 10"), headers={"accept": accept})
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/event-stream"
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.headers["connection"] == "keep-alive"
    assert answer.text.endswith("\n\n")
    blocks = answer.text.removesuffix("\n\n").split("\n\n")
    for number, block in enumerate(blocks, 1):
        first, second = block.split("\n")
        assert first == f"id: {number}"
        event = json.loads(second.removeprefix("data: "))
        if path == "/":
            assert event.keys() == {"jsonrpc", "id", "result"}
            assert (event["jsonrpc"], event["id"]) == ("2.0", "my id")
        assert len(value(block)) == 1
    kinds = [next(iter(value(block))) for block in blocks]
    assert kinds == ["task", "statusUpdate", *["artifactUpdate"] * 3, "statusUpdate"]


@BINDINGS
def test_a_refusal_is_no_stream(http: httpx.Client, path: str, body: Any) -> None:
    """SS01, SS03: what fails before the first event is an ordinary answer."""
    answer = http.post(path, content=body("refuse"))
    assert answer.headers["content-type"] == "application/json"
    assert answer.status_code == (200 if path == "/" else 400)
    assert answer.json()["error"]["message"].endswith("this agent takes no such content")


@BINDINGS
def test_comments_while_nothing_happens(http: httpx.Client, path: str, body: Any) -> None:
    """SS12: an agent that is silent for longer than the interval (0.5 s here): whole comment
    lines between events and before the first one, never inside one, never an empty event."""
    for text in ("slow 2 1100", "silent 1.7"):
        answer = http.post(path, content=body(text))
        blocks = answer.text.removesuffix("\n\n").split("\n\n")
        comments = [block for block in blocks if block.startswith(":")]
        assert len(comments) >= 2
        assert all("\n" not in comment for comment in comments)
        events = [value(block) for block in blocks if not block.startswith(":")]
        assert next(iter(events[0])) == "task"
        assert events[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"


def test_line_breaks_stay_inside(http: httpx.Client) -> None:
    """SS01: content with every kind of line break is still one line of data."""
    text = "a\nb\r\nc\rd\u2028e\x85f\x0bg\n\ndata: x\nid: 99"
    answer = http.post("/message:stream", content=rest(text))
    blocks = answer.text.removesuffix("\n\n").split("\n\n")
    assert all(len(block.split("\n")) == 2 for block in blocks)
    assert "\r" not in answer.text
    assert value(blocks[1])["artifactUpdate"]["artifact"]["parts"] == [{"text": text}]


def test_subscribing_by_get_and_post(http: httpx.Client) -> None:
    """D25, S42, S71: both verbs; `Last-Event-ID` goes on after an event, as a browser does."""
    asked = http.post("/message:send", content=rest("burst 3")).json()["task"]
    for verb in ("GET", "POST"):
        path = f"/tasks/{asked['id']}:subscribe"
        answer = http.request(verb, path, headers={"last-event-id": "4"})
        ids = [x for x in answer.text.split("\n") if x.startswith("id:")]
        assert ids == ["id: 5", "id: 6"]


def test_a_client_that_stops_reading(places: Places) -> None:
    """SS06 (short), ML02, R16: a client that reads nothing of 40 MB holds up neither the task nor
    another reader, who gets all of it; what is kept for the slow one is bounded; it can be
    followed to its end afterwards."""
    host, port = places.http.removeprefix("http://").split(":")
    text = "burst 10000 4096"

    async def main() -> None:
        async with talk(DOORS[0], places) as caller:
            body = codec.encode(request(text, context_id="stuck"))
            body["tenant"] = caller.tenant
            content = json.dumps(body).encode()
            head = (
                f"POST /message:stream HTTP/1.1\r\nHost: x\r\nA2A-Version: 1.0\r\n"
                f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
            )
            with closing(socket.socket()) as stuck:
                stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
                stuck.connect((host, int(port)))
                stuck.sendall(head.encode() + content)

                async def begun() -> list[Any]:
                    return list((await caller.list(context_id="stuck")).tasks)

                [task] = await until(begun)
                before = await memory(places)
                seen = await caller.all_events("SendStreamingMessage", request(text))
                assert len(seen) == 10003

                async def done() -> bool:
                    return state((await caller.list(context_id="stuck")).tasks[0]) == "COMPLETED"

                await until(done, 15)
                grown = await memory(places) - before
                assert grown < 100 * 2**20, f"{grown / 2**20:.0f} MiB"
            rest_of_it = [event async for event in caller.subscribe(task.id, after=10000)]
            assert len(rest_of_it) == 3

    run(main())


async def memory(places: Places) -> float:
    """Resident bytes of the adapter."""
    return await figure(places, "adapter-http", "process_resident_memory_bytes")


async def figure(places: Places, process: str, name: str) -> float:
    """One of a process's own metrics."""
    async with httpx.AsyncClient(trust_env=False) as http:
        text = (await http.get(places.metrics[process])).text
    line = next(x for x in text.splitlines() if x.startswith(f"{name} "))
    return float(line.split()[1])


def test_a_slow_reader_gets_everything(places: Places) -> None:
    """SS06, ML02, S70: one that pauses and then reads on has missed nothing, although the task has
    ended long before."""

    async def main() -> None:
        async with httpx.AsyncClient(base_url=places.http, headers=TYPED, trust_env=False) as http:
            body = rest("burst 3000 1024")
            async with http.stream("POST", "/message:stream", content=body) as answer:
                lines = answer.aiter_lines()
                first = await anext(lines)
                assert first == "id: 1"
                await asyncio.sleep(0.5)  # the pause of the case
                ids = [first] + [x async for x in lines if x.startswith("id:")]
        assert ids == [f"id: {n}" for n in range(1, 3004)]

    run(main())


def test_leaving_is_noticed_at_once(places: Places) -> None:
    """SS09, S85: the gateway's count of open streams falls when the connection breaks, although
    the stream has nothing to write."""

    async def main() -> None:
        async with talk(DOORS[0], places) as caller:
            task = await caller.send("wait /dev/null/never", immediate=True)
            path = f"/{caller.tenant}/tasks/{task.id}:subscribe"
            readers = [await asyncio.open_connection(*address(places)) for _ in range(20)]
            for reader, writer in readers:
                writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nA2A-Version: 1.0\r\n\r\n".encode())
                await reader.readuntil(b"\n\n")
            await streams_are(places, 20)
            started = time.monotonic()
            for _, writer in readers:
                writer.transport.abort()
            await streams_are(places, 0)
            assert time.monotonic() - started < 2
            await caller.cancel(task.id)

    run(main())


def test_connections_that_break(places: Places) -> None:
    """ML04 (short): 200 connections to each listener that end without a goodbye, in the middle of
    a head, a body or a stream: open files go back, and events are as quick as before."""

    async def main() -> None:
        async with talk(DOORS[0], places) as caller:
            task = await caller.send("wait /dev/null/never", immediate=True)
            path = f"/{caller.tenant}/tasks/{task.id}:subscribe"
            stream = f"GET {path} HTTP/1.1\r\nHost: x\r\nA2A-Version: 1.0\r\n\r\n".encode()
            starts = [
                (address(places), b"POST / HTTP/1.1\r\nHost:"),
                (address(places), b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{"),
                (address(places), stream),
                (address(places), b""),
                (native(places), b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
                (native(places), b"\x00" * 9),
            ]
            before, pace = await files(places), await quickness(caller)

            async def visit(number: int) -> None:
                where, data = starts[number % len(starts)]
                _, writer = await asyncio.open_connection(*where)
                writer.write(data)
                await asyncio.sleep(0.02)
                writer.transport.abort()

            for _ in range(12):
                await asyncio.gather(*map(visit, range(100)))

            async def is_back() -> bool:
                return await files(places) <= before + 4

            await until(is_back, 10)
            assert await quickness(caller) < max(1.0, 5 * pace)
            await caller.cancel(task.id)

    run(main())


async def files(places: Places) -> float:
    """Open files of both processes."""
    return sum(
        [await figure(places, name, "process_open_fds") for name in ("core", "adapter-http")]
    )


async def quickness(caller: Talk) -> float:
    """Seconds that a stream of 100 events takes."""
    started = time.monotonic()
    assert len(await caller.stream("burst 100")) == 103
    return time.monotonic() - started


def native(places: Places) -> tuple[str, int]:
    """Host and port of native gRPC."""
    host, port = places.grpc.split(":")
    return host, int(port)


def address(places: Places) -> tuple[str, int]:
    """Host and port of the HTTP door."""
    host, port = places.http.removeprefix("http://").split(":")
    return host, int(port)
