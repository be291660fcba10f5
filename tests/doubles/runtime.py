"""A scripted runtime for tests of the service and of the servers in front of it.

Holds tasks and event logs that the test puts in; notes what it was asked. `gate` holds calls
back until the test lets them go.
"""

import asyncio
from collections.abc import AsyncIterator

from gateway.call import Call, Scope
from gateway.errors import TaskNotFoundError, UnsupportedOperationError
from gateway.pb import (
    TERMINAL_STATES,
    Message,
    Part,
    Role,
    SendMessageRequest,
    SendMessageResponse,
    StreamResponse,
    Task,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from gateway.store import LogEvent, Query

ANONYMOUS = Scope("default", "", "anonymous")

HISTORY = 6
"""Messages in the history of a task that `make_task` gives."""


def make_task(task_id: str, state: int = TaskState.TASK_STATE_COMPLETED) -> Task:
    """A task with six messages and one artifact."""
    task = Task(id=task_id, context_id="context-1", status=TaskStatus(state=state))  # type: ignore[arg-type]
    task.status.timestamp.seconds = 1_700_000_000
    for number in range(HISTORY):
        task.history.append(
            Message(message_id=f"m{number}", role=Role.ROLE_USER, parts=[Part(text=str(number))])
        )
    task.artifacts.add(artifact_id="a1").parts.add(text="result")
    return task


def task_event(seq: int, task: Task) -> LogEvent:
    """The event that opens a stream."""
    return LogEvent(seq, StreamResponse(task=task).SerializeToString())


def status_event(seq: int, task_id: str, state: int) -> LogEvent:
    """A change of state."""
    update = TaskStatusUpdateEvent(task_id=task_id, status=TaskStatus(state=state))  # type: ignore[arg-type]
    return LogEvent(seq, StreamResponse(status_update=update).SerializeToString())


class ScriptedSent:
    """The outcome and the stream that the script holds."""

    def __init__(self, runtime: "ScriptedRuntime", task_id: str) -> None:
        self._runtime = runtime
        self.task_id = task_id

    async def outcome(self, wait: bool) -> SendMessageResponse:
        self._runtime.waited.append(wait)
        await self._runtime.pause()
        response = SendMessageResponse()
        response.CopyFrom(self._runtime.response)
        return response

    def events(self, after: int | None = None) -> AsyncIterator[list[LogEvent]]:
        self._runtime.cursors.append(after)
        return self._runtime.read(after or 0)


class ScriptedRuntime:
    """An `Engine` whose answers a test sets."""

    def __init__(self) -> None:
        self.stored: dict[Scope, dict[str, Task]] = {}
        self.log: list[LogEvent] = []
        self.response = SendMessageResponse(task=make_task("t1"))
        self.error: BaseException | None = None
        self.gate: asyncio.Event | None = None
        self.entered = asyncio.Event()
        self.sent: list[tuple[Call, SendMessageRequest]] = []
        self.queries: list[Query] = []
        self.waited: list[bool] = []
        self.cursors: list[int | None] = []
        self.working = False
        self.readers = 0
        self.finished = 0
        """Streams that ran to their end or were closed."""

    def put(self, task: Task, scope: Scope = ANONYMOUS) -> Task:
        """Store a task for a caller."""
        self.stored.setdefault(scope, {})[task.id] = task
        return task

    async def pause(self) -> None:
        """Hold the call back while the gate is closed; raise what the script says."""
        self.entered.set()
        if self.gate is not None:
            await self.gate.wait()
        if self.error is not None:
            raise self.error

    async def send(self, call: Call, request: SendMessageRequest) -> ScriptedSent:
        self.sent.append((call, request))
        if request.message.task_id:
            self._find(call.scope, request.message.task_id)
        return ScriptedSent(self, request.message.task_id or "t1")

    async def task(self, scope: Scope, task_id: str) -> Task:
        await self.pause()
        copy = Task()
        copy.CopyFrom(self._find(scope, task_id))
        return copy

    async def tasks(self, scope: Scope, query: Query) -> tuple[list[Task], bool, int]:
        self.queries.append(query)
        mine = sorted(self.stored.get(scope, {}).values(), key=lambda t: t.id, reverse=True)
        rest = [t for t in mine if query.before is None or t.id < query.before[1]]
        page = []
        for task in rest[: query.limit]:
            copy = Task()
            copy.CopyFrom(task)
            page.append(copy)
        return page, len(rest) > query.limit, len(mine)

    async def cancel(self, call: Call, task_id: str) -> Task:
        task = self._find(call.scope, task_id)
        task.status.state = TaskState.TASK_STATE_CANCELED
        return task

    async def subscribe(
        self, scope: Scope, task_id: str, after: int | None
    ) -> AsyncIterator[list[LogEvent]]:
        task = self._find(scope, task_id)
        if task.status.state in TERMINAL_STATES and after is None:
            raise UnsupportedOperationError("The task has ended")
        self.cursors.append(after)
        return self.read(after or 0)

    def is_working(self, scope: Scope, task_id: str) -> bool:
        return self.working

    async def read(self, after: int) -> AsyncIterator[list[LogEvent]]:
        """One event a batch; then the gate."""
        self.readers += 1
        try:
            for event in self.log:
                if event.seq > after:
                    yield [event]
            await self.pause()
        finally:
            self.readers -= 1
            self.finished += 1

    def _find(self, scope: Scope, task_id: str) -> Task:
        task = self.stored.get(scope, {}).get(task_id)
        if task is None:
            raise TaskNotFoundError(f"Task not found: {task_id}")
        return task
