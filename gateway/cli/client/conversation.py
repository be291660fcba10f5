"""`--continue`: the context and the task of the last call to a URL, kept for the next one."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from gateway.cli.client.kept_cards import state_home, write_private
from gateway.pb import INTERRUPTED_STATES


@dataclass(slots=True)
class Conversation:
    """Where a dialogue stands."""

    context_id: str = ""
    task_id: str = ""
    """Of a task that waits for an answer; a task that has ended takes no message."""

    def note(self, context_id: str, task_id: str, state: int) -> None:
        """Take the outcome of a call into account."""
        self.context_id = context_id or self.context_id
        self.task_id = task_id if state in INTERRUPTED_STATES else ""


class Conversations:
    """One small file for each URL and tenant."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or state_home() / "a2a-gateway" / "conversations"

    def load(self, url: str, tenant: str = "") -> Conversation:
        """The dialogue with a URL; a new one where there is none."""
        try:
            value = json.loads(self._path(url, tenant).read_text("utf-8"))
            return Conversation(str(value["context"]), str(value["task"]))
        except (OSError, ValueError, KeyError, TypeError):
            return Conversation()

    def save(self, url: str, tenant: str, conversation: Conversation) -> None:
        """Keep it. Raises `OSError`."""
        value = {
            "url": url,
            "tenant": tenant,
            "context": conversation.context_id,
            "task": conversation.task_id,
        }
        write_private(self._path(url, tenant), json.dumps(value))

    def _path(self, url: str, tenant: str) -> Path:
        digest = hashlib.sha256(f"{url}\n{tenant}".encode()).hexdigest()
        return self._folder / f"{digest[:32]}.json"
