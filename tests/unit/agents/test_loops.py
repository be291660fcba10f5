"""Work that crosses from one loop to another."""

import asyncio
import threading

import pytest

from gateway.agents.loops import run_on
from tests.conftest import run


def test_an_error_comes_back() -> None:
    async def work() -> None:
        raise ValueError("x")

    async def main() -> None:
        home = asyncio.get_running_loop()
        with pytest.raises(ValueError, match="x"):
            await asyncio.to_thread(lambda: asyncio.run(run_on(home, work)))

    run(main())


def test_a_loop_that_waits_for_the_thread_is_not_waited_for() -> None:
    """Both would stand for ever."""
    errors: list[str] = []
    is_done = []

    async def work() -> None:
        is_done.append(True)

    async def main() -> None:
        home = asyncio.get_running_loop()

        def emit() -> None:
            try:
                asyncio.run(run_on(home, work, 0.05))
            except RuntimeError as error:
                errors.append(str(error))

        thread = threading.Thread(target=emit)
        thread.start()
        thread.join()
        await asyncio.sleep(0.01)

    run(main())
    assert "must not block it" in errors[0]
    assert not is_done
