"""What every kind of agent does for the runtime: one body of behaviours over the kinds of
`kinds.py`."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from pathlib import Path

import pytest
from google.protobuf.json_format import MessageToDict

from gateway.pb import Part
from tests.agents.conversing import (
    Client,
    client_of,
    events,
    is_still,
    state_of,
    text_of,
    words_of,
)
from tests.agents.kinds import Kind, all_that_can
from tests.conftest import run

TICK = 5
"""Milliseconds."""
PATIENT = 20.0
"""A cancel timeout that no agent reaches which hears of its cancel, however slow the machine."""


def over(kinds: list[Kind]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("kind", kinds, ids=[kind.name for kind in kinds])


def play(
    kind: Kind, folder: Path, scene: Callable[[Client], Coroutine[object, object, None]]
) -> None:
    async def main() -> None:
        async with client_of(kind, folder) as client:
            await scene(client)

    run(main())


@over(all_that_can())
def test_completes(kind: Kind, tmp_path: Path) -> None:
    async def scene(client: Client) -> None:
        task = await client.ask("hello there")
        assert state_of(task) == "COMPLETED"
        assert text_of(task) == "hello there"

    play(kind, tmp_path, scene)


@over(all_that_can())
def test_streams(kind: Kind, tmp_path: Path) -> None:
    """What is said comes as it is said, while the agent has most of it still to say."""

    async def scene(client: Client) -> None:
        sent = await client.begin("slow 1000 40")
        text = ""
        async for event in events(sent):
            text += "".join(part.text for part in event.artifact_update.artifact.parts)
            if "chunk 4 " in text:
                break
        assert text.startswith("".join(f"chunk {number} " for number in range(5)))
        assert state_of(await client.cancel(sent.task_id)) == "CANCELED"

    play(kind, tmp_path, scene)


@over(all_that_can())
def test_asks_and_is_answered(kind: Kind, tmp_path: Path) -> None:
    """LC03: one task over two turns."""

    async def scene(client: Client) -> None:
        task = await client.ask("ask")
        assert state_of(task) == "INPUT_REQUIRED"
        assert words_of(task) == "Which colour?"
        again = await client.ask("blue", task_id=task.id)
        assert state_of(again) == "COMPLETED"
        assert text_of(again).endswith("You said: blue")
        assert (again.id, again.context_id) == (task.id, task.context_id)

    play(kind, tmp_path, scene)


@over(all_that_can())
def test_is_cancelled(kind: Kind, tmp_path: Path) -> None:
    """S82, ST14: it hears of it, and what it was doing ends."""
    path = tmp_path / "ticks"

    async def main() -> None:
        async with client_of(kind, tmp_path, cancel_timeout=PATIENT) as client:
            sent = await client.working(f"tick {path} {TICK}")
            while not path.exists():  # noqa: ASYNC110  no event tells
                await asyncio.sleep(0.005)
            started = time.monotonic()
            assert state_of(await client.cancel(sent.task_id)) == "CANCELED"
            assert time.monotonic() - started < PATIENT
            await is_still(path)
            assert state_of(await client.ask("and now")) == "COMPLETED"

    run(main())


@over(all_that_can())
def test_is_cancelled_while_it_waits(kind: Kind, tmp_path: Path) -> None:
    async def scene(client: Client) -> None:
        task = await client.ask("ask")
        assert state_of(await client.cancel(task.id)) == "CANCELED"

    play(kind, tmp_path, scene)


@over(all_that_can())
def test_ignores_a_cancel(kind: Kind, tmp_path: Path) -> None:
    """S82: the task is CANCELED after the cancel timeout all the same."""
    path = tmp_path / "ticks"

    async def scene(client: Client) -> None:
        sent = await client.working(f"stubborn 1 {path} {TICK}")
        assert state_of(await client.cancel(sent.task_id)) == "CANCELED"
        await is_still(path)

    play(kind, tmp_path, scene)


@over(all_that_can())
def test_raises(kind: Kind, tmp_path: Path) -> None:
    """S176: the task says that the agent failed, and nothing of what only the log should know."""

    async def scene(client: Client) -> None:
        task = await client.ask("raise 2 secret-123 in /etc/passwd")
        assert state_of(task) == "FAILED"
        assert words_of(task)
        assert "secret-123" not in str(task).replace("raise 2 secret-123", "")
        assert state_of(await client.ask("and now")) == "COMPLETED"

    play(kind, tmp_path, scene)


@over(all_that_can("die"))
def test_dies(kind: Kind, tmp_path: Path) -> None:
    """Its process is killed in the middle: the task says so, and the next one is served."""

    async def scene(client: Client) -> None:
        task = await client.ask("die")
        assert state_of(task) == "FAILED"
        assert words_of(task)
        assert state_of(await client.ask("and now")) == "COMPLETED"

    play(kind, tmp_path, scene)


@over(all_that_can())
@pytest.mark.parametrize(("count", "size"), [(10_000, 16), (64, 128 * 1024)])
def test_floods(kind: Kind, tmp_path: Path, count: int, size: int) -> None:
    """R16: whole and in order, however many chunks and bytes."""

    async def scene(client: Client) -> None:
        task = await client.ask(f"burst {count} {size}")
        assert state_of(task) == "COMPLETED"
        text = text_of(task)
        assert len(text) == count * size
        numbers = [int(text[at : at + size].split(" ")[0]) for at in range(0, len(text), size)]
        assert numbers == list(range(count))

    play(kind, tmp_path, scene)


@over(all_that_can("block"))
def test_blocks(kind: Kind, tmp_path: Path) -> None:
    """The gateway goes on meanwhile."""

    async def scene(client: Client) -> None:
        sent = await client.begin("block 0.6")
        turns = 0
        ending = asyncio.ensure_future(sent.outcome(wait=True))
        while not ending.done():
            await asyncio.sleep(0.005)
            turns += 1
        assert state_of((await ending).task) == "COMPLETED"
        # a loop that was blocked takes one or two
        assert turns >= 10

    play(kind, tmp_path, scene)


@over(all_that_can("direct"))
def test_answers_directly(kind: Kind, tmp_path: Path) -> None:
    async def scene(client: Client) -> None:
        response = await client.send("message hi there")
        assert response.HasField("message")
        assert response.message.parts[0].text == "hi there"

    play(kind, tmp_path, scene)


@over(all_that_can("contents"))
def test_takes_and_gives_files_and_metadata(kind: Kind, tmp_path: Path) -> None:
    async def scene(client: Client) -> None:
        content = bytes(range(256))
        file = Part(raw=content, filename="all.bin", media_type="application/octet-stream")
        data = Part(media_type="application/json")
        data.data.struct_value["n"] = 1.5
        task = await client.ask("see", file, data, metadata={"key": ["value"]})
        (artifact,) = task.artifacts
        assert list(artifact.parts) == [Part(text="see"), file, data]
        assert MessageToDict(artifact.metadata) == {"key": ["value"]}

    play(kind, tmp_path, scene)


@over(all_that_can())
def test_stops_in_the_middle(kind: Kind, tmp_path: Path) -> None:
    """The gateway stops: what the agent is doing ends with it."""
    path = tmp_path / "ticks"

    async def main() -> None:
        async with client_of(kind, tmp_path, grace=0.0) as client:
            await client.working(f"tick {path} {TICK}")
            while not path.exists():  # noqa: ASYNC110  no event tells
                await asyncio.sleep(0.005)
        await is_still(path)

    run(main())


@over(all_that_can())
def test_is_cancelled_in_a_flood(kind: Kind, tmp_path: Path) -> None:
    """A cancel is heard however much is on its way."""

    async def scene(client: Client) -> None:
        sent = await client.begin("burst 1000000 64")
        async for event in events(sent):
            if event.HasField("artifact_update"):
                break
        task = await client.cancel(sent.task_id)
        assert state_of(task) == "CANCELED"
        assert state_of(await client.ask("and now")) == "COMPLETED"

    play(kind, tmp_path, scene)


@over(all_that_can())
def test_many_at_once(kind: Kind, tmp_path: Path) -> None:
    """Turns of different tasks run side by side, each with what is its own."""

    async def scene(client: Client) -> None:
        tasks = await asyncio.gather(*(client.ask(f"number {n}") for n in range(20)))
        assert [text_of(task) for task in tasks] == [f"number {n}" for n in range(20)]
        assert {state_of(task) for task in tasks} == {"COMPLETED"}

    play(kind, tmp_path, scene)
