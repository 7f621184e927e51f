"""Look-ups of wide queries: every feature is found, nobody else, however many there are, and all is left clear."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from kinbin.native.jit import strict
from kinbin.rows.lookup import NARROW_DIMENSION, LookupSpace, clear_lookup, fill_lookup, lookup_of
from kinbin.rows.scratch import Scratch
from kinbin.spaces.shared import shared_narrow, shared_wide

Features = NDArray[np.uint64]
Values = NDArray[np.float32]
FEATURES = st.lists(st.integers(0, 2**63 - 1) | st.integers(0, 300), min_size=1, max_size=60, unique=True)


@strict
def laid_out(scratch, features, values):  # type: ignore[no-untyped-def]
    """Lay a query out."""
    fill_lookup(lookup_of(scratch[0]), features, values, np.float32(1.0))


@strict
def taken_away(scratch, features):  # type: ignore[no-untyped-def]
    """Clear it."""
    clear_lookup(lookup_of(scratch[0]), features)


@strict
def shared(scratch, record, nnz, scale):  # type: ignore[no-untyped-def]
    """What the query shares with a row."""
    lookup = lookup_of(scratch[0])
    if lookup.wide:
        return shared_wide(np.uint64(record.ctypes.data), nnz, scale, lookup.cells, lookup.keys, lookup.weights)
    return shared_narrow(np.uint64(record.ctypes.data), nnz, scale, lookup.cells)


def space_of(scratch: Scratch) -> LookupSpace:
    """The arrays of a look-up."""
    space: LookupSpace = scratch._kept["lookup"]
    return space


def row(features: Any, seed: int = 0) -> tuple[Features, Values]:
    """Features, ascending, with values of both signs."""
    features = np.sort(np.array(features, np.uint64))
    return features, np.random.default_rng(seed).normal(size=len(features)).astype(np.float32)


def twin(query: tuple[Features, Values], stored: tuple[Features, Values], scale: float) -> float:
    """Σ min over shared features of one sign, the slow way."""
    values = dict(zip(query[0].tolist(), query[1].tolist(), strict=True))
    total = 0.0
    for feature, value in zip(stored[0].tolist(), stored[1].tolist(), strict=True):
        q, v = values.get(feature, 0.0), value * scale
        if q * v > 0:
            total += min(abs(q), abs(v))
    return total


def looked_up(query: tuple[Features, Values], *rows: tuple[Features, Values], room: int = 0) -> tuple[list[float], int]:
    """Sums of the query and of each row; whether second cells were used. The work space is left clear."""
    scratch = Scratch(wide=True, nonzeros=max(room, len(query[0])))
    space = space_of(scratch)
    laid_out(scratch.record, *query)
    out = []
    for features, values in rows:
        record = np.concatenate([features.view(np.uint8), values.view(np.uint8)])
        out.append(shared(scratch.record, record, len(features), np.float32(0.5)))
    second = int(space.keys[-1])
    taken_away(scratch.record, query[0])
    assert not space.cells.any(), "cells were left behind"
    return out, second


@given(asked=FEATURES, stored=FEATURES, room=st.integers(0, 500))
def test_wide_rows_share_what_they_share(asked: list[int], stored: list[int], room: int) -> None:
    """Any two rows: the sum is the twin's, of the query and itself too."""
    query, other = row(asked, 1), row(stored, 2)
    (found, itself), _ = looked_up(query, other, query, room=room)
    assert found == pytest.approx(twin(query, other, 0.5), rel=1e-5, abs=1e-12)
    assert itself == pytest.approx(0.5 * float(np.abs(query[1]).sum(dtype=np.float64)), rel=1e-5)


@pytest.mark.parametrize("count", [1, 2, 100, 362, 363, 1_000, 16_384, 16_385, 200_000])
@pytest.mark.parametrize("form", ["random", "in a row", "multiples of 2**40"])
def test_queries_of_any_size(count: int, form: str) -> None:
    """All features are found, and those of another row are not, whatever their number and their pattern."""
    features = np.arange(2 * count, dtype=np.uint64)
    if form == "random":
        rng = np.random.default_rng(count)
        features = rng.permutation(np.unique(rng.integers(0, 2**63, 3 * count, np.uint64)))[: 2 * count]
    elif form == "multiples of 2**40":
        features <<= np.uint64(40)
    query, other = row(features[:count], 1), row(features[count // 2 : count // 2 + count], 2)
    (found, itself), second = looked_up(query, other, query)
    assert found == pytest.approx(twin(query, other, 0.5), rel=1e-4)
    assert itself == pytest.approx(0.5 * float(np.abs(query[1]).sum(dtype=np.float64)), rel=1e-4)
    if count <= 100:
        assert second == 0, "a few features lie alone in their first cells"
    if count >= 16_384 and form == "random":
        assert second == 1, "among many, some lie in their second cells: this is the case that is tried here"


def test_many_queries_need_no_second_look() -> None:
    """Of queries of 200 features nearly all are placed in first cells."""
    rng = np.random.default_rng(0)
    used = [looked_up(row(np.unique(rng.integers(0, 2**63, 200, np.uint64))))[1] for _ in range(300)]
    assert np.mean(used) < 0.05


def test_features_of_a_damaged_row_end_it() -> None:
    """A row that has one feature many times, as only damage makes it, is laid out in bounded time, and all is left clear."""
    looked_up((np.full(9, 77, np.uint64), np.ones(9, np.float32)), row([77, 78]))


def test_narrow_rows_share_what_they_share(rng: np.random.Generator) -> None:
    """The same for rows whose features are places in an array."""
    scratch = Scratch(wide=False, nonzeros=1_000)
    space = space_of(scratch)
    assert (len(space.cells), len(space.keys), len(space.weights)) == (NARROW_DIMENSION, 0, 0)
    for seed in range(20):
        query, stored = (row(rng.permutation(900)[: rng.integers(1, 300)], s) for s in (seed, seed + 1))
        laid_out(scratch.record, *query)
        short = stored[0].astype(np.uint16)
        padded = np.concatenate([short, np.zeros(len(short) % 2, np.uint16)])
        found = shared(scratch.record, np.concatenate([padded.view(np.uint8), stored[1].view(np.uint8)]), len(short), np.float32(0.5))
        assert found == pytest.approx(twin(query, stored, 0.5), rel=1e-5, abs=1e-12)
        taken_away(scratch.record, query[0])
        assert not space.cells.any()
