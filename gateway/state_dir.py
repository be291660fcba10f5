"""The state directory: held by one core at a time, and the place where adapters meet it."""

import contextlib
import json
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from gateway.lock import inherited_lock, open_lock, try_lock

FOLDER = "link"
"""Of the state directory, for this user alone."""
INVITATION = "core.json"


class StateDirError(Exception):
    """The directory cannot be used; the text says why and what to do."""

    is_passing = False
    """Whether its holder is about to give it back."""


class StateDirInUseError(StateDirError):
    """Another core has it."""


class Invitation(NamedTuple):
    """What a process of the same user needs to join the core that runs."""

    pid: int
    address: str
    secret: str
    agent: str
    """The agent's spec, and `home`, where that is what it depends on."""
    home: str


class StateDir:
    """The lock of a state directory; goes with the process, however that ends, or with the last
    of those that share it. `lock` is the descriptor of the lock file where it is open already."""

    def __init__(self, path: Path, lock: int | None = None):
        self._path = path
        self._lent = lock
        self._lock: int | None = None

    @classmethod
    def inherit(cls, path: Path) -> "StateDir":
        """With the lock that this process was lent, if any."""
        return cls(path, inherited_lock())

    @property
    def lock(self) -> int | None:
        """The descriptor of the lock file, while it is held."""
        return self._lock

    def acquire(self) -> None:
        """Hold the directory, making it where it is missing. Raises `StateDirError`."""
        try:
            lock = open_lock(str(self._path)) if self._lent is None else self._lent
        except OSError as error:
            raise StateDirError(
                f"the state directory {self._path} cannot be used: {error.strerror}; "
                "give another by --state-dir"
            ) from None
        if not try_lock(lock):
            owner, is_leaving = _read(lock)
            if self._lent is None:
                os.close(lock)
            refusal = StateDirInUseError(
                f"the state directory {self._path} is in use by {owner}; stop that, or give "
                "another by --state-dir"
            )
            refusal.is_passing = is_leaving
            raise refusal from None
        self._lock = lock
        self._withdraw()
        self.describe(())

    def describe(self, addresses: Sequence[str], *, is_leaving: bool = False) -> None:
        """Say in the lock where the core listens, for those who find it held; `is_leaving`: that
        it ends what it has begun and goes."""
        if self._lock is None:
            return
        about = {"pid": os.getpid(), "addresses": list(addresses), "leaving": is_leaving}
        os.ftruncate(self._lock, 0)
        os.write(self._lock, json.dumps(about).encode())
        if is_leaving:
            self._withdraw()

    def invite(self, invitation: Invitation) -> None:
        """Let processes of this user join. Raises `StateDirError`."""
        folder = self._path / FOLDER
        claim_folder(folder)
        path = folder / INVITATION
        draft = folder / f"{INVITATION}.{os.getpid()}"
        try:
            with contextlib.suppress(FileNotFoundError):
                draft.unlink()
            with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                json.dump(invitation._asdict(), file)
            draft.replace(path)
        except OSError as error:
            raise StateDirError(f"{path} cannot be written: {error.strerror}") from None

    def _withdraw(self) -> None:
        with contextlib.suppress(OSError):
            (self._path / FOLDER / INVITATION).unlink()

    def release(self) -> None:
        """Give the directory back; a second call does nothing."""
        if self._lock is not None:
            self._withdraw()
            os.close(self._lock)
            self._lock = None


def read_invitation(state_dir: Path) -> Invitation | None:
    """How to join the core of a state directory; None where none invites, or where another user
    could have written it."""
    try:
        with (state_dir / FOLDER / INVITATION).open("rb") as file:
            about = os.fstat(file.fileno())
            if about.st_uid != os.geteuid() or about.st_mode & 0o077:
                return None
            return Invitation(**json.load(file))
    except (OSError, ValueError, TypeError):
        return None


def _read(lock: int) -> tuple[str, bool]:
    """Who holds it, and whether that one is leaving."""
    try:
        owner = json.loads(os.pread(lock, 65536, 0))
        if owner.get("leaving"):
            return f"process {owner['pid']}, which is stopping", True
        addresses = ", ".join(owner["addresses"])
        text = f"process {owner['pid']}" + (f", which listens on {addresses}" if addresses else "")
        return text, False
    except (ValueError, KeyError, TypeError, AttributeError):
        return "another core", False


def claim_folder(folder: Path) -> None:
    """Make the folder of the link's socket, for this user alone. Raises `StateDirError` where
    somebody else could get in: whoever reaches the socket is believed."""
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
