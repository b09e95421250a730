from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import annals

GOLDEN = Path(__file__).parents[2] / "tests" / "golden" / "conversations"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agents.db"


@pytest.fixture
def store(path: Path) -> Iterator[annals.Store]:
    with annals.open(path) as store:
        yield store
