"""The agent that the official conformance kit asks for: the prefix of the messageId decides.

Usable as `--agent tests.doubles.tck_agent:agent`. The longest prefix wins; ids that the kit does
not name complete the task.
"""

import asyncio
from collections.abc import Awaitable, Callable

from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types import Message, Part, Role, Task, TaskState, TaskStatus
from google.protobuf import json_format
from google.protobuf.struct_pb2 import Value

FILE_NAME = "output.txt"
FILE_TYPE = "text/plain"

Behaviour = Callable[[TaskUpdater], Awaitable[None]]


async def complete(updater: TaskUpdater) -> None:
    await updater.complete(updater.new_agent_message([Part(text="Hello from TCK")]))


async def require_input(updater: TaskUpdater) -> None:
    await updater.requires_input(updater.new_agent_message([Part(text="More, please")]))


async def reject(updater: TaskUpdater) -> None:
    await updater.reject(updater.new_agent_message([Part(text="Rejected")]))


async def text_artifact(updater: TaskUpdater) -> None:
    await _finish(updater, Part(text="Generated text content"))


async def file_artifact(updater: TaskUpdater) -> None:
    await _finish(
        updater, Part(raw=b"Generated file content", filename=FILE_NAME, media_type=FILE_TYPE)
    )


async def link_artifact(updater: TaskUpdater) -> None:
    url = "https://example.com/output.txt"
    await _finish(updater, Part(url=url, filename=FILE_NAME, media_type=FILE_TYPE))


async def data_artifact(updater: TaskUpdater) -> None:
    data = json_format.ParseDict({"key": "value", "count": 42}, Value())
    await _finish(updater, Part(data=data))


async def stream_text(updater: TaskUpdater) -> None:
    await updater.start_work()
    await _finish(updater, Part(text="Stream text content"))


async def stream_file(updater: TaskUpdater) -> None:
    await updater.start_work()
    await file_artifact(updater)


async def stream_chunks(updater: TaskUpdater) -> None:
    await updater.start_work()
    await updater.add_artifact([Part(text="chunk-1")], artifact_id="chunks", last_chunk=False)
    await updater.add_artifact(
        [Part(text="chunk-2")], artifact_id="chunks", append=True, last_chunk=True
    )
    await updater.complete()


async def work_a_while(updater: TaskUpdater) -> None:
    await updater.start_work()
    await asyncio.sleep(2)
    await updater.complete()


BEHAVIOURS: dict[str, Behaviour] = {
    "tck-complete-task": complete,
    "tck-input-required": require_input,
    "tck-reject-task": reject,
    "tck-artifact-text": text_artifact,
    "tck-artifact-file": file_artifact,
    "tck-artifact-file-url": link_artifact,
    "tck-artifact-data": data_artifact,
    "tck-stream-001": stream_text,
    "tck-stream-002": complete,
    "tck-stream-003": stream_text,
    "tck-stream-ordering-001": stream_text,
    "tck-stream-artifact-text": stream_text,
    "tck-stream-artifact-file": stream_file,
    "tck-stream-artifact-chunked": stream_chunks,
    "test-resubscribe-message-id": work_a_while,
}
_LONGEST_FIRST = sorted(BEHAVIOURS, key=len, reverse=True)

DIRECT_PREFIX = "tck-message-response"
DIRECT_TEXT = "Direct message response"


class TckExecutor(AgentExecutor):
    """Does what the prefix of the message's id says."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        message, task = context.message, context.current_task
        assert message is not None
        if task is None and message.message_id.startswith(DIRECT_PREFIX):
            await event_queue.enqueue_event(_direct(message))
            return
        if task is None:
            task = _submitted(context)
            await event_queue.enqueue_event(task)
        await behaviour(message.message_id)(TaskUpdater(event_queue, task.id, task.context_id))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        await TaskUpdater(event_queue, context.task_id or "", context.context_id or "").cancel()


def behaviour(message_id: str) -> Behaviour:
    """By the longest prefix that fits."""
    for prefix in _LONGEST_FIRST:
        if message_id.startswith(prefix):
            return BEHAVIOURS[prefix]
    return complete


async def _finish(updater: TaskUpdater, part: Part) -> None:
    await updater.add_artifact([part], name="result", last_chunk=True)
    await updater.complete()


def _submitted(context: RequestContext) -> Task:
    status = TaskStatus(state=TaskState.TASK_STATE_SUBMITTED)
    status.timestamp.GetCurrentTime()
    return Task(
        id=context.task_id or "",
        context_id=context.context_id or "",
        status=status,
        history=[context.message] if context.message else [],
    )


def _direct(message: Message) -> Message:
    return Message(
        message_id=f"{message.message_id}-answer",
        context_id=message.context_id,
        role=Role.ROLE_AGENT,
        parts=[Part(text=DIRECT_TEXT)],
    )


agent = TckExecutor()
