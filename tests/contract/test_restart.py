"""Stopping and starting again: what is said to those who wait, and what is there afterwards."""

import asyncio
import json
from contextlib import aclosing
from pathlib import Path

import httpx

from gateway.errors import Failure
from tests.conftest import run
from tests.contract.doors import Places
from tests.contract.everywhere import everywhere, talks
from tests.contract.serving import serving
from tests.contract.talking import Talk, failure_of, outcome_of, request, state, until
from tests.contract.test_streaming import kinds
from tests.contract.test_subscribing import all_of

ONCE = request("echo once")


def test_after_a_restart(tmp_path: Path) -> None:
    """ST05, ST07, PR01, S65, S182: finished tasks are as they were and cannot be followed;
    interrupted ones can, and are answered by another door; the list is the same, and a send
    repeated under its key is still the first one."""

    async def before() -> dict[str, list[str]]:
        async with talks(places) as callers:
            made: dict[str, list[str]] = {}
            for caller in callers:
                mine = caller.as_other("tenant")
                tasks = [await mine.send(kind) for kind in ("echo", "ask", "reject", "three")]
                made[str(caller.door)] = [t.id for t in tasks]
                keyed = await mine.answer(ONCE, idempotency_key=str(caller.door))
                made[str(caller.door)].append(keyed.task.id)
            return made

    async def after(made: dict[str, list[str]]) -> None:
        async with talks(places) as others:
            callers = [c.as_other("tenant") for c in others]
            for n, caller in enumerate(callers):
                other = callers[(n + 1) % len(callers)]
                done, asked, rejected, three, keyed = made[str(caller.door)]
                again = await other.answer(ONCE, idempotency_key=str(caller.door))
                assert again.task.id == keyed
                states = [state(await caller.get(t)) for t in (done, asked, rejected, three)]
                assert states == ["COMPLETED", "INPUT_REQUIRED", "REJECTED", "INPUT_REQUIRED"]
                for ended in (done, rejected):
                    failure = await failure_of(all_of(caller.subscribe(ended)))
                    assert failure.row.reason == "UNSUPPORTED_OPERATION"
                log = await all_of(caller.subscribe(done, after=0))
                assert kinds(log)[-1] == "status_update COMPLETED"
                async with aclosing(caller.subscribe(asked)) as events:
                    assert (await anext(events)).response.task.id == asked
                    await other.send("red", task_id=asked)
                    rest = [event async for event in events]
                assert kinds(rest) == ["artifact_update", "status_update COMPLETED"]
                assert state(await other.cancel(three)) == "CANCELED"
            listed = (await callers[0].list()).tasks
            assert {t.id for t in listed} == {t for ids in made.values() for t in ids}

    with serving(tmp_path) as places:
        made = run(before())
    with serving(tmp_path) as places:
        run(after(made))


def test_while_it_stops(tmp_path: Path) -> None:
    """JR11, SH02, GR10, D34: when the gateway's own limit ends a call that would wait for ever, the
    answer is an error at every door, unary and stream, and never an error dressed as a result;
    the task of a turn that was cut off is FAILED afterwards."""

    async def main() -> dict[str, object]:
        async with talks(places) as others:
            callers = [c.as_other("tenant") for c in others]
            waiting: dict[str, asyncio.Task[object]] = {}
            for caller in callers:
                name = str(caller.door)
                idle = await caller.send("ask")
                subscription = caller.subscribe(idle.id)
                await anext(subscription)
                calls = {
                    "unary": caller.answer(request("wait /dev/null/never", context_id=name)),
                    "silent": caller.answer(request("silent")),
                    "silent stream": caller.stream("silent"),
                    "stream": caller.stream("wait /dev/null/never", context_id=name),
                    "idle": all_of(subscription),
                }
                for kind, call in calls.items():
                    waiting[f"{name} {kind}"] = asyncio.create_task(outcome_of(call))
            raw = asyncio.create_task(raw_stream(places))
            await until(lambda: started(callers[0], 2 * len(callers)))
            stopping.set()
            results = await asyncio.gather(*waiting.values())
            lines = await raw
        last = json.loads(lines[-1].removeprefix("data: "))
        assert last["id"] == "raw"
        assert "result" not in last
        assert last["error"]["code"] == -32042
        return dict(zip(waiting, results, strict=True))

    async def stop_then() -> dict[str, object]:
        work = asyncio.create_task(main())
        await stopping.wait()
        await asyncio.to_thread(manager.__exit__, None, None, None)
        return await work

    manager = serving(tmp_path, {"grace": 1.0})
    places = manager.__enter__()  # its end is in the middle of the test
    stopping = asyncio.Event()
    outcomes = run(stop_then())
    for name, outcome in outcomes.items():
        assert isinstance(outcome, Failure), (name, outcome)
        assert outcome.row.reason == "UNAVAILABLE", (name, outcome)
    with serving(tmp_path) as again:

        async def look(caller: Talk) -> list[str]:
            mine = caller.as_other("tenant")
            states = [state(t) for t in (await mine.list()).tasks]
            return sorted(set(states))

        assert everywhere(again, look) == ["FAILED", "INPUT_REQUIRED"]


async def started(caller: Talk, number: int) -> bool:
    """Whether so many tasks work."""
    tasks = (await caller.list(page_size=100)).tasks
    return sum(state(t) == "WORKING" for t in tasks) >= number


async def raw_stream(places: Places) -> list[str]:
    """The data lines of a JSON-RPC stream that has begun and will be cut off."""
    body = {
        "jsonrpc": "2.0",
        "id": "raw",
        "method": "SendStreamingMessage",
        "params": {
            "message": {
                "messageId": "m",
                "role": "ROLE_USER",
                "parts": [{"text": "wait /dev/null/never"}],
            }
        },
    }
    async with (
        httpx.AsyncClient(base_url=places.http, trust_env=False, timeout=20) as http,
        http.stream("POST", "/", json=body, headers={"a2a-version": "1.0"}) as answer,
    ):
        return [line async for line in answer.aiter_lines() if line.startswith("data:")]
