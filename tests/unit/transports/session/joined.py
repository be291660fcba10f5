"""Both ends of a framed session in memory, and raw ends to write what no client would."""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from gateway.call import Call
from gateway.pb import (
    Artifact,
    Message,
    Part,
    Role,
    SendMessageResponse,
    StreamResponse,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
)
from tests.doubles.core import FakeCore
from transports.framing import Decoder, Framing, encode
from transports.session.carrier import ByteSession
from transports.session.client import SessionClient
from transports.session.server import Options

MESSAGE = {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": "hi"}]}


class Pipe:
    """Bytes one way. A writer waits while `capacity` bytes are not read."""

    def __init__(self, capacity: int = 64 * 1024) -> None:
        self._capacity = capacity
        self._chunks: deque[bytes] = deque()
        self._size = 0
        self._changed = asyncio.Condition()
        self._is_ended = False
        self.is_broken = False
        self.writes: list[bytes] = []
        """Every write, whole."""

    async def write(self, data: bytes) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: self._size < self._capacity or self.is_broken)
            if self.is_broken:
                raise BrokenPipeError(32, "Broken pipe")
            self.writes.append(data)
            self._chunks.append(data)
            self._size += len(data)
            self._changed.notify_all()

    async def read(self) -> bytes:
        async with self._changed:
            await self._changed.wait_for(lambda: self._chunks or self._is_ended)
            data = b"".join(self._chunks)
            self._chunks.clear()
            self._size = 0
            self._changed.notify_all()
            return data

    async def end(self) -> None:
        """The reader sees the end of the input."""
        async with self._changed:
            self._is_ended = True
            self._changed.notify_all()

    async def break_off(self) -> None:
        """The writer sees that nobody reads any more."""
        async with self._changed:
            self.is_broken = True
            self._changed.notify_all()


class Wire:
    """The client's side of a session, frame by frame."""

    def __init__(self, up: Pipe, down: Pipe, framing: Framing = Framing.LINES):
        self.up = up
        self.down = down
        self.framing = framing
        self._decoder = Decoder(2**30, framing)
        self._frames: deque[bytes] = deque()

    async def send(self, *values: Any) -> None:
        """JSON values, all in one write."""
        await self.up.write(encode(self.framing, [json.dumps(v).encode() for v in values]))

    async def call(self, method: str, params: Any = None, call_id: Any = 1) -> None:
        """One request; an id of `...` is left out."""
        await self.send(request(method, params, call_id))

    async def raw(self, data: bytes) -> None:
        """Bytes as they are."""
        await self.up.write(data)

    async def next(self) -> Any:
        """The next frame that comes, parsed."""
        while not self._frames:
            data = await self.down.read()
            assert data, "the session has ended"
            for frame in self._decoder.feed(data):
                assert isinstance(frame, bytes)
                self._frames.append(frame)
        return json.loads(self._frames.popleft())

    async def take(self, count: int) -> list[Any]:
        """So many frames."""
        return [await self.next() for _ in range(count)]

    async def quiet(self) -> bool:
        """Whether nothing is on its way: the answer of a ping comes next."""
        await self.call("$/ping", call_id="quiet?")
        return bool(await self.next() == {"jsonrpc": "2.0", "id": "quiet?", "result": {}})


class Joined(NamedTuple):
    """A session that is served, and the raw client."""

    session: ByteSession
    wire: Wire
    core: FakeCore
    serving: "asyncio.Task[None]"


@asynccontextmanager
async def served(
    core: FakeCore, options: Options | None = None, *, framing: Framing = Framing.LINES
) -> AsyncIterator[Joined]:
    """A session and its raw client."""
    up, down = Pipe(), Pipe()
    session = ByteSession(core, down.write, options or Options(door="test"))
    serving = asyncio.create_task(session.serve(up.read))
    try:
        yield Joined(session, Wire(up, down, framing), core, serving)
    finally:
        await session.close()
        serving.cancel()
        await asyncio.wait((serving,))
        await down.end()


@asynccontextmanager
async def connected(core: FakeCore, **options: Any) -> AsyncIterator[tuple[SessionClient, Joined]]:
    """A session and a client of ours."""
    async with served(core) as joined:
        wire = joined.wire
        client = SessionClient(wire.down.read, wire.up.write, **options)
        try:
            yield client, joined
        finally:
            await client.aclose()


async def until(holds: Callable[[], bool]) -> None:
    """Let others run until it holds."""
    while not holds():  # noqa: ASYNC110 - what it looks at sets no event
        await asyncio.sleep(0)


def request(method: str, params: Any = None, call_id: Any = 1) -> dict[str, Any]:
    """A request as a value; an id of `...` is left out."""
    value = {"jsonrpc": "2.0", "id": call_id, "method": method, "params": params}
    if call_id is ...:
        del value["id"]
    if params is None:
        del value["params"]
    return value


def event(text: str) -> bytes:
    """One event of a stream, serialized: an artifact with this text."""
    artifact = Artifact(artifact_id="a", parts=[Part(text=text)])
    update = TaskArtifactUpdateEvent(task_id="t", context_id="c", artifact=artifact)
    return StreamResponse(artifact_update=update).SerializeToString()


async def echo(method: str, message: Any, call: Call) -> Any:
    """A unary core: a task whose id is the one that was asked for, or an answer to a message."""
    if method == "SendMessage":
        text = message.message.parts[0].text
        answer = Message(message_id="a", role=Role.ROLE_AGENT, parts=[Part(text=text)])
        return SendMessageResponse(message=answer)
    return Task(
        id=message.id, context_id="c", status=TaskStatus(state=TaskState.TASK_STATE_COMPLETED)
    )


async def three(method: str, message: Any, call: Call) -> AsyncIterator[list[tuple[int, bytes]]]:
    """A streaming core: three events in two batches, after the cursor."""
    first = (call.cursor or 0) + 1
    yield [(first, event("one")), (first + 1, event("two"))]
    yield [(first + 2, event("three"))]


class Gate:
    """A core whose calls wait until the test lets them go; their ids are noted."""

    def __init__(self) -> None:
        self.started: asyncio.Queue[str] = asyncio.Queue()
        self.cancelled: list[str] = []
        self._open: dict[str, asyncio.Event] = {}

    def let(self, name: str) -> None:
        """Let one go."""
        self._open[name].set()

    async def _wait(self, name: str) -> None:
        self._open[name] = asyncio.Event()
        self.started.put_nowait(name)
        try:
            await self._open[name].wait()
        except asyncio.CancelledError:
            self.cancelled.append(name)
            raise

    async def unary(self, method: str, message: Any, call: Call) -> Any:
        await self._wait(message.id)
        return await echo(method, message, call)

    async def stream(
        self, method: str, message: Any, call: Call
    ) -> AsyncIterator[list[tuple[int, bytes]]]:
        yield [(1, event(f"{message.id} begins"))]
        await self._wait(message.id)
        yield [(2, event(f"{message.id} ends"))]

    def core(self, **options: Any) -> FakeCore:
        """A core with this gate."""
        return FakeCore(self.unary, self.stream, **options)


def codes(frames: list[Any]) -> list[tuple[Any, int]]:
    """(id, code) of error responses."""
    return [(frame["id"], frame["error"]["code"]) for frame in frames]
