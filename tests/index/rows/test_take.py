"""Some of the rows of a batch."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from kinbin.rows.rows import Rows


def rows_of(sizes: list[int], rng: np.random.Generator) -> Rows:
    """Rows of these lengths."""
    indptr = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=indptr[1:])
    features = np.concatenate([np.arange(size) for size in sizes]).astype(np.uint64)
    values = rng.random(int(indptr[-1])).astype(np.float32) + np.float32(1)
    return Rows(indptr, features, values, np.array([values[a:b].sum(dtype=np.float64) for a, b in itertools.pairwise(indptr)]))


@pytest.mark.parametrize("sizes", [[4] * 9, [1, 5, 2, 2, 7], [3]])
@pytest.mark.parametrize("which", [[0], [-1], [], "all", "reversed"])
def test_rows_that_are_taken_are_those_rows(rng: np.random.Generator, sizes: list[int], which: object) -> None:
    """Of rows of one length, or of several: each that is asked for, in the order asked for, and a copy."""
    rows = rows_of(sizes, rng)
    named = {"all": list(range(len(sizes))), "reversed": list(range(len(sizes)))[::-1]}
    places = named[which] if isinstance(which, str) else [len(sizes) + one if one < 0 else one for one in which]  # type: ignore[attr-defined]
    taken = rows.take(np.array(places, np.int64))
    assert len(taken) == len(places)
    for at, place in enumerate(places):
        for found, wanted in zip(taken.row(at), rows.row(place), strict=True):
            np.testing.assert_array_equal(found, wanted)
        assert taken.norms[at] == rows.norms[place]
    assert taken.indptr[-1] == len(taken.values) == len(taken.features)
    taken.values[:] = 0
    assert rows.values.all()
