"""Databases of the library's tests: made anew, closed at the end, with background work only where a test asks for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import kinbin
from background import no_background
from kinbin.limits import LIMITS, Limit

Loader = Callable[[str], dict[str, NDArray[Any]]]


@pytest.fixture
def db(tmp_path: Path) -> Iterator[kinbin.Database]:
    """An empty database."""
    with kinbin.open(tmp_path / "db") as database:
        yield database


@pytest.fixture
def quiet() -> Iterator[None]:
    """Nothing is sealed or merged unless the test calls `upkeep` or `compact`."""
    with no_background():
        yield


@pytest.fixture
def set_limit(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, int], None]:
    """Change a limit for the length of a test."""

    def change(name: str, value: int) -> None:
        old = LIMITS[name]
        monkeypatch.setitem(LIMITS, name, Limit(name, value, old.unit, old.reason))

    return change


@pytest.fixture(scope="session")
def histograms(data_set: Loader) -> NDArray[np.float32]:
    """(13,000, 512) colour histograms of patches of photographs; rows sum to 1,024."""
    return data_set("photographs")["X_train"]
