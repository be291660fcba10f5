"""Reads a Dockerfile: its stages and their instructions, as far as deploy/ uses the format."""

import json
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Instruction:
    """One instruction, continued lines joined: `COPY`, `--from=build /a /b`."""

    name: str
    text: str

    @property
    def words(self) -> list[str]:
        """Its arguments, flags left out; those of the exec form where it has that."""
        if self.text.startswith("["):
            return [str(word) for word in json.loads(self.text)]
        return [word for word in shlex.split(self.text) if not word.startswith("--")]

    @property
    def flags(self) -> dict[str, str]:
        """`--name=value` before the arguments."""
        flags = {}
        for word in self.text.split():
            if not word.startswith("--"):
                break
            name, _, value = word.removeprefix("--").partition("=")
            flags[name] = value
        return flags


@dataclass
class Stage:
    """What begins with one FROM."""

    base: str
    name: str
    instructions: list[Instruction] = field(default_factory=list)

    def last(self, name: str) -> Instruction:
        """The one of this name that counts."""
        return [i for i in self.instructions if i.name == name][-1]

    def environment(self) -> Iterator[tuple[str, str]]:
        """All that ENV sets, in order."""
        for instruction in self.instructions:
            if instruction.name == "ENV":
                for word in instruction.words:
                    name, _, value = word.partition("=")
                    yield name, value


def read(path: Path) -> list[Stage]:
    """The stages of a file, in order."""
    arguments: dict[str, str] = {}
    stages: list[Stage] = []
    for instruction in _instructions(path.read_text()):
        if instruction.name == "ARG" and not stages:
            name, _, value = instruction.text.partition("=")
            arguments[name] = value
        elif instruction.name == "FROM":
            base, *alias = instruction.text.split()
            for name, value in arguments.items():
                base = base.replace(f"${{{name}}}", value)
            stages.append(Stage(base, alias[-1] if alias else ""))
        else:
            stages[-1].instructions.append(instruction)
    return stages


def _instructions(text: str) -> Iterator[Instruction]:
    whole = ""
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        whole += line.rstrip().removesuffix("\\")
        if not line.rstrip().endswith("\\"):
            name, _, rest = whole.partition(" ")
            yield Instruction(name, rest.strip())
            whole = ""
