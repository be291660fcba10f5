"""Events from other threads: many an agent runs `asyncio.run(...)` in a worker thread to emit.
Layer: agents."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from typing import Any

BEGIN_TIMEOUT = 10.0
"""Seconds; a loop that stands still for longer most likely waits for the very thread."""


async def run_on(
    home: asyncio.AbstractEventLoop,
    work: Callable[[], Coroutine[Any, Any, None]],
    timeout: float = BEGIN_TIMEOUT,
) -> None:
    """Run `work` on the loop `home`, from another thread's loop, and wait for its end. Raises
    `RuntimeError` where `home` does not begin it in time: without that, an agent that blocks its
    loop until its thread has emitted would never go on, and in the core nobody else either."""
    here = asyncio.get_running_loop()
    begun = asyncio.Event()
    given_up = threading.Event()

    async def there() -> None:
        if given_up.is_set():
            return
        with contextlib.suppress(RuntimeError):  # `here` has been closed
            here.call_soon_threadsafe(begun.set)
        await work()

    future = asyncio.run_coroutine_threadsafe(there(), home)
    try:
        async with asyncio.timeout(timeout):
            await begun.wait()
    except TimeoutError:
        given_up.set()
        raise RuntimeError(
            f"the agent's event loop has taken no event for {timeout:g} s; the agent must not "
            "block it while its threads emit"
        ) from None
    await asyncio.wrap_future(future)
