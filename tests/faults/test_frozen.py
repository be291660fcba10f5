"""Processes that are stopped without ending (SIGSTOP): no caller waits without end, and what was
frozen works again when it thaws (design: "The link", 11; SS06)."""

import asyncio
import signal
import socket
import time
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any

import orjson

from gateway.errors import Code, FailureError
from gateway.pb import TaskState
from tests.conftest import run
from tests.faults.callers import Caller, state_of
from tests.faults.conftest import IS_LONG
from tests.faults.victim import Victim, eventually, victim
from transports.http.protocol import Bounds

FROZEN_SECONDS = 20.0 if IS_LONG else 12.0
LINK_SECONDS = 15.0
"""Two pings of 5 s missed: a frozen peer is noticed by then."""
SLACK_SECONDS = 3.0
LIMIT = 90.0
"""Of one test."""


def test_a_frozen_core_and_a_frozen_adapter(tmp_path: Path) -> None:
    """No caller waits past the limits, and all is well after the thaw. Two gateways at once:
    most of it is waiting."""

    async def both(one: Victim, other: Victim) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(_freeze_core(one))
            group.create_task(_freeze_adapter(other))

    with victim(tmp_path / "one") as one, victim(tmp_path / "other") as other:
        run(both(one, other), LIMIT)


async def _freeze_core(gateway: Victim) -> None:
    """Calls with a deadline are answered by it, calls without one by the link's limit, and after
    the thaw everything works, streams included."""
    async with (
        Caller(gateway.addresses, "rest", timeout=60.0) as http,
        Caller(gateway.addresses, "grpc", timeout=2.0) as grpc,
    ):
        asked = (await http.send("ask")).task
        assert (await grpc.get(asked.id)) == asked
        stream = asyncio.create_task(_states(http.stream("slow 10 200")))
        await eventually(lambda: gateway.signal("core", signal.SIGSTOP), 1.0)
        started = time.monotonic()
        calls = [asyncio.create_task(_outcome(http.get(asked.id))) for _ in range(8)]
        calls.append(asyncio.create_task(_outcome(http.send("echo x"))))
        code, ended = await _outcome(grpc.get(asked.id))
        assert code == Code.DEADLINE_EXCEEDED
        assert ended - started < 3.0
        await asyncio.sleep(FROZEN_SECONDS - (time.monotonic() - started))
        gateway.signal("core", signal.SIGCONT)
        for code, ended in await asyncio.gather(*calls):
            assert code in (Code.OK, Code.UNAVAILABLE)
            assert ended - started < LINK_SECONDS + SLACK_SECONDS
        assert (await http.get(asked.id)) == asked
        assert (await grpc.get(asked.id)) == asked
        assert (await http.send("blue", asked.id)).task.status.state == (
            TaskState.TASK_STATE_COMPLETED
        )
        states = await stream
        # a stream without a key may say that it broke; one that goes on ends with its task
        assert states[-1] in (TaskState.TASK_STATE_COMPLETED, -Code.UNAVAILABLE)


async def _freeze_adapter(gateway: Victim) -> None:
    """The core notices, frees its calls, and serves its own door meanwhile; the adapter links
    again when it thaws."""
    async with (
        Caller(gateway.addresses, "jsonrpc", timeout=60.0) as http,
        Caller(gateway.addresses, "grpc") as grpc,
    ):
        asked = (await http.send("ask")).task
        streams = [asyncio.create_task(_states(http.subscribe(asked.id))) for _ in range(5)]
        await _open_streams(gateway, 5)
        gateway.signal("adapter-http", signal.SIGSTOP)
        started = time.monotonic()
        assert (await grpc.get(asked.id)) == asked
        await _open_streams(gateway, 0, LINK_SECONDS + SLACK_SECONDS)
        assert time.monotonic() - started > 1.0, "streams ended before anybody could know"
        gateway.signal("adapter-http", signal.SIGCONT)
        await eventually(
            lambda: "linked to the core" in "\n".join(list(gateway.server.output)[-4:]), 20.0
        )
        # the streams go on at the new link by themselves: reads are repeated
        done = (await http.send("blue", asked.id)).task
        assert done.status.state == TaskState.TASK_STATE_COMPLETED
        for states in await asyncio.gather(*streams):
            assert states[-1] == TaskState.TASK_STATE_COMPLETED


async def _open_streams(gateway: Victim, count: int, seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    name = 'a2a_gateway_open_streams{door="http"}'
    while (found := (await gateway.figures("core")).get(name, 0.0)) != count:
        assert time.monotonic() < end, f"{found} streams open"
        await asyncio.sleep(0.05)


def test_a_frozen_reader(tmp_path: Path) -> None:
    """SS06: a client that stops reading in the middle of a large stream hurts nobody, and the
    memory that it costs has a bound."""
    with victim(tmp_path) as gateway:
        run(_freeze_reader(gateway), LIMIT)


async def _freeze_reader(gateway: Victim) -> None:
    count, size = (20_000 if IS_LONG else 8_000), 4096
    with socket.socket() as stuck:
        stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        host, _, port = gateway.addresses.http.removeprefix("http://").partition(":")
        stuck.connect((host, int(port)))
        before = {name: gateway.memory(name) for name in ("core", "adapter-http")}
        stuck.sendall(_request(f"burst {count} {size}"))
        head = stuck.recv(4096)
        assert b"200 OK" in head
        async with Caller(gateway.addresses, "rest", timeout=60.0) as caller:
            page = await caller.list(page_size=1)
            task_id = page.tasks[0].id
            started = time.monotonic()
            states = await _states(caller.subscribe(task_id, 0))
            assert states[-1] == TaskState.TASK_STATE_COMPLETED
            assert len(states) >= count
            assert time.monotonic() - started < 30.0
            growth = {name: gateway.memory(name) - before[name] for name in before}
            # the task itself has 80 MB, and what it was made from is not given back at once
            assert growth["core"] < 300 << 20, growth
            assert growth["adapter-http"] < 40 << 20, growth
            task = await caller.get(task_id)
            assert len(task.artifacts[0].parts) == count
        if IS_LONG:
            await _open_streams(gateway, 0, Bounds().write_timeout + 10.0)
            with suppress(ConnectionError):
                while stuck.recv(1 << 20):
                    pass


def _request(text: str) -> bytes:
    body = orjson.dumps(
        {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}]}}
    )
    head = (
        "POST /message:stream HTTP/1.1\r\nhost: x\r\na2a-version: 1.0\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def _states(events: Any) -> list[int]:
    """The state of each event, 0 where it shows none; at the end the negative code of a failure."""
    states = []
    async with aclosing(events):
        try:
            async for _, event in events:
                states.append(state_of(event))
        except FailureError as error:
            states.append(-error.failure.row.code)
    return states


async def _outcome(call: Any) -> tuple[Code, float]:
    """How a call ended, and when."""
    code = Code.OK
    try:
        await call
    except FailureError as error:
        code = error.failure.row.code
    return code, time.monotonic()
