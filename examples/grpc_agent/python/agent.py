"""An agent in a process of its own: grpcio, and stubs made from the gateway's contract.

    pip install grpcio grpcio-tools googleapis-common-protos
    python -m grpc_tools.protoc --descriptor_set_in=agent.binpb \\
        --python_out=. --grpc_python_out=. a2a.proto agent.proto
    python agent.py 127.0.0.1:9000

`agent.binpb` lies in `proto/` of the gateway. Rules of the contract: `proto/agent.proto`.
"""

import asyncio
import signal
import sys
import uuid
from collections.abc import AsyncIterator, Callable
from typing import Any

import a2a_pb2 as a2a
import agent_pb2 as contract
import agent_pb2_grpc
import grpc

LARGEST_MESSAGE = 17 << 20
"""A little more than the gateway's limits.message_bytes; gRPC's own limit is 4 MiB."""
GRACE = 20.0
"""Seconds that turns get to end at SIGTERM; the gateway sends no new ones when it ends as well."""

Events = AsyncIterator[contract.ExecuteResponse]


def say(text: str) -> a2a.Message:
    part = a2a.Part(text=text)
    return a2a.Message(message_id=str(uuid.uuid4()), role=a2a.ROLE_AGENT, parts=[part])


def status(state: int, text: str = "") -> contract.ExecuteResponse:
    """A state of the task. The gateway fills in the ids and the time."""
    message = say(text) if text else None
    now = a2a.TaskStatus(state=state, message=message)
    return contract.ExecuteResponse(status_update=a2a.TaskStatusUpdateEvent(status=now))


def chunk(text: str, *, append: bool = False) -> contract.ExecuteResponse:
    """A piece of the turn's one artifact; all but the first are appended to it."""
    artifact = a2a.Artifact(artifact_id="answer", parts=[a2a.Part(text=text)])
    update = a2a.TaskArtifactUpdateEvent(artifact=artifact, append=append)
    return contract.ExecuteResponse(artifact_update=update)


async def echo(request: contract.ExecuteRequest, text: str) -> Events:
    yield chunk(text)
    yield status(a2a.TASK_STATE_COMPLETED)


async def hello(request: contract.ExecuteRequest, text: str) -> Events:
    """A direct answer, without a task."""
    yield contract.ExecuteResponse(message=say(f"Hello, {request.call.caller}!"))


async def stream(request: contract.ExecuteRequest, text: str) -> Events:
    yield status(a2a.TASK_STATE_WORKING)
    for number, word in enumerate(text.split()):
        yield chunk(word + " ", append=number > 0)
        await asyncio.sleep(0.01)
    yield status(a2a.TASK_STATE_COMPLETED)


async def ask(request: contract.ExecuteRequest, text: str) -> Events:
    """The answer starts another turn of the same task, with `request.task`."""
    yield status(a2a.TASK_STATE_INPUT_REQUIRED, "What is your favourite colour?")


async def count(request: contract.ExecuteRequest, text: str) -> Events:
    """One number a second, until it is cancelled."""
    yield status(a2a.TASK_STATE_WORKING)
    for number in range(1_000_000):
        yield chunk(f"{number}\n", append=number > 0)
        await asyncio.sleep(1)
    yield status(a2a.TASK_STATE_COMPLETED)


COMMANDS: dict[str, Callable[[contract.ExecuteRequest, str], Events]] = {
    "hello": hello,
    "stream": stream,
    "ask": ask,
    "count": count,
}


def behaviour(request: contract.ExecuteRequest) -> Events:
    """What the turn does: the first word of the message says."""
    text = "".join(part.text for part in request.request.message.parts)
    if request.HasField("task"):
        return echo(request, f"You answered: {text}")
    word, _, rest = text.partition(" ")
    command = COMMANDS.get(word)
    return command(request, rest) if command else echo(request, text)


class Agent(agent_pb2_grpc.AgentServiceServicer):
    """Runs each turn as its message says."""

    def __init__(self, behave: Callable[[contract.ExecuteRequest], Events] = behaviour):
        self._behave = behave

    async def Execute(self, request: contract.ExecuteRequest, context: Any) -> Events:
        # the gateway cancels this call when the task is cancelled: asyncio.CancelledError is
        # raised where the agent awaits
        async for event in self._behave(request):
            yield event

    async def Cancel(
        self, request: contract.CancelRequest, context: Any
    ) -> contract.CancelResponse:
        last_words = status(a2a.TASK_STATE_CANCELED, "Stopped, as you wished.")
        return contract.CancelResponse(events=[last_words])


async def serve(agent: Agent, address: str) -> None:
    options = [("grpc.max_receive_message_length", LARGEST_MESSAGE)]
    server = grpc.aio.server(options=options)
    agent_pb2_grpc.add_AgentServiceServicer_to_server(agent, server)
    port = server.add_insecure_port(address)
    await server.start()
    loop = asyncio.get_running_loop()
    # process 1 of a container is not ended by a signal that it does not handle
    loop.add_signal_handler(signal.SIGTERM, lambda: loop.create_task(server.stop(GRACE)))
    print(f"serving at {address if not port or address.startswith('unix:') else port}", flush=True)
    await server.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(serve(Agent(), sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9000"))
