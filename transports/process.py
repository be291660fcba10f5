"""The adapter process: one way to the core, and the doors that use it (docs/doors.md).

An adapter holds no state that matters: killing it loses no task.
"""

import asyncio
import contextlib
import logging
import sys
import time
from collections.abc import Mapping
from typing import Any

from gateway.call import Call
from gateway.config import Config, from_plain
from gateway.config.doors import addresses
from gateway.errors import FailureError
from gateway.example import Example
from gateway.family import EXIT_ADDRESS, EXIT_FAILED, EXIT_USAGE, adapter_name
from gateway.link.frames import LinkError
from gateway.metrics import Metrics
from gateway.pb import ProtoMessage
from gateway.process import Channel, StartError, cannot_listen
from gateway.process import run as run_process
from transports import TransportError, options, transport
from transports.core import Answer, CoreClient
from transports.core_calls import CoreStream

logger = logging.getLogger(__name__)


class CountingClient(CoreClient):
    """Counts the calls that doors make."""

    def __init__(self, metrics: Metrics, *arguments: Any, **options: Any):
        super().__init__(*arguments, on_ping=metrics.link_answered, **options)
        self._metrics = metrics

    async def unary(self, method: str, request: ProtoMessage, call: Call) -> Answer:
        """As the client does."""
        started = time.perf_counter()
        code = "CANCELLED"
        try:
            answer = await super().unary(method, request, call)
            code = "OK"
            return answer
        except FailureError as error:
            code = error.failure.row.code.name
            raise
        finally:
            self._metrics.call_ended(call.door, method, code, time.perf_counter() - started)

    def stream(self, method: str, request: ProtoMessage, call: Call) -> CoreStream:
        """As the client does."""
        return CountedStream(self._metrics, self, method, request, call)


class CountedStream(CoreStream):
    """A stream that is counted, as open from its first event on, and at its end."""

    __slots__ = ("_door", "_is_counted", "_metrics", "_operation", "_started")

    def __init__(
        self,
        metrics: Metrics,
        client: CoreClient,
        method: str,
        request: ProtoMessage,
        call: Call,
    ):
        super().__init__(client, method, request, call)
        self._metrics = metrics
        self._door, self._operation = call.door, method
        self._started = time.perf_counter()
        self._is_counted = False

    async def __anext__(self) -> list[tuple[int, bytes]]:
        was_started = self.is_started
        try:
            events = await super().__anext__()
        except StopAsyncIteration:
            self._count("OK")
            raise
        except FailureError as error:
            self._count(error.failure.row.code.name)
            raise
        if not was_started:
            self._metrics.stream_opened(self._door)
        return events

    async def aclose(self) -> None:
        self._count("CANCELLED")
        await super().aclose()

    def _count(self, code: str) -> None:
        if self._is_counted:
            return
        self._is_counted = True
        self._metrics.call_ended(
            self._door, self._operation, code, time.perf_counter() - self._started
        )
        if self.is_started:
            self._metrics.stream_closed(self._door)


class Adapter:
    """The doors of one process."""

    def __init__(self, config: Config, metrics: Metrics):
        self._config = config
        secret = config.link.secret
        self._client = CountingClient(
            metrics,
            config.link.address,
            door=", ".join(config.transports.others),
            secret=secret.reveal().encode() if secret else b"",
        )
        self._doors = {
            name: _make(name, given, self._client)
            for name, given in config.transports.others.items()
        }

    async def start(self) -> Mapping[str, Any]:
        """Join the core, then open the doors. Raises `StartError`."""
        try:
            await self._client.start()
        except LinkError as error:
            raise StartError(f"the core cannot be joined: {error}") from None
        opened: dict[str, list[str]] = {}
        for name, door in self._doors.items():
            opened[name] = await self._open(name, door)
        self._client.set_interfaces(
            [entry for door in self._doors.values() for entry in door.interfaces()]
        )
        return {"doors": opened, "reach": self._reach()}

    async def _open(self, name: str, door: Any) -> list[str]:
        try:
            return [str(address) for address in await door.start()]
        except OSError as error:
            asked = ", ".join(addresses(self._config.transports.others[name]))
            raise StartError(cannot_listen(name, asked, error), EXIT_ADDRESS) from None
        except ValueError as error:
            raise StartError(f"transports.{name}: {error}", EXIT_USAGE) from None

    def _reach(self) -> dict[str, list[tuple[str, str]]]:
        """How each door is reached; a door need not say it."""
        example = Example.of(self._config)
        doors = self._doors.items()
        return {name: list(d.reach(example)) for name, d in doors if getattr(d, "reach", None)}

    async def drain(self, grace: float) -> None:
        """Nothing: `stop` lets calls end by itself."""

    async def stop(self, grace: float) -> None:
        """Close the doors, let their calls end, leave the core."""
        end = time.monotonic() + grace
        await asyncio.gather(*(door.stop(grace) for door in self._doors.values()))
        await self._client.stop(max(0.0, end - time.monotonic()))


def _make(name: str, given: Any, client: CoreClient) -> Any:
    """A door, not yet open. Raises `StartError`."""
    try:
        door = transport(name)
        shape = options(name)
        if shape is not None and isinstance(given, Mapping):
            given = from_plain(shape, given)
        return door(client, given)
    except TransportError as error:
        raise StartError(f"transports.{name}: {error}", EXIT_USAGE) from None
    except ValueError as error:
        raise StartError(f"transports.{name}: {error}", EXIT_USAGE) from None


def run(config: Config, channel: Channel | None = None) -> int:
    """Run the adapter to its end; gives the exit code."""
    name = adapter_name(list(config.transports.others))
    return run_process(name, Adapter, channel=channel, config=config)


def main() -> None:
    """As a child of the supervisor."""
    channel = Channel.inherit()
    if channel is None:
        sys.exit("a2a-gateway: this is for the supervisor to start; use: a2a-gateway adapter")
    with contextlib.suppress(TransportError):  # becomes an error with words later
        for name in sys.argv[1:]:
            transport(name)  # loaded now, while the core starts
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(run(channel.read_config(), channel))
    sys.exit(EXIT_FAILED)


if __name__ == "__main__":
    main()
