"""The process: what it loads, and how it finds its core."""

import subprocess
import sys

import pytest

from gateway.link.frames import LinkRefusedError
from tests.conftest import run
from tests.processes import ROOT
from transports.stdio.server import FoundCoreClient, interface

HEAVY = ("grpc", "prometheus_client", "uvicorn", "httptools", "sqlite3", "httpx")


def test_nothing_is_loaded_that_is_not_needed() -> None:
    """A client waits for this: the largest parts of the SDK's and the gateway's imports stay
    out, as do all of the core's before it is started."""
    names = ", ".join(map(repr, HEAVY))
    script = f"""
import sys
import gateway.cli.stdio, gateway.own_core
early = [name for name in ("asyncio", "google.protobuf", "pydantic", "a2a") if name in sys.modules]
import gateway.nearby, transports.stdio.server
print(early, [name for name in ({names}) if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[] []\n"


class NoCore:
    async def find(self) -> tuple[str, str, bool]:
        raise LinkRefusedError("there is none", can_retry=False)

    async def stop(self, grace: float) -> None: ...


def test_no_core() -> None:
    """Both who waits for the first link and the owner of the session learn it."""

    async def main() -> None:
        client = FoundCoreClient(NoCore())
        with pytest.raises(LinkRefusedError, match="there is none"):
            await client.start()
        with pytest.raises(LinkRefusedError, match="there is none"):
            client.failed.result()

    run(main())


def test_the_entry_of_the_card() -> None:
    """R51, R52, R59: a URL form of its own, a URI for the binding, no secrets."""
    entry = interface()
    assert (entry.url, entry.protocol_version) == ("stdio:", "1.0")
    assert entry.protocol_binding.startswith("urn:")
