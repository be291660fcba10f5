"""What the Dockerfiles say; that their steps work shows test_running.py, which runs them."""

from pathlib import Path

import pytest

from tests.deploy.dockerfile import read
from tests.deploy.image import Image
from tests.deploy.manifests import DOCKERFILES, ROOT

FILES = [pytest.param(path, id=path.name) for path in DOCKERFILES.values()]


@pytest.mark.parametrize("path", FILES)
def test_nobody_is_root(path: Path) -> None:
    """A user by number: the kubelet cannot tell of a name whether it is root."""
    *_, last = read(path)
    assert last.last("USER").text == "10001:10001"


@pytest.mark.parametrize("path", FILES)
def test_packages_are_installed_by_hash(path: Path) -> None:
    installs = [
        part
        for stage in read(path)
        for step in stage.instructions
        if step.name == "RUN"
        for part in step.text.split("&&")
        if " install " in part
    ]
    assert installs
    assert all("--require-hashes" in i or "--no-index" in i for i in installs)


@pytest.mark.parametrize("path", FILES)
def test_build_context_is_what_is_copied(path: Path) -> None:
    """The ignore file keeps all out but what COPY takes."""
    ignore = path.with_name(f"{path.name}.dockerignore").read_text().split("\n")
    allowed = {line.removeprefix("!") for line in ignore if line.startswith("!")}
    copied = {
        word
        for stage in read(path)
        for step in stage.instructions
        if step.name == "COPY" and "from" not in step.flags
        for word in step.words[:-1]
    }
    assert "*" in ignore
    assert all((ROOT / name).exists() for name in copied)
    assert {name for name in copied if not _is_below(name, allowed)} == set()
    assert {name for name in allowed if not any(_is_below(c, {name}) for c in copied)} == set()


def _is_below(name: str, folders: set[str]) -> bool:
    return any(name == folder or name.startswith(f"{folder}/") for folder in folders)


def test_images_start(images: dict[str, Image]) -> None:
    """The command of each is in it, and nothing in it can be written."""
    for image in images.values():
        first, *_ = image.entry_point
        folders = image.moved(image.environment["PATH"]).split(":")
        assert any(Path(folder, first).exists() for folder in folders)
        assert not [
            path
            for path in image.root.rglob("*")
            if path.lstat().st_mode & 0o222 and not path.is_symlink()
        ]
