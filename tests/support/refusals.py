"""What every refusal of the library is checked for: its problem in full, and that nothing was written."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import kinbin


def contents(collection: kinbin.Collection) -> list[tuple[Any, ...]]:
    """Everything a collection holds, comparable."""
    found: list[tuple[Any, ...]] = []
    after = None
    while True:
        page = collection.scroll(after, limit=1_000, include=("vector", "payload"))
        for item in page.items:
            vector = item.vector
            shown = (tuple(vector.indices), tuple(vector.values)) if isinstance(vector, kinbin.Sparse) else tuple(np.asarray(vector))  # type: ignore[arg-type]
            found.append((item.id, shown, item.payload))
        after = page.next
        if after is None:
            return found


@contextmanager
def unchanged(*collections: kinbin.Collection) -> Iterator[None]:
    """Nothing is written inside: neither items nor a commit."""
    before = [(contents(one), one.stats()["commits"], one.count()) for one in collections]
    yield
    assert [(contents(one), one.stats()["commits"], one.count()) for one in collections] == before


@contextmanager
def refused(code: str, detail: str, *, position: int | None = None, field: str | None = None, limit: str | None = None) -> Iterator[None]:
    """The body raises InvalidInput, whose first problem is just this one; the error survives pickling."""
    with pytest.raises(kinbin.InvalidInput) as caught:
        yield
    error = caught.value
    assert error.problems[0] == kinbin.Problem(code, detail, position, field, limit)
    assert error.code == code
    assert str(error) == (detail if position is None else f"item {position}: {detail}")
    assert 1 <= len(error.problems) <= 8
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.problems, again.code, str(again)) == (type(error), error.problems, error.code, str(error))
