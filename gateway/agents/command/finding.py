"""Whether there is such a program, before any message comes. Layer: agents.

The system's own errors would come with the first message, and say little ("No such file or
directory" where the interpreter is missing).
"""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from gateway.agents import AgentError

SCRIPT = b"#!"
LOOKED_AT = 512


def check(argv: Sequence[str], directory: Path | None, path: str | None) -> None:
    """Raise `AgentError` with the fix where the program cannot be started. `path` is the PATH
    that it will be looked for in."""
    try:
        _check(argv[0], directory, path)
    except OSError as error:  # a folder that may not be looked into, a name that is too long
        raise AgentError(f"{error.filename or argv[0]}: {error.strerror}") from None


def _check(program: str, directory: Path | None, path: str | None) -> None:
    if directory is not None and not directory.is_dir():
        raise AgentError(f"agent.command.directory: {directory} is no directory")
    if "/" not in program:
        if shutil.which(program, path=path) is None:
            raise AgentError(_not_in_path(program, directory))
        return
    found = (directory or Path.cwd()) / program
    if not found.exists():
        raise AgentError(f"there is no program {found.absolute()}{_elsewhere(program, directory)}")
    if found.is_dir():
        raise AgentError(f"{found} is a directory, not a program")
    if not os.access(found, os.X_OK):
        raise AgentError(f"{found} is not executable; run: chmod +x {found}")
    _check_script(found)


def _not_in_path(program: str, directory: Path | None) -> str:
    if ((directory or Path.cwd()) / program).is_file():
        return (
            f"there is no program {program!r} in PATH; for the file here write command:./{program}"
        )
    return f"there is no program {program!r} in PATH; install it, or write its path"


def _elsewhere(program: str, directory: Path | None) -> str:
    if directory is not None and Path(program).exists():
        return (
            "; it is looked for in agent.command.directory, not where the gateway was started: "
            "write the whole path"
        )
    return ""


def _check_script(found: Path) -> None:
    try:
        with found.open("rb") as file:
            start = file.read(LOOKED_AT)
    except OSError:
        return  # a program that may be run but not read
    if not start.startswith(SCRIPT):
        if start and b"\0" not in start:
            raise AgentError(
                f"{found} is a script that names no interpreter; give it a first line such as "
                "#!/bin/sh"
            )
        return
    line = start.splitlines()[0].removeprefix(SCRIPT).strip(b" \t")
    interpreter = os.fsdecode(line.split()[0]) if line.split() else ""
    if start.split(b"\n")[0].endswith(b"\r"):
        raise AgentError(f"{found} has line ends of Windows; save it with those of Unix (LF)")
    if not os.path.exists(interpreter):
        raise AgentError(f"{found}: its first line names {interpreter!r}, which is not there")
