"""The stdio door's server end: one session on this process's own input and output.

The process is the adapter. It has one client, which started it and which it ends with: when the
input ends, answers under way get the grace period, and the process ends in order
(docs/bindings/stdio.md). `core` finds the core, or keeps one; see `gateway.nearby`.
"""

import asyncio
import gc
import logging
import os
import signal
from collections.abc import Awaitable
from typing import Any, Protocol

import uvloop

from gateway import logs
from gateway.call import Peer
from gateway.config import Config, secrets_of
from gateway.family import ONE_SIGNAL
from gateway.link.frames import LinkError, LinkRefusedError
from gateway.pb import AgentInterface
from transports.core import CoreClient, LinkOptions
from transports.session.carrier import ByteSession
from transports.session.server import Options
from transports.stdio import BINDING
from transports.stdio.streams import Input, Output

logger = logging.getLogger(__name__)

URL = "stdio:"
START_LIMIT = 90.0
WAIT_LIMIT = 15.0
"""How long a call waits for a core: as long as it may take another process to end its own, after
the grace period, and this one to start one."""
GC_THRESHOLD = 20_000


class Core(Protocol):
    """The core that the session's calls are for."""

    async def find(self) -> tuple[str, str, bool]:
        """Address and secret of its link, once it is there, and whether it is this process's
        own. Raises `LinkRefusedError` where there will be none."""

    async def stop(self, grace: float) -> None:
        """End what was started for this process."""


class FoundCoreClient(CoreClient):
    """Links to whatever core is there, each time anew. `failed` is done, with the error, when
    there will be none."""

    def __init__(self, core: Core):
        options = LinkOptions(start_timeout=START_LIMIT, wait_timeout=WAIT_LIMIT)
        super().__init__("", door="stdio", options=options)
        self._core = core
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def locate(self) -> tuple[str, bytes]:
        """Of `CoreClient`."""
        try:
            address, secret, is_own = await self._core.find()
        except LinkRefusedError as error:
            if not self.failed.done():
                self.failed.set_exception(error)
                self.failed.exception()  # also where nobody looks any more
            raise
        # the card of a core that others keep is theirs: it would change with each client
        self.set_interfaces([interface()] if is_own else [])
        return address, secret.encode()


class StdioServer:
    """The door. It owns the descriptors `reading` and `writing` from now on."""

    def __init__(self, core: Core, reading: int, writing: int, grace: float):
        self._core = core
        self._client = FoundCoreClient(core)
        self._input = Input(reading)
        self._output = Output(writing)
        self._grace = grace
        self._stopping = asyncio.Event()
        self._hurrying = asyncio.Event()
        self._deadline = 0.0
        self._is_lost = False
        """Whether the client is gone. A core of ours then drains by itself, for the sake of others
        that have joined it; nobody waits for this process."""
        self._asked_at = 0.0

    def ask_to_stop(self) -> None:
        """End in order; asked a second time, at once."""
        now = asyncio.get_running_loop().time()
        if not self._stopping.is_set():
            self._stopping.set()
            self._asked_at = now
        elif now - self._asked_at > ONE_SIGNAL:
            self._hurrying.set()

    async def run(self) -> None:
        """Until the client ends it, or is gone, or the process is told to stop. Raises a
        `LinkError` where there is no core."""
        loop = asyncio.get_running_loop()
        try:
            if await self._before_stop(self._client.start()):
                gc.collect()
                gc.freeze()  # what is loaded by now stays
                await self._serve()
            else:
                self._deadline = loop.time() + self._grace
        finally:
            self._input.close()
            self._output.close()
            await self._client.stop(0)
            if not self._is_lost:
                left = max(0.0, self._deadline - loop.time())
                await self._until_hurried(self._core.stop(left))
            if self._hurrying.is_set():
                await self._core.stop(0)

    async def _serve(self) -> None:
        session = ByteSession(
            self._client,
            self._output.write,
            Options(door="stdio", binding=BINDING),
            peer=Peer(uid=os.getuid(), gid=os.getgid(), pid=os.getppid()),
        )
        is_told = False
        try:
            is_told = not await self._before_stop(session.serve(self._input.read))
        except OSError as error:
            logger.warning("the input cannot be read any more: %s", error.strerror)
        except LinkError:
            await session.drain(0)  # nobody will answer any more
            raise
        else:
            await self._drain(session, is_told)
        finally:
            await session.close()

    async def _drain(self, session: ByteSession, is_told: bool) -> None:
        """The end of the session. A client that ended its input knows; one that is gone has no
        use for answers."""
        if not session.lost.done():
            logger.info("ending, grace %.1f s", self._grace)
            self._deadline = asyncio.get_running_loop().time() + self._grace
            await self._until_hurried(session.drain(self._grace, announce=is_told))
        if session.lost.done():
            logger.info("ending: %s", session.lost.result())
            self._is_lost = True

    async def _before_stop(self, work: Awaitable[object]) -> bool:
        """Do this, unless the process is told to stop before it is done; whether it was done.
        Raises what it raises, and a `LinkError` where there will be no core."""
        doing = asyncio.ensure_future(work)
        stop = asyncio.create_task(self._stopping.wait())
        failed = self._client.failed
        try:
            await asyncio.wait((doing, stop, failed), return_when=asyncio.FIRST_COMPLETED)
            if failed.done():
                failed.result()
            if doing.done():
                doing.result()
            return doing.done()
        finally:
            await _ended(doing, stop)

    async def _until_hurried(self, work: Awaitable[object]) -> None:
        doing = asyncio.ensure_future(work)
        hurry = asyncio.create_task(self._hurrying.wait())
        try:
            await asyncio.wait((doing, hurry), return_when=asyncio.FIRST_COMPLETED)
            if doing.done():
                doing.result()
        finally:
            await _ended(doing, hurry)


async def _ended(*tasks: "asyncio.Future[Any]") -> None:
    for task in tasks:
        task.cancel()
    # gather takes their errors, which were raised already or matter no more
    await asyncio.gather(*tasks, return_exceptions=True)


def interface() -> AgentInterface:
    """The entry for the agent card."""
    return AgentInterface(url=URL, protocol_binding=BINDING, protocol_version="1.0")


def run(config: Config, core: Core, reading: int, writing: int) -> None:
    """Run the process to its end. Raises a `LinkError` where there is no core."""
    logs.setup(config.logs.level, config.logs.format, "stdio")
    logs.hide(secrets_of(config))
    gc.set_threshold(GC_THRESHOLD, 10, 10)

    async def main() -> None:
        server = StdioServer(core, reading, writing, config.grace)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, server.ask_to_stop)
        await server.run()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
