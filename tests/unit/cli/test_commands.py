"""The command line as a user meets it: real processes, short lives."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
LIMIT = 30.0
ANYWHERE = ("--transport", "grpc=127.0.0.1:0", "--store", "memory:")


def gateway(*arguments: str, folder: Path) -> list[str]:
    """The command line, with a state directory of the test's own."""
    state = ("--state-dir", str(folder / "state")) if arguments[0] != "--help" else ()
    return [sys.executable, "-P", "-m", "gateway.cli", *arguments, *state]


def environment() -> dict[str, str]:
    """Ours, without a configuration, and with the source tree."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("A2A_GATEWAY_")}
    return {**kept, "PYTHONPATH": str(ROOT), "COLUMNS": "200"}


def fails(*arguments: str, folder: Path, code: int) -> str:
    """Run to the end; what stands on stderr, which is for people."""
    done = subprocess.run(
        gateway(*arguments, folder=folder),
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    return done.stderr


@pytest.fixture
def taken() -> Iterator[str]:
    """An address where somebody else listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_help_is_light(tmp_path: Path) -> None:
    """--help names the commands and exit codes, and loads nothing of what they run."""
    code = (
        "import sys\nfrom gateway.cli.commands import cli\n"
        "try:\n    cli(['--help'])\nexcept SystemExit:\n    pass\n"
        "heavy = {'asyncio', 'grpc', 'google', 'a2a', 'pydantic', 'yaml'} & set(sys.modules)\n"
        "sys.exit(f'loaded: {heavy}' if heavy else 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    for word in ("serve", "core", "adapter", "exit codes"):
        assert word in done.stdout


def test_supervisor_is_light() -> None:
    """It lives as long as the gateway: the standard library alone, without asyncio."""
    code = (
        "import sys, gateway.supervisor, gateway.cli.announcement\n"
        "heavy = {'asyncio', 'ssl', 'grpc', 'google', 'a2a', 'pydantic'} & set(sys.modules)\n"
        "sys.exit(f'loaded: {heavy}' if heavy else 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


class TestUsage:
    """Exit code 2, and what to write instead."""

    def test_no_agent(self, tmp_path: Path) -> None:
        """The agent is the one thing without a default."""
        assert "give --agent module:attribute" in fails("serve", folder=tmp_path, code=2)

    def test_configuration(self, tmp_path: Path) -> None:
        """One line for each problem."""
        errors = fails(
            "serve", "--agent", "demo", "--transport", "htp", "--log-level", "loud",
            folder=tmp_path, code=2,
        )  # fmt: skip
        assert errors.splitlines() == [
            "a2a-gateway: transports.htp: there is no door 'htp'; did you mean http? Installed are "
            "grpc, http (--transport)",
            "a2a-gateway: logs.level: 'loud' is not one of 'debug', 'info', 'warning' or 'error' "
            "(--log-level)",
        ]

    def test_grpc_is_no_adapter(self, tmp_path: Path) -> None:
        """The native door is the core's."""
        assert "a2a-gateway core" in fails("adapter", "grpc", folder=tmp_path, code=2)

    def test_core_opens_no_other_door(self, tmp_path: Path) -> None:
        """It says who does, instead of opening nothing."""
        errors = fails(
            "core", "--agent", "demo", "--transport", "http=127.0.0.1:0", folder=tmp_path, code=2
        )
        assert "open http by: a2a-gateway adapter http=127.0.0.1:0" in errors

    def test_store(self, tmp_path: Path) -> None:
        """An unknown kind of store."""
        errors = fails("serve", "--agent", "demo", "--store", "mem:", folder=tmp_path, code=2)
        assert (
            errors
            == "a2a-gateway: store 'mem:' is not known; use memory: or sqlite:///ABSOLUTE/PATH\n"
        )


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ("no_such_module:agent", "no module named 'no_such_module'"),
        ("gateway.agents.demo:agnt", "did you mean agent?"),
        ("broken:agent", "importing broken failed: ZeroDivisionError"),
    ],
)
def test_agent_that_cannot_be_loaded(tmp_path: Path, spec: str, reason: str) -> None:
    """Exit code 3, one line with the reason; the agent is looked for in the current directory."""
    (tmp_path / "broken.py").write_text("1 / 0\n")
    errors = fails("serve", "--agent", spec, *ANYWHERE, folder=tmp_path, code=3)
    assert reason in errors
    assert len(errors.splitlines()) == 1


@pytest.mark.parametrize("door", ["grpc", "http"])
def test_address_that_is_taken(tmp_path: Path, taken: str, door: str) -> None:
    """GR12, US01: exit code 4; the second server names the address and does not share it."""
    errors = fails(
        "serve", "--agent", "demo", "--store", "memory:", "--transport", f"{door}={taken}",
        folder=tmp_path, code=4,
    )  # fmt: skip
    assert f"a2a-gateway: cannot open {door} on {taken}: the address is in use" in errors


def test_state_directory_in_use(tmp_path: Path) -> None:
    """PR05: exit code 5; the second core names the first and where it listens."""
    process = subprocess.Popen(
        gateway("core", "--agent", "demo", *ANYWHERE, folder=tmp_path),
        cwd=tmp_path,
        env=environment(),
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        first = process.stderr.readline()
        assert " ready: " in first, first
        errors = fails("serve", "--agent", "demo", *ANYWHERE, folder=tmp_path, code=5)
        assert f"is in use by process {process.pid}, which listens on grpc 127.0.0.1:" in errors
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=LIMIT)
    assert process.returncode == 0


def test_modules_of_the_current_directory_do_not_stand_in_for_ours(tmp_path: Path) -> None:
    """A user's grpc.py next to the agent is the user's business."""
    (tmp_path / "grpc.py").write_text("raise SystemExit('the wrong grpc')\n")
    errors = fails("serve", "--agent", "nothing:here", *ANYWHERE, folder=tmp_path, code=3)
    assert "no module named 'nothing'" in errors
