"""A TCP proxy that cuts connections where a test says so."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

Cut = Callable[[bytes], int | None]
"""Given all that the server sent on a connection: how many bytes of it pass before the cut; None
for all of them."""


class Proxy:
    """Passes bytes between clients and one server."""

    def __init__(self, host: str, port: int, cut: Cut) -> None:
        self._target = (host, port)
        self._cut = cut
        self.address = ""
        self.connections = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self.cuts = 0
        self.is_open = True
        """Whether new connections get through; otherwise they are closed at once."""
        self.flows = asyncio.Event()
        """While it is not set nothing comes from the server: it is as if frozen."""
        self.flows.set()

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection of a client."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        with suppress(asyncio.CancelledError):
            await self._serve(reader, writer)
        self._tasks.discard(task)

    async def end(self) -> None:
        """Drop all connections."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self.is_open:
            writer.transport.abort()
            return
        try:
            up_reader, up_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        upward = asyncio.create_task(_pass(reader, up_writer))
        try:
            await self._down(up_reader, writer)
        finally:
            upward.cancel()
            await asyncio.wait([upward])
            up_writer.transport.abort()
            writer.transport.abort()

    async def _down(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen = b""
        passed = 0
        while data := await reader.read(65536):
            await self.flows.wait()
            seen += data
            limit = self._cut(seen)
            writer.write(seen[passed:limit])
            await writer.drain()
            passed = len(seen)
            if limit is not None:
                self.cuts += 1
                # what is written has to arrive; what follows never does
                writer.close()
                with suppress(ConnectionError):
                    await writer.wait_closed()
                return


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()


@asynccontextmanager
async def proxy(target: str, cut: Cut = lambda seen: None) -> AsyncIterator[Proxy]:
    """A proxy before `HOST:PORT`, on a free port."""
    host, _, port = target.rpartition(":")
    made = Proxy(host, int(port), cut)
    server = await asyncio.start_server(made.take, "127.0.0.1", 0)
    made.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield made
    finally:
        server.close()
        await made.end()


def after_events(number: int, cuts: int, mark: bytes = b"\n\n") -> Cut:
    """Cut so many connections, each once that many events of a stream have passed."""
    left = cuts

    def cut(seen: bytes) -> int | None:
        nonlocal left
        head, split, body = seen.partition(b"text/event-stream")
        if not left or not split or body.count(mark) < number:
            return None
        left -= 1
        at = len(head) + len(split)
        for _ in range(number):
            at = seen.index(mark, at) + len(mark)
        # in the middle of the next one
        return at + 5

    return cut
