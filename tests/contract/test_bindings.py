"""The samples in docs/bindings are what really happens: each is replayed."""

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from gateway.errors import OWN_DOMAIN, TABLE
from gateway.pb import METHODS
from tests.conftest import run
from tests.processes import gateway
from transports import stdio
from transports.core import CoreClient
from transports.framing import Framing, encode
from transports.session.carrier import ByteSession
from transports.session.server import Options

DOCS = Path(__file__).resolve().parents[2] / "docs" / "bindings"
SECRET = "the link's secret in these tests"
QUIET = 0.3
"""Seconds after a sample in which nothing more may come."""


class Sample(NamedTuple):
    """One block of a document: lines with their direction."""

    page: str
    line: int
    steps: list[tuple[str, str]]


def samples() -> list[Sample]:
    """All of them."""
    found = []
    for path in sorted(DOCS.glob("*.md")):
        text = path.read_text()
        for block in re.finditer(r"(?ms)^```exchange\n(.*?)^```", text):
            steps = [(line[:2], line[3:]) for line in block[1].splitlines()]
            assert {direction for direction, _ in steps} == {"->", "<-"}
            found.append(Sample(path.name, text.count("\n", 0, block.start()) + 1, steps))
    return found


SAMPLES = samples()


class Place(NamedTuple):
    link: str
    state_dir: str


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A gateway with the demo agent."""
    folder = tmp_path_factory.mktemp("bindings")
    link = f"unix:{folder}/link/core.sock"
    with gateway("demo", folder, {"link": {"address": link, "secret": SECRET}}):
        yield Place(link, f"{folder}/state")


class Peer:
    """The client of a sample. Names in braces keep the values that they had first."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
        self._reader = reader
        self._writer = writer
        self._names: dict[str, Any] = {}

    async def play(self, steps: list[tuple[str, str]]) -> None:
        for direction, text in steps:
            if direction == "->":
                for name, value in self._names.items():
                    text = text.replace(f"{{{name}}}", value)
                self._writer.write(text.encode() + b"\n")
            else:
                line = await self._reader.readline()
                self._compare(json.loads(text), json.loads(line), line.decode())
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(QUIET):
                pytest.fail(f"the sample does not show {await self._reader.readline()!r}")

    def _compare(self, shown: Any, value: Any, line: str) -> None:
        if shown == "…":
            return
        if isinstance(shown, str) and (name := re.fullmatch(r"\{(\w+)\}", shown)):
            shown = self._names.setdefault(name[1], value)
        if isinstance(shown, dict) and isinstance(value, dict):
            assert set(shown) == set(value), line
            for key in shown:
                self._compare(shown[key], value[key], line)
        elif isinstance(shown, list) and isinstance(value, list):
            assert len(shown) == len(value), line
            for one, other in zip(shown, value, strict=True):
                self._compare(one, other, line)
        else:
            assert shown == value, line


@asynccontextmanager
async def in_memory(place: Place) -> AsyncIterator[Peer]:
    """A session on a pair of sockets, linked to the core."""
    client = CoreClient(place.link, door="samples", secret=SECRET.encode())
    await client.start()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def write(data: bytes) -> None:
            writer.write(data)
            await writer.drain()

        session = ByteSession(client, write, Options(door="samples", binding="urn:sample"))
        await session.serve(lambda: reader.read(65536))
        await session.close()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    try:
        yield Peer(reader, writer)
    finally:
        writer.close()
        server.close()
        await client.stop(1)


@asynccontextmanager
async def over_stdio(place: Place) -> AsyncIterator[Peer]:
    """The program, started as an editor would."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "gateway.cli", "stdio", "--state-dir", place.state_dir, "--log-level", "error"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield Peer(process.stdout, process.stdin)
    finally:
        process.stdin.close()
        await process.wait()


def test_there_are_samples() -> None:
    assert {sample.page for sample in SAMPLES} >= {"framed-session.md", "stdio.md"}


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda s: f"{s.page}:{s.line}")
def test_samples(place: Place, sample: Sample) -> None:
    """Each line of the server comes as it is shown, with all its members, and no other (R45,
    R54)."""
    open_peer = over_stdio if sample.page == "stdio.md" else in_memory

    async def main() -> None:
        async with open_peer(place) as peer:
            await peer.play(sample.steps)

    run(main())


def test_the_error_table() -> None:
    """The document has all errors that there are, with their numbers and domains (R48)."""
    page = (DOCS / "framed-session.md").read_text()
    rows = re.findall(r"(?m)^\| (-\d+) \| ([A-Z_0-9]+) \|", page)
    assert sorted(rows) == sorted((str(row.jsonrpc), row.reason) for row in TABLE)
    assert all(row.domain == OWN_DOMAIN for row in TABLE if row.reason in dict(rows[-6:]).values())
    assert sum(row.domain == OWN_DOMAIN for row in TABLE) == 6


def test_the_operations() -> None:
    """The document has all operations, with their messages (R42)."""
    page = (DOCS / "framed-session.md").read_text()
    for method in METHODS.values():
        answer = method.response.DESCRIPTOR.name
        shown = f"stream of {answer}" if method.streaming else answer
        if answer == "Empty":
            shown = "`{}`"
        assert f"| `{method.name}` | {method.request.DESCRIPTOR.name} | {shown} |" in page


@pytest.mark.parametrize(("page", "identifier"), [("stdio.md", stdio.BINDING)])
def test_the_documents_are_whole(page: str, identifier: str) -> None:
    """Each binding has a page with its own identifier, which is no name of the organisation's, and
    says all that a specification of a binding has to, in the words of RFC 2119 (R45, R46, R52, R53,
    R55, R57)."""
    common, own = ((DOCS / name).read_text() for name in ("framed-session.md", page))
    assert identifier in own
    assert identifier in common
    assert "a2a-protocol.org/bindings" not in own + common
    assert "RFC 2119" in common
    assert "(framed-session.md)" in own
    headings = re.findall(r"(?m)^##+ (?:\d+\. )?(.*)$", own + common)
    for topic in (
        "Data types",
        "Methods",
        "Service parameters",
        "Errors",
        "Streams",
        "The end of a session",
        "Security",
        "Agent card",
        "Samples",
        "The end",
        "Sample",
    ):
        assert topic in headings


def test_the_length_in_the_sample() -> None:
    """What stdio.md shows of the framing by headers is what is written."""
    shown = re.search(r"(?s)```http\n(.*?)\n\n(\{.*?\})\n```", (DOCS / "stdio.md").read_text())
    assert shown is not None
    payload = shown[2].encode()
    head = shown[1].replace("\n", "\r\n").encode() + b"\r\n\r\n"
    assert encode(Framing.HEADERS, [payload]) == head + payload
