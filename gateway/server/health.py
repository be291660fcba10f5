"""Health of the core: the standard service (grpc.health.v1), and who keeps it true."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

import grpc.aio
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1.health import aio

from gateway.pb import SERVICE_NAME

logger = logging.getLogger(__name__)

SERVICES = ("", SERVICE_NAME)
"""What a probe may ask for: the server as a whole, and A2AService."""

PING_INTERVAL = 5.0
PING_LIMIT = 5.0


class Health:
    """Serving or not, as the core is able to work. NOT_SERVING until told otherwise."""

    def __init__(self) -> None:
        self._servicer = aio.HealthServicer()
        self._is_ending = False
        self.is_serving = False

    def add_to(self, server: grpc.aio.Server) -> None:
        """Serve health on this server's listeners."""
        health_pb2_grpc.add_HealthServicer_to_server(self._servicer, server)

    async def set(self, is_serving: bool) -> None:
        """Tell probes and watchers; without effect once the drain has begun."""
        if self._is_ending:
            return
        self.is_serving = is_serving
        await self._tell(is_serving)

    async def end(self) -> None:
        """The drain has begun: NOT_SERVING for good."""
        self._is_ending = True
        self.is_serving = False
        await self._tell(False)

    async def _tell(self, is_serving: bool) -> None:
        status = health_pb2.HealthCheckResponse
        value = status.SERVING if is_serving else status.NOT_SERVING
        for service in SERVICES:
            await self._servicer.set(service, value)


class UnreadyError(Exception):
    """The core cannot work just now; the text says why."""


class Monitor:
    """Asks again and again whether the store answers, and whatever else `ping` finds wrong
    (`UnreadyError`); tells of each change."""

    def __init__(
        self,
        ping: Callable[[], Awaitable[None]],
        changed: Callable[[bool, str], Awaitable[None]],
        interval: float = PING_INTERVAL,
        limit: float = PING_LIMIT,
    ) -> None:
        self._ping = ping
        self._changed = changed
        self._interval = interval
        self._limit = limit
        self._is_well: bool | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Ask once, then from time to time."""
        await self.check()
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Ask no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None

    async def check(self) -> bool:
        """Ask now; whether all is well."""
        reason = ""
        try:
            async with asyncio.timeout(self._limit):
                await self._ping()
        except UnreadyError as error:
            reason = str(error)
        except TimeoutError:
            reason = f"the store has not answered for {self._limit:g} s"
        except Exception as error:
            logger.warning("the store does not answer", exc_info=error)
            reason = "the store does not answer"
        is_well = not reason
        if is_well is not self._is_well:
            if self._is_well is not None:
                logger.warning("%s", reason or "ready again")
            self._is_well = is_well
            await self._changed(is_well, reason)
        return is_well

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._interval)
            await self.check()
