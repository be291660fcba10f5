"""What both ends of a link do beside reading: ping the other end, wake their writer.

Layer: link; no rule of the link is decided here.
"""

import asyncio
import time
from collections.abc import Callable

from gateway.link.frames import Heartbeat, Outgoing, encode_ping


class Bell:
    """Wakes the one writer, which waits for something to send."""

    __slots__ = ("_loop", "_waiter")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[None] | None = None

    def ring(self) -> None:
        """There is something; says nothing to a writer that does not wait, since it looks again
        before it does."""
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    async def wait(self) -> None:
        """Until it rings."""
        self._waiter = waiter = self._loop.create_future()
        await waiter


class Pulse:
    """Pings from `start` to `stop`. `on_ping` gets the seconds of each round trip; `on_silence` is
    called once the other end has missed too many, and no ping follows."""

    def __init__(
        self,
        out: Outgoing,
        interval: float,
        on_ping: Callable[[float], None],
        on_silence: Callable[[], None],
    ):
        self._out = out
        self._heartbeat = Heartbeat(interval, time.monotonic())
        self.heard = self._heartbeat.heard
        """Any frame came."""
        self._on_ping = on_ping
        self._on_silence = on_silence
        self._timer: asyncio.TimerHandle | None = None
        self._nonce = 0
        self._started = 0.0

    def start(self) -> None:
        """Ping in an interval's time, and so on."""
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._heartbeat.interval, self._tick)

    def stop(self) -> None:
        """Ping no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _tick(self) -> None:
        if not self._heartbeat.tick(time.monotonic()):
            self._on_silence()
            return
        self._nonce += 1
        self._started = time.perf_counter()
        self._out.put_urgent(encode_ping(self._nonce))
        self.start()

    def on_pong(self, nonce: int) -> None:
        """The answer to a ping; that to the last one counts."""
        if nonce == self._nonce:
            self._on_ping(time.perf_counter() - self._started)
