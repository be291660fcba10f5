"""The images, built once for all tests of this folder, where other users may read them."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.image import Image, build
from tests.deploy.manifests import DOCKERFILES, ROOT


@pytest.fixture(scope="session")
def images() -> Iterator[dict[str, Image]]:
    """Both images by name."""
    # pytest's own folders are closed to others, and too deep for a socket
    folder = Path(tempfile.mkdtemp(prefix="a2a-images-"))
    folder.chmod(0o755)
    try:
        yield {
            name: build(file, ROOT, folder / name.partition(":")[0])
            for name, file in DOCKERFILES.items()
            if file.exists()
        }
    finally:
        for path in folder.rglob("*"):
            if path.is_dir():
                path.chmod(0o755)
        shutil.rmtree(folder)


@pytest.fixture
def folder() -> Iterator[Path]:
    """For the volumes of one test."""
    made = Path(tempfile.mkdtemp(prefix="a2a-run-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)
