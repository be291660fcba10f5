"""a2a-testbed, strict: a second opinion on JSON-RPC, SSE and the card that CI can install.

It lives in an environment of its own (`make testbed`), since it pins what we do not. It posts
to URL/a2a/v1/ whatever the card says, which is where this gateway has its JSON-RPC path.
"""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.processes import ROOT, gateway

PROGRAM = ROOT / ".venv-testbed" / "bin" / "a2a-testbed"
BASELINE = Path(__file__).parent / "testbed-baseline.yaml"
SWEEP_SECONDS = 180

FOR_AGENTS_THAT_CANNOT_STREAM = (
    "transport.streaming_capability_consistency",
    "transport.subscribe_capability_required",
)


def sweep(folder: Path, *only: str, streaming: bool = True) -> Any:
    """The report of one sweep. Its agent works a while and streams for any message."""
    config = {
        "transports": {"http": {"path": "/a2a/v1"}},
        "card": {"capabilities": {"streaming": streaming}},
    }
    with gateway("tests.doubles.testbed_agent:WorkingExecutor", folder, config) as server:
        argv = [str(PROGRAM), "conformance", server.addresses.http, "--strict"]
        argv += ["--push-receiver", "local", "--baseline", str(BASELINE)]
        argv += ["--report", "report.json"]
        argv += [word for contract in only for word in ("--only", contract)]
        swept = subprocess.run(
            argv, cwd=folder, capture_output=True, text=True, timeout=SWEEP_SECONDS
        )
    report = folder / "report.json"
    assert report.exists(), swept.stdout + swept.stderr
    return json.loads(report.read_text())


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return sweep(tmp_path_factory.mktemp("testbed"))


def outcomes(report: Any, *kinds: str) -> dict[str, str]:
    """Contracts with one of these outcomes, each with what the kit says about it."""
    return {r["id"]: r["detail"] for r in report["results"] if r["outcome"] in kinds}


def test_no_contract_fails_but_the_known_one(report: Any) -> None:
    """Every contract passes, is not about this agent, or is the baseline's one entry."""
    assert outcomes(report, "fail", "error", "warn") == {}
    assert report["summary"]["accepted"] == 1
    assert report["baseline"] == {"stale": [], "expired": [], "unknown": []}


def test_only_what_the_card_does_not_offer_is_skipped(report: Any) -> None:
    """Push is not offered yet; two contracts are for agents that cannot stream."""
    skipped = outcomes(report, "skip")
    rest = {name for name in skipped if not name.startswith("transport.push_")}
    assert rest == set(FOR_AGENTS_THAT_CANNOT_STREAM)


def test_an_agent_that_cannot_stream_says_so(tmp_path: Path) -> None:
    """R13: streaming off in the card is streaming refused."""
    report = sweep(tmp_path, *FOR_AGENTS_THAT_CANNOT_STREAM, streaming=False)
    assert set(outcomes(report, "pass")) == set(FOR_AGENTS_THAT_CANNOT_STREAM)
