"""The kinds of agents that the contract suite runs over, one line each.

Every one behaves by the first word of the message, as `tests.doubles.agents` does. What a kind
cannot do by its nature is said here, and nowhere else: its tests are not made for it.

    direct      answer with a message and no task
    contents    take and give files and metadata
    die         be killed without taking the gateway with it
    block       block its thread without blocking the gateway
"""

import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from gateway.agents import Agent
from gateway.agents.command.options import CommandOptions
from gateway.agents.kinds import Settings
from gateway.agents.loader import load
from gateway.agents.remote import RemoteAgent
from tests.agents import elsewhere as remotes

ROOT = Path(__file__).resolve().parents[2]

CANCEL_TIMEOUT = 0.5
"""Of every gateway in this suite, unless its test says otherwise."""

Made = Callable[[Path], AbstractAsyncContextManager[Agent]]
"""An agent that is not started, and whatever it needs around it; the folder is the test's own."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of agent."""

    name: str
    made: Made
    cannot: frozenset[str] = frozenset()


def loaded(spec: str, isolation: str = "loop", *, is_events: bool = False) -> Made:
    """What the loader makes of a spec."""

    @asynccontextmanager
    async def made(folder: Path) -> AsyncIterator[Agent]:
        command = CommandOptions(is_events=is_events)
        settings = Settings(cancel_timeout=CANCEL_TIMEOUT, command=command)
        yield load(spec, isolation=isolation, settings=settings)

    return made


def elsewhere(made: Callable[[Path], remotes.Command], script: str) -> Made:
    """An agent behind gRPC."""

    @asynccontextmanager
    async def running(folder: Path) -> AsyncIterator[Agent]:
        async with remotes.running(made(remotes.DOUBLES / script)) as address:
            # a turn waits for an agent that is started again, however slow the machine
            yield RemoteAgent(address, connect_wait=remotes.START_SECONDS)

    return running


def what(*abilities: str) -> frozenset[str]:
    """Abilities that a kind does not have."""
    return frozenset(abilities)


EXECUTOR = "tests.doubles.agents:agent"
FUNCTION = "tests.doubles.function_agent:agent"
PROGRAM = f"command:{sys.executable} -I -S {ROOT}/tests/doubles/program.py"

KINDS = (
    Kind("executor", loaded(EXECUTOR), what("die", "block")),
    Kind("function", loaded(FUNCTION), what("die", "block")),
    Kind("thread", loaded(EXECUTOR, "thread"), what("die")),
    Kind("process", loaded(EXECUTOR, "process")),
    Kind("process-function", loaded(FUNCTION, "process")),
    Kind("grpc-python", elsewhere(remotes.python, "python_agent.py")),
    Kind("grpc-javascript", elsewhere(remotes.node, "javascript_agent.mjs")),
    Kind("command-text", loaded(f"{PROGRAM} text"), what("direct", "contents")),
    Kind("command-events", loaded(f"{PROGRAM} events", is_events=True)),
)


def all_that_can(ability: str = "") -> list[Kind]:
    """The kinds with an ability; without a name: all."""
    return [kind for kind in KINDS if ability not in kind.cannot]
