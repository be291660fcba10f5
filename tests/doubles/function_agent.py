"""The agent of the contract suite as an async generator function.

The first word of the message is the command, as in `tests.doubles.agents`; any other is an echo.
"""

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from gateway.agents.function import Input, ask, reply, status
from gateway.pb import Artifact


async def echo(input: Input, words: list[str]) -> AsyncIterator[Any]:
    artifact = Artifact(parts=input.message.parts)
    artifact.metadata.CopyFrom(input.message.metadata)
    yield artifact


async def direct(input: Input, words: list[str]) -> AsyncIterator[Any]:
    yield reply(" ".join(words[1:]))


async def slow(input: Input, words: list[str]) -> AsyncIterator[Any]:
    for number in range(int(words[1])):
        await asyncio.sleep(float(words[2]) / 1000)
        yield f"chunk {number} "


async def burst(input: Input, words: list[str]) -> AsyncIterator[Any]:
    for number in range(int(words[1])):
        yield f"{number} ".ljust(int(words[2]), ".")


async def question(input: Input, words: list[str]) -> AsyncIterator[Any]:
    yield ask("Which colour?")


async def fail(input: Input, words: list[str]) -> AsyncIterator[Any]:
    yield "so far so good"
    raise ValueError(" ".join(words[1:]))


async def tick(input: Input, words: list[str]) -> AsyncIterator[Any]:
    yield status("ticking")
    while True:
        _append(words[1])
        await asyncio.sleep(float(words[2]) / 1000)


async def stubborn(input: Input, words: list[str]) -> AsyncIterator[Any]:
    yield status("ticking")
    end = time.monotonic() + 1.0
    while time.monotonic() < end:
        # this is the fault that the double stands for
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(0.01)


def _append(path: str) -> None:
    with Path(path).open("a") as file:
        file.write("tick\n")


async def die(input: Input, words: list[str]) -> AsyncIterator[Any]:
    yield status("dying")
    os._exit(9)


async def block(input: Input, words: list[str]) -> AsyncIterator[Any]:
    yield status("blocking")
    time.sleep(float(words[1]))  # noqa: ASYNC251 - the fault that the double stands for


COMMANDS: dict[str, Callable[[Input, list[str]], AsyncIterator[Any]]] = {
    "message": direct,
    "slow": slow,
    "burst": burst,
    "ask": question,
    "raise": fail,
    "tick": tick,
    "stubborn": stubborn,
    "die": die,
    "block": block,
}


async def agent(input: Input) -> AsyncIterator[Any]:
    words = input.text.split()
    if input.task is not None:
        yield "You said: " + input.text
        return
    async for value in COMMANDS.get(words[0] if words else "", echo)(input, words):
        yield value
