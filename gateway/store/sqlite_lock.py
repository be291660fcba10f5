"""The owner lock of a store: one process at a time, named to whoever comes second.

The kernel drops the lock when its holder dies, however it dies; the file stays, because
removing it would race with the next holder.
"""

import fcntl
import os

from gateway.store import StateInUseError, StoreError


class OwnerLock:
    """A lock file beside the store: the owner's pid on its first line, free text after it."""

    def __init__(self, path: str, owner: str = "") -> None:
        self._path = path
        self._owner = owner
        self._file: int | None = None

    def acquire(self, store: str) -> None:
        """Raises `StateInUseError` that names the holder of `store`, or `StoreError` where
        the lock file cannot be opened."""
        try:
            file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreError(self._why(error)) from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            text = os.pread(file, 4096, 0).decode(errors="replace")
            os.close(file)
            raise StateInUseError(_in_use(store, text)) from None
        except OSError as error:
            os.close(file)
            raise StoreError(f"{self._path} cannot be locked: {error.strerror}") from error
        try:
            os.ftruncate(file, 0)
            os.pwrite(file, f"{os.getpid()}\n{self._owner}\n".encode(), 0)
        except OSError as error:
            os.close(file)
            raise StoreError(f"{self._path} cannot be written: {error.strerror}") from error
        self._file = file

    def release(self) -> None:
        """Give the lock back; a second call does nothing."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)

    def _why(self, error: OSError) -> str:
        text = f"The lock file {self._path} cannot be opened: {error.strerror}"
        if isinstance(error, PermissionError):
            try:
                owner = os.stat(self._path).st_uid
            except OSError:
                return text
            return (
                f"{text}; it belongs to user {owner} and this process runs as user"
                f" {os.geteuid()}: run as that user, or name another file for the store"
            )
        return text


def _in_use(store: str, text: str) -> str:
    pid, _, owner = text.partition("\n")
    holder = f"process {pid}" if pid else "another process"
    if owner := owner.strip():
        holder += f" ({owner})"
    return f"{store} is in use by {holder}; stop it, or name another file for the store"
