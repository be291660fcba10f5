"""The watchdog: a blocked loop is named while it stands and counted once it goes on."""

import asyncio
import logging
import threading
import time
from collections.abc import Iterator

import pytest

from gateway.agents import watchdog
from tests.conftest import run

LIMIT = 0.08


def block_until(event: threading.Event) -> None:
    event.wait(10)


class Seen(logging.Handler):
    """Sets an event at the first record, from whatever thread."""

    def __init__(self) -> None:
        super().__init__()
        self.first = threading.Event()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage() + getattr(record, "trace", ""))
        self.first.set()


@pytest.fixture
def seen() -> Iterator[Seen]:
    handler = Seen()
    logger = logging.getLogger(watchdog.__name__)
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


def test_a_blockage_is_reported_once_with_its_place_and_its_duration(seen: Seen) -> None:
    blocks: list[float] = []

    async def main() -> None:
        ended = asyncio.Event()

        def on_block(seconds: float) -> None:
            blocks.append(seconds)
            ended.set()

        dog = watchdog.install(asyncio.get_running_loop(), "bad-agent", LIMIT, on_block)
        await asyncio.sleep(LIMIT / 2)
        block_until(seen.first)
        time.sleep(LIMIT)  # noqa: ASYNC251 - it must not be reported again
        await ended.wait()
        dog.stop()

    run(main())
    assert len(seen.texts) == 2
    during, after = seen.texts
    assert "bad-agent" in during
    assert "block_until" in during
    assert "isolation: thread" in during
    assert "was blocked for" in after
    assert "paused" not in after
    assert len(blocks) == 1
    assert blocks[0] > LIMIT


def test_each_blockage_is_reported(seen: Seen) -> None:
    blocks: list[float] = []

    async def main() -> None:
        ended = asyncio.Event()

        def on_block(seconds: float) -> None:
            blocks.append(seconds)
            ended.set()

        dog = watchdog.install(asyncio.get_running_loop(), "a", LIMIT, on_block)
        for expected in (1, 2):
            await asyncio.sleep(LIMIT / 2)
            time.sleep(2 * LIMIT)  # noqa: ASYNC251 - the fault under test
            await ended.wait()
            ended.clear()
            assert len(blocks) == expected
        dog.stop()

    run(main())


def test_a_loop_that_turns_is_not_reported(seen: Seen) -> None:
    async def main() -> None:
        dog = watchdog.install(asyncio.get_running_loop(), "a", 1.0)
        for _ in range(20):
            await asyncio.sleep(0.005)
        dog.stop()

    run(main())
    assert seen.texts == []


def test_stop_ends_the_thread_and_may_be_called_twice() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        before = set(threading.enumerate())
        dog = watchdog.install(loop, "a", LIMIT)
        dog.stop()
        dog.stop()
        dog = watchdog.install(loop, "a", LIMIT)
        await asyncio.sleep(0)
        (thread,) = set(threading.enumerate()) - before
        dog.stop()
        await asyncio.to_thread(thread.join, 5)
        assert not thread.is_alive()

    run(main())
