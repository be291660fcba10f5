"""Calls that begin in groups."""

import asyncio

from gateway.server import gathering
from gateway.server.gathering import Gathering
from tests.conftest import run


async def _call(group: Gathering, begun: list[int], number: int) -> None:
    if (wait := group.enter()) is not None:
        await wait
    begun.append(number)


async def _learn(group: Gathering) -> None:
    """Let it see calls that come close together."""
    await asyncio.gather(*(_call(group, [], n) for n in range(gathering.PROBE + 1)))


def test_a_lone_call_begins_at_once() -> None:
    """Nothing is waited for while no other calls come."""

    async def body() -> None:
        group = Gathering()
        assert all(group.enter() is None for _ in range(gathering.PROBE - 1))

    run(body())


def test_calls_under_load_begin_together() -> None:
    """Calls that come in rounds of the loop of their own begin in the same one."""

    async def body() -> None:
        group = Gathering()
        await _learn(group)
        begun: list[int] = []
        tasks = []
        for number in range(5):
            tasks.append(asyncio.create_task(_call(group, begun, number)))
            await asyncio.sleep(0)
            assert begun == []
        await asyncio.gather(*tasks)
        assert begun == list(range(5))

    run(body())


def test_a_full_group_begins() -> None:
    """More calls than a group holds do not keep the first ones waiting."""

    async def body() -> None:
        group = Gathering()
        await _learn(group)
        begun: list[int] = []
        tasks = []
        for number in range(gathering.MOST + 3):
            tasks.append(asyncio.create_task(_call(group, begun, number)))
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert len(begun) >= gathering.MOST
        await asyncio.gather(*tasks)
        assert sorted(begun) == list(range(gathering.MOST + 3))

    run(body())


def test_waiting_is_given_up_where_no_calls_come() -> None:
    """After a few lone groups calls begin at once again."""

    async def body() -> None:
        group = Gathering()
        await _learn(group)
        waited = 0
        for _ in range(gathering.PATIENCE + 5):
            if (wait := group.enter()) is not None:
                waited += 1
                await wait
        assert waited == gathering.PATIENCE

    run(body())


def test_a_cancelled_call_holds_nobody_up() -> None:
    """Whoever left while the group was forming is passed over."""

    async def body() -> None:
        group = Gathering()
        await _learn(group)
        begun: list[int] = []
        first = asyncio.create_task(_call(group, begun, 1))
        second = asyncio.create_task(_call(group, begun, 2))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait([first, second])
        assert begun == [2]

    run(body())
