"""The life of one process, core or adapter: start, say so, work, drain, end.

A supervised process inherits one socket, its channel. Lines of JSON travel on it: to the child
its configuration and orders to stop, to the supervisor what was opened, or why nothing was. When
the channel closes the supervisor is gone, and the process drains as if it had been told to.
Without a channel, as in a container, signals alone do the same.
"""

import asyncio
import contextlib
import errno
import gc
import json
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from gateway import logs
from gateway.config import Config, from_wire, secrets_of
from gateway.family import CHANNEL_VARIABLE, EXIT_ADDRESS, EXIT_FAILED, ONE_SIGNAL
from gateway.metrics import Exposition, Metrics

logger = logging.getLogger(__name__)

HURRY_GRACE = 0.0
LEAVE_SECONDS = 0.5
"""For the interpreter to end once the part has stopped."""
LAST_LIMIT = 5.0
"""Seconds beyond its grace that a part may take to stop before the process ends without it."""


class StartError(Exception):
    """The process cannot start; the text is one line for the operator."""

    def __init__(self, message: str, code: int = EXIT_FAILED):
        super().__init__(message)
        self.code = code


class Part(Protocol):
    """What a process runs."""

    async def start(self) -> Mapping[str, Any]:
        """Open everything; gives what the supervisor has to know, such as the addresses that
        were really opened (`doors`). Raises `StartError`."""

    async def drain(self, grace: float) -> None:
        """Take no new work from outside; what runs may go on for `grace` seconds, and `stop`
        follows."""

    async def stop(self, grace: float) -> None:
        """Let what runs end within `grace` seconds, end the rest and close. A second call, with
        a shorter grace, takes over from the first."""


class Channel:
    """The child's end of the supervisor's socket."""

    def __init__(self, sock: socket.socket):
        self._socket = sock
        self._buffer = b""

    @classmethod
    def inherit(cls) -> "Channel | None":
        """The channel that the environment names, if any; taken out of the environment, so that
        no child of ours believes that it is its own."""
        number = os.environ.pop(CHANNEL_VARIABLE, "")
        if not number:
            return None
        sock = socket.socket(fileno=int(number))
        sock.set_inheritable(False)
        return cls(sock)

    def read_config(self) -> Config:
        """Wait for the first line. Ends the process where none comes: it is not wanted."""
        while b"\n" not in self._buffer:
            data = self._socket.recv(65536)
            if not data:
                raise SystemExit(0)
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return from_wire(line.decode())

    def send(self, message: Mapping[str, Any]) -> None:
        """Tell the supervisor; says nothing where it is gone."""
        with contextlib.suppress(OSError):
            self._socket.sendall(json.dumps(message).encode() + b"\n")

    def watch(self, told: Callable[[dict[str, Any] | None], None]) -> None:
        """Call `told` in the running loop for each message, and with None at the end."""
        self._socket.setblocking(False)
        asyncio.get_running_loop().add_reader(self._socket, self._read, told)

    def _read(self, told: Callable[[dict[str, Any] | None], None]) -> None:
        try:
            data = self._socket.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            asyncio.get_running_loop().remove_reader(self._socket)
            told(None)
            return
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            told(json.loads(line))


class _Life:
    """Runs one part until it is told to stop."""

    def __init__(
        self, config: Config, part: Part, exposition: Exposition | None, channel: Channel | None
    ):
        self._config = config
        self._part = part
        self._exposition = exposition
        self._channel = channel
        self._stop_asked = asyncio.Event()
        self._hurry_asked = asyncio.Event()
        self._grace = config.grace
        self._asked_at = 0.0
        self._draining: asyncio.Task[None] | None = None

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, self._signalled)
        if self._channel:
            self._channel.watch(self._told)
        start = asyncio.create_task(self._start())
        stopping = asyncio.create_task(self._stop_asked.wait())
        await asyncio.wait((start, stopping), return_when=asyncio.FIRST_COMPLETED)
        if start.done():
            start.result()
            # what is loaded by now stays for good: spare each collection the look at it
            gc.collect()
            gc.freeze()
        else:
            start.cancel()
            with contextlib.suppress(asyncio.CancelledError, StartError):
                await start
        await self._stop_asked.wait()
        await self._stop()

    async def _start(self) -> None:
        report = dict(await self._part.start())
        if self._exposition:
            try:
                report["metrics"] = await self._exposition.start()
            except OSError as error:
                text = cannot_listen("metrics", self._exposition.address, error)
                raise StartError(text, EXIT_ADDRESS) from None
        logger.info("ready: %s", json.dumps({k: v for k, v in report.items() if k != "reach"}))
        if self._channel:
            self._channel.send({"ready": report})

    async def _stop(self) -> None:
        logger.info("stopping, grace %.1f s", self._grace)
        stop = asyncio.create_task(self._part.stop(self._grace))
        hurry = asyncio.create_task(self._hurry_asked.wait())
        limit = self._grace + LAST_LIMIT
        await asyncio.wait((stop, hurry), timeout=limit, return_when=asyncio.FIRST_COMPLETED)
        if not stop.done():
            stop.cancel()
            await asyncio.wait((stop,), timeout=1.0)
            logger.warning("ending what still runs")
            async with asyncio.timeout(LAST_LIMIT):
                await self._part.stop(HURRY_GRACE)
        elif not stop.cancelled():
            stop.result()
        hurry.cancel()
        if self._exposition:
            await self._exposition.stop()
        logger.info("stopped")

    def _told(self, message: dict[str, Any] | None) -> None:
        if message is None:
            if not self._stop_asked.is_set():
                logger.warning("the supervisor is gone")
                self._ask(None)
        elif "stop" in message:
            self._ask(float(message["stop"]))
        elif "drain" in message and self._draining is None:
            self._draining = asyncio.create_task(self._part.drain(float(message["drain"])))

    def _signalled(self) -> None:
        now = time.monotonic()
        if self._stop_asked.is_set() and now - self._asked_at > ONE_SIGNAL:
            self._hurry_asked.set()
        self._ask(None)

    def _ask(self, grace: float | None) -> None:
        """Stop within `grace` seconds, or those of the configuration; 0: at once, also where it
        stops already."""
        if not self._stop_asked.is_set():
            self._asked_at = time.monotonic()
            self._grace = self._grace if grace is None else grace
        elif grace is not None and grace <= HURRY_GRACE:
            self._hurry_asked.set()
        self._stop_asked.set()


def cannot_listen(door: str, address: str, error: OSError) -> str:
    """The line for a listener that could not be opened."""
    place = f"{door} on {address}" if address else door
    if error.errno == errno.EADDRINUSE:
        return (
            f"cannot open {place}: the address is in use; stop what listens there, or give another"
        )
    return f"cannot open {place}: {error.strerror or error}"


def run(
    name: str,
    make: Callable[[Config, Metrics], Part],
    *,
    channel: Channel | None,
    config: Config,
) -> int:
    """Run one process to its end; gives the exit code."""
    import uvloop

    logs.setup(config.logs.level, config.logs.format, name)
    logs.hide(secrets_of(config))
    metrics = Metrics()
    address = config.metrics.core if name == "core" else config.metrics.adapter

    async def main() -> None:
        exposition = Exposition(metrics, address) if address else None
        await _Life(config, make(config, metrics), exposition, channel).run()

    code = 0
    runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
    try:
        runner.run(main())
    except StartError as error:
        code = error.code
        _report(channel, str(error), code)
    except Exception as error:
        code = EXIT_FAILED
        logger.exception("%s failed", name)
        _report(channel, f"{name} failed: {type(error).__name__}; the log has the reason", code)
    _leave_in_time(code)
    runner.close()
    return code


def _leave_in_time(code: int) -> None:
    """End the process soon, whatever an agent has left behind in it. A task that ignores its
    cancel and a thread at work would be waited for without end: by `Runner.close`, by Python's own
    end."""

    def leave() -> None:
        time.sleep(LEAVE_SECONDS)
        names = [thread.name for thread in threading.enumerate() if not thread.daemon]
        logger.warning("a task or a thread does not end (%s); left behind", ", ".join(names))
        logging.shutdown()
        os._exit(code)

    threading.Thread(target=leave, name="leave", daemon=True).start()


def _report(channel: Channel | None, message: str, code: int) -> None:
    if channel:
        channel.send({"error": message, "code": code})
    else:
        sys.stderr.write(f"a2a-gateway: {message}\n")
