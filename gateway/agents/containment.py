"""What an agent raises ends its turn and nothing else. Layer: agents."""

import asyncio
from collections.abc import Awaitable


async def contained(work: Awaitable[None]) -> None:
    """Await an agent's work. What is beyond `Exception` comes out as `RuntimeError`: `SystemExit`
    and `KeyboardInterrupt` would end the loop with every other task, and any other kind leave a
    turn without an end. Cancellation passes."""
    try:
        await work
    except (Exception, asyncio.CancelledError):
        raise
    except BaseException as error:
        if isinstance(error, GeneratorExit) and not _is_in_loop():
            raise  # the process ends: the coroutine is thrown away, nobody raised this
        raise RuntimeError(f"the agent raised for more than its turn: {error!r}") from error


def _is_in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
