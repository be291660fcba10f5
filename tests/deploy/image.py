"""Builds an image of deploy/ without a container engine: the Dockerfile's own steps, in a folder.

The folder stands for the root of the last stage. Absolute paths of the Dockerfile are moved there,
but for those of the system (`/usr`, `/bin`, …): its packages and Python are this machine's.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.deploy.dockerfile import Instruction, Stage, read

SYSTEM = ("bin", "dev", "etc", "lib", "proc", "sbin", "sys", "tmp", "usr")
HOST_PATH = f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
"""Stands for the PATH of the base image."""
STEP_SECONDS = 300
_PATH = re.compile(r"(?<![\w/.}])/([a-z][\w.-]*)(/[\w./-]*)?")


@dataclass
class Image:
    """What a container starts from."""

    root: Path
    environment: dict[str, str] = field(default_factory=lambda: {"PATH": "$PATH"})
    directory: str = "/"
    user: str = "0:0"
    entry_point: list[str] = field(default_factory=list)
    command: list[str] = field(default_factory=list)
    health: list[str] = field(default_factory=list)

    def moved(self, text: str, places: Mapping[str, Path] | None = None) -> str:
        """The text with its absolute paths moved: below one of `places` where they are under it,
        else below the root, unless they are the system's."""

        def move(found: re.Match[str]) -> str:
            path = found[0]
            for place, real in (places or {}).items():
                if path == place or path.startswith(f"{place}/"):
                    return f"{real}{path.removeprefix(place)}"
            return path if found[1] in SYSTEM else f"{self.root}{path}"

        return _PATH.sub(move, text).replace("$PATH", HOST_PATH)

    def real(self, path: str) -> Path:
        """Where a path lies that is absolute, or relative to the working directory."""
        return self.root / os.path.join(self.directory, path).lstrip("/")


def build(dockerfile: Path, context: Path, root: Path) -> Image:
    """Build an image at `root`, which does not exist yet; nothing in it can be written after."""
    stages = read(dockerfile)
    for stage in stages[:-1]:
        _build_stage(stage, context, root)
    image = _build_stage(stages[-1], context, root)
    _take_writing(root)
    return image


def _build_stage(stage: Stage, context: Path, root: Path) -> Image:
    """One stage, at the place of the one before it, which moves aside: so each path is the same
    in all of them, as it is in an engine."""
    before = root.with_name(f"{root.name}.before")
    shutil.rmtree(before, ignore_errors=True)
    if root.exists():
        root.rename(before)
    root.mkdir(parents=True)
    image = Image(root)
    for step in stage.instructions:
        if step.name == "RUN":
            _run(step.text, image)
        elif step.name == "COPY":
            _copy(step, image, before if "from" in step.flags else context)
        else:
            _note(step, image)
    shutil.rmtree(before, ignore_errors=True)
    return image


def _run(text: str, image: Image) -> None:
    environment = {name: image.moved(value) for name, value in image.environment.items()}
    command = image.moved(text)
    if os.geteuid() != 0:
        # all that is made here belongs to whoever runs the tests
        command = f"chown() {{ :; }}; {command}"
    done = subprocess.run(
        ["sh", "-ec", command],
        cwd=image.real("."),
        env={**environment, "HOME": os.environ.get("HOME", "/")},
        capture_output=True,
        text=True,
        timeout=STEP_SECONDS,
        umask=0o022,
    )
    assert done.returncode == 0, f"RUN {text}\n{done.stdout}{done.stderr}"


def _copy(step: Instruction, image: Image, source: Path) -> None:
    *names, target = step.words
    goal = image.real(target)
    for name in names:
        found = source / name.lstrip("/")
        assert found.exists(), f"COPY {step.text}: there is no {found}"
        if found.is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "node_modules")
            ignore = None if "from" in step.flags else ignored
            shutil.copytree(found, goal, symlinks=True, ignore=ignore, dirs_exist_ok=True)
        else:
            into = goal / found.name if target.endswith("/") else goal
            into.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(found, into)


def _note(step: Instruction, image: Image) -> None:
    """What changes the image's description, and no file but the working directory."""
    match step.name:
        case "ENV":
            for word in step.words:
                name, _, value = word.partition("=")
                image.environment[name] = value.replace("$PATH", image.environment["PATH"])
        case "WORKDIR":
            image.directory = step.text
            image.real(".").mkdir(parents=True, exist_ok=True)
        case "USER":
            image.user = step.text
        case "ENTRYPOINT":
            image.entry_point = step.words
        case "CMD":
            image.command = step.words
        case "HEALTHCHECK":
            image.health = Instruction("CMD", step.text.partition("CMD ")[2]).words
        case "EXPOSE" | "STOPSIGNAL":
            pass
        case _:
            raise AssertionError(f"the Dockerfile has a step that is not known here: {step}")


def _take_writing(root: Path) -> None:
    """What the root of a container is that cannot be written: readable for all, and no more."""
    for folder, _, files in os.walk(root, topdown=False):
        for name in files:
            path = Path(folder, name)
            if not path.is_symlink():
                path.chmod((path.stat().st_mode | 0o444) & 0o555)
        Path(folder).chmod(0o555)
