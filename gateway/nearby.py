"""Finds the core of a state directory: joins the one that runs there, or keeps one of its own.

The lock of the state directory decides which: whoever has it starts the core, and keeps the lock
until that one ends (`gateway.lock`). So of several processes that start at once one starts a core
and the others join it, and where that one ends, one of the others takes its place.
"""

import asyncio
import logging
import time
from pathlib import Path
from typing import NamedTuple

from gateway.agents.home import home_of
from gateway.child import KILL_AFTER, READY_LIMIT, Child
from gateway.config import Config
from gateway.family import EXIT_DYING, EXIT_FAILED, EXIT_STATE, EXIT_USAGE
from gateway.link.frames import LinkError, LinkRefusedError
from gateway.own_core import OwnCore
from gateway.state_dir import Invitation, StateDirError, read_invitation

logger = logging.getLogger(__name__)

LOOK_PAUSE = 0.02
"""Between looks for a core that another process starts or stops."""
LOOK_LIMIT = 60.0
REAP_PAUSE = 0.01

NO_AGENT = (
    "no agent is named, and no core runs on the state directory; give --agent module:attribute, "
    "or --agent demo to look around"
)


class Place(NamedTuple):
    """Where the core's link is."""

    address: str
    secret: str
    is_own: bool
    """Whether this process keeps it."""


class NoCoreError(LinkRefusedError):
    """There will be no core; the text says why and what to do."""

    def __init__(self, message: str, code: int):
        super().__init__(message, can_retry=False)
        self.code = code


class Nearby:
    """The core of the configuration's state directory, over all its lives. `own` has been given
    the configuration."""

    def __init__(self, config: Config, own: OwnCore):
        self._agent = config.agent.spec
        self._path: Path = config.state_dir
        self._own = own
        self._was_ready = False
        self._joined = 0

    async def find(self) -> Place:
        """Where the core is, once there is one. Raises `NoCoreError`."""
        end = time.monotonic() + LOOK_LIMIT
        while not self._claim():
            invitation = read_invitation(self._path)
            if invitation is not None:
                return self._join(invitation)
            if time.monotonic() > end:
                raise self._unjoinable()
            await asyncio.sleep(LOOK_PAUSE)
        return await self._keep()

    def _unjoinable(self) -> LinkError:
        text = f"a core has the state directory {self._path}, but cannot be joined"
        if self._joined:  # whoever keeps it may start it again
            return LinkError(text)
        return NoCoreError(
            f"{text}; its log has the reason, or give another directory by --state-dir",
            EXIT_FAILED,
        )

    def _claim(self) -> bool:
        if self._joined and not self._agent:
            return False  # it can do nothing but join again
        try:
            return self._own.claim()
        except StateDirError as error:
            raise NoCoreError(str(error), EXIT_STATE) from None

    def _join(self, invitation: Invitation) -> Place:
        if self._agent and (self._agent, home_of(self._agent)) != (
            invitation.agent,
            invitation.home,
        ):
            where = f" of {invitation.home}" if invitation.home else ""
            raise NoCoreError(
                f"the core on the state directory {self._path} (process {invitation.pid}) runs "
                f"another agent, {invitation.agent}{where}; give another directory by "
                "--state-dir, or leave --agent out to use that agent",
                EXIT_USAGE,
            )
        if self._joined != invitation.pid:
            self._joined = invitation.pid
            logger.info(
                "joining the core of process %d, agent %s", invitation.pid, invitation.agent
            )
        return Place(invitation.address, invitation.secret, is_own=False)

    # a core of our own

    async def _keep(self) -> Place:
        """Wait for our core to be ready, starting it again where it died."""
        if not self._agent:
            raise NoCoreError(NO_AGENT, EXIT_USAGE)
        own = self._own
        child = own.child
        assert child is not None
        while True:
            own.start()
            while own.is_alive(READY_LIMIT):
                if child.report is not None:
                    self._was_ready = True
                    return Place(*own.link, is_own=True)
                await _heard(child)
            own.kill()  # what has hung up, or is late, is of no use
            await self._gone()
            await asyncio.sleep(self._pause(child))

    async def _gone(self) -> None:
        # SIGCHLD would tell, if its handler were not the whole process's
        while not self._own.is_gone():  # noqa: ASYNC110
            await asyncio.sleep(REAP_PAUSE)

    def _pause(self, child: Child) -> float:
        """Before the next start. Raises `NoCoreError` where there is to be none."""
        if not self._was_ready:
            raise NoCoreError(child.error or "the core ended at once", child.code or EXIT_FAILED)
        why = f" ({child.error})" if child.error else ""
        pause = child.died()
        if pause is None:
            raise NoCoreError(f"the core cannot be started again{why}", EXIT_DYING)
        logger.warning("the core died%s; starting it again in %.1f s", why, pause)
        return pause

    async def stop(self, grace: float) -> None:
        """End a core of our own, with what it has begun; leave any other alone."""
        own = self._own
        if own.child is not None and not own.is_gone():
            own.child.order({"stop": grace})
            try:
                async with asyncio.timeout(grace + KILL_AFTER):
                    await self._gone()
            except TimeoutError:
                logger.warning("the core does not end; it is killed")
                own.kill()
                await self._gone()
        own.release()


async def _heard(child: Child) -> None:
    """Until the child says something, or its time is up."""
    loop = asyncio.get_running_loop()
    channel = child.channel
    assert channel is not None
    said: asyncio.Future[None] = loop.create_future()
    loop.add_reader(channel, _settle, said)
    try:
        left = child.started_at + READY_LIMIT - time.monotonic()
        await asyncio.wait((said,), timeout=max(0.0, left))
    finally:
        loop.remove_reader(channel)


def _settle(said: "asyncio.Future[None]") -> None:
    if not said.done():
        said.set_result(None)
