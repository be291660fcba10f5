"""The same for a2a-sdk: `a2a-gateway serve --agent examples.echo_executor:EchoExecutor`."""

from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types import Part, Task, TaskState, TaskStatus


class EchoExecutor(AgentExecutor):
    """Answers each message with its own text."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.message
        if context.current_task is None:
            # the gateway would make the task by itself; the SDK's own server wants it first
            task = Task(
                id=context.task_id or "",
                context_id=context.context_id or "",
                status=TaskStatus(state=TaskState.TASK_STATE_SUBMITTED),
                history=[context.message],
            )
            await event_queue.enqueue_event(task)
        updater = updater_of(context, event_queue)
        await updater.start_work()
        await updater.add_artifact([Part(text=context.get_user_input())], name="echo")
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        await updater_of(context, event_queue).cancel()


def updater_of(context: RequestContext, event_queue: EventQueue) -> TaskUpdater:
    # the SDK types the ids as optional; a turn always has both
    return TaskUpdater(event_queue, context.task_id or "", context.context_id or "")
