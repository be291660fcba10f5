"""Daemon threads: jobs in order, at most so many at once, none that holds the process."""

import subprocess
import sys
import threading
import time

import pytest

from gateway.agents.threads import DaemonThreads


def test_a_job_gives_its_result_or_its_exception() -> None:
    threads = DaemonThreads(2, "t")
    assert threads.submit(divmod, 7, 2).result(5) == (3, 1)
    assert threads.submit(int, "11", base=2).result(5) == 3
    with pytest.raises(ZeroDivisionError):
        threads.submit(divmod, 7, 0).result(5)
    threads.shutdown()


def test_at_most_so_many_run_at_once_and_the_rest_waits_in_order() -> None:
    threads = DaemonThreads(2, "t")
    go_on, begun = threading.Event(), threading.Barrier(3)
    order: list[int] = []

    def hold() -> None:
        begun.wait(5)
        go_on.wait(5)

    held = [threads.submit(hold) for _ in range(2)]
    begun.wait(5)
    waiting = [threads.submit(order.append, i) for i in range(10)]
    given_up = threads.submit(order.append, 99)
    assert given_up.cancel()
    assert order == []
    go_on.set()
    for future in [*held, *waiting]:
        future.result(5)
    assert sorted(order) == list(range(10))
    threads.shutdown()


def test_threads_are_used_again_and_end_at_shutdown() -> None:
    threads = DaemonThreads(8, "again")
    used = {threads.submit(threading.current_thread).result(5) for _ in range(3)}
    threads.shutdown()
    for thread in used:
        thread.join(5)
        assert not thread.is_alive()


def test_a_job_that_never_ends_does_not_hold_the_process() -> None:
    script = (
        "import threading; from gateway.agents.threads import DaemonThreads; "
        "DaemonThreads(1, 't').submit(threading.Event().wait)"
    )
    assert subprocess.run([sys.executable, "-c", script], timeout=20, check=False).returncode == 0


def test_a_job_that_nobody_waits_for_leaves_its_place(caplog: pytest.LogCaptureFixture) -> None:
    """Others run meanwhile, those that wait already among them; afterwards the limit is as
    before."""
    threads = DaemonThreads(1, "t")
    for _ in range(3):
        go_on, begun = [threading.Event() for _ in range(16)], threading.Semaphore(0)

        def hold(event: threading.Event, begun: threading.Semaphore = begun) -> None:
            begun.release()
            event.wait(5)

        held = []
        for event in go_on:
            held.append(threads.submit(hold, event))
            begun.acquire(timeout=5)
            waiting = threads.submit(threading.current_thread)
            threads.give_up(held[-1])
            waiting.result(5)
        assert "16 functions" in caplog.text
        for event in go_on:
            event.set()
        for future in held:
            future.result(5)
        end = time.monotonic() + 5
        while (threads._limit, threads._threads, threads._spare) != (1, 1, 1):
            assert time.monotonic() < end
            time.sleep(0.001)
    threads.shutdown()
