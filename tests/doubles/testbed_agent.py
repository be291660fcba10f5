"""The agent that a2a-testbed wants: it works a while and streams an artifact for any message.

Its push and subscribe contracts need a task that runs for one to three seconds.
"""

import asyncio

from a2a.helpers import new_task_from_user_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types import Part

WORK_SECONDS = 1.5


class WorkingExecutor(AgentExecutor):
    """Working, a chunk, a pause, the last chunk, completed."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        task = context.current_task
        if task is None:
            assert context.message is not None
            task = new_task_from_user_message(context.message)
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await updater.start_work()
        await updater.add_artifact([Part(text="first ")], artifact_id="words", last_chunk=False)
        await asyncio.sleep(WORK_SECONDS)
        await updater.add_artifact(
            [Part(text="last")], artifact_id="words", append=True, last_chunk=True
        )
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        await TaskUpdater(event_queue, context.task_id or "", context.context_id or "").cancel()
