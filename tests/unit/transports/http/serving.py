"""A real HTTP door before a scripted core, and raw connections to it."""

import asyncio
import json
import logging
import logging.handlers
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple

import httpx

from gateway.pb import Artifact, Message, Part, StreamResponse, Task, TaskArtifactUpdateEvent
from tests.doubles.core import FakeCore
from transports.http import Options
from transports.http.protocol import Bounds
from transports.http.server import HttpTransport

MESSAGE = {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": "hi"}]}


class Served(NamedTuple):
    """A door that runs, and a client for it."""

    door: HttpTransport
    core: FakeCore
    url: str
    http: httpx.AsyncClient

    async def rpc(
        self, method: str, params: Any, call_id: Any = 1, **headers: str
    ) -> httpx.Response:
        """A JSON-RPC request at the root; an id of `...` is left out."""
        value = {"jsonrpc": "2.0", "id": call_id, "method": method, "params": params}
        if call_id is ...:
            del value["id"]
        return await self.http.post("/", json=value, headers=headers)

    async def wire(self) -> "Wire":
        """A raw connection."""
        address = self.door.addresses[0]
        reader, writer = await asyncio.open_connection("127.0.0.1", int(address.rpartition(":")[2]))
        return Wire(reader, writer)


class Wire(NamedTuple):
    """A raw connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def post(self, body: bytes, *headers: bytes) -> None:
        """Send a JSON request to the root."""
        lines = [
            b"POST / HTTP/1.1",
            b"Host: test",
            b"Content-Type: application/json",
            b"Content-Length: %d" % len(body),
            *headers,
        ]
        self.writer.write(b"\r\n".join(lines) + b"\r\n\r\n" + body)

    async def answer(self) -> tuple[int, bytes]:
        """Status and body of one answer that has a length."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        lines = head.lower().split(b"\r\n")
        length = next(int(x.split(b":")[1]) for x in lines if x.startswith(b"content-length:"))
        return int(head.split()[1]), await self.reader.readexactly(length)

    async def close(self) -> None:
        """Close it."""
        self.writer.close()
        with suppress(ConnectionError):
            await self.writer.wait_closed()

    def reset(self) -> None:
        """Drop it without a goodbye."""
        self.writer.transport.abort()

    def shrink(self) -> None:
        """Let the kernel keep little of what is not read."""
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)


@asynccontextmanager
async def served(
    core: FakeCore, *, path: str = "/", bounds: Bounds | None = None, grace: float = 0.0
) -> AsyncIterator[Served]:
    """A door on a free port, stopped at the end; nothing of it may be left."""
    options = Options(address=("127.0.0.1:0",), path=path)
    door = HttpTransport(core, options, bounds=bounds)
    (address,) = await door.start()
    url = f"http://{address}"
    complaints = logging.handlers.BufferingHandler(1000)
    complaints.setLevel(logging.ERROR)
    loggers = [logging.getLogger(name) for name in ("uvicorn.error", "asyncio", "transports")]
    for logger in loggers:
        logger.addHandler(complaints)
    try:
        async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=20) as http:
            yield Served(door, core, url, http)
    finally:
        await door.stop(grace)
        for logger in loggers:
            logger.removeHandler(complaints)
    assert [record.getMessage() for record in complaints.buffer] == []
    assert core.open_streams == 0
    assert core.running == 0


async def echo(method: str, request: Any, call: Any) -> Any:
    """A task with the id that was asked for, or one that quotes the message."""
    from gateway.pb import METHODS, SendMessageResponse

    if method in ("GetTask", "CancelTask"):
        return Task(id=request.id)
    if method == "SendMessage":
        return SendMessageResponse(task=Task(id="t1", history=[request.message]))
    return METHODS[method].response()


def chunk(number: int, text: str = "x") -> tuple[int, bytes]:
    """An artifact event with its sequence number."""
    artifact = Artifact(artifact_id="a", parts=[Part(text=text)])
    update = TaskArtifactUpdateEvent(task_id="t1", artifact=artifact, append=number > 1)
    return number, StreamResponse(artifact_update=update).SerializeToString()


def message_event(text: str) -> tuple[int, bytes]:
    """A direct message, which has no place in a log."""
    return 0, StreamResponse(message=Message(message_id=text)).SerializeToString()


def events(text: str) -> list[tuple[str, Any]]:
    """(id, data) of each server-sent event of a text; comments are left out."""
    found = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if line and line[0] != ":")
        if fields:
            found.append((fields.get("id", ""), json.loads(fields["data"])))
    return found
