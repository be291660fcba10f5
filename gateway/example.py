"""What the line to try a door says: the same message at each."""

import json
from dataclasses import dataclass

from gateway.config import Config

DEMO = ("demo", "gateway.agents.demo:agent")


@dataclass(frozen=True, slots=True)
class Example:
    """A message, and whether it needs credentials."""

    text: str
    needs_credentials: bool

    @classmethod
    def of(cls, config: Config) -> "Example":
        """For this gateway."""
        # the demo knows this word, and answers with a stream that one can watch
        return cls("stream" if config.agent.spec in DEMO else "hello", config.access.is_configured)

    @property
    def message(self) -> str:
        """A SendMessageRequest in JSON, quoted for a shell."""
        part = {"messageId": "1", "role": "ROLE_USER", "parts": [{"text": self.text}]}
        return f"'{json.dumps({'message': part}, separators=(',', ':'))}'"
