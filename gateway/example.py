"""What the line to try a door says: the same message at each."""

import json
from dataclasses import dataclass
from shlex import quote

from gateway.config import Access, Config

DEMO = ("demo", "gateway.agents.demo:agent")


@dataclass(frozen=True, slots=True)
class Example:
    """A message, and with which credentials it is sent."""

    text: str
    client_option: str = ""
    """For our own client, with a blank before it; empty where no credentials are needed."""
    curl_option: str = ""

    @property
    def needs_credentials(self) -> bool:
        """Whether it is refused without any."""
        return bool(self.client_option)

    @classmethod
    def of(cls, config: Config) -> "Example":
        """For this gateway."""
        # the demo knows this word, and answers with a stream that one can watch
        text = "stream" if config.agent.spec in DEMO else "hello"
        return cls(text, *_credentials(config.access))

    @property
    def message(self) -> str:
        """A SendMessageRequest in JSON, quoted for a shell."""
        part = {"messageId": "1", "role": "ROLE_USER", "parts": [{"text": self.text}]}
        return f"'{json.dumps({'message': part}, separators=(',', ':'))}'"


def _credentials(access: Access) -> tuple[str, str]:
    """A place for the first kind that is configured."""
    if access.tokens:
        return " --token TOKEN", " -H 'Authorization: Bearer TOKEN'"
    if access.api_keys:
        return " --api-key KEY", f" -H {quote(f'{access.api_key_header}: KEY')}"
    if access.basic:
        user = quote(access.basic[0].username)
        return f" --basic {user}", f" -u {user}"
    return "", ""
