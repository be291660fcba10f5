"""Threads for functions that are not async. Layer: agents.

Unlike those of `concurrent.futures` they are daemons: a function that never returns must not
keep the process from ending. Nor must it keep others from their turn once nobody waits for it.
"""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import SimpleQueue
from typing import Any

logger = logging.getLogger(__name__)

Job = tuple["Future[Any]", Callable[[], Any]]


WORTH_A_WARNING = 16


class DaemonThreads(Executor):
    """At most `limit` threads, started when they are needed; further jobs wait in order."""

    def __init__(self, limit: int, name: str):
        self._limit = limit
        self._name = name
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._spare = 0
        """Threads that wait for a job, less the jobs that wait for a thread."""
        self._given_up = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        future: Future[Any] = Future()
        with self._lock:
            self._spare -= 1
            if self._spare < 0 and self._threads < self._limit:
                self._add()
        self._jobs.put((future, lambda: fn(*args, **kwargs)))
        return future

    def give_up(self, future: "Future[Any]") -> None:
        """Nobody waits for the job any more. While it goes on, its thread does not count."""
        with self._lock:
            self._limit += 1
            self._given_up += 1
            count = self._given_up
            if self._spare < 0:
                self._add()
        if count % WORTH_A_WARNING == 0:
            logger.warning(
                "%d functions of agent threads (%s) go on although their turns were cancelled",
                count,
                self._name,
            )
        future.add_done_callback(self._take_back)

    def _take_back(self, _: "Future[Any]") -> None:
        with self._lock:
            self._limit -= 1
            self._given_up -= 1

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Idle threads end at once, others after their job; nobody waits for them."""
        with self._lock:
            for _ in range(self._threads):
                self._jobs.put(None)

    def _add(self) -> None:
        self._threads += 1
        self._spare += 1
        name = f"{self._name}-{self._threads}"
        threading.Thread(target=self._work, name=name, daemon=True).start()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            future, call = job
            if future.set_running_or_notify_cancel():
                try:
                    result = call()
                except BaseException as error:
                    future.set_exception(_carried(error))
                else:
                    future.set_result(result)
                    del result
            # an idle thread keeps nothing of its last job alive
            del job, future, call
            with self._lock:
                if self._threads > self._limit:
                    self._threads -= 1
                    return
                self._spare += 1


def _carried(error: BaseException) -> BaseException:
    """The error in a form that a future takes: a loop's refuses `StopIteration`, which a bare
    `next()` raises, and whoever waits for it would wait for ever."""
    if not isinstance(error, StopIteration):
        return error
    carried = RuntimeError("the function raised StopIteration")
    carried.__cause__ = error
    return carried
