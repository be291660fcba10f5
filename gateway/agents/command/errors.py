"""What a program prints on stderr, for the log. Layer: agents."""

import logging

logger = logging.getLogger("gateway.agents.command")

LINE_BYTES = 8 * 1024
FIRST_BYTES = 64 * 1024
"""Of one run, logged as they come; of what follows only the end."""


class ErrorLog:
    """Logs one run's lines. Bounded: a program that floods its stderr does not flood the log."""

    def __init__(self, name: str):
        self._name = name
        self._left = FIRST_BYTES
        self._rest = b""
        """What has come of a line whose end has not; beyond the first bytes, the last ones."""
        self._skipped = 0

    def feed(self, data: bytes) -> None:
        """Log what the bytes make whole."""
        first, later = data[: self._left], data[self._left :]
        self._left -= len(first)
        if first:
            self._take(first)
        if later:
            self._keep(later)

    def end(self, how: str) -> None:
        """The run is over; `how` it ended, where that is worth a line."""
        if self._skipped:
            logger.info("agent %s: ... %d bytes are left out ...", self._name, self._skipped)
        for line in self._rest.split(b"\n"):
            self._log(line)
        if how:
            logger.warning("agent %s: %s", self._name, how)

    def _take(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._log(line)
        while len(self._rest) > LINE_BYTES:
            self._log(self._rest[:LINE_BYTES])
            self._rest = self._rest[LINE_BYTES:]

    def _keep(self, data: bytes) -> None:
        rest = self._rest + data
        self._rest = rest[-LINE_BYTES:]
        self._skipped += len(rest) - len(self._rest)

    def _log(self, line: bytes) -> None:
        text = line.decode("utf-8", "replace").rstrip()
        if text:
            logger.info("agent %s: %s", self._name, text)
