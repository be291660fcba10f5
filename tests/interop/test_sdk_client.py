"""The SDK's client over wires that it does not know: our bindings, registered with its factory."""

import os
import shlex
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from a2a.client import Client, ClientCallContext, ClientConfig, ClientFactory
from a2a.client.errors import A2AClientError, A2AClientTimeoutError
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    CancelTaskRequest,
    GetExtendedAgentCardRequest,
    GetTaskRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    SubscribeToTaskRequest,
    TaskState,
)
from a2a.utils.errors import (
    InvalidParamsError,
    PushNotificationNotSupportedError,
    TaskNotFoundError,
    UnsupportedOperationError,
)

from gateway.pb import TaskPushNotificationConfig
from tests.conftest import run
from tests.processes import ROOT
from transports.sdk_client import STDIO, register

AGENT = "tests.doubles.agents:agent"


def words(text: str) -> SendMessageRequest:
    """A message of this text."""
    message = Message(message_id=text, role=Role.ROLE_USER, parts=[Part(text=text)])
    return SendMessageRequest(message=message)


def command(folder: Path, agent: str = AGENT) -> list[str]:
    """A gateway of one's own."""
    state = ["--state-dir", str(folder / "state"), "--store", "memory:", "--log-level", "error"]
    return [sys.executable, "-m", "gateway.cli", "stdio", "--agent", agent, *state]


def client_of(*program: str, streaming: bool = True) -> Client:
    """The SDK's client of a program."""
    factory = ClientFactory(ClientConfig(streaming=streaming, supported_protocol_bindings=[STDIO]))
    register(factory)
    entry = AgentInterface(
        url=f"stdio:{shlex.join(program)}", protocol_binding=STDIO, protocol_version="1.0",
        tenant="from-the-card",
    )  # fmt: skip
    capabilities = AgentCapabilities(streaming=True, extended_agent_card=True)
    return factory.create(
        AgentCard(name="x", capabilities=capabilities, supported_interfaces=[entry])
    )


def talk(
    folder: Path, main: Callable[[Client], Awaitable[None]], *, streaming: bool = True
) -> None:
    """Run a dialogue, and end the program."""

    async def all_of_it() -> None:
        client = client_of(*command(folder), streaming=streaming)
        try:
            await main(client)
        finally:
            await client.close()

    run(all_of_it())


async def stream(client: Client, text: str) -> list[Any]:
    """The events of a message."""
    return [event async for event in client.send_message(words(text))]


def test_a_dialogue(tmp_path: Path) -> None:
    """R54, S162: stream, get, list, follow, cancel; the tenant of the card's entry in each."""

    async def main(client: Client) -> None:
        events = await stream(client, "burst 3")
        assert events[0].HasField("task")
        assert events[-1].status_update.status.state == TaskState.TASK_STATE_COMPLETED
        task_id = events[0].task.id
        task = await client.get_task(GetTaskRequest(id=task_id))
        assert task.status.state == TaskState.TASK_STATE_COMPLETED
        listed = await client.list_tasks(ListTasksRequest(tenant="from-the-card"))
        assert [found.id for found in listed.tasks] == [task_id]
        (asked,) = {event.task.id for event in await stream(client, "ask") if event.task.id}
        followed = client.subscribe(SubscribeToTaskRequest(id=asked))
        assert (await anext(aiter(followed))).task.id == asked
        await followed.aclose()  # type: ignore[attr-defined]
        canceled = await client.cancel_task(CancelTaskRequest(id=asked))
        assert canceled.status.state == TaskState.TASK_STATE_CANCELED

    talk(tmp_path, main)


def test_failures(tmp_path: Path) -> None:
    """R54: as the SDK's own exceptions."""

    async def main(client: Client) -> None:
        with pytest.raises(TaskNotFoundError, match="nope"):
            await client.get_task(GetTaskRequest(id="nope"))
        with pytest.raises(InvalidParamsError, match=r"page_?[sS]ize"):
            await client.list_tasks(ListTasksRequest(page_size=1000))
        with pytest.raises(UnsupportedOperationError):
            await client.get_extended_agent_card(GetExtendedAgentCardRequest())
        with pytest.raises(PushNotificationNotSupportedError):
            await client.create_task_push_notification_config(
                TaskPushNotificationConfig(task_id="t", url="https://x/")
            )
        late = client.send_message(words("silent 1"), context=ClientCallContext(timeout=0.3))
        with pytest.raises(A2AClientTimeoutError):
            await anext(aiter(late))

    talk(tmp_path, main, streaming=False)


def test_a_program_that_is_not_there() -> None:
    """As the SDK says that a network is not there."""

    async def main() -> None:
        client = client_of("no-such-program")
        with pytest.raises(A2AClientError, match="no-such-program"):
            await client.get_task(GetTaskRequest(id="x"))
        await client.close()

    run(main())


def test_the_example(tmp_path: Path) -> None:
    """It runs as its first lines say."""
    done = subprocess.run(
        [
            sys.executable,
            str(ROOT / "examples" / "sdk_client" / "talk.py"),
            *command(tmp_path, "demo"),
        ],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "a b c \n"), done.stderr
