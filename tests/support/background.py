"""Switching background work off, where a test must see sealing and merging happen only when it says so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import kinbin.upkeep.background
import kinbin.upkeep.sealing


@contextmanager
def no_background(seal_rows: int | None = None) -> Iterator[None]:
    """Inside, nothing is sealed or merged but by `upkeep` and `compact`; `seal_rows`: that many fresh rows are sealed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kinbin.upkeep.background.UpkeepThread, "wake", lambda thread: None)
        patch.setattr(kinbin.upkeep.background.UpkeepThread, "look", lambda thread: None)
        if seal_rows is not None:
            patch.setattr(kinbin.upkeep.sealing, "SEAL_ROWS", seal_rows)
        yield
