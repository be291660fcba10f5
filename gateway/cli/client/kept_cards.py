"""Public agent cards between two commands: files in the XDG cache home, one for each URL."""

import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path

from transports.client import Kept


class CardFiles:
    """A `transports.client.Cards`. A file that is lost or broken is no card; one that
    cannot be written is done without. `asks_again`: none is taken without asking its server."""

    def __init__(self, folder: Path | None = None, *, asks_again: bool = False) -> None:
        self._folder = folder or cache_home() / "a2a-gateway" / "cards"
        self._asks_again = asks_again

    def load(self, url: str) -> Kept | None:
        """What was kept for the URL of an agent; None where nothing was."""
        try:
            value = json.loads(self._path(url).read_text("utf-8"))
            if value["agent"] != url:
                return None
            return Kept(
                str(value["url"]),
                str(value["body"]).encode(),
                str(value["tag"]),
                0.0 if self._asks_again else float(value["fresh_until"]),
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def save(self, url: str, kept: Kept) -> None:
        """Keep it."""
        value = {
            "agent": url,
            "url": kept.url,
            "body": kept.body.decode("utf-8", "replace"),
            "tag": kept.tag,
            "fresh_until": kept.fresh_until,
        }
        with suppress(OSError):
            write_private(self._path(url), json.dumps(value))

    def forget(self, url: str) -> None:
        """It has led nowhere."""
        with suppress(OSError):
            self._path(url).unlink()

    def _path(self, url: str) -> Path:
        return self._folder / f"{hashlib.sha256(url.encode()).hexdigest()[:32]}.json"


def cache_home() -> Path:
    """Where this user's programs keep what can be had again (XDG base directories)."""
    return _home("XDG_CACHE_HOME", ".cache")


def state_home() -> Path:
    """Where this user's programs keep their state (XDG base directories)."""
    return _home("XDG_STATE_HOME", ".local/state")


def _home(variable: str, default: str) -> Path:
    given = os.environ.get(variable, "")
    return Path(given) if os.path.isabs(given) else Path.home() / default


def write_private(path: Path, text: str) -> None:
    """Write a file that only this user can read, whole or not at all. Raises `OSError`."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = path.with_suffix(f".{os.getpid()}")
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)
    new.replace(path)
