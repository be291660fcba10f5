"""The stores under test."""

from pathlib import Path

import pytest

from gateway.store import Store, open_store


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """Where a store file may be made."""
    return tmp_path / "state" / "tasks.db"


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, database: Path) -> Store:
    """Each store, not yet opened."""
    return open_store("memory:" if request.param == "memory" else f"sqlite://{database}")
