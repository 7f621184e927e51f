"""Pool indexes for tests: small ones, built when the test says so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import kinbin.pools.building
import kinbin.pools.index
from linked import still

__all__ = ["pools_at_once"]


@contextmanager
def pools_at_once() -> Iterator[None]:
    """Inside, pools are built by `link` only, calibrated by few queries, and taken however fast a scan is."""
    with still(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(kinbin.pools.index, "_FASTER", 0.0)
        patch.setattr(kinbin.pools.building, "_QUERIES", 60)
        yield
