"""The agent that both servers run: an a2a-sdk `AgentExecutor`, unmodified on either side.

The first word of the message chooses what a turn does, so that one server serves every scenario.
"""

import asyncio
import time

from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types.a2a_pb2 import Part, Task, TaskState, TaskStatus

CHUNK = "The quick brown fox jumps over the lazy dog, and then once more."


class BenchExecutor(AgentExecutor):
    """`echo TEXT`, `stream COUNT`, `burst COUNT`, `ticks COUNT MILLISECONDS`, `park`."""

    def __init__(self) -> None:
        self._stopped: dict[str, int] = {}
        """Task id -> monotonic nanoseconds at which a parked turn saw its cancellation."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Run one turn as its message says."""
        task = Task(
            id=context.task_id,
            context_id=context.context_id,
            status=TaskStatus(state=TaskState.TASK_STATE_SUBMITTED),
            history=[context.message] if context.message else [],
        )
        await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await updater.start_work()
        kind, _, rest = context.get_user_input().partition(" ")
        if kind == "park":
            await self._park(task.id)
        elif kind in ("stream", "burst"):
            await _stream(updater, int(rest), gives_way=kind == "stream")
        elif kind == "ticks":
            count, interval = rest.split()
            await _ticks(updater, int(count), int(interval) / 1000)
        else:
            await updater.add_artifact([Part(text=rest)], name="answer")
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Say in the final status when the cancellation was seen, on the monotonic clock."""
        task_id = context.task_id or ""
        seen = self._stopped.pop(task_id, 0) or time.monotonic_ns()
        updater = TaskUpdater(event_queue, task_id, context.context_id or "")
        await updater.cancel(updater.new_agent_message([Part(text=f"seen {seen}")]))

    async def _park(self, task_id: str) -> None:
        """Stay WORKING and silent until cancelled."""
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self._stopped[task_id] = time.monotonic_ns()
            raise


async def _stream(updater: TaskUpdater, count: int, *, gives_way: bool) -> None:
    """One artifact in `count` chunks, as fast as they are taken. An agent that `gives_way` lets
    the loop run between chunks, as one that waits for a model's next token does."""
    for index in range(count):
        await updater.add_artifact(
            [Part(text=CHUNK)],
            artifact_id="answer",
            append=index > 0,
            last_chunk=index == count - 1,
        )
        if gives_way:
            await asyncio.sleep(0)


async def _ticks(updater: TaskUpdater, count: int, interval: float) -> None:
    """One artifact after another, each alone, its text the time at which it was emitted."""
    for index in range(count):
        await asyncio.sleep(interval)
        await updater.add_artifact(
            [Part(text=f"at {time.monotonic_ns()}")], artifact_id=f"tick-{index}"
        )
