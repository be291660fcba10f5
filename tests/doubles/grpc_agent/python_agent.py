"""The example `examples/grpc_agent/python` with the words of the agent contract suite."""

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import a2a_pb2 as a2a
import agent as example
import agent_pb2 as contract

Words = list[str]


async def echo(request: Any, words: Words) -> example.Events:
    message = request.request.message
    artifact = a2a.Artifact(artifact_id="echo", parts=message.parts, metadata=message.metadata)
    update = a2a.TaskArtifactUpdateEvent(artifact=artifact)
    yield contract.ExecuteResponse(artifact_update=update)
    yield example.status(a2a.TASK_STATE_COMPLETED)


async def answer(request: Any, words: Words) -> example.Events:
    yield example.chunk(f"You said: {' '.join(words)}")
    yield example.status(a2a.TASK_STATE_COMPLETED)


async def direct(request: Any, words: Words) -> example.Events:
    yield contract.ExecuteResponse(message=example.say(" ".join(words[1:])))


async def slow(request: Any, words: Words) -> example.Events:
    for number in range(int(words[1])):
        await asyncio.sleep(float(words[2]) / 1000)
        yield example.chunk(f"chunk {number} ", append=number > 0)
    yield example.status(a2a.TASK_STATE_COMPLETED)


async def burst(request: Any, words: Words) -> example.Events:
    for number in range(int(words[1])):
        yield example.chunk(f"{number} ".ljust(int(words[2]), "."), append=number > 0)
    yield example.status(a2a.TASK_STATE_COMPLETED)


async def ask(request: Any, words: Words) -> example.Events:
    yield example.status(a2a.TASK_STATE_INPUT_REQUIRED, "Which colour?")


async def fail(request: Any, words: Words) -> example.Events:
    yield example.chunk("so far so good")
    raise ValueError(" ".join(words[1:]))


async def tick(request: Any, words: Words) -> example.Events:
    yield example.status(a2a.TASK_STATE_WORKING)
    while True:
        _append(words[1])
        await asyncio.sleep(float(words[2]) / 1000)


def _append(path: str) -> None:
    with Path(path).open("a") as file:
        file.write("tick\n")


async def stubborn(request: Any, words: Words) -> example.Events:
    yield example.status(a2a.TASK_STATE_WORKING)
    end = time.monotonic() + float(words[1])
    while time.monotonic() < end:
        # this is the fault that the double stands for
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(0.01)


async def die(request: Any, words: Words) -> example.Events:
    yield example.status(a2a.TASK_STATE_WORKING)
    await asyncio.sleep(0.05)
    os._exit(9)


async def block(request: Any, words: Words) -> example.Events:
    yield example.status(a2a.TASK_STATE_WORKING)
    await asyncio.sleep(0.05)
    time.sleep(float(words[1]))  # noqa: ASYNC251 - the fault that the double stands for
    yield example.status(a2a.TASK_STATE_COMPLETED)


COMMANDS: dict[str, Callable[[Any, Words], example.Events]] = {
    "message": direct,
    "slow": slow,
    "burst": burst,
    "ask": ask,
    "raise": fail,
    "tick": tick,
    "stubborn": stubborn,
    "die": die,
    "block": block,
}


def behaviour(request: Any) -> example.Events:
    """What the first word says."""
    words = "".join(part.text for part in request.request.message.parts).split()
    if request.HasField("task"):
        return answer(request, words)
    return COMMANDS.get(words[0] if words else "", echo)(request, words)


class Agent(example.Agent):
    """Says nothing to the cancel of a stubborn turn."""

    async def Cancel(self, request: Any, context: Any) -> Any:
        if (
            request.request.message.parts
            and request.request.message.parts[0].text[:8] == "stubborn"
        ):
            return contract.CancelResponse()
        return await super().Cancel(request, context)


if __name__ == "__main__":
    asyncio.run(example.serve(Agent(behaviour), sys.argv[1]))
