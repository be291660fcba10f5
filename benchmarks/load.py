"""Load: closed loop (each answer starts the next call) and open loop (calls start when they are
due, whatever the answers do). Both refuse to call anything a figure that holds a failed answer.
"""

import asyncio
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol


class LoadError(Exception):
    """The server did not do the work; the text holds its first wrong answer."""


class Client(Protocol):
    """What load needs of a wire."""

    on_answer: Callable[[float], None]

    @property
    def failure(self) -> str:
        """Why the load is void; empty while all is well."""

    def start(self, tag: float) -> None:
        """Send one call."""

    def close(self) -> None:
        """Drop everything."""


@dataclass(slots=True)
class Load:
    """What was seen: good answers, wall seconds, CPU seconds of the generator itself."""

    answers: int
    seconds: float
    generator_cpu: float
    latencies: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Answers per second."""
        return self.answers / self.seconds

    @property
    def generator_share(self) -> float:
        """Part of one core that the generator took; near 1 it was the limit."""
        return self.generator_cpu / self.seconds


async def closed(client: Client, in_flight: int, *, seconds: float, warm_up: float) -> Load:
    """Keep `in_flight` calls under way, and count after the warm-up."""
    answers = 0

    def answered(tag: float) -> None:
        nonlocal answers
        answers += 1
        client.start(0.0)

    client.on_answer = answered
    for _ in range(in_flight):
        client.start(0.0)
    await asyncio.sleep(warm_up)
    before, started, cpu = answers, time.perf_counter(), time.process_time()
    await asyncio.sleep(seconds)
    load = Load(answers - before, time.perf_counter() - started, time.process_time() - cpu)
    _check(client, load)
    return load


async def count(client: Client, in_flight: int, calls: int) -> None:
    """Make so many calls, `in_flight` at a time."""
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    started = answers = 0

    def start() -> None:
        nonlocal started
        started += 1
        client.start(0.0)

    def answered(tag: float) -> None:
        nonlocal answers
        answers += 1
        if started < calls:
            start()
        elif answers == calls:
            done.set_result(None)

    client.on_answer = answered
    for _ in range(min(in_flight, calls)):
        start()
    while not done.done():
        if client.failure:
            raise LoadError(client.failure)
        await asyncio.wait([done], timeout=1.0)


async def open_(client: Client, rate: float, *, seconds: float, warm_up: float) -> Load:
    """Start calls at random (Poisson) at `rate` per second, the same times at every run.

    A call's latency counts from its start, the wait for a free connection included.
    """
    loop = asyncio.get_running_loop()
    latencies: list[float] = []
    from_ = time.perf_counter() + warm_up

    def answered(tag: float) -> None:
        if tag >= from_:
            latencies.append(time.perf_counter() - tag)

    client.on_answer = answered
    done = threading.Event()
    clock = threading.Thread(
        target=_arrivals, args=(loop, client, rate, warm_up + seconds, done), daemon=True
    )
    cpu = time.process_time()
    clock.start()
    await asyncio.sleep(warm_up + seconds)
    done.set()
    clock.join()
    await asyncio.sleep(0.5)
    load = Load(len(latencies), seconds, time.process_time() - cpu, latencies)
    _check(client, load)
    due = rate * seconds
    if load.answers < due * 0.8:
        raise LoadError(f"only {load.answers} of {due:.0f} calls were answered in time")
    return load


def _arrivals(
    loop: asyncio.AbstractEventLoop,
    client: Client,
    rate: float,
    seconds: float,
    done: threading.Event,
) -> None:
    """A thread, since the loop's own timers count in whole milliseconds."""
    arrivals = random.Random(1)
    due = started = time.perf_counter()
    while due - started < seconds and not done.is_set():
        if (wait := due - time.perf_counter()) > 0:
            time.sleep(wait)
        loop.call_soon_threadsafe(_start_now, client)
        due += arrivals.expovariate(rate)


def _start_now(client: Client) -> None:
    client.start(time.perf_counter())


def _check(client: Client, load: Load) -> None:
    if client.failure:
        raise LoadError(client.failure)
    if not load.answers:
        raise LoadError("no answer came while it was measured")


def percentile(values: list[float], part: float) -> float:
    """The value below which `part` (0..1) of the values lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))]
