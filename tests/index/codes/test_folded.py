"""Codes: distances of codes are lower bounds of true ones, and near rows have near codes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import naive
from coded import SPARSE_ROWS, VALUES, canonical, shape_distance
from kinbin.codes.coder import WIDTHS, Coder, choose_coder, folded_coder
from kinbin.codes.folded import CODER, SLOTS, code_distance, encode, fold_rows, merge_buckets, rank_of, slot_of
from kinbin.native.jit import strict
from kinbin.native.memory import absolute_differences_64, absolute_differences_128
from kinbin.rows.asked import queries_record
from kinbin.rows.canonical import canonical_rows
from kinbin.rows.rows import Rows
from kinbin.spaces.shared import most_similar
from linked import KINDS, still

NARROW_ROWS = st.dictionaries(st.integers(0, 99), VALUES, min_size=1, max_size=20)


@strict
def differences_at(left, right):  # type: ignore[no-untyped-def]
    """The intrinsic, callable."""
    return absolute_differences_64(left, right)


@strict
def differences_of_two_at(left, right):  # type: ignore[no-untyped-def]
    """The intrinsic for twice as many, callable."""
    return absolute_differences_128(left, right)


@strict
def distance_at(left, right, width):  # type: ignore[no-untyped-def]
    """`code_distance`, callable."""
    return code_distance(left, right, width)


@strict
def similarity_of(distance, left, right):  # type: ignore[no-untyped-def]
    """`most_similar`, callable."""
    return most_similar(distance, left, right)


@strict
def rank(distance, step, shapes, left, right):  # type: ignore[no-untyped-def]
    """`rank_of`, callable."""
    return rank_of(distance, step, shapes, np.float32(left), np.float32(right))


@strict
def slot(feature, hashed):  # type: ignore[no-untyped-def]
    """`slot_of`, callable."""
    return slot_of(feature, hashed)


def address(array: NDArray[Any]) -> np.uint64:
    """Where an array's bytes are."""
    return np.uint64(array.__array_interface__["data"][0])


def coder_for(hashed: bool, width: int, step: float, seed: int) -> Coder:
    """Any coder: features fall into buckets at random."""
    slots = SLOTS if hashed else 100
    buckets = np.random.default_rng(seed).integers(0, width, slots).astype(np.uint16)
    return Coder(width, hashed, buckets, step, 128.0, 1.0)


# ------------------------------------------------------------------------------------------- distances


@pytest.mark.parametrize("shift", [0, 1, 31, 63])
def test_absolute_differences(shift: int, rng: np.random.Generator) -> None:
    """The sum of absolute differences of 64 and of 128 bytes is numpy's, at any alignment, extremes among them."""
    data = rng.integers(0, 256, (200, 2, 192)).astype(np.uint8)
    data[0], data[1, 0], data[1, 1], data[2, 0], data[2, 1] = 255, 0, 255, 255, 0
    for left, right in data:
        a, b = left[shift : shift + 64], right[2 * shift // 3 : 2 * shift // 3 + 64]
        assert differences_at(address(a), address(b)) == np.abs(a.astype(int) - b.astype(int)).sum()
        a, b = left[shift : shift + 128], right[2 * shift // 3 : 2 * shift // 3 + 128]
        assert differences_of_two_at(address(a), address(b)) == np.abs(a.astype(int) - b.astype(int)).sum()


@pytest.mark.parametrize("width", WIDTHS)
def test_distance_of_codes(width: int, rng: np.random.Generator) -> None:
    """The distance of two codes is the sum over all their bytes and over none beyond, for every width there is."""
    data = rng.integers(0, 256, (50, 2, width + 64)).astype(np.uint8)
    for left, right in data:
        expected = np.abs(left[:width].astype(int) - right[:width].astype(int)).sum()
        assert distance_at(address(left), address(right), width) == expected


@given(
    rows=st.lists(SPARSE_ROWS, min_size=2, max_size=4),
    width=st.sampled_from(WIDTHS[:4]),
    step=st.floats(1e-4, 0.05),
    seed=st.integers(0, 9),
)
def test_distances_of_codes_are_lower_bounds_of_hashed_rows(rows: list[dict[int, float]], width: int, step: float, seed: int) -> None:
    """Whatever is folded together and however coarse the step: step · distance − both errors is not above the true L1 distance."""
    assert_lower_bound(rows, coder_for(True, width, step, seed))


@given(
    rows=st.lists(NARROW_ROWS, min_size=2, max_size=4),
    width=st.sampled_from(WIDTHS[:2]),
    step=st.floats(1e-4, 0.05),
    seed=st.integers(0, 9),
)
def test_distances_of_codes_are_lower_bounds(rows: list[dict[int, float]], width: int, step: float, seed: int) -> None:
    """The same for features that are slots themselves, whose codes are cut off where the step is small."""
    assert_lower_bound(rows, coder_for(False, width, step, seed))


def assert_lower_bound(rows: list[dict[int, float]], coder: Coder) -> None:
    """Of every pair."""
    made, errors = coder.encode(canonical(rows))
    codes = made.data
    for i, left in enumerate(rows):
        for j, right in enumerate(rows):
            distance = int(np.abs(codes[i].astype(int) - codes[j].astype(int)).sum())
            bound = coder.step * distance - float(errors[i]) - float(errors[j])
            assert bound <= shape_distance(left, right) + 1e-9


@given(row=NARROW_ROWS, step=st.floats(1e-4, 0.05))
def test_errors_are_what_rounding_changed(row: dict[int, float], step: float) -> None:
    """A row's error is at least what its code is off, and hardly more; the code is the nearest there is."""
    coder = coder_for(False, 64, step, 3)
    made, errors = coder.encode(canonical([row]))
    codes = made.data
    sums = np.zeros(64)
    for feature, weight in naive.normalised(naive.row(row)).items():
        sums[coder.buckets[feature]] += weight
    off = np.abs(sums - step * (codes[0].astype(float) - 128.0)).sum()
    assert off - 1e-9 <= errors[0] <= off * (1 + 1e-5) + 1e-8
    inside = np.abs(sums / step) < 126
    assert (np.abs(sums - step * (codes[0].astype(float) - 128.0))[inside] <= step * 0.5 + 1e-9).all()


@given(left=SPARSE_ROWS, right=SPARSE_ROWS, share=st.floats(0.0, 1.0))
def test_the_estimated_similarity_is_an_upper_bound(left: dict[int, float], right: dict[int, float], share: float) -> None:
    """No two rows of these norms and of shapes at least so far apart are more alike than estimated; multiples are just so alike."""
    a, b = naive.row(left), naive.row(right)
    norms = sum(map(abs, a.values())), sum(map(abs, b.values()))
    distance = shape_distance(left, right)
    true = naive.gmm(a, b)
    assert similarity_of(distance * share, *norms) >= true - 1e-6
    assert similarity_of(0.0, norms[0], 3 * norms[0]) == pytest.approx(1 / 3)
    assert similarity_of(2.0, *norms) == 0.0


def test_ranks_go_from_near_to_far() -> None:
    """A greater distance never ranks before a smaller one; for kernels that do not normalise, a norm that differs more neither."""
    distances = np.arange(0, 60_000, 37)
    for normalised in (True, False):
        ranks = [int(rank(int(distance), 1e-4, normalised, 2.0, 2.0)) for distance in distances]
        assert ranks == sorted(ranks)
        assert max(ranks) < 2**32
    by_norm = [int(rank(500, 1e-4, False, 2.0, norm)) for norm in (2.0, 3.0, 5.0, 100.0)]
    assert by_norm == sorted(by_norm)


def test_slots() -> None:
    """A feature is its own slot, or one of 4,096 by a hash that spreads neighbouring ids."""
    assert [int(slot(np.uint64(feature), False)) for feature in (0, 7, 4_095)] == [0, 7, 4_095]
    hashed = [int(slot(np.uint64(feature), True)) for feature in range(4_096)]
    assert 0 <= min(hashed) <= max(hashed) < SLOTS
    assert len(set(hashed)) > 2_000


def test_folded_rows_are_the_rows(rng: np.random.Generator) -> None:
    """Rows folded into buckets are the dense rows, divided by their norms, with the columns of each bucket added up."""
    X = KINDS["signed"].rows(20, seed=1)
    rows = canonical_rows(X, dim=X.shape[1], signed=True)
    shapes = X / rows.norms[:, None]
    for buckets in (np.arange(X.shape[1]), rng.integers(0, 7, X.shape[1])):
        out = np.zeros((20, X.shape[1]), np.float32)
        fold_rows(queries_record(rows), False, buckets.astype(np.uint16), out)
        expected = np.zeros_like(out)
        for column, bucket in enumerate(buckets):
            expected[:, bucket] += shapes[:, column]
        np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-7)


# -------------------------------------------------------------------------------------------- choosing


def neighbourhoods(X: Any, rows: Rows, picks: int = 40, size: int = 60) -> tuple[Rows, int]:
    """Some of the rows with the nearest of all of them, by the slow way."""
    shapes = shapes_of(X)
    nearest = [np.argsort(np.abs(shapes - shapes[pick]).sum(axis=1), kind="stable")[:size] for pick in range(picks)]
    return take(rows, np.concatenate(nearest)), len(nearest[0])


def shapes_of(X: Any) -> NDArray[np.float64]:
    """Dense rows, each divided by its sum of absolute values; columns without a value are left out."""
    dense = (X[:, np.unique(X.indices)].toarray() if hasattr(X, "toarray") else X).astype(np.float64)
    shapes: NDArray[np.float64] = dense / np.abs(dense).sum(axis=1, keepdims=True)
    return shapes


def take(rows: Rows, which: NDArray[np.int64]) -> Rows:
    """Some rows, in this order."""
    parts = [slice(rows.indptr[i], rows.indptr[i + 1]) for i in which]
    indptr = np.concatenate([[0], np.cumsum(np.diff(rows.indptr)[which])])
    features, values = (np.concatenate([array[part] for part in parts]) for array in (rows.features, rows.values))
    return Rows(indptr, features, values, rows.norms[which])


@pytest.mark.parametrize("kind", KINDS)
def test_chosen_codes_keep_near_rows_near(kind: str) -> None:
    """The coder that is chosen for rows keeps the nearest of them among the nearest codes, as it says of itself."""
    X = KINDS[kind].rows(1_200, seed=2)
    rows = canonical_rows(X, dim=KINDS[kind].dim, signed=True)
    with still():
        coder = choose_coder(rows, KINDS[kind].dim, neighbourhoods(X, rows), len(rows))
    assert coder.recall > 0.95
    made, errors = coder.encode(rows)
    assert len(made) == 1_200
    assert errors.max() < 1.0, "a code that is off by half of what two rows can differ proves nothing"
    if KINDS[kind].layout == "packed":
        assert coder.width == 0
        return
    assert coder.width in WIDTHS
    assert coder.buckets.max() < coder.width
    assert (coder.offset == 128.0) == KINDS[kind].signed
    codes, shapes = made.data, shapes_of(X)
    shares = []
    for pick in range(40):
        near = np.argsort(np.abs(shapes - shapes[pick]).sum(axis=1), kind="stable")[:10]
        by_code = np.argsort(np.abs(codes.astype(int) - codes[pick].astype(int)).sum(axis=1), kind="stable")[:20]
        shares.append(np.isin(near, by_code).mean())
    assert np.mean(shares) > 0.9


@pytest.mark.parametrize(("quality", "chosen"), [(0.73, 0), (0.76, 512), (0.99, 512)])
def test_a_node_that_is_met_counts_besides_its_code(monkeypatch: pytest.MonkeyPatch, quality: float, chosen: int) -> None:
    """Entries are taken that find clearly more than bytes, though bytes are compared in a thirteenth of the time.

    Qualities .80 and .73 are those of word counts under `js`, whose walks over bytes missed a recall of .9 with any pool.
    """
    size = 155
    entries = Coder(0, True, np.empty(0, np.uint16), 1e-4, 0.0, 0.80)
    folded = Coder(512, True, np.zeros(SLOTS, np.uint16), 1e-4, 0.0, quality)
    rows = Rows(np.array([0, size]), np.arange(size, dtype=np.uint64), np.ones(size, np.float32), np.array([float(size)]))
    monkeypatch.setattr("kinbin.codes.coder.packed_coder", lambda *_: entries)
    monkeypatch.setattr("kinbin.codes.coder.folded_coder", lambda *_: folded)
    assert choose_coder(rows, None, (rows, 1), 11_311).width == chosen


@pytest.mark.parametrize("dim", [1, 2, 63, 64, 65, 128, 4_096, 4_097])
def test_codes_of_any_dimension(dim: int, rng: np.random.Generator) -> None:
    """Rows of any dimension get a code of a width there is, which is a lower bound too."""
    X = (rng.random((40, dim)) * (rng.random((40, dim)) < max(0.02, 3 / dim))).astype(np.float32)
    X[np.arange(40), rng.integers(0, dim, 40)] = 1.0
    rows = canonical_rows(X, dim=dim, signed=False)
    with still():
        coder = folded_coder(rows, dim, *neighbourhoods(X, rows, 10, 20), len(rows))
    assert coder.width in WIDTHS
    made, errors = coder.encode(rows)
    shapes = X.astype(np.float64) / X.sum(axis=1, dtype=np.float64, keepdims=True)
    true = np.abs(shapes[:, None] - shapes[None]).sum(axis=2)
    estimated = coder.step * np.abs(made.data[:, None].astype(int) - made.data[None].astype(int)).sum(axis=2)
    assert (estimated - errors[:, None] - errors[None] <= true + 1e-9).all()


def test_codes_of_many_rows_are_narrower(monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    """Where codes come from memory, a wider one has to be better by more than where they lie in the caches."""
    X = (rng.random((60, 300)) + 0.01).astype(np.float32)
    rows = canonical_rows(X, dim=300, signed=False)
    near = neighbourhoods(X, rows, 10, 20)
    for nodes, width in ((1_000, 192), (10_000_000, 128)):
        # The quality that each width is found to have, whatever the scale.
        found = iter(np.repeat([0.95, 0.984, 0.995], 5).tolist())
        monkeypatch.setattr("kinbin.codes.coder.recall_of", lambda _, found=found: next(found))
        assert folded_coder(rows, 300, *near, nodes).width == width


def test_a_coder_outlives_its_header() -> None:
    """A coder read back from its header and buckets is the same."""
    coder = coder_for(True, 128, 0.01, 4)
    again = Coder.of(coder.header(), coder.buckets)
    assert again.header() == coder.header()
    rows = canonical([{1: 2.0, 99: -3.0}, {2**60: 1.0}])
    (one, errors), (other, same) = coder.encode(rows), again.encode(rows)
    assert one.equals(other)
    np.testing.assert_array_equal(errors, same)


def test_slots_are_merged_where_it_costs_least(rng: np.random.Generator) -> None:
    """Slots that always differ in the same direction are folded together; each folding numbers its buckets from 0 without gaps."""
    groups = np.repeat(np.arange(8), 4)
    moves = rng.normal(size=(8, 300)).astype(np.float32) * 10
    differences = moves[groups] * rng.uniform(0.5, 1.5, (32, 1)).astype(np.float32) + rng.normal(size=(32, 300)).astype(np.float32) * 0.01
    table = np.empty((3, 32), np.uint16)
    merge_buckets(np.ascontiguousarray(differences), np.array([16, 8, 4]), table)
    for row, wanted in zip(table, (16, 8, 4), strict=True):
        assert sorted(set(row.tolist())) == list(range(wanted))
    for group in range(8):
        assert len(set(table[1][groups == group].tolist())) == 1, "a group was torn apart"
    for finer, coarser in ((table[0], table[1]), (table[1], table[2])):
        assert len(set(zip(finer.tolist(), coarser.tolist(), strict=True))) == len(set(finer.tolist())), "what was together stays"


def test_encoding_cuts_off_what_a_byte_cannot_hold() -> None:
    """Where a bucket's sum is beyond a byte's range the code is the end of the range, and the rest counts as error."""
    rows = canonical([{0: 1.0}, {0: -1.0}])
    coder = Coder(64, False, np.zeros(1, np.uint16), 0.001, 128.0, 1.0)
    codes, errors = np.zeros((2, 64), np.uint8), np.zeros(2, np.float32)
    encode(CODER.record(**coder.fields()), queries_record(rows), codes, errors)
    assert codes[:, 0].tolist() == [255, 0]
    assert (codes[:, 1:] == 128).all()
    np.testing.assert_allclose(errors, [1 - 0.127, 1 - 0.128], rtol=1e-4)
