"""An a2a-sdk executor for whole dialogues: the text of a message says what the agent does.

Written against the SDK's public interface alone, so that the SDK's own server and the gateway
can both run it. `hello`: one artifact, completed. `count N`: N chunks of one artifact,
completed. `ask`: asks for a colour; the answer completes the task. `wait`: works until it is
cancelled. `later NAME`: works until a `release NAME` comes, then streams and completes.
`direct`: answers with a Message. `reject`: rejects. `crash`: raises.
"""

import asyncio
from collections import defaultdict

from a2a.helpers import new_task_from_user_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types import Message, Part, Role, TaskState


class DialogueExecutor(AgentExecutor):
    """Runs one turn by the first word of the message."""

    def __init__(self) -> None:
        self._released: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        task = context.current_task
        text = context.get_user_input()
        if task is None and text == "direct":
            await event_queue.enqueue_event(_message("a direct answer"))
            return
        if task is None:
            assert context.message is not None
            task = new_task_from_user_message(context.message)
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        if task.status.state == TaskState.TASK_STATE_INPUT_REQUIRED:
            await self._answer(updater, text)
        else:
            await self._start(updater, *text.split(maxsplit=1))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        updater = TaskUpdater(event_queue, context.task_id or "", context.context_id or "")
        await updater.cancel(updater.new_agent_message([Part(text="stopped")]))

    async def _start(self, updater: TaskUpdater, word: str, rest: str = "") -> None:
        match word:
            case "count":
                await updater.start_work()
                await self._count(updater, int(rest))
            case "ask":
                question = updater.new_agent_message([Part(text="Which colour?")])
                await updater.requires_input(question)
            case "wait":
                await updater.start_work(updater.new_agent_message([Part(text="waiting")]))
                await asyncio.Event().wait()
            case "later":
                await updater.start_work()
                await self._released[rest].wait()
                await self._count(updater, 3)
            case "release":
                self._released[rest].set()
                await updater.complete()
            case "reject":
                await updater.reject(updater.new_agent_message([Part(text="not this")]))
            case "crash":
                raise RuntimeError("secret-123 is in this text")
            case _:
                await updater.start_work()
                await updater.add_artifact([Part(text=f"Hello, {word}!")], name="greeting")
                await updater.complete()

    async def _answer(self, updater: TaskUpdater, colour: str) -> None:
        await updater.start_work()
        await updater.add_artifact([Part(text=f"The colour is {colour}.")], name="colour")
        await updater.complete(updater.new_agent_message([Part(text="thank you")]))

    async def _count(self, updater: TaskUpdater, chunks: int) -> None:
        for number in range(chunks):
            await updater.add_artifact(
                [Part(text=f"{number} ")],
                artifact_id="numbers",
                append=number > 0,
                last_chunk=number == chunks - 1,
            )
        await updater.complete()


def _message(text: str) -> Message:
    return Message(message_id="direct-1", role=Role.ROLE_AGENT, parts=[Part(text=text)])
