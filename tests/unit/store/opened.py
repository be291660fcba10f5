"""Runs a test's coroutine with its store open."""

import functools
from collections.abc import Callable, Coroutine
from typing import Any

from gateway.store import Store
from tests.conftest import run

Body = Callable[[Store], Coroutine[Any, Any, None]]


def with_store(body: Body) -> Callable[[Store], None]:
    """Make a test of a coroutine function that takes the opened store."""

    @functools.wraps(body)
    def test(store: Store) -> None:
        async def main() -> None:
            await store.open()
            try:
                await body(store)
            finally:
                await store.close()

        run(main())

    return test
