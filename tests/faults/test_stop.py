"""SIGTERM: an exit in time and in order, whatever clients and agents do (SH02, SH03; S182)."""

import asyncio
import signal
import socket
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack, aclosing
from pathlib import Path

import pytest

from gateway.errors import Code, FailureError
from gateway.pb import TaskState
from tests.conftest import run
from tests.faults.callers import DOORS, Caller, Event, state_of
from tests.faults.conftest import IS_LONG
from tests.faults.victim import AGENT, Victim, relaunch, victim
from tests.processes import is_alive

IDLE = 10
"""Streams at each door."""
IDLE_GRACE = 5.0 if IS_LONG else 3.0
BEYOND = 2.0 if IS_LONG else 15.0
"""Seconds beyond the grace; a machine that is busy takes longer."""
GONE_SECONDS = 10.0
COMPLETED = TaskState.TASK_STATE_COMPLETED
FAILED = TaskState.TASK_STATE_FAILED
CUT = -Code.UNAVAILABLE


def test_idle_streams_and_a_mute_client(tmp_path: Path) -> None:
    """SH02: ten idle streams at each door, and a client that neither reads nor closes."""
    with victim(tmp_path, {"grace": IDLE_GRACE}) as gateway:
        run(_stop_with_idle_streams(gateway))
        _check_output(gateway)


async def _stop_with_idle_streams(gateway: Victim) -> None:
    async with AsyncExitStack() as stack:
        stack.enter_context(_mute(gateway))
        streams = []
        for door in DOORS:
            caller = await stack.enter_async_context(Caller(gateway.addresses, door))
            asked = (await caller.send("ask")).task
            streams += [await Stream.open(caller.subscribe(asked.id)) for _ in range(IDLE)]
        started = gateway.terminate()
        ends = [await stream.end for stream in streams]
        assert ends == [CUT] * len(streams)
        assert time.monotonic() - started < IDLE_GRACE
        assert await gateway.exit_code(20.0) == 0, gateway.server.text()
        assert time.monotonic() - started < IDLE_GRACE + BEYOND
    await gateway.gone(GONE_SECONDS)


def _mute(gateway: Victim) -> socket.socket:
    """A client in the middle of a large answer that it does not read."""
    host, _, port = gateway.addresses.http.removeprefix("http://").partition(":")
    mute = socket.create_connection((host, int(port)))
    body = b'{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"burst 4000 4096"}]}}'
    mute.sendall(
        b"POST /message:stream HTTP/1.1\r\nhost: x\r\na2a-version: 1.0\r\n"
        b"content-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)
    )
    assert b" 200 " in mute.recv(1024)
    return mute


def test_streams_with_something_to_say_finish(tmp_path: Path) -> None:
    """SH03: at each door one stream with 3 s of events left and an idle one."""
    with victim(tmp_path, {"grace": 30.0}) as gateway:
        run(_stop_with_a_working_task(gateway))
        _check_output(gateway)


async def _stop_with_a_working_task(gateway: Victim) -> None:
    async with AsyncExitStack() as stack:
        idle, working, blocking = [], [], []
        for door in DOORS:
            caller = await stack.enter_async_context(Caller(gateway.addresses, door))
            asked = (await caller.send("ask")).task
            idle.append(await Stream.open(caller.subscribe(asked.id)))
            working.append(await Stream.open(caller.stream("slow 30 100")))
            blocking.append(asyncio.create_task(caller.send("slow 30 100")))
        await asyncio.sleep(0.1)
        started = gateway.terminate()
        assert [await stream.end for stream in idle] == [CUT] * len(DOORS)
        assert not any(stream.end.done() for stream in working)
        assert [await stream.end for stream in working] == [COMPLETED] * len(DOORS)
        for answer in await asyncio.gather(*blocking):
            assert answer.task.status.state == COMPLETED
        assert await gateway.exit_code(20.0) == 0, gateway.server.text()
        # nothing else was left to wait for
        assert time.monotonic() - started < 30.0
    await gateway.gone(GONE_SECONDS)


def test_agents_that_do_not_end(tmp_path: Path) -> None:
    """One ignores its cancel, one works on for ever, one waits in a thread, in the core's loop and
    in one of their own. Callers are told in time, and the tasks are FAILED at the next start."""
    with ExitStack() as stack:
        for isolation in ("loop", "thread"):
            folder = tmp_path / isolation
            config = {"grace": 1.0, "agent": {"spec": AGENT, "isolation": isolation}}
            gateway = stack.enter_context(victim(folder, config))
            ids = run(_stop_with_agents(gateway, folder))
            _check_output(gateway)
            if isolation == "loop":
                run(_all_failed(stack.enter_context(relaunch(folder)), ids))


async def _stop_with_agents(gateway: Victim, folder: Path) -> list[str]:
    texts = ["stubborn 60", f"tick {folder / 'tick'}", f"wait {folder / 'never'}"]
    async with Caller(gateway.addresses, "grpc") as caller:
        ids = [(await caller.send(text, immediate=True)).task.id for text in texts]
        streams = [await Stream.open(caller.subscribe(task_id)) for task_id in ids]
        started = gateway.terminate()
        assert [await stream.end for stream in streams] == [CUT] * len(ids)
        assert await gateway.exit_code(20.0) == 0, gateway.server.text()
        assert time.monotonic() - started < 1.0 + BEYOND
    await gateway.gone(GONE_SECONDS)
    return ids


async def _all_failed(gateway: Victim, ids: list[str]) -> None:
    async with Caller(gateway.addresses, "rest") as caller:
        for task_id in ids:
            task = await caller.get(task_id)
            assert task.status.state == FAILED
            assert "gateway" in task.status.message.parts[0].text


def test_an_agent_that_blocks_the_loop_is_killed(tmp_path: Path) -> None:
    """It holds everything; the supervisor ends it in time, and says so in the exit code."""

    async def stop(gateway: Victim) -> None:
        async with Caller(gateway.addresses, "grpc") as caller:
            blocked = asyncio.create_task(caller.send("block 60"))
            await asyncio.sleep(0.3)
            started = gateway.terminate()
            assert await gateway.exit_code(20.0) == 1
            assert time.monotonic() - started < 1.0 + BEYOND
            with pytest.raises(FailureError):
                await blocked
        await gateway.gone(GONE_SECONDS)

    with victim(tmp_path, {"grace": 1.0}) as gateway:
        run(stop(gateway))
        assert "core does not end; it is killed" in gateway.server.text()


def test_a_second_signal_hurries(tmp_path: Path) -> None:
    """Ctrl-C twice, or an orchestrator that loses patience: the grace is cut short."""

    async def stop(gateway: Victim) -> None:
        async with AsyncExitStack() as stack:
            streams = []
            for door in DOORS:
                caller = await stack.enter_async_context(Caller(gateway.addresses, door))
                streams.append(await Stream.open(caller.stream("slow 600 100")))
            gateway.terminate()
            await asyncio.sleep(0.5)
            assert is_alive(gateway.supervisor)
            assert not any(stream.end.done() for stream in streams)
            gateway.server.process.send_signal(signal.SIGINT)
            started = time.monotonic()
            assert await gateway.exit_code(20.0) == 0, gateway.server.text()
            assert time.monotonic() - started < BEYOND
            ends = [await stream.end for stream in streams]
            # cut in the middle, or told so
            assert all(end < 0 for end in ends), ends
        await gateway.gone(GONE_SECONDS)

    with victim(tmp_path, {"grace": 60.0}) as gateway:
        run(stop(gateway))
        _check_output(gateway)


class Stream:
    """A stream that is read in the background; `end` gives its last state, or the negative code
    of the failure that ended it."""

    def __init__(self, events: AsyncIterator[Event]) -> None:
        self._begun = asyncio.Event()
        self.end = asyncio.create_task(self._read(events))

    @classmethod
    async def open(cls, events: AsyncIterator[Event]) -> "Stream":
        """Wait for the first event."""
        stream = cls(events)
        await stream._begun.wait()
        return stream

    async def _read(self, events: AsyncIterator[Event]) -> int:
        state = 0
        async with aclosing(events):  # type: ignore[type-var]
            try:
                async for _, event in events:
                    state = state_of(event) or state
                    self._begun.set()
            except FailureError as error:
                return -error.failure.row.code
            finally:
                self._begun.set()
        return state


def _check_output(gateway: Victim) -> None:
    text = gateway.server.text()
    assert "Traceback" not in text, text
    assert "Exception" not in text, text
