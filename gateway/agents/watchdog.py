"""Notices that the core's loop stands still, and names the agent. Layer: agents.

The loop stamps the time at a fixed interval; a thread looks at the stamp. While the loop is
blocked the thread logs once where it stands; when it goes on the loop logs for how long it stood
and tells the callback. The cost is one timer and one thread wake-up an interval.
"""

import asyncio
import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable

logger = logging.getLogger(__name__)

LIMIT = 1.0
ADVICE = "every door waits. Let the agent await, or run it with isolation: thread or process"


class Watchdog:
    """Made by `install`; watches until `stop`."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        agent_name: str,
        limit: float,
        on_block: Callable[[float], None] | None,
        advice: str = ADVICE,
    ):
        self._loop = loop
        self._agent_name = agent_name
        self._limit = limit
        self._interval = limit / 4
        self._on_block = on_block
        self._advice = advice
        self._loop_thread = 0
        self._stamp = 0.0
        self._reported = 0.0
        """The stamp of the blockage whose stack is in the log."""
        self._timer: asyncio.Handle | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)

    def start(self) -> None:
        """Watch from the loop's next step on."""
        self._timer = self._loop.call_soon(self._begin)

    def stop(self) -> None:
        """Watch no more. From the loop's thread; may be called twice."""
        if self._timer is not None:
            self._timer.cancel()
        self._stopped.set()

    def _begin(self) -> None:
        self._loop_thread = threading.get_ident()
        self._stamp = time.monotonic()
        self._thread.start()
        self._timer = self._loop.call_later(self._interval, self._tick)

    def _tick(self) -> None:
        now = time.monotonic()
        stood = now - self._stamp
        self._stamp = now
        self._timer = self._loop.call_later(self._interval, self._tick)
        if stood > self._limit:
            self._report_end(stood)

    def _report_end(self, stood: float) -> None:
        # without a stack the watching thread stood too: the process was paused, or C code held
        # the interpreter's lock
        cause = "" if self._reported else " (or the process was paused)"
        self._reported = 0.0
        logger.warning(
            "the event loop was blocked for %.1f s%s; agent %s", stood, cause, self._agent_name
        )
        if self._on_block is not None:
            self._on_block(stood)

    def _watch(self) -> None:
        looked = time.monotonic()
        while not self._stopped.wait(self._interval):
            now = time.monotonic()
            # a thread that overslept knows nothing about the loop: it gets time for a tick first
            overslept = now - looked > 2 * self._interval
            looked = now
            if now - self._stamp > self._limit and not self._reported and not overslept:
                self._reported = self._stamp
                self._report_stack(now - self._stamp)

    def _report_stack(self, stood: float) -> None:
        frame = sys._current_frames().get(self._loop_thread)
        stack = "".join(traceback.format_stack(frame)) if frame else "(its thread is gone)\n"
        logger.warning(
            "the event loop has been blocked for %.1f s, most likely by agent %s; %s. The loop "
            "stands at:",
            stood,
            self._agent_name,
            self._advice,
            extra={"trace": stack.rstrip()},
        )


def install(
    loop: asyncio.AbstractEventLoop,
    agent_name: str,
    limit: float = LIMIT,
    on_block: Callable[[float], None] | None = None,
    advice: str = ADVICE,
) -> Watchdog:
    """Watch a loop; call from its thread. `on_block` gets the seconds of each blockage, on the
    loop, after its end. `advice` says in the log what follows and what to do."""
    watchdog = Watchdog(loop, agent_name, limit, on_block, advice)
    watchdog.start()
    return watchdog
