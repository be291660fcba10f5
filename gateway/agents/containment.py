"""What an agent raises ends its turn and nothing else. Layer: agents."""

import asyncio
from collections.abc import Coroutine
from typing import Any


async def contained(work: Coroutine[Any, Any, None]) -> None:
    """Await an agent's work. What is beyond `Exception` comes out as `RuntimeError`: `SystemExit`
    and `KeyboardInterrupt` would end the loop with every other task, and any other kind leave a
    turn without an end. Cancellation passes."""
    try:
        await work
    except (Exception, asyncio.CancelledError):
        raise
    except BaseException as error:
        if isinstance(error, GeneratorExit) and _is_from_close(error):
            raise
        raise RuntimeError(f"the agent raised for more than its turn: {error!r}") from error


def _is_from_close(error: GeneratorExit) -> bool:
    """Whether this coroutine is thrown away with a loop that ended: Python raises the error in
    the frame that waits, where one of the agent's comes up through the frames of the agent."""
    return error.__traceback__ is not None and error.__traceback__.tb_next is None
