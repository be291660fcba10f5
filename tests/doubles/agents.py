"""The agents that the cases need, as one executor driven by the text of the message.

Usable as `--agent tests.doubles.agents:agent`, and in the SDK's own server. The first word is the
command, the rest its arguments (numbers may be left out); any other text is an echo.

    echo [TEXT]          an artifact with the message's own parts and metadata
    message [TEXT]       a direct Message, no task
    slow [N] [MS]        N text chunks of one artifact, MS milliseconds apart
    burst [N] [BYTES]    N chunks as fast as they are taken
    silent [S]           emits nothing for S seconds (default: for ever), then completes
    raise [K] [TEXT]     raises ValueError(TEXT) after K events
    refuse [K]           raises the SDK's ContentTypeNotSupportedError after K events
    ask                  INPUT_REQUIRED; the next message of the task completes it
    ask-when PATH        works until the file exists, then asks
    auth                 AUTH_REQUIRED; the next message of the task completes it
    auth-wait [S]        AUTH_REQUIRED with the turn still running, completes after S seconds
    reject [TEXT]        REJECTED
    stubborn [S]         works on for S seconds whatever is cancelled, and its `cancel` says nothing
    cancel-fails         works for ever; its `cancel` raises
    big [MB]             MB megabytes in one raw part
    counter PATH         appends a line to the file, completes
    tick PATH [MS]       appends a line every MS milliseconds until cancelled
    wait PATH            works until the file exists, then completes with its text
    dump                 a data artifact with all that an executor can see
    values               a data artifact with each kind of JSON value
    late [MS]            COMPLETED, then WORKING, FAILED and, MS later, an artifact
    bare                 INPUT_REQUIRED; on the follow-up a Task with only id, context and status
    three                asks twice, completes at the third message
    foreign              an event that names another task
    block [S]            blocks the loop of the agent for S seconds
    print                writes to stdout in every way, then completes
    die                  ends its process at once, without clean-up
"""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types import Message, Part, Role, Task, TaskState, TaskStatus
from a2a.utils.errors import ContentTypeNotSupportedError
from google.protobuf import json_format
from google.protobuf.struct_pb2 import Value

POLL_INTERVAL = 0.01


@dataclass
class Job:
    """What a command works with."""

    context: RequestContext
    queue: EventQueue
    updater: TaskUpdater
    words: list[str]

    @property
    def rest(self) -> str:
        return " ".join(self.words)

    def number(self, position: int, default: float) -> float:
        return float(self.words[position]) if len(self.words) > position else default

    def count(self, position: int, default: int) -> int:
        return int(self.number(position, default))

    def say(self, text: str) -> Message:
        return self.updater.new_agent_message([Part(text=text)])

    @property
    def task(self) -> Task:
        assert self.context.current_task is not None
        return self.context.current_task

    async def chunk(self, number: int, text: str, last: bool = False) -> None:
        await self.updater.add_artifact(
            [Part(text=text)],
            artifact_id="chunks",
            name="chunks",
            append=number > 0,
            last_chunk=last,
        )


Command = Callable[[Job], Awaitable[None]]


async def echo(job: Job) -> None:
    message = job.context.message
    assert message is not None
    await job.updater.add_artifact(
        list(message.parts),
        name="echo",
        metadata=json_format.MessageToDict(message.metadata),
        last_chunk=True,
    )
    await job.updater.complete()


async def slow(job: Job) -> None:
    number, pause = job.count(0, 5), job.number(1, 100) / 1000
    await job.updater.start_work()
    for i in range(number):
        await asyncio.sleep(pause)
        await job.chunk(i, f"chunk {i} ", last=i == number - 1)
    await job.updater.complete()


async def burst(job: Job) -> None:
    number, size = job.count(0, 1000), job.count(1, 16)
    await job.updater.start_work()
    for i in range(number):
        await job.chunk(i, f"{i} ".ljust(size, "."), last=i == number - 1)
    await job.updater.complete()


async def silent(job: Job) -> None:
    await _rest(job.number(0, float("inf")))
    await job.updater.complete()


async def fail(job: Job) -> None:
    await _emit(job, job.count(0, 0))
    raise ValueError(" ".join(job.words[1:]) or "secret-123 in /etc/passwd")


async def refuse(job: Job) -> None:
    await _emit(job, job.count(0, 0))
    raise ContentTypeNotSupportedError("this agent takes no such content")


async def ask(job: Job) -> None:
    await job.updater.requires_input(job.say("Which colour?"))


async def ask_when(job: Job) -> None:
    await job.updater.start_work()
    await _exists(Path(job.words[0]))
    await ask(job)


async def auth(job: Job) -> None:
    await job.updater.requires_auth(job.say("Please authorise at https://auth.example/"))


async def auth_wait(job: Job) -> None:
    await auth(job)
    await asyncio.sleep(job.number(0, 0.2))
    await job.updater.complete(job.say("authorised"))


async def reject(job: Job) -> None:
    await job.updater.reject(job.say(job.rest or "not my work"))


async def stubborn(job: Job) -> None:
    await job.updater.start_work()
    end = time.monotonic() + job.number(0, 60)
    while (left := end - time.monotonic()) > 0:
        try:
            await asyncio.sleep(left)
        except asyncio.CancelledError:
            # this is the fault that the double stands for
            continue
    await job.updater.complete(job.say("nobody stops me"))


async def work(job: Job) -> None:
    await job.updater.start_work()
    await asyncio.Event().wait()


async def big(job: Job) -> None:
    content = os.urandom(1024) * (1024 * job.count(0, 5))
    part = Part(raw=content, filename="big.bin", media_type="application/octet-stream")
    await job.updater.add_artifact([part], name="big", last_chunk=True)
    await job.updater.complete()


async def counter(job: Job) -> None:
    _append(job.words[0], job.updater.task_id)
    await job.updater.complete(job.say("counted"))


async def tick(job: Job) -> None:
    await job.updater.start_work()
    while True:
        _append(job.words[0], job.updater.task_id)
        await asyncio.sleep(job.number(1, 100) / 1000)


async def wait(job: Job) -> None:
    path = Path(job.words[0])
    await job.updater.start_work(job.say("waiting"))
    await _exists(path)
    await job.updater.complete(job.say(await asyncio.to_thread(path.read_text)))


async def dump(job: Job) -> None:
    data = json_format.ParseDict(seen(job.context), Value())
    await job.updater.add_artifact([Part(data=data)], name="dump", last_chunk=True)
    await job.updater.complete()


async def values(job: Job) -> None:
    data = json_format.ParseDict(
        {"ok": True, "n": None, "s": "it's", "i": 1, "f": 0.1, "list": [None, {"c": None}]},
        Value(),
    )
    await job.updater.add_artifact([Part(data=data)], name="values", last_chunk=True)
    await job.updater.complete()


async def late(job: Job) -> None:
    ids = (job.updater.task_id, job.updater.context_id)
    await job.updater.complete(job.say("the end"))
    # each with an updater of its own: the SDK's refuses a second end by itself
    await TaskUpdater(job.queue, *ids).start_work()
    await TaskUpdater(job.queue, *ids).failed()
    await asyncio.sleep(job.number(0, 200) / 1000)
    await TaskUpdater(job.queue, *ids).add_artifact([Part(text="too late")], artifact_id="late")


async def three(job: Job) -> None:
    await job.updater.requires_input(job.say("And then?"))


async def foreign(job: Job) -> None:
    await TaskUpdater(job.queue, "another-task", job.updater.context_id).start_work()


async def block(job: Job) -> None:
    await job.updater.start_work()
    time.sleep(job.number(0, 2))  # noqa: ASYNC251 - the fault that the double stands for
    await job.updater.complete(job.say("slept"))


async def write_out(job: Job) -> None:
    print("stray line from the agent", flush=True)
    os.write(1, b"stray bytes from the agent\n")
    script = "import sys; print('stray line from a child', repr(sys.stdin.read()))"
    subprocess.run([sys.executable, "-c", script], check=True)  # noqa: ASYNC221
    await job.updater.complete(job.say("printed"))


async def die(job: Job) -> None:
    os._exit(9)


async def answer(job: Job) -> None:
    """The second turn of `ask` and `auth`."""
    text = job.context.get_user_input()
    await job.updater.add_artifact([Part(text=f"You said: {text}")], name="answer")
    await job.updater.complete(job.say("thank you"))


async def answer_bare(job: Job) -> None:
    done = TaskStatus(state=TaskState.TASK_STATE_COMPLETED)
    await job.queue.enqueue_event(
        Task(id=job.updater.task_id, context_id=job.updater.context_id, status=done)
    )


async def answer_three(job: Job) -> None:
    questions = sum(m.role == Role.ROLE_USER for m in job.task.history)
    if questions < 3:
        await three(job)
    else:
        await answer(job)


COMMANDS: dict[str, Command] = {
    "echo": echo,
    "slow": slow,
    "burst": burst,
    "silent": silent,
    "raise": fail,
    "refuse": refuse,
    "ask": ask,
    "ask-when": ask_when,
    "auth": auth,
    "auth-wait": auth_wait,
    "reject": reject,
    "stubborn": stubborn,
    "cancel-fails": work,
    "big": big,
    "counter": counter,
    "tick": tick,
    "wait": wait,
    "dump": dump,
    "values": values,
    "late": late,
    "bare": ask,
    "three": three,
    "foreign": foreign,
    "block": block,
    "print": write_out,
    "die": die,
}

ANSWERS: dict[str, Command] = {"bare": answer_bare, "three": answer_three}
"""What the follow-ups of a task do, by its first command; `answer` where nothing is said."""

QUIET = {"silent", "raise", "refuse", "late", "foreign"}
"""Commands for which no Task is emitted first: what they leave out matters."""


class DoubleExecutor(AgentExecutor):
    """Runs the command of the message; the follow-up of a task answers its question."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        word, words = _command(context.get_user_input(" "))
        if word == "message" and context.current_task is None:
            await event_queue.enqueue_event(_direct(context, " ".join(words)))
            return
        assert context.task_id is not None
        assert context.context_id is not None
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        job = Job(context, event_queue, updater, words)
        if context.current_task is not None and word != "dump":
            await ANSWERS.get(_first_word(context.current_task), answer)(job)
            return
        if context.current_task is None and word not in QUIET:
            await event_queue.enqueue_event(_submitted(context))
        await COMMANDS.get(word, echo)(job)

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        word, _ = _command(context.get_user_input(" "))
        if word == "stubborn":
            return
        if word == "cancel-fails":
            raise RuntimeError("secret-123: cancel is not supported")
        assert context.task_id is not None
        assert context.context_id is not None
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


def seen(context: RequestContext) -> dict[str, Any]:
    """All that an executor can see, as JSON."""
    call, task = context.call_context, context.current_task
    return {
        "taskId": context.task_id,
        "contextId": context.context_id,
        "tenant": context.tenant,
        "user": {"name": call.user.user_name, "isAuthenticated": call.user.is_authenticated},
        "requestedExtensions": sorted(context.requested_extensions),
        "state": {k: v for k, v in call.state.items() if isinstance(v, str | dict)},
        "metadata": context.metadata,
        "message": json_format.MessageToDict(context.message) if context.message else None,
        "configuration": (
            json_format.MessageToDict(context.configuration) if context.configuration else None
        ),
        "task": json_format.MessageToDict(task) if task else None,
        "relatedTasks": [t.id for t in context.related_tasks],
    }


def _command(text: str) -> tuple[str, list[str]]:
    words = text.split()
    return (words[0].lower(), words[1:]) if words else ("", [])


def _first_word(task: Task) -> str:
    parts = task.history[0].parts if task.history else []
    return _command(" ".join(p.text for p in parts))[0]


def _submitted(context: RequestContext) -> Task:
    status = TaskStatus(state=TaskState.TASK_STATE_SUBMITTED)
    status.timestamp.GetCurrentTime()
    return Task(
        id=context.task_id or "",
        context_id=context.context_id or "",
        status=status,
        history=[context.message] if context.message else [],
    )


def _direct(context: RequestContext, text: str) -> Message:
    assert context.message is not None
    return Message(
        message_id=f"answer-to-{context.message.message_id}",
        context_id=context.context_id or "",
        role=Role.ROLE_AGENT,
        parts=[Part(text=text or "a direct answer")],
    )


async def _emit(job: Job, number: int) -> None:
    if number:
        await job.queue.enqueue_event(_submitted(job.context))
    for i in range(number - 1):
        await job.chunk(i, f"chunk {i} ")


async def _exists(path: Path) -> None:
    # the test is another process: a file is the event
    while not await asyncio.to_thread(path.exists):  # noqa: ASYNC110
        await asyncio.sleep(POLL_INTERVAL)


async def _rest(seconds: float) -> None:
    if seconds == float("inf"):
        await asyncio.Event().wait()
    await asyncio.sleep(seconds)


def _append(path: str, line: str) -> None:
    with Path(path).open("a") as file:
        file.write(line + "\n")


agent = DoubleExecutor()
