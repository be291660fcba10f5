"""Runs an a2a-sdk `AgentExecutor`, unmodified. Layer: agents.

Each turn gets a real `RequestContext` and an `EventQueue` whose `enqueue_event` is the turn's
`emit`. Of the SDK's runtime nothing else is in the path: no dispatcher task, no queue, no
tracing decorators. Importing this module imports `a2a.server`, which is slow and large; the
loader does so only for an agent that has imported it already.
"""

import asyncio
import logging
from types import TracebackType
from typing import Any, Self

from a2a.auth.user import UnauthenticatedUser, User
from a2a.server.agent_execution.agent_executor import AgentExecutor
from a2a.server.agent_execution.context import RequestContext
from a2a.server.context import ServerCallContext
from a2a.server.events.event_queue import DEFAULT_MAX_QUEUE_SIZE, EventQueue, EventQueueLegacy

from gateway.agents import SECRET_NAMES, Turn
from gateway.call import Call
from gateway.pb import Event, SendMessageRequest, Task, TaskState, TaskStatus

logger = logging.getLogger(__name__)

_ANONYMOUS = UnauthenticatedUser()
_ANONYMOUS_NAMES = ("", "anonymous")


class CallUser(User):
    """The authenticated caller, as the SDK names one."""

    __slots__ = ("_name",)

    def __init__(self, name: str):
        self._name = name

    @property
    def is_authenticated(self) -> bool:
        return True

    @property
    def user_name(self) -> str:
        return self._name


class TurnQueue(EventQueue):
    """Hands events to the turn.

    The SDK's interface for executors is `enqueue_event` alone. Executors written for its older,
    concrete queue also close it, ask whether it is closed and tap it; that goes on working.
    """

    def __init__(self, turn: Turn):
        self._turn = turn
        self._is_closed = False
        self._taps: list[EventQueueLegacy] = []

    async def enqueue_event(self, event: Event) -> None:
        """Returns once the event is taken; waits while too many of the turn are unsaved."""
        if self._is_closed:
            logger.warning("task %s: event after the queue was closed, dropped", self._turn.task_id)
            return
        await self._turn.emit(event)
        for tap in self._taps:
            await tap.enqueue_event(event)

    async def close(self, immediate: bool = False) -> None:
        """Take no more events from the agent. The end of a turn needs no close."""
        self._is_closed = True
        await asyncio.gather(*(tap.close(immediate=True) for tap in self._taps if immediate))

    def is_closed(self) -> bool:
        """Whether the agent has closed the queue."""
        return self._is_closed

    async def tap(
        self, max_queue_size: int = DEFAULT_MAX_QUEUE_SIZE, evict_on_full: bool = False
    ) -> EventQueueLegacy:
        """A queue of the agent's own that gets each event from now on; the agent reads it."""
        child = EventQueueLegacy(max_queue_size=max_queue_size)
        self._taps.append(child)
        return child

    async def dequeue_event(self) -> Event:
        """Not for agents: the gateway reads this queue."""
        raise RuntimeError("the gateway reads this queue; use `await queue.tap()` to read a copy")

    def task_done(self) -> None:
        """Nothing to do: the gateway keeps count of what is saved."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


class SdkAgent:
    """One executor for all turns, as in the SDK's server."""

    def __init__(
        self,
        executor: AgentExecutor,
        *,
        name: str | None = None,
        secret_names: frozenset[str] = SECRET_NAMES,
    ):
        self.name = name or type(executor).__name__
        self._executor = executor
        self._secret_names = secret_names | SECRET_NAMES

    async def start(self) -> None:
        """The SDK knows no start of an executor."""

    async def stop(self) -> None:
        """The SDK knows no end of an executor."""

    async def run(self, turn: Turn) -> None:
        try:
            await self._executor.execute(self._context(turn, turn.request), TurnQueue(turn))
        except SystemExit as error:
            # it would end the loop, and every other task with it
            raise RuntimeError("the agent called sys.exit()") from error

    async def cancel(self, turn: Turn) -> None:
        # a task that waits for input is cancelled without a message: the SDK gives None then
        context = self._context(turn, turn.request if turn.request.message.parts else None)
        if context.current_task is None:
            # executors rely on it here, and the task of a first turn came after its start
            context.current_task = _begun(turn)
        try:
            await self._executor.cancel(context, TurnQueue(turn))
        except SystemExit as error:
            raise RuntimeError("the agent called sys.exit()") from error

    def _context(self, turn: Turn, request: SendMessageRequest | None) -> RequestContext:
        return RequestContext(
            self._call_context(turn.call),
            request=request,
            task_id=turn.task_id,
            # always the task's real one, also where the message named only the task
            context_id=turn.context_id,
            task=turn.task,
            related_tasks=turn.related,
        )

    def _call_context(self, call: Call) -> ServerCallContext:
        secret = self._secret_names
        # `headers` is where the SDK's own server puts what came beside the message
        state: dict[str, Any] = {
            "headers": {name: value for name, value in call.metadata.items() if name not in secret},
            "door": call.door,
            "scheme": call.scheme,
        }
        known = call.scheme or call.caller not in _ANONYMOUS_NAMES
        return ServerCallContext(
            state=state,
            user=CallUser(call.caller) if known else _ANONYMOUS,
            tenant=call.tenant,
            requested_extensions=set(call.extensions),
        )


def _begun(turn: Turn) -> Task:
    """What is known of a task that began with this turn."""
    return Task(
        id=turn.task_id,
        context_id=turn.context_id,
        status=TaskStatus(state=TaskState.TASK_STATE_WORKING),
        history=[turn.request.message],
    )
