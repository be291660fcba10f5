"""The stdio door: how long a client waits that starts `a2a-gateway stdio`, and what one session
carries, against our own HTTP door.

A start is measured from just before the process is made to the last byte of the first answer; its
peer is a whole `python -c "import a2a.server.request_handlers"`, which answers nothing. Both read
files that were read just before.
"""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

from benchmarks import servers, streams, unary
from benchmarks.http1 import COMPLETED
from benchmarks.load import LoadError, closed
from benchmarks.scenario import Figure, Scenario, Settings, at_least, at_most
from benchmarks.servers import AGENT, ROOT

IN_FLIGHT = 32
CHUNKS = 1000
WAIT_SECONDS = 60.0
SDK_IMPORT = (sys.executable, "-c", "import a2a.server.request_handlers")
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
HEAD = b'{"jsonrpc":"2.0","id":'
INITIALIZE = (
    b'{"jsonrpc":"2.0","id":0,"method":"$/initialize","params":'
    b'{"a2a-service-parameters":{"a2a-version":"1.0"}}}\n'
)


def command(state_dir: Path, agent: str = "", *more: str) -> list[str]:
    """`a2a-gateway stdio` with its defaults."""
    words = ["--agent", agent] if agent else []
    argv = [sys.executable, "-m", "gateway.cli", "stdio", "--state-dir", str(state_dir)]
    return [*argv, *words, *more]


def line(number: int, method: str, text: str) -> bytes:
    """One request; its number is its id, and that of its message."""
    return (
        b'{"jsonrpc":"2.0","id":%d,"method":"%b","params":{"message":{"messageId":"m%d",'
        % (
            number,
            method.encode(),
            number,
        )
        + b'"role":"ROLE_USER","parts":[{"text":"%b"}]}}}\n' % text.encode()
    )


# How long a start takes


async def start(argv: Callable[[int], Sequence[str]], settings: Settings) -> Figure:
    """Median milliseconds to the first answer of a process that is asked at once."""
    return Figure(await _median(lambda number: _first_answer(argv(number)), settings))


async def private(settings: Settings) -> Figure:
    """With a core of its own, each on an empty state directory."""
    with servers.fresh_directory() as directory:
        return await start(lambda number: command(directory / str(number), "demo"), settings)


async def joining(settings: Settings) -> Figure:
    """With a core that runs."""
    with servers.ours(agent="demo") as server:
        return await start(lambda number: command(server.directory / "state"), settings)


async def sdk_import(settings: Settings) -> Figure:
    """Median milliseconds of the SDK's import, in a process of its own."""
    return Figure(await _median(lambda number: _whole_life(SDK_IMPORT), settings))


async def _median(measure: Callable[[int], float], settings: Settings) -> float:
    count = 3 if settings.quick else 15
    await asyncio.to_thread(measure, 0)  # reads the files
    seconds = [await asyncio.to_thread(measure, number) for number in range(1, count + 1)]
    return median(seconds) * 1000


def _first_answer(argv: Sequence[str]) -> float:
    request = INITIALIZE + line(1, "SendMessage", "hello")
    began = time.perf_counter()
    with _process(argv) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(request)
        while b'"id":1' not in (answer := process.stdout.readline()):
            if not answer:
                raise LoadError(f"{argv!r} ended without an answer")
        took = time.perf_counter() - began
        if b'"result"' not in answer:
            raise LoadError(f"an error where a result was due: {answer[:300]!r}")
        process.stdin.close()
        process.wait(WAIT_SECONDS)
    return took


def _whole_life(argv: Sequence[str]) -> float:
    began = time.perf_counter()
    with _process(argv) as process:
        process.communicate(timeout=WAIT_SECONDS)
        took = time.perf_counter() - began
        if process.returncode:
            raise LoadError(f"{argv!r} failed")
    return took


def _process(argv: Sequence[str]) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        argv,
        cwd=ROOT,
        env=ENVIRONMENT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        bufsize=0,
    )


# What one session carries


class StdioLoad(asyncio.Protocol):
    """A session with one process: many calls at once, as `benchmarks.load` wants it, or one stream
    whose lines are looked at after its end, so that reading costs the generator little."""

    def __init__(self) -> None:
        self.on_answer: Callable[[float], None] = lambda tag: None
        self.failure = ""
        self._number = 0
        self._tags: dict[int, float] = {}
        self._rest = b""
        self._pieces: list[bytes] = []
        self._ended: asyncio.Future[None] | None = None
        """Of a stream, or of the first answer."""
        self._process: subprocess.Popen[bytes] | None = None
        self._writer: asyncio.WriteTransport | None = None

    async def open(self, argv: Sequence[str]) -> None:
        """Start the process; returns once it has answered."""
        self._process = process = _process(argv)
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: self, process.stdout)
        self._writer, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, process.stdin)
        answer = await self._exchange(INITIALIZE)
        if b'"result"' not in answer:
            raise LoadError(f"the session was refused: {answer[:300]!r}")

    def start(self, tag: float) -> None:
        """Send one call."""
        assert self._writer is not None
        self._number += 1
        self._tags[self._number] = tag
        self._writer.write(line(self._number, "SendMessage", "echo hello"))

    async def stream(self, text: str) -> tuple[float, int]:
        """Seconds of one stream, and its chunks. Raises `LoadError` unless it completed."""
        self._number += 1
        request = line(self._number, "SendStreamingMessage", text)
        began = time.perf_counter()
        body = await self._exchange(request)
        took = time.perf_counter() - began
        if COMPLETED not in body[-2000:]:
            raise LoadError(f"the stream did not complete: {body[-300:]!r}")
        return took, body.count(b'"artifactUpdate"')

    async def _exchange(self, request: bytes) -> bytes:
        assert self._writer is not None
        self._pieces.clear()
        self._ended = asyncio.get_running_loop().create_future()
        self._writer.write(request)
        async with asyncio.timeout(WAIT_SECONDS):
            await self._ended
        self._ended = None
        return b"".join(self._pieces)

    def data_received(self, data: bytes) -> None:
        if self._ended is not None:
            self._pieces.append(data)
            if data.endswith(b"\n") and not self._ended.done() and self._is_over():
                self._ended.set_result(None)
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        for answer in lines:
            self._answered(answer)

    def _is_over(self) -> bool:
        """Whether the last line ends a stream, or is any other end."""
        data = b"".join(self._pieces[-2:])
        last = data[data.rfind(b"\n", 0, -1) + 1 :]
        return b'"streamEnd"' in last or b'"error"' in last or b'"binding"' in last

    def connection_lost(self, exc: Exception | None) -> None:
        self.failure = self.failure or "the process ended"
        if self._ended is not None and not self._ended.done():
            self._ended.set_exception(LoadError(self.failure))

    def _answered(self, answer: bytes) -> None:
        if COMPLETED not in answer:
            self.failure = self.failure or f"a wrong answer: {answer[:300]!r}"
            return
        tag = self._tags.pop(int(answer[len(HEAD) : answer.index(b",", len(HEAD))]))
        self.on_answer(tag)

    def close(self) -> None:
        """End the process; answers under way are not counted."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(WAIT_SECONDS)
        if self._writer is not None:
            self._writer.close()


async def unary_rate(settings: Settings) -> Figure:
    """Calls per second in one session, its core its own."""
    with servers.fresh_directory() as directory:
        client = StdioLoad()
        await client.open(command(directory, AGENT, "--log-level", "warning"))
        try:
            load = await closed(
                client, IN_FLIGHT, seconds=settings.seconds, warm_up=settings.warm_up
            )
        finally:
            client.close()
        return Figure(load.rate, load.generator_share)


async def stream_rate(settings: Settings) -> Figure:
    """Events per second in streams of 1,000 chunks, one after another in one session."""
    with servers.fresh_directory() as directory:
        client = StdioLoad()
        await client.open(command(directory, AGENT, "--log-level", "warning"))
        try:
            for _ in range(3):
                await client.stream("stream 100")
            spent, count, cpu = 0.0, 0, time.process_time()
            while not count or spent < settings.seconds:
                took, chunks = await client.stream(f"stream {CHUNKS}")
                if chunks != CHUNKS:
                    raise LoadError(f"{chunks} of {CHUNKS} chunks came")
                spent += took
                count += 1
            return Figure(count * CHUNKS / spent, (time.process_time() - cpu) / spent)
        finally:
            client.close()


SCENARIOS = [
    Scenario(
        "stdio-start",
        "a2a-gateway stdio, a core of its own: from exec to the first answer",
        "ms",
        at_most(2.5),
        private,
        "the SDK's import",
        sdk_import,
    ),
    Scenario(
        "stdio-join",
        "a2a-gateway stdio, joining a core: from exec to the first answer",
        "ms",
        at_most(1.2),
        joining,
        "the SDK's import",
        sdk_import,
    ),
    Scenario(
        "stdio-unary-32",
        "stdio SendMessage, 32 in flight in one session, sqlite",
        "calls/s",
        at_least(1.0),
        unary_rate,
        "our HTTP door, 32 connections",
        lambda settings: unary.rate(servers.ours(), "http", IN_FLIGHT, settings),
    ),
    Scenario(
        "stdio-stream-1000",
        "stdio stream of 1,000 chunks, sqlite",
        "events/s",
        at_least(1.0),
        stream_rate,
        "our HTTP door",
        lambda settings: streams.rate(servers.ours(), CHUNKS, settings),
    ),
]
