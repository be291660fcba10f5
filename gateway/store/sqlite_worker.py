"""Threads that own SQLite connections, so that the event loop never waits for a disk, and the
words for what SQLite refuses."""

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar

from gateway.store import StoreError

T = TypeVar("T")

_WORDS = {
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_IOERR: "reading or writing the disk failed",
    sqlite3.SQLITE_READONLY: "it is read-only",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened; look at the directory and its permissions",
    sqlite3.SQLITE_PERM: "access to it is denied",
    sqlite3.SQLITE_BUSY: "another program holds it",
    sqlite3.SQLITE_LOCKED: "another program holds it",
    sqlite3.SQLITE_NOTADB: "it is not an SQLite database; name another file for the store",
    sqlite3.SQLITE_CORRUPT: "it is damaged; restore it from a backup, or name another file",
    sqlite3.SQLITE_TOOBIG: "a value is too large for it",
    sqlite3.SQLITE_NOMEM: "memory is short",
    sqlite3.SQLITE_CONSTRAINT: "what was to be written does not fit what it holds",
}

_Item = tuple[asyncio.AbstractEventLoop, "asyncio.Future[Any]", Callable[[sqlite3.Connection], Any]]
_Jobs = SimpleQueue[_Item | None]


class Workers:
    """Threads with a connection each, which take jobs in order from one queue.

    With one thread the jobs run one after the other. A job whose caller was cancelled runs to
    its end all the same.
    """

    def __init__(
        self, name: str, path: str, connect: Callable[[], sqlite3.Connection], count: int = 1
    ) -> None:
        self._path = path
        self._connect = connect
        self._jobs: _Jobs = SimpleQueue()
        self._names = [f"{name}-{number}" for number in range(count)]
        self._threads: list[Thread] = []
        self._is_open = False

    async def start(self) -> None:
        """Open the connections; raises `StoreError` where one cannot be opened."""
        loop = asyncio.get_running_loop()
        self._jobs = SimpleQueue()
        ready = [loop.create_future() for _ in self._names]
        for name, future in zip(self._names, ready, strict=True):
            arguments = (self._jobs, loop, future)
            thread = Thread(target=self._serve, args=arguments, name=name, daemon=True)
            self._threads.append(thread)
            thread.start()
        self._is_open = True
        try:
            await asyncio.gather(*ready)
        except BaseException:
            await self.stop()
            raise

    async def run(self, job: Callable[[sqlite3.Connection], T]) -> T:
        """Run a job in a thread; what it raises of SQLite comes as `StoreError`."""
        if not self._is_open:
            raise StoreError(f"The store {self._path} is closed")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._jobs.put((loop, future, job))
        return await future

    async def stop(self) -> None:
        """Let the jobs that wait end, close the connections; a second call only waits."""
        if self._is_open:
            self._is_open = False
            for _ in self._threads:
                self._jobs.put(None)
        for thread in tuple(self._threads):
            await asyncio.to_thread(thread.join)
        self._threads.clear()

    def _serve(
        self, jobs: _Jobs, loop: asyncio.AbstractEventLoop, ready: "asyncio.Future[None]"
    ) -> None:
        try:
            connection = self._connect()
        except Exception as error:
            _settle_from_thread(loop, ready, None, explain(error, self._path))
            return
        _settle_from_thread(loop, ready, None, None)
        try:
            while (item := jobs.get()) is not None:
                loop, future, job = item
                result: Any = None
                failure: Exception | None = None
                try:
                    result = job(connection)
                except Exception as error:
                    _roll_back(connection)
                    failure = explain(error, self._path)
                _settle_from_thread(loop, future, result, failure)
                # an idle thread keeps no row alive
                del item, loop, future, job, result, failure
        finally:
            with contextlib.suppress(sqlite3.Error):
                connection.close()


def explain(error: Exception, path: str) -> StoreError:
    """The error in neutral words; nothing of the statement or its values."""
    if isinstance(error, StoreError):
        return error
    words = "a value does not fit in it"  # OverflowError, UnicodeEncodeError and the like
    if isinstance(error, sqlite3.Error):
        code = getattr(error, "sqlite_errorcode", None) or sqlite3.SQLITE_ERROR
        words = _WORDS.get(code & 0xFF, "SQLite reported an error")
    failure = StoreError(f"The store {path} cannot do this: {words}")
    failure.__cause__ = error
    return failure


def _roll_back(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:
        with contextlib.suppress(sqlite3.Error):
            connection.rollback()


def _settle_from_thread(
    loop: asyncio.AbstractEventLoop,
    future: "asyncio.Future[Any]",
    result: object,
    error: Exception | None,
) -> None:
    # a loop that has closed has nobody who waits
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(_settle, future, result, error)


def _settle(future: "asyncio.Future[Any]", result: object, error: Exception | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
