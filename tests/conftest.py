"""What tests of all kinds share."""

import asyncio
import os
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import settings

T = TypeVar("T")

# The same examples at each run, so that a build fails for what it changed and for nothing else;
# `make fuzz` looks for new ones.
settings.register_profile("same", derandomize=True, deadline=None, database=None)
settings.register_profile("search", derandomize=False, deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))

# As in an environment that is activated: lines to be copied call the program by its name.
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"

LIMIT = 120.0
"""Seconds after which a test that hangs is ended; only that takes as long, however slow the
machine."""


def run(main: Coroutine[Any, Any, T], limit: float = LIMIT) -> T:
    """Run a coroutine on a loop of its own; a hang becomes a TimeoutError."""

    async def bounded() -> T:
        async with asyncio.timeout(limit):
            return await main

    return asyncio.run(bounded())
