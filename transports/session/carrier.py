"""A framed session on a stream of bytes: what stdio and sockets share.

Session layer. Joins `transports.framing` and `Session`; the owner reads bytes and lends a way to
write them.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from gateway.call import Peer
from transports.framing import Decoder, Framing, encode
from transports.session.server import Options, Session

Write = Callable[[bytes], Awaitable[None]]
"""Writes all of the bytes; returns once the peer takes more. Raises `OSError`."""
Read = Callable[[], Awaitable[bytes]]
"""Some bytes; none at the end of the input. Raises `OSError`."""

PIECE_BYTES = 512 * 1024
"""Written at once, at most."""
SLICE = 64
"""Frames that are taken before others have a turn."""


class ByteSession(Session):
    """A session whose frames are in a stream of bytes, in the framing that the client chose with
    its first byte."""

    def __init__(
        self,
        client: Any,
        write: Write,
        options: Options | None = None,
        *,
        peer: Peer | None = None,
    ):
        self._write = write
        self._decoder = Decoder(0)
        super().__init__(client, self._send, options, peer=peer)

    async def _send(self, payloads: list[bytes]) -> None:
        data = encode(self._decoder.framing or Framing.LINES, payloads)
        for start in range(0, len(data), PIECE_BYTES):
            # one that is slow, and alive, may take long for a large frame
            await self._write(data[start : start + PIECE_BYTES])
            self.progressed()

    def end_input(self) -> None:
        """The client sends no more; its last frame counts even without an end of line."""
        for frame in self._decoder.finish():
            self.feed(frame)

    async def serve(self, read: Read) -> None:
        """Take what `read` gives, to its end, or until the session is `lost`. Raises what `read`
        raises."""
        reading = asyncio.create_task(self._read_all(read))
        try:
            await asyncio.wait((reading, self.lost), return_when=asyncio.FIRST_COMPLETED)
        finally:
            reading.cancel()
            await asyncio.wait((reading,))
        if not reading.cancelled():
            reading.result()

    async def _read_all(self, read: Read) -> None:
        while data := await read():
            self._decoder.limit = self.frame_bytes
            for number, frame in enumerate(self._decoder.feed(data), 1):
                self.feed(frame)
                if not number % SLICE or self.is_congested:
                    # many small frames may come at once: others have their turn between them
                    await asyncio.sleep(0)
                    await self.ready()
        self.end_input()
