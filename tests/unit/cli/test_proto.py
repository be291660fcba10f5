"""`a2a-gateway proto`: the contract of agents, from wherever the gateway runs."""

import sys
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner
from google.protobuf.descriptor_pb2 import FileDescriptorSet

import gateway
from gateway.cli import proto as module
from gateway.cli.commands import cli

ROOT = Path(__file__).resolve().parents[3]


def printed(*arguments: str) -> bytes:
    result = CliRunner().invoke(cli, ["proto", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout_bytes


def test_the_contract_is_printed() -> None:
    assert printed() == (ROOT / "proto" / "agent.proto").read_bytes()
    files = FileDescriptorSet.FromString(printed("--compiled")).file
    assert [file.name for file in files][-1] == "agent.proto"
    assert "a2a.proto" in {file.name for file in files}


def test_it_is_in_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the build puts it is where it is looked for first."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    included = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    monkeypatch.setattr(gateway, "__file__", str(tmp_path / "gateway" / "__init__.py"))
    for source, target in included.items():
        assert (ROOT / source).is_file()
        (tmp_path / target).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / target).touch()
        assert module.find(Path(source).name) == tmp_path / target


def test_bytes_are_not_for_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", type("Terminal", (), {"isatty": lambda self: True})())
    with pytest.raises(Exception, match="write >"):
        module.proto.callback(compiled=True)  # type: ignore[misc]
