"""Many at once, and many that break off: all goes back to the start (ML02, ML04, SS09)."""

import asyncio
import random
import time
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import orjson

from gateway.pb import METHODS, SendMessageRequest, TaskState
from tests.conftest import run
from tests.faults.callers import Caller, message
from tests.faults.conftest import IS_LONG
from tests.faults.test_stop import Stream
from tests.faults.victim import Victim, victim

STREAMS = 1000 if IS_LONG else 300
CLIENTS = 64
ROUNDS = 40 if IS_LONG else 8
BREAKS = 5000 if IS_LONG else 1000
AT_ONCE = 50
LIMIT = 300.0
GROWTH_BYTES = 8 << 20
"""For caches and fragments; what a broken connection holds while it lives is 10 to 20 KB."""


def test_many_streams_beside_many_calls(tmp_path: Path) -> None:
    """Every stream gets every event, every call its answer; then nothing is open any more."""
    with victim(tmp_path, {"logs": {"level": "warning"}}) as gateway:
        run(_crowd(gateway), LIMIT)


async def _crowd(gateway: Victim) -> None:
    async with AsyncExitStack() as stack:
        callers = [
            await stack.enter_async_context(Caller(gateway.addresses, door, timeout=60.0))
            for door in ["jsonrpc", "rest", "grpc"] * (CLIENTS // 3) + ["rest"]
        ]
        asked = (await callers[0].send("ask")).task
        # the store's files are open by now
        files = {name: gateway.open_files(name) for name in ("core", "adapter-http")}
        readers = [callers[n % CLIENTS] for n in range(STREAMS)]
        streams = await asyncio.gather(
            *(Stream.open(caller.subscribe(asked.id)) for caller in readers)
        )
        figures = await gateway.figures("core")
        assert sum(_open(figures).values()) == STREAMS
        for _ in range(ROUNDS):
            answers = await asyncio.gather(*(caller.send("echo x") for caller in callers))
            assert {a.task.status.state for a in answers} == {TaskState.TASK_STATE_COMPLETED}
        done = (await callers[0].send("blue", asked.id)).task
        assert done.status.state == TaskState.TASK_STATE_COMPLETED
        ends = await asyncio.gather(*(stream.end for stream in streams))
        assert set(ends) == {TaskState.TASK_STATE_COMPLETED}
    await _all_closed(gateway, files)


async def _all_closed(gateway: Victim, files: dict[str, int]) -> None:
    """No stream, no task in memory, no descriptor more than before."""
    end = time.monotonic() + 10.0
    while True:
        figures = await gateway.figures("core")
        left = {
            **_open(figures),
            **{name: n for name, n in figures.items() if name.startswith("a2a_gateway_tasks{")},
            **{
                name: gateway.open_files(name) - before
                for name, before in files.items()
                if gateway.open_files(name) > before
            },
        }
        if not any(left.values()):
            return
        assert time.monotonic() < end, left
        await asyncio.sleep(0.1)


def _open(figures: dict[str, float]) -> dict[str, float]:
    return {n: v for n, v in figures.items() if n.startswith("a2a_gateway_open_streams{")}


def test_connections_that_break_off(tmp_path: Path) -> None:
    """ML04, SS09: clients that vanish in every phase of a call, at both doors: descriptors,
    streams and memory are back where they were, and a call takes no longer."""
    with victim(tmp_path, {"logs": {"level": "warning"}}) as gateway:
        run(_break_off(gateway), LIMIT)


async def _break_off(gateway: Victim) -> None:
    async with Caller(gateway.addresses, "rest") as caller:
        asked = (await caller.send("ask")).task
        await _breaks(gateway, asked.id, BREAKS)  # caches and pools fill up
        await caller.get(asked.id)
        files = {name: gateway.open_files(name) for name in ("core", "adapter-http")}
        await _all_closed(gateway, files)
        before = {name: gateway.memory(name) for name in files}
        took = await _time_of(caller, asked.id)
        await _breaks(gateway, asked.id, BREAKS)
        await _all_closed(gateway, files)
        growth = {name: gateway.memory(name) - size for name, size in before.items()}
        assert max(growth.values()) < GROWTH_BYTES, growth
        assert await _time_of(caller, asked.id) < 3 * took + 0.05


async def _time_of(caller: Caller, task_id: str) -> float:
    """The median of some calls."""
    times = []
    for _ in range(51):
        started = time.perf_counter()
        await caller.get(task_id)
        times.append(time.perf_counter() - started)
    return sorted(times)[25]


async def _breaks(gateway: Victim, task_id: str, count: int) -> None:
    chance = random.Random(count)
    host, _, port = gateway.addresses.http.removeprefix("http://").partition(":")
    kinds = [b for _ in range(count // 6 + 1) for b in range(6)][:count]
    places = asyncio.Semaphore(AT_ONCE)

    async def one(kind: int) -> None:
        async with places:
            if kind == 5:
                await _break_grpc(gateway.addresses.grpc, task_id)
            else:
                await _break_http(host, int(port), _request(task_id, kind), kind, chance)

    await asyncio.gather(*(one(kind) for kind in kinds))


def _request(task_id: str, kind: int) -> bytes:
    if kind in (0, 1):
        return (
            f"GET /tasks/{task_id}:subscribe HTTP/1.1\r\nhost: x\r\na2a-version: 1.0\r\n\r\n"
        ).encode()
    text = "slow 3 20" if kind == 2 else "echo x"
    body = orjson.dumps(
        {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}]}}
    )
    path = "/message:stream" if kind == 2 else "/message:send"
    return (
        f"POST {path} HTTP/1.1\r\nhost: x\r\na2a-version: 1.0\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    ).encode() + body


async def _break_http(
    host: str, port: int, request: bytes, kind: int, chance: random.Random
) -> None:
    """Streams after their first event (0, 2) or at once (1), sends at once (3), requests in the
    middle (4); every second one by a reset."""
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(request[: chance.randrange(1, len(request))] if kind == 4 else request)
    with suppress(ConnectionError):
        await writer.drain()
        if kind in (0, 2):
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200 "), head + await reader.read()
            await reader.readuntil(b"\n\n")
    if chance.random() < 0.5:
        writer.transport.abort()
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


async def _break_grpc(address: str, task_id: str) -> None:
    """A stream after its first event, together with its connection."""
    options = [("grpc.use_local_subchannel_pool", 1)]
    async with grpc.aio.insecure_channel(address, options=options) as channel:
        method = METHODS["SendStreamingMessage"]
        request: SendMessageRequest = message("slow 3 20")
        start: Any = channel.unary_stream(method.path)
        call = start(request.SerializeToString(), metadata=(("a2a-version", "1.0"),))
        await call.read()
