"""Collections with a pool index, small enough to be built in a moment."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pooled import pools_at_once


@pytest.fixture
def pools() -> Iterator[None]:
    """See `pooled.pools_at_once`."""
    with pools_at_once():
        yield
