"""Runs the official kit, a2a-tck, against the gateway in three profiles.

    python -m tests.kits.run_tck --kit CHECKOUT --plugin FOLDER_OF_tck_v101

The kit is in no package registry, so CI does not run it; `make tck` does. It wants branch
1.0-dev, installed with its dependencies in an environment (CHECKOUT/.venv, or --python). Its
expectations are those of specification 1.0.0; the plugin lines them up with 1.0.1.
docs/conformance.md has the profiles and what each of them leaves out. Exit code: 1 where a test
failed, or where a profile ran other tests than it should.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.processes import gateway

AGENT = "tests.doubles.tck_agent:TckExecutor"
PLUGIN = "tck_v101"
REQUIRED_EXTENSION = "urn:a2a:tck:required-extension"
RUN_SECONDS = 600

# these ten wait out an idle subscription of ten seconds each
SLOW = (
    "tests/compatibility/core_operations/test_multi_stream.py",
    "tests/compatibility/grpc/test_streaming.py::TestGrpcStreaming"
    "::test_subscribe_first_event_is_task",
)


# Why the kit may skip a test, in its words: it also skips where a server does not do its part.
NOT_OFFERED = (
    "does not declare",
    "does not support push",
    "No requirements at this level",
)


@dataclass(frozen=True)
class Profile:
    """One configuration of the gateway, and the tests of the kit that are about it."""

    name: str
    capabilities: dict[str, Any] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    skips: tuple[str, ...] = ()
    """Parts of the reasons for which a test may be skipped."""

    def expects(self, result: "Result") -> bool:
        """Whether the result is one that the profile may have."""
        if result.outcome == "skipped":
            return any(reason in result.reason for reason in self.skips)
        return result.outcome != "failed"


PROFILES = (
    # push and the extended card come with a later step; until then the card says no
    Profile("full", skips=(*NOT_OFFERED, "Agent supports streaming")),
    Profile(
        "min",
        {"streaming": False},
        skips=(*NOT_OFFERED, "not support streaming", "treaming not supported"),
    ),
    Profile(
        "ext",
        {"extensions": [{"uri": REQUIRED_EXTENSION, "required": True}]},
        ("-k", "ExtensionRequired"),
    ),
)


@dataclass(frozen=True)
class Kit:
    """Where the kit is and how it is run."""

    checkout: Path
    plugin: Path
    python: Path
    is_quick: bool

    def run(self, profile: Profile, host: str, report: Path) -> subprocess.CompletedProcess[str]:
        """Run it once; the results are in `report` (JUnit's XML)."""
        argv = [str(self.python), "run_tck.py", "--sut-host", host, "--", "-p", PLUGIN]
        argv += ["--webhook-host", "127.0.0.1", f"--junitxml={report}", *profile.arguments]
        if self.is_quick:
            argv += [word for test in SLOW for word in ("--deselect", test)]
        environment = {**os.environ, "PYTHONPATH": str(self.plugin)}
        return subprocess.run(
            argv,
            cwd=self.checkout,
            env=environment,
            capture_output=True,
            text=True,
            timeout=RUN_SECONDS,
        )


@dataclass(frozen=True)
class Result:
    """What became of one test."""

    name: str
    outcome: str
    """passed, failed, skipped or xfailed."""
    reason: str = ""


def results(report: Path) -> list[Result]:
    """What JUnit's XML says."""
    return [_result(case) for case in ElementTree.parse(report).iter("testcase")]


def _result(case: ElementTree.Element) -> Result:
    folder = case.get("classname", "").removeprefix("tests.compatibility.")
    name = f"{folder}::{case.get('name')}"
    if case.find("failure") is not None or case.find("error") is not None:
        return Result(name, "failed")
    skipped = case.find("skipped")
    if skipped is None:
        return Result(name, "passed")
    outcome = "xfailed" if skipped.get("type") == "pytest.xfail" else "skipped"
    return Result(name, outcome, skipped.get("message", ""))


def check(kit: Kit, profile: Profile, folder: Path) -> bool:
    """Run one profile and print its totals; whether it is as it should be."""
    report = folder / f"{profile.name}.xml"
    config = {"card": {"capabilities": profile.capabilities}}
    with gateway(AGENT, folder / profile.name, config) as server:
        done = kit.run(profile, server.addresses.http, report)
    if not report.exists():
        print(f"{profile.name}: the kit did not run\n{done.stdout}{done.stderr}")
        return False
    found = results(report)
    totals = Counter(result.outcome for result in found)
    print(f"{profile.name}: " + ", ".join(f"{n} {outcome}" for outcome, n in totals.items()))
    for reason, count in Counter(r.reason for r in found if r.outcome == "skipped").items():
        print(f"  skipped {count}: {reason}")
    bad = [result for result in found if not profile.expects(result)]
    for result in bad:
        print(f"  {result.outcome} against expectation: {result.name} {result.reason}")
    if totals["failed"]:
        print(done.stdout)
    return totals["passed"] > 0 and not bad


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kit", type=Path, required=True, help="checkout of a2a-tck, 1.0-dev")
    parser.add_argument("--plugin", type=Path, required=True, help=f"folder of {PLUGIN}.py")
    parser.add_argument("--python", type=Path, help="its interpreter; default: KIT/.venv")
    parser.add_argument("--quick", action="store_true", help="without the tests that wait")
    parser.add_argument("--profile", choices=[p.name for p in PROFILES], action="append")
    options = parser.parse_args(arguments)
    kit = Kit(
        options.kit.resolve(),
        options.plugin.resolve(),
        (options.python or options.kit / ".venv" / "bin" / "python").absolute(),
        options.quick,
    )
    profiles = [p for p in PROFILES if not options.profile or p.name in options.profile]
    with tempfile.TemporaryDirectory(prefix="tck-") as folder:
        good = [check(kit, profile, Path(folder)) for profile in profiles]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
