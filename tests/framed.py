"""A program that speaks frames over its pipes, as a client that knows nothing of ours sees it.

Reads and writes bytes itself, so that no code of the product judges what the product sent.
"""

import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.processes import ROOT, is_alive

SECONDS = 20.0
VERSION = {"a2a-version": "1.0"}
PARAMETERS = "a2a-service-parameters"

_END = object()


class Program:
    """One process. What it sends that is no JSON-RPC frame fails the test that reads it."""

    def __init__(
        self,
        argv: list[str],
        *,
        headers: bool = False,
        environment: Mapping[str, str] | None = None,
        directory: Path = ROOT,
        stdin: int = subprocess.PIPE,
    ):
        self._headers = headers
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close`
        self.started = time.monotonic()
        self.process = subprocess.Popen(
            argv,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            cwd=directory,
            env={**os.environ, "PYTHONPATH": str(ROOT), **(environment or {})},
            start_new_session=True,
        )
        self._frames: queue.Queue[Any] = queue.Queue()
        self._is_hung_up = threading.Event()
        self._reader = threading.Thread(target=self._read_all, daemon=True)
        self._reader.start()
        self.leftover: list[Any] = []

    @property
    def pid(self) -> int:
        return self.process.pid

    # Out

    def write(self, data: bytes) -> None:
        """Raw bytes."""
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def frame(self, payload: bytes) -> bytes:
        """A payload in this client's framing."""
        if self._headers:
            return b"Content-Length: %d\r\n\r\n%b" % (len(payload), payload)
        return payload + b"\n"

    def send(self, value: Any) -> None:
        """One frame: bytes as they are, else as JSON."""
        payload = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.write(self.frame(payload))

    def call(self, method: str, params: Any, call_id: Any = 1) -> None:
        """A request of A2A 1.0."""
        params = {PARAMETERS: VERSION, **params}
        self.send({"jsonrpc": "2.0", "id": call_id, "method": method, "params": params})

    def message(
        self, text: str, call_id: Any = 1, method: str = "SendMessage", **fields: Any
    ) -> None:
        """A message to the agent."""
        message = {"messageId": f"m{call_id}", "role": "ROLE_USER", "parts": [{"text": text}]}
        self.call(method, {"message": message, **fields}, call_id)

    def initialize(self, **params: Any) -> Any:
        """Set A2A 1.0 for all calls; what the server says of itself."""
        self.call("$/initialize", params, "initialize")
        return self.answer("initialize")["result"]

    # In

    def read(self, seconds: float = SECONDS) -> Any:
        """The next frame. Fails where none comes."""
        try:
            frame = self._frames.get(timeout=seconds)
        except queue.Empty:
            raise AssertionError(f"no frame within {seconds} s; it wrote:\n{self.text()}") from None
        assert frame is not _END, f"it ended; it wrote:\n{self.text()}"
        assert isinstance(frame, bytes), frame
        value = json.loads(frame)
        assert isinstance(value, dict)
        assert value["jsonrpc"] == "2.0"
        return value

    def answer(self, call_id: Any = 1, seconds: float = SECONDS) -> Any:
        """The next frame with this id, which is of its type, too; others are kept."""
        for place, value in enumerate(self.leftover):
            if _is_of(value, call_id):
                return self.leftover.pop(place)
        while True:
            value = self.read(seconds)
            if _is_of(value, call_id):
                return value
            self.leftover.append(value)

    def read_until(self, is_it: Callable[[Any], bool]) -> Any:
        """The first of the next frames for which this is true; others are kept."""
        while not is_it(value := self.read()):
            self.leftover.append(value)
        return value

    def events(self, call_id: Any = 1) -> Iterator[Any]:
        """Events of a stream, to its end."""
        while "streamEnd" not in (value := self.answer(call_id)):
            assert "result" in value, value
            yield value

    def result(self, text: str, call_id: Any = 1) -> Any:
        """Send a message; its result."""
        self.message(text, call_id)
        answer = self.answer(call_id)
        assert "result" in answer, answer
        return answer["result"]

    def works(self) -> None:
        """It answers a good request."""
        assert self.result("echo still", "works")["task"]["status"]["state"].endswith("COMPLETED")

    def _read_all(self) -> None:
        stream = self.process.stdout
        assert stream is not None
        try:
            while not self._is_hung_up.is_set() and (line := stream.readline()):
                self._frames.put(self._body(line, stream) if self._headers else line)
        except (AssertionError, ValueError) as error:
            self._frames.put(error)
        self._frames.put(_END)

    def _body(self, line: bytes, stream: Any) -> bytes:
        name, _, value = line.partition(b":")
        assert name == b"Content-Length", line
        assert stream.readline() == b"\r\n"
        return bytes(stream.read(int(value)))

    # The end

    def text(self) -> str:
        """What it wrote to standard error."""
        return os.pread(self._errors.fileno(), 2**20, 0).decode(errors="replace")

    def end_input(self) -> None:
        """It sees the end of its input."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    def hang_up(self) -> None:
        """Close both pipes from this side, in the middle of whatever it sends."""
        self._is_hung_up.set()
        self._reader.join(SECONDS)
        for stream in (self.process.stdout, self.process.stdin):
            assert stream is not None
            stream.close()

    def exit_code(self, seconds: float = SECONDS) -> int:
        """Wait for its end."""
        return self.process.wait(seconds)

    def is_at_end(self, seconds: float = SECONDS) -> bool:
        """Whether no frame is left, and its output is closed."""
        return self._frames.get(timeout=seconds) is _END

    def close(self) -> None:
        """End it, and let go of everything."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join(SECONDS)
        for stream in (self.process.stdin, self.process.stdout, self._errors):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()


def _is_of(value: Any, call_id: Any) -> bool:
    return "id" in value and type(value["id"]) is type(call_id) and value["id"] == call_id


def stdio_command(state_dir: Path | str, agent: str = "", *more: str) -> list[str]:
    """The product's own command."""
    words = ["--agent", agent] if agent else []
    return [
        *(sys.executable, "-m", "gateway.cli", "stdio", "--state-dir", str(state_dir)),
        *(*words, *more),
    ]


@contextmanager
def program(argv: list[str], **options: Any) -> Iterator[Program]:
    """A program that is ended at the end, however it stands then."""
    found = Program(argv, **options)
    try:
        yield found
    finally:
        found.close()


def gone(pid: int, seconds: float) -> bool:
    """Whether a process has ended within so many seconds."""
    end = time.monotonic() + seconds
    while is_alive(pid):
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def kill(pid: int, number: signal.Signals = signal.SIGKILL) -> None:
    """Send a signal."""
    os.kill(pid, number)
