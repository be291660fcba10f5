"""What tests of all kinds share."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

LIMIT = 30.0
"""Seconds after which a test that hangs is ended."""


def run(main: Coroutine[Any, Any, T], limit: float = LIMIT) -> T:
    """Run a coroutine on a loop of its own; a hang becomes a TimeoutError."""

    async def bounded() -> T:
        async with asyncio.timeout(limit):
            return await main

    return asyncio.run(bounded())
