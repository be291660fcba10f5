"""Deadlines, cancelled callers and the drain."""

import asyncio
import time
from typing import Any

import pytest

from gateway.errors import DeadlineExceededError, UnavailableError
from gateway.pb import GetTaskRequest, SubscribeToTaskRequest, TaskState
from gateway.service import Service
from tests.conftest import run
from tests.doubles.runtime import ScriptedRuntime, make_task, status_event, task_event
from tests.unit.service.making import make_call, make_send, make_service

WORKING = TaskState.TASK_STATE_WORKING


def make_waiting() -> tuple[ScriptedRuntime, Service]:
    """A runtime that gives two events and then waits at its gate."""
    runtime = ScriptedRuntime()
    runtime.gate = asyncio.Event()
    runtime.put(make_task("t1", WORKING))
    runtime.log = [task_event(1, make_task("t1", WORKING)), status_event(2, "t1", WORKING)]
    return runtime, make_service(runtime)


async def read(service: Service, seen: list[Any], **fields: Any) -> None:
    request = SubscribeToTaskRequest(id="t1")
    async for batch in service.stream("SubscribeToTask", request, make_call(**fields)):
        seen.extend(batch)


def in_seconds(seconds: float) -> float:
    return time.monotonic() + seconds


def test_a_deadline_ends_a_unary_call() -> None:
    """GR10, S184: on time, the handler freed; the runtime's work is not touched."""

    async def main() -> None:
        runtime, service = make_waiting()
        started = time.monotonic()
        with pytest.raises(DeadlineExceededError, match="goes on"):
            await service.unary("SendMessage", make_send(), make_call(deadline=in_seconds(0.05)))
        assert time.monotonic() - started < 1
        assert len(runtime.sent) == 1
        assert len(service.running) == 0
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0

    run(main())


def test_a_deadline_ends_a_stream() -> None:
    """GR10: events until then are delivered; the reader is given back."""

    async def main() -> None:
        runtime, service = make_waiting()
        seen: list[Any] = []
        with pytest.raises(DeadlineExceededError):
            await read(service, seen, deadline=in_seconds(0.05))
        assert seen == runtime.log
        assert (runtime.readers, len(service.running)) == (0, 0)

    run(main())


def test_a_deadline_ends_a_stream_whose_reader_is_busy() -> None:
    """GR10: it is noticed when the reader comes back."""

    async def main() -> None:
        runtime, service = make_waiting()
        request = SubscribeToTaskRequest(id="t1")
        call = make_call(deadline=in_seconds(0.02))
        events = service.stream("SubscribeToTask", request, call)
        await anext(events)
        await asyncio.sleep(0.05)
        with pytest.raises(DeadlineExceededError):
            await anext(events)
        assert runtime.readers == 0

    run(main())


def test_a_deadline_that_has_passed_starts_nothing() -> None:
    """GR10: the answer says that nothing was done."""

    async def main() -> None:
        runtime, service = make_waiting()
        with pytest.raises(DeadlineExceededError, match="nothing was done"):
            await service.unary("SendMessage", make_send(), make_call(deadline=in_seconds(-1)))
        assert not runtime.sent

    run(main())


def test_a_call_in_time_leaves_no_timer() -> None:
    """GR10: a deadline that was kept does not end the caller later."""

    async def main() -> None:
        runtime, service = make_waiting()
        runtime.gate = None
        await service.unary(
            "GetTask", GetTaskRequest(id="t1"), make_call(deadline=in_seconds(0.03))
        )
        await asyncio.sleep(0.06)

    run(main())


def test_the_callers_own_cancel_stays_a_cancel() -> None:
    """S85: not turned into an error, even beside a deadline that passes at the same moment."""

    async def main() -> None:
        runtime, service = make_waiting()
        sending = asyncio.create_task(
            service.unary("SendMessage", make_send(), make_call(deadline=in_seconds(5)))
        )
        await runtime.entered.wait()
        [running] = service.running._calls
        sending.cancel()
        running.end(DeadlineExceededError())
        with pytest.raises(asyncio.CancelledError):
            await sending
        assert len(service.running) == 0

    run(main())


def test_closing_a_stream_gives_its_reader_back() -> None:
    """SS09, S85, R16: at once, and nothing else is touched."""

    async def main() -> None:
        runtime, service = make_waiting()
        request = SubscribeToTaskRequest(id="t1")
        for _ in range(100):
            events = service.stream("SubscribeToTask", request, make_call())
            await anext(events)
            await events.aclose()
        assert (runtime.readers, runtime.finished, len(service.running)) == (0, 100, 0)
        assert runtime.stored

    run(main())


def test_counts_open_streams() -> None:
    """S190: a stream is open from its first event to its end, however it ends."""

    async def main() -> None:
        runtime, _ = make_waiting()
        moves: list[str] = []
        service = make_service(
            runtime,
            stream_opened=lambda door: moves.append(f"+{door}"),
            stream_closed=lambda door: moves.append(f"-{door}"),
        )
        events = service.stream("SubscribeToTask", SubscribeToTaskRequest(id="t1"), make_call())
        assert moves == []
        await anext(events)
        assert moves == ["+test"]
        await events.aclose()
        assert moves == ["+test", "-test"]

    run(main())


def test_a_drain_takes_no_new_calls() -> None:
    """SH02, SH03: UNAVAILABLE from the moment it begins."""

    async def main() -> None:
        _, service = make_waiting()
        await service.drain(1.0)
        with pytest.raises(UnavailableError, match="stopping"):
            await service.unary("SendMessage", make_send(), make_call())
        with pytest.raises(UnavailableError, match="stopping"):
            await read(service, [])

    run(main())


def test_a_drain_waits_for_unary_calls() -> None:
    """SH03: what runs may finish within the grace."""

    async def main() -> None:
        runtime, service = make_waiting()
        assert runtime.gate is not None
        sending = asyncio.create_task(service.unary("SendMessage", make_send(), make_call()))
        await runtime.entered.wait()
        draining = asyncio.create_task(service.drain(20.0))
        await asyncio.sleep(0.02)
        assert not draining.done()
        runtime.gate.set()
        await sending
        started = time.monotonic()
        await draining
        assert time.monotonic() - started < 1

    run(main())


def test_a_drain_ends_all_at_the_end_of_the_grace() -> None:
    """SH02: calls that go on end with UNAVAILABLE, not by a broken connection."""

    async def main() -> None:
        runtime, service = make_waiting()
        sending = asyncio.create_task(service.unary("SendMessage", make_send(), make_call()))
        await runtime.entered.wait()
        started = time.monotonic()
        await service.drain(0.1)
        assert 0.05 < time.monotonic() - started < 2
        with pytest.raises(UnavailableError):
            await sending

    run(main())


def test_a_drain_ends_idle_streams() -> None:
    """SH02, SH03: a stream whose task waits for its client closes early."""

    async def main() -> None:
        runtime, service = make_waiting()
        reading = asyncio.create_task(read(service, []))
        await runtime.entered.wait()
        started = time.monotonic()
        await service.drain(20.0)
        assert time.monotonic() - started < 2
        with pytest.raises(UnavailableError):
            await reading
        assert runtime.readers == 0

    run(main())


@pytest.mark.parametrize("ends_in_time", [True, False])
def test_a_drain_spares_streams_of_working_tasks(ends_in_time: bool) -> None:
    """SH03: events may still come, however long the agent is silent; the grace bounds it."""

    async def main() -> None:
        runtime, service = make_waiting()
        assert runtime.gate is not None
        runtime.working = True
        reading = asyncio.create_task(read(service, []))
        await runtime.entered.wait()
        grace = 20.0 if ends_in_time else 0.2
        draining = asyncio.create_task(service.running.drain(grace, runtime.is_working, 0.01))
        await asyncio.sleep(0.1)
        assert not draining.done()
        if ends_in_time:
            runtime.gate.set()
            await reading
        else:
            with pytest.raises(UnavailableError):
                await reading
        await draining

    run(main())


def test_a_drain_waits_for_the_last_events_of_work_that_has_just_ended() -> None:
    """SH03: a stream is idle only when it has been quiet since its work ended, not since its
    last event."""

    async def main() -> None:
        runtime, service = make_waiting()
        assert runtime.gate is not None
        runtime.working = True
        reading = asyncio.create_task(read(service, []))
        await runtime.entered.wait()
        draining = asyncio.create_task(service.running.drain(20.0, runtime.is_working, 0.2))
        await asyncio.sleep(0.5)
        runtime.working = False
        # another call ends: the drain looks again at once
        service.running._ended.set()  # type: ignore[union-attr]
        await asyncio.sleep(0.05)
        runtime.gate.set()
        await reading
        await draining

    run(main())


def test_a_second_drain_with_less_grace_takes_over() -> None:
    """SH02: a second signal does not wait for the first one's grace."""

    async def main() -> None:
        runtime, service = make_waiting()
        sending = asyncio.create_task(service.unary("SendMessage", make_send(), make_call()))
        await runtime.entered.wait()
        first = asyncio.create_task(service.drain(20.0))
        await asyncio.sleep(0)
        await service.drain(0.0)
        with pytest.raises(UnavailableError):
            await sending
        await first

    run(main())
