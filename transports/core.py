"""The core as an adapter sees it: a client of A2AService whose calls travel on a link.

The adapter's end of the link, by the rules of docs/link.md. Keeps one link up, waits for it
where it is down, repeats what may be repeated, and makes every failure a `FailureError`.
"""

import asyncio
import logging
import random
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from gateway.call import Call
from gateway.errors import (
    A2AError,
    DeadlineExceededError,
    MethodNotFoundError,
    ResourceExhaustedError,
    UnavailableError,
)
from gateway.link.frames import Card, Limits, LinkError, LinkRefusedError, encode_interfaces
from gateway.pb import METHODS, AgentInterface, ProtoMessage
from transports.core_calls import (
    CoreStream,
    LostError,
    UnaryCall,
    can_repeat,
    failure,
    lost_failure,
)
from transports.core_link import CoreLink, LinkOptions, connect

if TYPE_CHECKING:
    from grpc import ChannelCredentials

logger = logging.getLogger(__name__)

ATTEMPTS = 3
"""Of one unary call, links that broke before they took it included."""
STEADY_SECONDS = 1.0
"""A link that held for less counts as a failed attempt."""


class Answer(NamedTuple):
    """The response of a unary call and its metadata."""

    message: ProtoMessage
    metadata: dict[str, str]


class CoreClient:
    """One adapter's way to the core at `address` (`unix:/path` or `host:port`).

    `door` names the process in the core's logs and is the door of calls that name no other.
    `on_ping` gets the seconds of each round trip.
    """

    def __init__(
        self,
        address: str,
        *,
        door: str,
        secret: bytes = b"",
        credentials: "ChannelCredentials | None" = None,
        options: LinkOptions | None = None,
        on_ping: Callable[[float], None] | None = None,
    ):
        self.card: Card | None = None
        """The public card; None before the first link."""
        self.limits = Limits()
        self.credential_names: tuple[str, ...] = ()
        self.options = options or LinkOptions()
        self._address = address
        self._door = door
        self._secret = secret
        self._credentials = credentials
        self._on_ping = on_ping or (lambda seconds: None)
        self._interfaces: list[AgentInterface] = []
        self._readiness = (False, "not linked yet")
        self._link: CoreLink | None = None
        self._links: dict[CoreLink, asyncio.Task[None]] = {}
        self._linked: asyncio.Future[None] | None = None
        """Those who wait for a link share it."""
        self._waiting = 0
        self._wanted = asyncio.Event()
        """Set when a call begins to wait."""
        self._keeper: asyncio.Task[None] | None = None
        self._is_stopping = False
        self._was_linked = False
        self._last_complaint = ""

    @property
    def is_ready(self) -> bool:
        """Whether the core can be reached and says that it takes calls."""
        return self.is_linked and self._readiness[0]

    @property
    def reason(self) -> str:
        """Why it is not ready; empty where the core gave no reason."""
        return self._readiness[1] if self.is_linked else self._last_complaint

    @property
    def is_linked(self) -> bool:
        """Whether the core can be reached."""
        return self._link is not None and not self._link.is_leaving

    @property
    def open_calls(self) -> int:
        """Calls under way, on all links."""
        return sum([len(link.end.calls) for link in self._links])

    # Life

    async def start(self) -> None:
        """Returns once linked. Raises `LinkRefusedError` where waiting cannot help, and
        `LinkError` after `start_timeout`."""
        first = self._wait_for_link()
        self._keeper = asyncio.create_task(self._keep())
        try:
            async with asyncio.timeout(self.options.start_timeout):
                await asyncio.wait((first, self._keeper), return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            await self.stop(0)
            raise LinkError(self._last_complaint or "the core does not answer") from None
        except BaseException:
            await self.stop(0)
            raise
        if self._keeper.done():
            keeper, self._keeper = self._keeper, None
            await self.stop(0)
            keeper.result()

    async def stop(self, grace: float) -> None:
        """Take no new calls, let those under way end within `grace` seconds, end the links. A
        second call does nothing."""
        self._is_stopping = True
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait((self._keeper,))
            self._keeper = None
        self._link = None
        self._fail_waiters()
        for link in tuple(self._links):
            link.leave("the adapter is stopping")
        if self._links:
            await asyncio.wait(self._links.values(), timeout=grace)
        for link in tuple(self._links):
            link.close("the adapter is stopping")
        if self._links:
            await asyncio.wait(tuple(self._links.values()))

    def set_interfaces(self, interfaces: Iterable[AgentInterface]) -> None:
        """Tell the core, now and at every new link, where this process really listens."""
        self._interfaces = list(interfaces)
        if self._link is not None and not self._link.is_leaving:
            self._link.end.out.put_urgent(encode_interfaces(self._interfaces))

    # Calls

    async def unary(self, method: str, request: ProtoMessage, call: Call) -> Answer:
        """Run a unary operation. Raises `FailureError`. Cancelling it gives the call up, never
        the task that it started."""
        operation = METHODS.get(method)
        if operation is None:
            raise failure(MethodNotFoundError(f"Method not found: {method[:64]}"))
        data = request.SerializeToString()
        loop = asyncio.get_running_loop()
        repeats = 1 if can_repeat(method, call) else 0
        for attempt in range(ATTEMPTS):
            link = self._link
            if link is None or link.is_leaving:
                link = await self.wait_link(call, self.options.wait_timeout)
            pending = UnaryCall(loop)
            try:
                response, metadata = await self._run_unary(link, pending, method, data, call)
            except LostError as lost:
                if self._is_stopping or attempt + 1 == ATTEMPTS:
                    raise lost_failure(method, lost) from None
                if not lost.is_unsent:
                    if not repeats:
                        raise lost_failure(method, lost) from None
                    repeats -= 1
            except A2AError as error:
                raise failure(error) from None
            else:
                return Answer(operation.response.FromString(response), metadata)
        raise AssertionError("unreachable")

    async def _run_unary(
        self, link: CoreLink, pending: UnaryCall, method: str, data: bytes, call: Call
    ) -> tuple[bytes, dict[str, str]]:
        link.end.open(pending, method, data, call)
        timer = None
        if (remaining := call.remaining()) is not None:
            timer = asyncio.get_running_loop().call_later(
                remaining + self.options.answer_slack, self._expire, link, pending
            )
        try:
            await pending.future
        except asyncio.CancelledError:
            link.end.cancel(pending)
            raise
        finally:
            if timer is not None:
                timer.cancel()
        return pending.answer()

    def _expire(self, link: CoreLink, pending: UnaryCall) -> None:
        link.end.cancel(pending)
        pending.on_error(DeadlineExceededError())

    def stream(self, method: str, request: ProtoMessage, call: Call) -> CoreStream:
        """A streaming operation: an async iterator of non-empty lists of (sequence number,
        serialized StreamResponse). It raises `FailureError`. The call starts with the first
        `anext`; an `anext` that was cancelled can be repeated. Close it with `aclose`."""
        return CoreStream(self, method, request, call)

    # The link

    async def wait_link(self, call: Call, timeout: float) -> CoreLink:
        """The link that takes new calls; waits `timeout` seconds for one at most, and never past
        the call's deadline. Raises `FailureError`."""
        link = self._link
        if link is not None and not link.is_leaving:
            return link
        if self._waiting >= self.limits.calls:
            raise failure(ResourceExhaustedError())
        remaining = call.remaining()
        self._waiting += 1
        self._wanted.set()
        try:
            async with asyncio.timeout(timeout if remaining is None else min(timeout, remaining)):
                while (link := self._link) is None or link.is_leaving:
                    if self._is_stopping:
                        raise failure(UnavailableError("This door is stopping; try again"))
                    await asyncio.shield(self._wait_for_link())
        except TimeoutError:
            if call.remaining() == 0:
                raise failure(DeadlineExceededError()) from None
            raise failure(
                UnavailableError("The core cannot be reached; nothing was done; try again")
            ) from None
        finally:
            self._waiting -= 1
        return link

    @property
    def is_stopping(self) -> bool:
        """Whether nothing new may start."""
        return self._is_stopping

    def _wait_for_link(self) -> "asyncio.Future[None]":
        if self._linked is None:
            self._linked = asyncio.get_running_loop().create_future()
        return self._linked

    def _fail_waiters(self) -> None:
        # they look at the link again, and find that there will be none
        if self._linked is not None:
            self._linked.set_result(None)
            self._linked = None

    async def _keep(self) -> None:
        """Have a link that takes calls, always. Ends only where the first one is refused for
        good."""
        failures = 0
        while True:
            started = time.monotonic()
            try:
                link = await self._connect()
            except LinkRefusedError as error:
                if not error.can_retry and not self._was_linked:
                    # it ends the process, which says why
                    self._last_complaint = str(error)
                    raise
                self._complain(str(error))
            except LinkError as error:
                self._complain(str(error))
            except Exception as error:
                # whatever it was, doors without a core help nobody
                logger.exception("cannot link to the core")
                self._last_complaint = f"cannot link to the core: {type(error).__name__}"
            else:
                self._use(link)
                reason = await link.left
                self._link = None
                self._complain(f"the link to the core ended: {reason}")
                if time.monotonic() - started > STEADY_SECONDS:
                    failures = 0
            delay = min(self.options.max_delay, self.options.min_delay * 2 ** min(failures, 16))
            failures += 1
            # S311: spreads the adapters of one core; nothing secret in it
            await self._pause(delay * random.uniform(0.5, 1.0))  # noqa: S311

    async def _pause(self, delay: float) -> None:
        """Between attempts; short where calls wait, or begin to."""
        first = min(delay, self.options.wanted_delay)
        await asyncio.sleep(first)
        if self._waiting:
            return
        self._wanted.clear()
        try:
            async with asyncio.timeout(delay - first):
                await self._wanted.wait()
        except TimeoutError:
            pass

    async def locate(self) -> tuple[str, bytes]:
        """The core's address, and the secret that it wants; asked for each link. May raise a
        `LinkError`."""
        return self._address, self._secret

    async def _connect(self) -> CoreLink:
        self._address, secret = await self.locate()
        return await connect(
            self._address,
            door=self._door,
            secret=secret,
            credentials=self._credentials,
            interfaces=self._interfaces,
            options=self.options,
            on_card=self._take_card,
            on_readiness=self._take_readiness,
            on_ping=self._on_ping,
        )

    def _use(self, link: CoreLink) -> None:
        logger.info("linked to the core at %s", self._address)
        self._last_complaint = ""
        self._was_linked = True
        self._link = link
        self.limits = link.limits
        self.credential_names = link.credential_names
        old = tuple(self._links)
        task = asyncio.create_task(link.run())
        self._links[link] = task
        task.add_done_callback(lambda _: self._links.pop(link))
        self._fail_waiters()
        for other in old:
            for pending in tuple(other.end.calls.values()):
                if isinstance(pending, CoreStream):
                    pending.move()

    def _complain(self, reason: str) -> None:
        if reason != self._last_complaint:
            logger.warning("%s", reason)
            self._last_complaint = reason

    def _take_card(self, card: Card) -> None:
        self.card = card

    def _take_readiness(self, is_ready: bool, reason: str) -> None:
        self._readiness = (is_ready, reason)


__all__ = ["Answer", "CoreClient", "CoreStream", "LinkOptions"]
