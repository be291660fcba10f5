"""An agent in a process of its own, as the runtime sees it. Layer: agents.

Rules, beside those in `child`:

1. Cancelling `run` cancels the agent's coroutine and waits for its end; a second cancel gives up
   waiting, so that the runtime can abandon an agent that ignores it.
2. When the process ends in the middle of a turn, the task is FAILED and says how it ended.
3. A process that ended is started again at once; one that ends again and again after a pause that
   grows. A turn that finds none waits for it, and is FAILED if it does not come in time.
4. After a turn was abandoned the process is asked whether its loop turns at all. Where it does
   not, the process is killed (`Process.judge_silence`).
"""

import asyncio
import logging
import time
from typing import Any

from gateway.agents import SECRET_NAMES, AgentError, Turn, contract
from gateway.agents.kinds import Settings
from gateway.agents.process.frames import Kind
from gateway.agents.process.life import Process

logger = logging.getLogger(__name__)

READY_WAIT = 10.0
"""Seconds that a turn waits for a process that is being started again."""
FIRST_PAUSE = 0.1
LONGEST_PAUSE = 5.0
STEADY_AFTER = 30.0
"""Seconds of life after which earlier deaths no longer count."""
STOP_TIMEOUT = 5.0

NOT_RUNNING = "The agent's process is not running; it is being started again"


class ProcessAgent:
    """Runs the Python agent that `spec` names in a process, and keeps that running."""

    def __init__(self, spec: str, settings: Settings, *, name: str, ready_wait: float = READY_WAIT):
        self.name = name
        self._spec = spec
        self._settings = settings
        self._secret_names = settings.secret_names | SECRET_NAMES
        self._ready_wait = ready_wait
        self._process: Process | None = None
        self._changed = asyncio.Event()
        """Set once when the next process is ready."""
        self._keeper: asyncio.Task[None] | None = None
        self._deaths = 0
        self.card: dict[str, Any] = {}
        """What the agent's module proposes for the card; known once it has started."""

    async def start(self) -> None:
        """Start the process; raises `AgentError` where the agent cannot be loaded in it. A second
        call does nothing."""
        if self._keeper is None:
            process = await self._start_one()
            self.card = process.card
            self._keeper = asyncio.create_task(self._keep(process))

    async def _start_one(self) -> Process:
        process = Process(self._spec, self.name, self._settings)
        await process.start()
        self._process = process
        waiting, self._changed = self._changed, asyncio.Event()
        waiting.set()
        return process

    async def _keep(self, process: Process | None) -> None:
        """Start the process again whenever it ends."""
        while True:
            if process is not None:
                await process.gone.wait()
                steady = time.monotonic() - process.started_at > STEADY_AFTER
                self._deaths = 1 if steady else self._deaths + 1
            pause = min(FIRST_PAUSE * 2 ** (self._deaths - 1), LONGEST_PAUSE)
            logger.warning(
                "agent %s: its process %s; starting it again in %.1f s",
                self.name,
                process.ending if process is not None else "could not start",
                pause,
            )
            await asyncio.sleep(pause)
            try:
                process = await self._start_one()
            except (AgentError, OSError) as error:
                logger.error("agent %s cannot be started again: %s", self.name, error)
                process = None
                self._deaths += 1

    async def stop(self) -> None:
        """The process ends in order, or is killed."""
        process, self._process = self._process, None
        if self._keeper is not None:
            self._keeper.cancel()
        if process is not None:
            await process.stop(STOP_TIMEOUT)

    @property
    def fault(self) -> str:
        """Why no turn can run now. For readiness."""
        process = self._process
        if process is None or not process.is_usable:
            return "the agent's process is being started again"
        return process.fault

    async def run(self, turn: Turn) -> None:
        process = self._process
        if process is None or not process.is_usable:
            process = await self._restarted()
        if process is None:
            await contract.emit_failure(turn, NOT_RUNNING)
            return
        request = contract.to_execute_request(turn, self._secret_names)
        await process.call(turn, Kind.EXECUTE, request.SerializeToString())

    async def cancel(self, turn: Turn) -> None:
        process = self._process
        if process is None or not process.is_usable:
            return  # what it would be told about is gone
        request = contract.to_cancel_request(turn, self._secret_names)
        await process.call(turn, Kind.CANCEL, request.SerializeToString())

    async def _restarted(self) -> Process | None:
        if self._keeper is None:
            raise AgentError(f"agent {self.name} is not started")
        try:
            async with asyncio.timeout(self._ready_wait):
                await self._changed.wait()
        except TimeoutError:
            return None
        return self._process
