"""Executors that use each public method of the SDK's interface for executors.

`UpdaterExecutor`: all of `TaskUpdater`. `ContextExecutor`: all of `RequestContext`.
`QueueExecutor`: `EventQueue` with its four kinds of event. `LegacyQueueExecutor`: what executors
written for the SDK's older, concrete queue call on it.
"""

from typing import Any

from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.id_generator import IDGenerator, IDGeneratorContext
from a2a.server.tasks import TaskUpdater
from a2a.types import (
    Artifact,
    Message,
    Part,
    Role,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)


class NamedIds(IDGenerator):
    """Ids that a test can foretell."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._count = 0

    def generate(self, context: IDGeneratorContext) -> str:
        self._count += 1
        return f"{self._prefix}-{self._count}-{context.task_id}"


class UpdaterExecutor(AgentExecutor):
    """Every method of TaskUpdater once; the text of the message names the last one."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        updater = self._updater(context, event_queue)
        message = updater.new_agent_message([Part(text="note")], metadata={"k": [1, None]})
        await updater.submit(message)
        await updater.start_work()
        await updater.update_status(
            TaskState.TASK_STATE_WORKING,
            message=message,
            timestamp="2026-01-01T00:00:00Z",
            metadata={"step": 1},
        )
        await updater.add_artifact([Part(text="a")])
        await updater.add_artifact(
            [Part(text="b")],
            artifact_id="named",
            name="name",
            metadata={"m": "v"},
            append=False,
            last_chunk=False,
            extensions=["urn:x"],
        )
        await updater.add_artifact(
            [Part(text="c")], artifact_id="named", append=True, last_chunk=True
        )
        last: Any = {
            "complete": updater.complete,
            "failed": updater.failed,
            "reject": updater.reject,
            "requires_input": updater.requires_input,
            "requires_auth": updater.requires_auth,
            "cancel": updater.cancel,
        }[context.get_user_input()]
        await last(message)

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        await self._updater(context, event_queue).cancel()

    def _updater(self, context: RequestContext, event_queue: EventQueue) -> TaskUpdater:
        return TaskUpdater(
            event_queue,
            context.task_id or "",
            context.context_id or "",
            artifact_id_generator=NamedIds("artifact"),
            message_id_generator=NamedIds("message"),
        )


class ContextExecutor(AgentExecutor):
    """Reads each property of RequestContext into `seen`."""

    def __init__(self) -> None:
        self.seen: dict[str, Any] = {}
        self.cancelled: dict[str, Any] = {}

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        self.seen = read(context)
        context.attach_related_task(Task(id="attached"))
        self.seen["attached"] = [t.id for t in context.related_tasks]
        context.current_task = Task(id="set")
        self.seen["set"] = context.current_task.id

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        self.cancelled = read(context)


def read(context: RequestContext) -> dict[str, Any]:
    """Each property and getter of RequestContext."""
    return {
        "message": context.message,
        "input": context.get_user_input(),
        "joined": context.get_user_input(delimiter="|"),
        "related_tasks": [t.id for t in context.related_tasks],
        "current_task": context.current_task,
        "task_id": context.task_id,
        "context_id": context.context_id,
        "configuration": context.configuration,
        "call_context": context.call_context,
        "metadata": context.metadata,
        "tenant": context.tenant,
        "requested_extensions": context.requested_extensions,
    }


class QueueExecutor(AgentExecutor):
    """One event of each kind that a task can have, or a Message for the text `message`."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        ids: dict[str, Any] = {"task_id": context.task_id, "context_id": context.context_id}
        if context.get_user_input() == "message":
            answer = Message(message_id="a", role=Role.ROLE_AGENT, parts=[Part(text="hi")])
            await event_queue.enqueue_event(answer)
            return
        status = TaskStatus(state=TaskState.TASK_STATE_WORKING)
        await event_queue.enqueue_event(
            Task(id=ids["task_id"], context_id=ids["context_id"], status=status)
        )
        artifact = Artifact(artifact_id="a", parts=[Part(text="hi")])
        await event_queue.enqueue_event(TaskArtifactUpdateEvent(artifact=artifact, **ids))
        status = TaskStatus(state=TaskState.TASK_STATE_COMPLETED)
        await event_queue.enqueue_event(TaskStatusUpdateEvent(status=status, **ids))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise NotImplementedError("cancel is not supported")


class LegacyQueueExecutor(AgentExecutor):
    """Taps, closes and asks the queue, as executors for older SDKs do."""

    def __init__(self) -> None:
        self.copies: list[Any] = []
        self.was_closed: list[bool] = []

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        queue: Any = event_queue
        updater = TaskUpdater(queue, context.task_id or "", context.context_id or "")
        tap = await queue.tap()
        await updater.start_work()
        self.copies.append(await tap.dequeue_event())
        tap.task_done()
        queue.task_done()
        self.was_closed.append(queue.is_closed())
        async with queue:
            await updater.complete()
        self.was_closed.append(queue.is_closed())
        await updater.add_artifact([Part(text="after the close")])

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        queue: Any = event_queue
        await queue.close(immediate=True)
