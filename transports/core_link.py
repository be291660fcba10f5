"""One link at the adapter: `AdapterEnd` on a stream. Reading and writing have a task each.

Over a Unix socket the stream is the socket itself, elsewhere a gRPC call.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gateway.link.frames import (
    VERSIONS,
    WINDOW_BYTES,
    Card,
    Limits,
    LinkError,
    LinkProtocolError,
    LinkRefusedError,
    link_frame,
    read_card,
    to_interfaces,
)
from gateway.link.pulse import Bell, Pulse
from gateway.link.stream import BatchStream
from gateway.pb import AgentInterface, link_pb2
from transports.adapter_end import AdapterEnd

if TYPE_CHECKING:
    from grpc import ChannelCredentials

logger = logging.getLogger(__name__)


HangUp = Callable[[], Awaitable[None]]
"""Ends what carries a stream."""


@dataclass(frozen=True, slots=True)
class LinkOptions:
    """How an adapter links; the defaults are the design's."""

    versions: Sequence[int] = VERSIONS
    window_bytes: int = WINDOW_BYTES
    response_bytes: int = 256 * 1024 * 1024
    """The largest response or event that is joined here."""
    unsent_bytes: int = 64 * 1024 * 1024
    """Requests that have not left; more, and new calls are refused."""
    hello_timeout: float = 2.0
    ping_interval: float | None = None
    """None: as the core says."""
    start_timeout: float | None = 30.0
    """Until the first link stands; None: no limit."""
    wait_timeout: float = 2.0
    """How long a call waits for a link."""
    resume_timeout: float = 5.0
    """How long a stream that had begun waits for the next link."""
    answer_slack: float = 1.0
    """After its deadline, a call that the core did not end is ended here."""
    min_delay: float = 0.05
    max_delay: float = 2.0
    """Between attempts to link."""
    wanted_delay: float = 0.1
    """The same while calls wait for the link."""
    channel_options: Sequence[tuple[str, Any]] = field(default_factory=tuple)


class CoreLink:
    """One link. `connect` gives it once the core has welcomed it; then `run` it."""

    def __init__(
        self,
        stream: Any,
        hang_up: HangUp,
        welcome: link_pb2.Welcome,
        *,
        door: str,
        options: LinkOptions,
        on_card: Callable[[Card], None],
        on_readiness: Callable[[bool, str], None],
        on_ping: Callable[[float], None],
    ):
        self.limits = Limits(welcome.message_bytes, welcome.window_bytes, welcome.calls)
        self.credential_names = tuple(welcome.credential_names)
        self._bell = Bell()
        self.end = AdapterEnd(
            self,
            self._bell.ring,
            door=door,
            window=options.window_bytes,
            limits=self.limits,
            response_bytes=options.response_bytes,
            unsent_bytes=options.unsent_bytes,
        )
        self.on_card = on_card
        self.on_readiness = on_readiness
        self.is_leaving = False
        """No new calls."""
        self.left: asyncio.Future[str]
        """Done, with the reason, once the link takes no new calls."""
        self._loop = asyncio.get_running_loop()
        self.left = self._loop.create_future()
        self._stream = stream
        self._hang_up = hang_up
        self._over: asyncio.Future[str] = self._loop.create_future()
        self._pulse = Pulse(
            self.end.out,
            options.ping_interval or welcome.ping_interval,
            on_ping,
            lambda: self.close("the core does not answer"),
        )
        self.on_pong = self._pulse.on_pong
        """Of `Handler`."""

    async def run(self) -> None:
        """Until the link ends, whoever ends it. Leaves no call behind."""
        tasks = [self._loop.create_task(self._read()), self._loop.create_task(self._write())]
        self._pulse.start()
        try:
            await self._over
        finally:
            self._pulse.stop()
            self._leave("the link was closed")
            for task in tasks:
                task.cancel()
            self.end.lost()
            self._stream.cancel()
            await asyncio.wait(tasks)
            await self._hang_up()

    def close(self, reason: str) -> None:
        """End the link; its calls are lost."""
        if not self._over.done():
            self._over.set_result(reason)
        self._leave(reason)

    def leave(self, reason: str) -> None:
        """Take no new calls, and end the link with the last call."""
        self._leave(reason)
        self.end.on_closed = self._close_if_idle
        self._close_if_idle()

    def _leave(self, reason: str) -> None:
        self.is_leaving = True
        if not self.left.done():
            self.left.set_result(reason)

    def _close_if_idle(self) -> None:
        if not self.end.calls:
            self.close("the last call has ended")

    async def _write(self) -> None:
        out = self.end.out
        batch = b""
        try:
            while True:
                if batch := out.take():
                    # whatever becomes ready meanwhile makes the next batch
                    await self._stream.write(batch)
                else:
                    await self._bell.wait()
        except asyncio.InvalidStateError:
            # the stream had ended before this write began
            out.put_back(batch)
            self.close("the stream has ended")
        except Exception as error:
            self.close(f"cannot write: {_words(error)}")

    async def _read(self) -> None:
        try:
            while (batch := await self._stream.read()) is not None:
                self._pulse.heard()
                self.end.receive(batch)
            self.close("the core ended it")
        except (LinkProtocolError, LinkRefusedError) as error:
            logger.warning("the link to the core cannot go on: %s", error)
            self.close(str(error))
        except Exception as error:
            self.close(f"cannot read: {_words(error)}")

    # Of `Handler`

    def on_goaway(self, reason: str) -> None:
        """The core takes no more calls here."""
        logger.info("the core takes no new calls: %s", reason)
        self.leave(reason)


async def connect(
    address: str,
    *,
    door: str,
    secret: bytes,
    credentials: "ChannelCredentials | None",
    interfaces: Iterable[AgentInterface],
    options: LinkOptions,
    on_card: Callable[[Card], None],
    on_readiness: Callable[[bool, str], None],
    on_ping: Callable[[float], None],
) -> CoreLink:
    """Say hello to the core. Raises `LinkRefusedError` or another `LinkError`."""
    stream, hang_up = await _open(address, credentials, options)
    try:
        try:
            async with asyncio.timeout(options.hello_timeout):
                await stream.write(_hello(door, secret, interfaces, options))
                batch = await stream.read()
        except TimeoutError:
            raise LinkError(f"the core at {address} does not answer") from None
        except LinkProtocolError:
            raise
        except LinkError as error:
            raise LinkError(f"cannot reach the core at {address}: {error}") from None
        except asyncio.InvalidStateError:
            raise LinkError(f"the core at {address} ended the link at once") from None
        welcome = _read_welcome(batch, address, options)
        link = CoreLink(
            stream,
            hang_up,
            welcome,
            door=door,
            options=options,
            on_card=on_card,
            on_readiness=on_readiness,
            on_ping=on_ping,
        )
        on_card(read_card(welcome.card))
        on_readiness(welcome.readiness.ready, welcome.readiness.reason)
        link.end.receive(link_pb2.Batch(frames=batch.frames[1:]))
    except BaseException:
        await hang_up()
        raise
    return link


async def _open(
    address: str, credentials: "ChannelCredentials | None", options: LinkOptions
) -> tuple[Any, HangUp]:
    """A stream to the core, and what ends that which carries it. Raises `LinkError`."""
    if address.startswith("unix:") and credentials is None:
        loop = asyncio.get_running_loop()
        try:
            _, stream = await loop.create_unix_connection(
                BatchStream, address.removeprefix("unix:")
            )
        except OSError as error:
            words = error.strerror or error
            raise LinkError(f"cannot reach the core at {address}: {words}") from None
        return stream, stream.close
    # gRPC takes a fifth of an adapter's start
    from transports.core_grpc import CallStream

    call = CallStream(address, credentials, options.channel_options)
    return call, call.close


def _hello(
    door: str, secret: bytes, interfaces: Iterable[AgentInterface], options: LinkOptions
) -> bytes:
    batch, frame = link_frame()
    frame.hello.versions.extend(options.versions)
    frame.hello.door = door
    frame.hello.secret = secret
    frame.hello.interfaces.extend(to_interfaces(interfaces))
    frame.hello.window_bytes = options.window_bytes
    return batch.SerializeToString()


def _read_welcome(batch: Any, address: str, options: LinkOptions) -> link_pb2.Welcome:
    if batch is None or not batch.frames:
        raise LinkError(f"the core at {address} ended the link at once")
    frame = batch.frames[0]
    if frame.HasField("refusal"):
        raise LinkRefusedError(
            f"the core at {address} refused the link: {frame.refusal.reason}",
            can_retry=frame.refusal.retry,
        )
    if not frame.HasField("welcome") or frame.welcome.version not in options.versions:
        raise LinkProtocolError(f"what listens at {address} is not a core that this adapter knows")
    welcome: link_pb2.Welcome = frame.welcome
    return welcome


def _words(error: BaseException) -> str:
    return str(error) if isinstance(error, LinkError) else repr(error)
