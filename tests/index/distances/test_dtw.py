from __future__ import annotations

import math

import numpy as np
import pytest

import naive_objects as naive
from kinbin.distances.dtw import Warping, _distances, _ends, _keogh, dtw_matrix, dtw_to, reach, warping_at
from kinbin.distances.ragged import Ragged, ragged
from kinbin.native.jit import strict
from kinbin.native.memory import address_of, f32_array

U64 = np.uint64
LENGTHS = (1, 2, 3, 7, 8, 9, 16, 17, 31)


@strict
def _envelope(address, upper, lower):  # type: ignore[no-untyped-def]
    """What was laid out of a query's envelope."""
    asked = warping_at(U64(address))
    for x in range(len(upper)):
        upper[x] = f32_array(asked.upper, len(upper))[x]
        lower[x] = f32_array(asked.lower, len(lower))[x]


@strict
def _bounds(address, row, steps):  # type: ignore[no-untyped-def]
    """LB_Kim's and LB_Keogh's squared bounds of a row."""
    asked = warping_at(U64(address))
    return _ends(asked, U64(row), steps), _keogh(asked, U64(row), steps, np.inf)


def _walks(rng: np.random.Generator, dims: int, lengths: tuple[int, ...] = LENGTHS) -> Ragged:
    return ragged([np.cumsum(rng.normal(size=(steps, dims)), axis=0) for steps in lengths])


def _all(series: Ragged, window: float) -> np.ndarray:
    one = [series.one(i) for i in range(len(series))]
    return np.array([[naive.dtw(x, y, window) for y in one] for x in one])


@pytest.mark.parametrize("dims", [1, 2, 5])
@pytest.mark.parametrize("window", [0.0, 0.1, 0.3, 1.0])
def test_the_distance_is_that_of_the_definition(rng: np.random.Generator, dims: int, window: float) -> None:
    """Series of any lengths and dimensions are as far apart as the plain table of all cells says."""
    series = _walks(rng, dims)
    np.testing.assert_allclose(dtw_matrix(series, series, window), _all(series, window), rtol=1e-12, atol=0)


@pytest.mark.parametrize("window", [0.0, 0.15, 1.0])
def test_a_cutoff_changes_no_distance_within_it(rng: np.random.Generator, window: float) -> None:
    """Up to the cutoff, itself included, distances are exact; beyond it, whatever is returned is beyond it."""
    series = _walks(rng, 2)
    exact = _all(series, window)
    for i, row in enumerate(exact):
        for cutoff in row:
            found = dtw_to(series.one(i), series, window, cutoff)
            within = row <= cutoff
            np.testing.assert_allclose(found[within], row[within], rtol=1e-12, atol=0)
            assert (found[~within] > cutoff).all()


def _zigzag(steps: int) -> np.ndarray:
    return np.where(np.arange(steps) % 4 < 2, 1.0, -1.0)


@pytest.mark.parametrize(
    ("query", "row", "share"),
    [
        (np.r_[0.0, np.zeros(62), 0.0], np.r_[9.0, np.zeros(62), 0.0], 0.5),
        (np.r_[np.zeros(62), 9.0, 0.0], np.r_[np.zeros(62), 9.0, 9.0], 0.5),
        (np.zeros(64), np.r_[0.0, np.full(62, 3.0), 0.0], 0.99),
        (np.zeros(64), np.r_[0.0, np.full(62, -3.0), 0.0], 0.99),
        (np.r_[0.0, _zigzag(62), 0.0], np.zeros(64), 0.5),
        (np.r_[0.0, _zigzag(24), np.zeros(39)], np.r_[np.zeros(54), 2.5, 2.5, np.zeros(6), 3.5, 0.0], 0.9),
    ],
    ids=["first step", "last step", "above", "below", "cells alone", "cells and the bound of the rest"],
)
def test_what_is_far_is_left_by_the_first_bound_that_tells(query: np.ndarray, row: np.ndarray, share: float) -> None:
    """A row is answered as infinitely far where its first or last step, its steps outside the envelope, or its cells pass the cutoff."""
    series = ragged([query, row])
    exact = dtw_to(series.one(0), series, 0.05)[1]
    assert exact == pytest.approx(naive.dtw(series.one(0), series.one(1), 0.05))
    assert np.isinf(dtw_to(series.one(0), series, 0.05, exact * math.sqrt(share))[1])


def test_keogh_is_what_lies_outside_of_the_envelope(rng: np.random.Generator) -> None:
    """LB_Keogh's bound is the definition's; of rows whose band is wider, that of the query's extremes."""
    series = _walks(rng, 2, (20, 20, 19, 40, 12))
    query = series.one(0)
    asked = Warping(query, 0.1, 40)
    for i in range(len(series)):
        row = series.one(i).astype(np.float64)
        near = reach(20, len(row), 0.1) == 2
        upper, lower = naive.envelope(query, 2) if near else (query.max(axis=0)[None], query.min(axis=0)[None])
        upper, lower = upper[: len(row)], lower[: len(row)]
        expected = (np.maximum(0, np.maximum(row - upper, lower - row)) ** 2).sum()
        assert _bounds(asked.address, address_of(np.ascontiguousarray(series.one(i))), len(row))[1] == pytest.approx(expected)


@pytest.mark.parametrize("window", [0.0, 0.1, 0.3, 1.0])
def test_bounds_are_below_the_distance(rng: np.random.Generator, window: float) -> None:
    """LB_Kim and LB_Keogh are at most the distance, of rows of every length, and Keogh's is not always 0."""
    series = _walks(rng, 2)
    exact = _all(series, window)
    greatest = 0.0
    for i in range(len(series)):
        asked = Warping(series.one(i), window, max(LENGTHS))
        for j in range(len(series)):
            ends, keogh = _bounds(asked.address, address_of(np.ascontiguousarray(series.one(j))), LENGTHS[j])
            assert max(ends, keogh) <= exact[i, j] ** 2 * (1 + 1e-12)
            greatest = max(greatest, keogh)
    assert greatest > 0.0


@pytest.mark.parametrize("window", [0.0, 0.1, 0.5, 1.0])
def test_the_envelope_is_that_of_the_definition(rng: np.random.Generator, window: float) -> None:
    """Greatest and least values are those of all steps within the radius."""
    for steps in LENGTHS:
        x = np.round(rng.normal(size=(steps, 3)), 1).astype(np.float32)
        upper, lower = np.empty(x.size, np.float32), np.empty(x.size, np.float32)
        asked = Warping(x, window, 1)
        _envelope(asked.address, upper, lower)
        np.testing.assert_array_equal((upper, lower), [one.ravel() for one in naive.envelope(x, reach(steps, steps, window))])


def test_the_band_is_at_least_the_difference_of_lengths() -> None:
    """The band is the window's share of the longer series, rounded down, or the difference of their lengths if that is more."""
    assert [reach(*one) for one in [(30, 30, 0.1), (100, 100, 0.29), (10, 14, 0.1), (10, 14, 0.5), (5, 5, 0.0), (7, 3, 1.0)]] == [
        3, 29, 4, 7, 0, 7,
    ]  # fmt: skip


def test_without_a_window_it_is_the_euclidean_distance(rng: np.random.Generator) -> None:
    """With window 0 series of one length are as far apart as their values are."""
    series = ragged([rng.normal(size=(20, 3)) for _ in range(5)])
    apart = series.values.astype(np.float64).reshape(5, -1)
    np.testing.assert_allclose(dtw_to(series.one(0), series, 0.0), np.linalg.norm(apart - apart[0], axis=1), rtol=1e-12)


def test_huge_and_tiny_values_keep_their_digits() -> None:
    """Squares of float32 values overflow and underflow nothing."""
    for scale in (1e30, 1e-30):
        series = ragged([np.full((5, 1), 3 * scale), np.full((5, 1), -scale)])
        expected = math.sqrt(5) * (float(series.values[0, 0]) - float(series.values[-1, 0]))
        assert dtw_to(series.one(0), series, 1.0)[1] == pytest.approx(expected, rel=1e-12)


def test_series_of_one_step_are_as_far_apart_as_their_points() -> None:
    """A single pair of steps is counted once, by the bounds too."""
    series = ragged([[[0.0]], [[3.0]]])
    assert dtw_to(series.one(0), series, 0.5, 3.0).tolist() == [0.0, 3.0]


def test_a_row_that_is_longer_than_the_work_space_is_no_number() -> None:
    """A row that claims more steps than there is room for is answered with NaN, and nothing beyond the room is written."""
    series = ragged([np.zeros((9, 1)), np.ones((40, 1))])
    asked = Warping(series.one(0), 1.0, 39)
    out = np.zeros(2)
    _distances(asked.address, address_of(series.values), series.offsets, np.inf, out)
    assert out[0] == 0.0
    assert np.isnan(out[1])
