"""A child of the supervisor that does what the variable FAKE_<NAME> says, word by word.

`python -m tests.doubles.child NAME`. Words: `fail` reports a start error; `die` ends at once after
it is ready; `once` makes the next word hold for the first start only; `stubborn` ignores orders to
stop. Each step leaves a line in the file FAKE_TRACE.
"""

import asyncio
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gateway.config import Config
from gateway.process import Channel, StartError, run

NAME = sys.argv[1]
TRACE = Path(os.environ["FAKE_TRACE"])


def note(text: str) -> None:
    """One line in the trace, whole."""
    with TRACE.open("a") as file:
        file.write(f"{NAME} {os.getpid()} {text}\n")


def words() -> list[str]:
    """What to do on this start."""
    found = os.environ.get(f"FAKE_{NAME.upper()}", "").split()
    if "once" in found:
        starts = TRACE.read_text().count(f"{NAME} ") if TRACE.exists() else 0
        place = found.index("once")
        del found[place : place + (2 if starts else 1)]
    return found


class Part:
    """A part that opens nothing."""

    def __init__(self, config: Config):
        self._config = config
        self._words = words()

    async def start(self) -> Mapping[str, Any]:
        """Ready, or not."""
        if "fail" in self._words:
            raise StartError(f"{NAME} cannot start", 4)
        grpc = self._config.transports.grpc
        note(f"ready {grpc.address[0] if grpc else ''}")
        if "die" in self._words:
            asyncio.get_running_loop().call_later(0.05, os._exit, 9)
        # as if port 0 had been given and the system had chosen
        return {"doors": {"grpc": ["127.0.0.1:7"]}} if NAME == "core" else {}

    async def drain(self, grace: float) -> None:
        """Note it."""
        note("drain")

    async def stop(self, grace: float) -> None:
        """Stop at once, or never."""
        note(f"stop {grace:.0f}")
        if "stubborn" in self._words:
            await asyncio.Event().wait()
        if "slow" in self._words and grace:
            await asyncio.sleep(grace)


def main() -> int:
    """Live as a child does."""
    channel = Channel.inherit()
    assert channel is not None
    config = channel.read_config()
    code = run(NAME, lambda config, metrics: Part(config), channel=channel, config=config)
    note(f"end {code}")
    return code


if __name__ == "__main__":
    sys.exit(main())
