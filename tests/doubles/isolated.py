"""An agent for `isolation: process`: each word does to its process what an agent may do to it."""

import asyncio
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from gateway.agents.function import Input, ask, fail, status
from gateway.errors import ContentTypeNotSupportedError
from gateway.pb import Task, TaskStatusUpdateEvent

agent_card = {"name": "Isolated", "description": "Runs apart."}


def _write(path: str, text: str = "") -> None:
    Path(path).write_text(text)


async def agent(input: Input) -> AsyncIterator[Any]:
    word, *rest = input.text.split()
    match word:
        case "pid":
            yield str(os.getpid())
        case "seen":
            yield {
                "caller": input.caller,
                "tenant": input.tenant,
                "extensions": list(input.extensions),
                "metadata": input._turn.call.metadata,
                "task": input.task_id,
                "context": input.context_id,
                "history": len(input.history),
                "related": [task.id for task in input.related],
                "left": (input._turn.call.remaining() or 0) > 0,
            }
        case "remember":
            input.session["count"] = input.session.get("count", 0) + 1
            yield str(input.session["count"])
        case "print":
            print("printed by the agent", flush=True)
            yield repr(sys.stdin.read())
        case "flood":
            for number in range(int(rest[0])):
                yield f"{number} "
        case "raise":
            yield "before"
            raise ValueError("secret-123")
        case "raise-much":
            raise ValueError("\ud800" + "x" * 10_000_000 + "the end")
        case "timeout":
            yield "before"
            raise TimeoutError("too slow")
        case "refuse":
            raise ContentTypeNotSupportedError("no pictures, please")
        case "fail":
            yield fail("as you wished")
        case "ask":
            yield ask("What?")
            os._exit(3)
        case "foreign":
            yield TaskStatusUpdateEvent(task_id="another")
        case "foreign-task":
            yield status("working")
            yield Task(id="another")
        case "huge":
            yield "x" * int(rest[0])
        case "give-up":
            yield "before"
            raise asyncio.CancelledError
        case "sys.exit":
            yield "before"
            sys.exit(3)
        case "exit-later":
            asyncio.get_running_loop().call_soon(sys.exit, 3)
            await asyncio.Event().wait()
        case "os._exit":
            yield "before"
            await asyncio.sleep(0.05)
            os._exit(4)
        case "segfault":
            yield "before"
            await asyncio.sleep(0.05)
            ctypes.string_at(0)
        case "killed":
            yield "before"
            os.kill(os.getpid(), signal.SIGKILL)
        case "block":
            _write(rest[0])
            time.sleep(60)  # noqa: ASYNC251 - the fault that the double stands for
        case "hold":
            # a call into C that keeps the interpreter's lock: no other thread runs
            _write(rest[0])
            ctypes.PyDLL(None).usleep(60_000_000)
        case "wait":
            yield status("waiting")
            await asyncio.Event().wait()
        case "stubborn":
            yield status("waiting")
            while True:
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    continue
        case "spawn":
            child = subprocess.Popen(  # noqa: ASYNC220
                [sys.executable, "-c", "import time; time.sleep(60)"], stdin=subprocess.DEVNULL
            )
            yield str(child.pid)
        case "spawn-and-die":
            child = subprocess.Popen(["sleep", "60"], stdin=subprocess.DEVNULL)  # noqa: ASYNC220
            _write(rest[0], str(child.pid))
            os._exit(5)
        case _:
            yield input.text
