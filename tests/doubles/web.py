"""An HTTP server that answers as a test says, for what ours would never answer."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

HeadersOf = Mapping[str, str]


@dataclass(frozen=True)
class Asked:
    """One request."""

    verb: str
    path: str
    headers: HeadersOf
    body: bytes = b""


@dataclass(frozen=True)
class Said:
    """One answer."""

    body: bytes = b""
    status: int = 200
    headers: HeadersOf = field(default_factory=dict)


@dataclass
class Web:
    """The server's address, and what it was asked."""

    url: str = ""
    asked: list[Asked] = field(default_factory=list)


@asynccontextmanager
async def web(answer: Callable[[Asked], Said]) -> AsyncIterator[Web]:
    """Serve on a free port of loopback; each connection has one request."""
    found = Web()

    tasks: set[asyncio.Task[None]] = set()

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await serve(reader, writer)
        except (asyncio.CancelledError, asyncio.IncompleteReadError, ConnectionError):
            writer.transport.abort()
        finally:
            tasks.discard(task)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        verb, path, _ = head[0].split(" ")
        headers = {name.lower(): value for name, value in (x.split(": ", 1) for x in head[1:] if x)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        found.asked.append(Asked(verb, path, headers, body))
        said = answer(found.asked[-1])
        lines = [f"HTTP/1.1 {said.status} x", f"content-length: {len(said.body)}"]
        lines += [f"{name}: {value}" for name, value in said.headers.items()]
        lines += ["connection: close", "", ""]
        writer.write("\r\n".join(lines).encode("latin-1") + said.body)
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(take, "127.0.0.1", 0)
    found.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield found
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


@asynccontextmanager
async def silent() -> AsyncIterator[str]:
    """A server that takes what it is sent and never says anything; its URL."""
    ends: list[asyncio.Future[None]] = []

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        end = asyncio.get_running_loop().create_future()
        ends.append(end)
        with suppress(ConnectionError):
            await reader.read()
            writer.close()
            await writer.wait_closed()
        end.set_result(None)

    server = await asyncio.start_server(take, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        await asyncio.gather(*ends)
