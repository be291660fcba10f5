"""A core with nothing behind its links: a scripted service, a card, and a real gRPC server.

Also a program: `python -m tests.doubles.link unix:/path` serves it until it is killed.
"""

import asyncio
import socket
import sys
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, NamedTuple

import grpc
import grpc.aio

from gateway.call import Call
from gateway.link.frames import CONNECT_PATH, LINK_SERVICE
from gateway.link.server import LinkLimits, LinkServer
from gateway.link.stream import BatchStream, StreamListener
from gateway.pb import (
    AgentCard,
    AgentInterface,
    Message,
    Part,
    ProtoMessage,
    SendMessageRequest,
    SendMessageResponse,
    StreamResponse,
    Task,
    link_pb2,
)
from transports.core import CoreClient, LinkOptions

SECRET = b"of this test"

Batch = list[tuple[int, bytes]]


class Revision(NamedTuple):
    """One state of the card."""

    number: int
    agent_card: bytes
    modified: float


class FakeCard:
    """The card, as `gateway.card.Card` offers it to links."""

    def __init__(self) -> None:
        self._watchers: list[Callable[[Any], None]] = []
        self.revision = Revision(1, AgentCard(name="one").SerializeToString(), 1.5)

    def watch(self, changed: Callable[[Any], None]) -> Callable[[], None]:
        self._watchers.append(changed)
        return lambda: self._watchers.remove(changed)

    def change(self, name: str) -> None:
        """Make the next revision."""
        card = AgentCard(name=name).SerializeToString()
        self.revision = Revision(self.revision.number + 1, card, 2.5)
        for changed in self._watchers:
            changed(self.revision)


class FakeService:
    """Echoes; what a test wants otherwise it puts into `on_unary` and `on_stream`."""

    credential_names: tuple[str, ...] = ("x-api-key",)

    def __init__(self) -> None:
        self.calls: list[tuple[str, ProtoMessage, Call]] = []
        self.on_unary: Callable[[Any, Call], Awaitable[ProtoMessage]] | None = None
        self.on_stream: Callable[[Any, Call], AsyncIterator[Batch]] | None = None
        self.running = 0
        """Calls that have started and not ended, whatever ended them."""

    async def unary(
        self, method: str, request: Any, call: Call, raw: bytes | None = None
    ) -> ProtoMessage:
        self.calls.append((method, request, call))
        self.running += 1
        try:
            if self.on_unary is not None:
                return await self.on_unary(request, call)
            if method == "GetTask":
                return Task(id=request.id)
            return SendMessageResponse(message=request.message)
        finally:
            self.running -= 1

    async def stream(
        self, method: str, request: Any, call: Call, raw: bytes | None = None
    ) -> AsyncGenerator[Batch, None]:
        self.calls.append((method, request, call))
        self.running += 1
        try:
            source = self.on_stream(request, call) if self.on_stream else count(10)
            async for batch in source:
                yield batch
        finally:
            self.running -= 1


async def count(
    last: int, *, after: int = 0, size: int = 20, together: int = 1
) -> AsyncGenerator[Batch, None]:
    """Events up to `last`, `together` in a batch, with texts of `size` bytes."""
    for first in range(after + 1, last + 1, together):
        yield [event(n, size) for n in range(first, min(first + together, last + 1))]
        await asyncio.sleep(0)


def event(number: int, size: int = 20) -> tuple[int, bytes]:
    """One event of a task's log."""
    text = f"{number}:".ljust(size, "x")
    message = Message(message_id=str(number), parts=[Part(text=text)])
    return number, StreamResponse(message=message).SerializeToString()


def request(text: str = "hello") -> SendMessageRequest:
    """A request to send."""
    return SendMessageRequest(message=Message(message_id="m", parts=[Part(text=text)]))


def call(timeout: float | None = None, **metadata: str) -> Call:
    """A call at the door `test`; underscores in names stand for hyphens."""
    pairs = [(name.replace("_", "-"), value) for name, value in metadata.items()]
    return Call.from_metadata([("a2a-version", "1.0"), *pairs], door="test", timeout=timeout)


class FakeCore:
    """A link server on an address. `start` and `stop` may be called again and again."""

    def __init__(self, address: str, limits: LinkLimits | None = None, **options: Any):
        self.address = address
        self.service = FakeService()
        self.card = FakeCard()
        self.interfaces: dict[str, list[AgentInterface]] = {}
        self.limits = limits
        self.options = {"secret": SECRET, **options}
        self.links: LinkServer
        self.server: grpc.aio.Server | StreamListener

    async def start(self) -> None:
        """Listen."""
        self.links = LinkServer(
            self.service,
            self.card,
            limits=self.limits,
            on_interfaces=self._told,
            **self.options,
        )
        if self.address.startswith("unix:"):
            self.server = StreamListener(self.address.removeprefix("unix:"), self.links.serve)
        else:
            self.server = grpc.aio.server()
            self.links.add_to(self.server)
            port = self.server.add_insecure_port(self.address)
            if self.address.endswith(":0"):
                self.address = f"{self.address[:-1]}{port}"
        await self.server.start()

    def _told(self, link: str, interfaces: list[AgentInterface]) -> None:
        if any(not i.url for i in interfaces):
            raise ValueError("an interface needs a url")
        self.interfaces[link] = interfaces

    async def kill(self) -> None:
        """Cut all connections at once."""
        await self.server.stop(0)

    async def stop(self, grace: float = 1.0) -> None:
        """End in order."""
        await self.links.stop(grace)
        await self.server.stop(0)


@asynccontextmanager
async def core(address: str, **options: Any) -> AsyncIterator[FakeCore]:
    """A core that runs, and has nothing left over at its end."""
    fake = FakeCore(address, **options)
    await fake.start()
    try:
        yield fake
    except BaseException:
        await fake.kill()
        raise
    await fake.stop()
    await until(lambda: fake.service.running == 0)
    assert fake.links.open_calls == fake.links.open_links == fake.links.unwinding_calls == 0


@asynccontextmanager
async def client(
    address: str, *, secret: bytes = SECRET, **options: Any
) -> AsyncIterator[CoreClient]:
    """An adapter's end that is linked, and has no call left at its end."""
    adapter = CoreClient(address, door="test", secret=secret, options=LinkOptions(**options))
    await adapter.start()
    try:
        yield adapter
        assert adapter.open_calls == 0
    finally:
        await adapter.stop(1)


@contextmanager
def addresses(carrier: str) -> Iterator[str]:
    """An address at which links are carried by `unix` (the socket itself) or `grpc`."""
    if carrier == "grpc":
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        yield f"127.0.0.1:{port}"
        return
    # pytest's own directories may be longer than a socket's path may be
    with tempfile.TemporaryDirectory(prefix="link") as folder:
        yield f"unix:{folder}/core.sock"


@asynccontextmanager
async def serving(address: str, serve: Callable[[Any], Awaitable[None]]) -> AsyncIterator[None]:
    """Runs `serve` on each stream that comes to the address, by the carrier that it implies."""
    server: grpc.aio.Server | StreamListener
    if address.startswith("unix:"):
        server = StreamListener(address.removeprefix("unix:"), serve)
    else:

        async def connect(requests: object, context: Any) -> None:
            await serve(context)

        server = grpc.aio.server()
        handler: grpc.RpcMethodHandler[Any, Any] = grpc.stream_stream_rpc_method_handler(
            connect, request_deserializer=link_pb2.Batch.FromString
        )
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(LINK_SERVICE, {"Connect": handler}),)
        )
        server.add_insecure_port(address)
    await server.start()
    try:
        yield
    finally:
        await server.stop(0)


@asynccontextmanager
async def stream_to(address: str) -> AsyncIterator[Any]:
    """A bare stream to a core: nothing is said on it yet."""
    if address.startswith("unix:"):
        loop = asyncio.get_running_loop()
        _, stream = await loop.create_unix_connection(BatchStream, address.removeprefix("unix:"))
        try:
            yield stream
        finally:
            stream.cancel()
        return
    async with grpc.aio.insecure_channel(address) as channel:
        connect: Any = channel.stream_stream(
            CONNECT_PATH, response_deserializer=link_pb2.Batch.FromString
        )
        yield connect()


async def until(condition: Callable[[], bool]) -> None:
    """Until something is so; the limit of the test ends the wait."""
    while not condition():  # noqa: ASYNC110 - the condition is another object's state
        await asyncio.sleep(0.001)


async def _serve(address: str) -> None:
    fake = FakeCore(address)
    await fake.start()
    print("ready", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1]))
