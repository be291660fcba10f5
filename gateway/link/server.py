"""The core's end of all links: takes adapters in, and runs their calls in `service`.

Part of the core; docs/link.md has the rules. What a link needs of the rest of the core is stated
in the duck types `LinkService` (`gateway.link.core_link`) and `CardSource`.
"""

import asyncio
import contextlib
import hmac
import logging
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import grpc
import grpc.aio

from gateway.link.core_link import CoreLink, LinkLimits, LinkService, is_end
from gateway.link.frames import (
    FRAME_BYTES,
    LINK_SERVICE,
    VERSIONS,
    Card,
    LinkProtocolError,
    LinkRefusedError,
    encode_card,
    encode_goaway,
    encode_readiness,
    encode_refusal,
    link_frame,
    negotiate,
    read_interfaces,
    to_card,
)
from gateway.link.stream import BatchStream
from gateway.pb import AgentInterface, link_pb2

logger = logging.getLogger(__name__)


class CardRevision(Protocol):
    """One state of the card: `gateway.card.Revision`."""

    @property
    def number(self) -> int:
        """1, 2, ..."""

    @property
    def agent_card(self) -> bytes:
        """Serialized `AgentCard`."""

    @property
    def modified(self) -> float:
        """Seconds since the epoch."""


class CardSource(Protocol):
    """Where the public card comes from: `gateway.card.Card`."""

    @property
    def revision(self) -> CardRevision:
        """The card as it stands."""

    def watch(self, changed: Callable[[Any], None]) -> Callable[[], None]:
        """Call `changed` with each new revision; returns what ends it."""


class LinkServer:
    """Serves links on a grpc.aio server: `add_to(server)` before that server starts.

    Without a secret, a link is believed where the transport itself proves who is there: a Unix
    socket, or TLS with a client certificate. `on_interfaces(link, interfaces)` is told where the
    doors of a link listen, and, with an empty list, that the link is gone; it may raise
    `ValueError` for an entry that cannot stand in a card. `on_ping` gets the seconds of each
    round trip.
    """

    def __init__(
        self,
        service: LinkService,
        card: CardSource,
        *,
        secret: bytes = b"",
        limits: LinkLimits | None = None,
        versions: Sequence[int] = VERSIONS,
        on_interfaces: Callable[[str, list[AgentInterface]], None] | None = None,
        on_ping: Callable[[float], None] | None = None,
    ):
        self.limits = limits or LinkLimits()
        self._service = service
        self._card = card
        self._secret = secret
        self._versions = versions
        self._on_interfaces = on_interfaces or (lambda link, interfaces: None)
        self._on_ping = on_ping or (lambda seconds: None)
        self._links: dict[str, CoreLink] = {}
        self._count = 0
        self._readiness = (True, "")
        self._is_stopping = False
        self._unwinding: set[asyncio.Task[None]] = set()
        self._unwatch = card.watch(self._card_changed)

    @property
    def open_links(self) -> int:
        """Links that were welcomed and are not gone."""
        return len(self._links)

    @property
    def open_calls(self) -> int:
        """Calls under way on all links."""
        return sum([len(link.end.calls) for link in self._links.values()])

    @property
    def unwinding_calls(self) -> int:
        """Calls that were cancelled and whose tasks have not ended."""
        return len(self._unwinding)

    def add_to(self, server: grpc.aio.Server) -> None:
        """Serve links on this server's listeners."""
        handler: grpc.RpcMethodHandler[Any, Any] = grpc.stream_stream_rpc_method_handler(
            self._connect, request_deserializer=link_pb2.Batch.FromString
        )
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(LINK_SERVICE, {"Connect": handler}),)
        )

    def set_ready(self, is_ready: bool, reason: str = "") -> None:
        """Tell every adapter, now and later, whether the core is ready for calls."""
        self._readiness = (is_ready, reason)
        self._tell(encode_readiness(is_ready, reason))

    async def stop(self, grace: float) -> None:
        """Take no new links and calls, let those under way end within `grace` seconds, end the
        links. What is under way then is cut: adapters repeat it elsewhere or say so. A second
        call does nothing."""
        if self._is_stopping:
            return
        self._is_stopping = True
        self._tell(encode_goaway("the core is stopping"))
        await self._calls_ended(grace)
        await asyncio.gather(*(link.close() for link in tuple(self._links.values())))
        self._unwatch()

    async def _calls_ended(self, grace: float) -> None:
        ended = asyncio.Event()
        for link in self._links.values():
            link.end.on_closed = ended.set
        try:
            async with asyncio.timeout(grace):
                while self.open_calls:
                    ended.clear()
                    await ended.wait()
        except TimeoutError:
            if self.open_calls:
                logger.warning("%d calls did not end within %s s", self.open_calls, grace)

    def _admits(self) -> bool:
        # cancelled calls count until they are gone: else opening and cancelling has no bound
        return self.open_calls + len(self._unwinding) < self.limits.calls

    def _tell(self, chunk: bytes) -> None:
        for link in self._links.values():
            link.end.out.put_urgent(chunk)

    def _card_changed(self, revision: CardRevision) -> None:
        self._tell(encode_card(_card(revision)))

    # One link

    async def _connect(self, requests: object, context: Any) -> None:
        try:
            hello = await self._hello(context)
            version = self._judge(hello, context)
            link = self._link(hello, context)
            self._on_interfaces(link.name, read_interfaces(hello.interfaces))
            # from here on without a pause: the card of the welcome is followed by every change
            link.end.out.put_urgent(self._welcome(version))
        except (LinkRefusedError, LinkProtocolError, ValueError) as error:
            logger.warning("a link was refused: %s", error)
            can_retry = isinstance(error, LinkRefusedError) and error.can_retry
            with contextlib.suppress(asyncio.InvalidStateError, OSError):  # it has hung up
                await context.write(encode_refusal(str(error), can_retry=can_retry))
            return
        self._links[link.name] = link
        logger.info("%s: the adapter %r is linked", link.name, hello.door)
        try:
            await link.run()
        finally:
            del self._links[link.name]
            self._on_interfaces(link.name, [])

    async def serve(self, stream: BatchStream) -> None:
        """One link on a Unix socket, to its end: what a `StreamListener` runs."""
        await self._connect(None, stream)

    async def _hello(self, context: Any) -> link_pb2.Hello:
        try:
            async with asyncio.timeout(self.limits.hello_timeout):
                batch = await context.read()
        except TimeoutError:
            raise LinkRefusedError("no hello came", can_retry=True) from None
        if is_end(batch):
            raise LinkRefusedError("it hung up without a hello", can_retry=True)
        if len(batch.frames) != 1 or not batch.frames[0].HasField("hello"):
            raise LinkRefusedError("the first frame must be hello", can_retry=False)
        hello: link_pb2.Hello = batch.frames[0].hello
        return hello

    def _judge(self, hello: link_pb2.Hello, context: Any) -> int:
        """The version to speak."""
        if not self._is_trusted(hello, context):
            raise LinkRefusedError(
                "the secret is not this core's; start core and adapter with the same one"
                if self._secret
                else "the core has no secret to compare; set one, or link over a Unix socket or "
                "with a client certificate",
                can_retry=False,
            )
        version = negotiate(self._versions, hello.versions)
        if version is None:
            raise LinkRefusedError(
                f"no link version in common: the core speaks {_words(self._versions)}, "
                f"the adapter {_words(hello.versions)}; upgrade the older one",
                can_retry=False,
            )
        if hello.window_bytes < FRAME_BYTES:
            raise LinkRefusedError(
                f"window_bytes is {hello.window_bytes}; at least {FRAME_BYTES} are needed",
                can_retry=False,
            )
        if self._is_stopping:
            raise LinkRefusedError("the core is stopping", can_retry=True)
        return version

    def _is_trusted(self, hello: link_pb2.Hello, context: Any) -> bool:
        if self._secret:
            return hmac.compare_digest(hello.secret, self._secret)
        return context.peer().startswith("unix:") or bool(context.peer_identities())

    def _link(self, hello: link_pb2.Hello, context: Any) -> CoreLink:
        self._count += 1
        name = f"link-{self._count}"

        def told(interfaces: list[AgentInterface]) -> None:
            try:
                self._on_interfaces(name, interfaces)
            except ValueError as error:
                raise LinkProtocolError(str(error)) from error

        return CoreLink(
            name,
            hello.door,
            context,
            self._service,
            self.limits,
            send_window=hello.window_bytes,
            admit=self._admits,
            on_interfaces=told,
            on_ping=self._on_ping,
            unwinding=self._unwinding,
        )

    def _welcome(self, version: int) -> bytes:
        limits = self.limits
        is_ready, reason = self._readiness
        batch, frame = link_frame()
        frame.welcome.MergeFrom(
            link_pb2.Welcome(
                version=version,
                window_bytes=limits.window_bytes,
                frame_bytes=FRAME_BYTES,
                message_bytes=limits.message_bytes,
                calls=limits.calls_per_link,
                ping_interval=limits.ping_interval,
                credential_names=self._service.credential_names,
                card=to_card(_card(self._card.revision)),
                readiness=link_pb2.Readiness(ready=is_ready, reason=reason),
            )
        )
        return batch.SerializeToString()


def _card(revision: CardRevision) -> Card:
    return Card(revision.number, revision.agent_card, revision.modified)


def _words(versions: Sequence[int]) -> str:
    return ", ".join(map(str, versions)) or "none"


__all__ = ["CardRevision", "CardSource", "LinkLimits", "LinkServer", "LinkService"]
