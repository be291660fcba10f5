"""Logs of every process: lines on stderr, as text or as JSON, with call and task ids.

A line that the level leaves out costs one comparison. Ids travel in context variables, so that
whoever logs need not know them. Secrets are taken out when a line is written: those that are
registered, and whatever follows `Bearer` or `Basic`.
"""

import contextvars
import itertools
import json
import logging
import re
import sys
import time
from collections.abc import Iterable
from typing import Any

_CREDENTIALS = re.compile(r"\b(bearer|basic)\s+[A-Za-z0-9\-._~+/=]{4,}", re.IGNORECASE)
_LEAST_SECRET = 4
"""Shorter secrets are not looked for: they would blank out half of the words of every line."""


call: contextvars.ContextVar[int] = contextvars.ContextVar("call", default=0)
"""The number of the call that this context serves, from 1 in each process; 0: none."""
task: contextvars.ContextVar[str] = contextvars.ContextVar("task", default="")
"""The id of the task whose turn runs in this context; empty: none."""
_calls = itertools.count(1)


def begin_call() -> None:
    """Give the current context the next call number."""
    call.set(next(_calls))


def begin_turn(task_id: str) -> None:
    """The current context runs a turn of this task, whichever call it was copied from."""
    call.set(0)
    task.set(task_id)


def _ids() -> dict[str, int | str]:
    return {name: value for name, value in (("call", call.get()), ("task", task.get())) if value}


class _Redaction:
    """Takes secrets out of a text."""

    def __init__(self) -> None:
        self._known: re.Pattern[str] | None = None
        self._secrets: set[str] = set()

    def add(self, secrets: Iterable[str]) -> None:
        self._secrets.update(s for s in secrets if len(s) >= _LEAST_SECRET)
        # the longest first: one secret may begin with another
        longest_first = sorted(self._secrets, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, longest_first))) if self._secrets else None

    def apply(self, text: str) -> str:
        text = _CREDENTIALS.sub(r"\1 ***", text)
        return self._known.sub("***", text) if self._known else text


_redaction = _Redaction()


def hide(secrets: Iterable[str]) -> None:
    """Take these texts out of every line that is written from now on."""
    _redaction.add(secrets)


_ESCAPES = {
    number: f"\\x{number:02x}" for number in (*range(0x20), *range(0x7F, 0xA0)) if number != 9
} | {10: "\\n", 13: "\\r", 0x2028: "\\u2028", 0x2029: "\\u2029"}
"""What would break a line, or command the terminal that shows it."""
_ESCAPES_IN_TRACES = {number: text for number, text in _ESCAPES.items() if number != 10}


class TextFormatter(logging.Formatter):
    """`2026-01-31T10:00:00.123Z INFO core[17] gateway.server: text call=.. task=..`"""

    def __init__(self, process: str):
        super().__init__()
        self._process = process

    def format(self, record: logging.LogRecord) -> str:
        """One line, or more where there is a traceback, or a `trace` that was given as extra."""
        message = record.getMessage().translate(_ESCAPES)
        line = (
            f"{_stamp(record.created)} {record.levelname} {self._process}[{record.process}] "
            f"{record.name}: {message}"
        )
        for name, value in _ids().items():
            line += f" {name}={value}"
        trace = getattr(record, "trace", "")
        if record.exc_info:
            trace = self.formatException(record.exc_info)
        if trace:
            # set in, so that no text of an exception can pass for a line of its own
            line += "\n  " + trace.translate(_ESCAPES_IN_TRACES).replace("\n", "\n  ")
        return _redaction.apply(line)


class JsonFormatter(logging.Formatter):
    """One JSON object a line."""

    def __init__(self, process: str):
        super().__init__()
        self._process = process

    def format(self, record: logging.LogRecord) -> str:
        """One line, tracebacks inside."""
        entry: dict[str, Any] = {
            "time": _stamp(record.created),
            "level": record.levelname.lower(),
            "process": self._process,
            "pid": record.process,
            "logger": record.name,
            "message": record.getMessage(),
        }
        entry |= _ids()
        if trace := getattr(record, "trace", ""):
            entry["trace"] = trace
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return _redaction.apply(json.dumps(entry, ensure_ascii=False, default=str))


def _stamp(created: float) -> str:
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(created))
    return f"{whole}.{int(created % 1 * 1000):03d}Z"


_settings = ("info", "text")


def settings() -> tuple[str, str]:
    """Level and format, as `setup` was told; for processes that this one starts."""
    return _settings


def setup(level: str, form: str, process: str) -> None:
    """Send the lines of this process, named `process` in each, to stderr."""
    global _settings
    _settings = (level, form)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter(process) if form == "json" else TextFormatter(process))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # nobody reads these, and each costs a look at the stack or the system
    logging.logThreads = False
    logging.logMultiprocessing = False
    for noisy in ("asyncio", "grpc", "httpx", "httpcore"):
        logging.getLogger(noisy).setLevel(max(logging.WARNING, root.level))
    logging.getLogger("grpc._cython.cygrpc").addFilter(_is_news)


def _is_news(record: logging.LogRecord) -> bool:
    """Of gRPC: it has an error with a trace for each client that leaves while its answer is on
    the way, which clients do at will."""
    return not str(record.msg).startswith("ExecuteBatchError")
