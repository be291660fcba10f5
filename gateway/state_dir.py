"""The state directory: held by one core at a time, and the place where adapters meet it."""

import fcntl
import json
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from gateway.config import Address


class StateDirError(Exception):
    """The directory cannot be used; the text says why and what to do."""

    is_passing = False
    """Whether its holder is about to give it back."""


class StateDir:
    """The lock of a state directory; goes with the process, however that ends."""

    def __init__(self, path: Path):
        self._path = path
        self._file: IO[str] | None = None

    def acquire(self) -> None:
        """Hold the directory, making it where it is missing. Raises `StateDirError`."""
        try:
            self._path.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = (self._path / "core.lock").open("a+", encoding="utf-8")
        except OSError as error:
            raise StateDirError(
                f"the state directory {self._path} cannot be used: {error.strerror}; "
                "give another by --state-dir"
            ) from None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            owner, is_leaving = _read(file)
            file.close()
            refusal = StateDirError(
                f"the state directory {self._path} is in use by {owner}; stop that, or give "
                "another by --state-dir"
            )
            refusal.is_passing = is_leaving
            raise refusal from None
        self._file = file
        self.describe(())

    def describe(self, addresses: Sequence[str], *, is_leaving: bool = False) -> None:
        """Say in the lock where the core listens, for those who find it held; `is_leaving`: that
        it ends what it has begun and goes."""
        if self._file is None:
            return
        self._file.seek(0)
        self._file.truncate()
        about = {"pid": os.getpid(), "addresses": list(addresses), "leaving": is_leaving}
        json.dump(about, self._file)
        self._file.flush()

    def release(self) -> None:
        """Give the directory back; a second call does nothing."""
        if self._file is not None:
            self._file.close()
            self._file = None


def _read(file: IO[str]) -> tuple[str, bool]:
    """Who holds it, and whether that one is leaving."""
    try:
        file.seek(0)
        owner = json.load(file)
        if owner.get("leaving"):
            return f"process {owner['pid']}, which is stopping", True
        addresses = ", ".join(owner["addresses"])
        text = f"process {owner['pid']}" + (f", which listens on {addresses}" if addresses else "")
        return text, False
    except (ValueError, KeyError, TypeError, AttributeError):
        return "another core", False


def claim_link_folder(address: Address) -> None:
    """Make the folder of the link's socket, for this user alone. Raises `StateDirError` where
    somebody else could get in: whoever reaches the socket is believed."""
    folder = Path(address.path).parent
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        raise StateDirError(
            f"the folder {folder} of the link's socket cannot be made: {error.strerror}; "
            "give another by link.address"
        ) from None
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise StateDirError(
            f"the folder {folder} of the link's socket must be a directory of this user with mode "
            "0700; remove it, or give another by link.address"
        )
