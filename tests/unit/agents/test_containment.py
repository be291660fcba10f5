"""What an agent raises beyond `Exception`."""

import asyncio

import pytest

from gateway.agents.containment import contained
from tests.conftest import run


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
def test_it_comes_out_as_an_exception(error: BaseException) -> None:
    async def work() -> None:
        raise error

    with pytest.raises(RuntimeError, match="more than its turn") as caught:
        run(contained(work()))
    assert caught.value.__cause__ is error


@pytest.mark.parametrize("error", [ValueError("x"), asyncio.CancelledError()])
def test_errors_and_cancellation_pass(error: BaseException) -> None:
    async def work() -> None:
        raise error

    with pytest.raises(type(error)):
        run(contained(work()))


def test_work_that_is_thrown_away_raises_nothing() -> None:
    """A loop has ended, and the collector comes while another one runs."""
    closed: list[bool] = []

    async def work() -> None:
        try:
            await asyncio.sleep(0)
        finally:
            closed.append(True)

    async def main() -> None:
        abandoned = contained(work())
        abandoned.send(None)
        abandoned.close()

    run(main())
    assert closed == [True]
