"""Runs client commands: in this process where nothing speaks against it, or in their own."""

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from click.testing import CliRunner

from gateway.cli.commands import cli

ROOT = Path(__file__).resolve().parents[4]


@dataclass(frozen=True)
class Done:
    """What a command left."""

    code: int
    out: str
    err: str


def homes(folder: Path) -> dict[str, str]:
    """An environment in which a command finds nothing of other runs."""
    return {"XDG_STATE_HOME": str(folder / "state"), "XDG_CACHE_HOME": str(folder / "cache")}


def invoke(*arguments: str, folder: Path, text: bytes | None = None, **environment: str) -> Done:
    """Run a command in this process."""
    done = CliRunner().invoke(
        cli, arguments, input=text, env={**homes(folder), **environment}, prog_name="a2a-gateway"
    )
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return Done(done.exit_code, done.stdout, done.stderr)


def start(
    *arguments: str, folder: Path, environment: Mapping[str, str] | None = None
) -> "subprocess.Popen[str]":
    """Start a command as a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "gateway.cli", *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT), **homes(folder), **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: "subprocess.Popen[str]", limit: float = 30.0) -> Done:
    """Wait for its end."""
    try:
        out, err = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise
    return Done(process.returncode, out, err)
