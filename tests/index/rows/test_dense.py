"""One dense vector as a canonical row in one pass: what `canonical_rows` makes of it, or nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from awkward import DIM, NARROW
from kinbin.errors import InvalidInput
from kinbin.rows import dense as denserows
from kinbin.rows.canonical import canonical_rows
from kinbin.rows.dense import dense_row, dense_rows
from kinbin.rows.rows import Rows


def assert_same(row: Rows, expected: Rows) -> None:
    """Bit by bit, and of the same types."""
    for name in ("indptr", "features", "values", "norms"):
        got, wanted = getattr(row, name), getattr(expected, name)
        assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape), name
        assert got.tobytes() == wanted.tobytes(), name


def dense(features: dict[int, float], dtype: str) -> NDArray[Any]:
    """The vector laid out."""
    out = np.zeros(DIM)
    out[list(features)] = list(features.values())
    return out.astype(dtype)


@pytest.mark.parametrize("form", ["as it is", "read only", "every second of a longer one", "backwards"])
@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", "i8", "i2", "u1", ">f8", ">f4"])
@pytest.mark.parametrize("name", NARROW)
def test_a_dense_vector_is_the_canonical_row(name: str, dtype: str, form: str) -> None:
    """Of every awkward row, in every type and memory layout: the same row, or none where values need a closer look."""
    with np.errstate(over="ignore", invalid="ignore"):
        x = dense(NARROW[name], dtype)
    if form == "read only":
        x.flags.writeable = False
    if form == "every second of a longer one":
        x = np.repeat(x, 2)[::2]
    if form == "backwards":
        x = x[::-1]
    row = dense_row(x, dim=DIM, signed=True)
    try:
        expected = canonical_rows(x.reshape(1, -1), dim=DIM, signed=True)
    except InvalidInput:
        assert row is None
        return
    if row is None:
        assert (np.abs(x[x != 0].astype(float)) < 1e-30).any(), "only values that are dropped need a closer look"
    else:
        assert_same(row, expected)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["f8", "f4", "i8"])
@pytest.mark.parametrize("cells", [1, 3 * DIM, 1 << 20])
def test_a_matrix_is_canonical_rows(cells: int, dtype: str, order: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many rows at once, in however many pieces they are taken."""
    monkeypatch.setattr(denserows, "_CELLS", cells)
    plain = [row for row in NARROW.values() if min(map(abs, row.values())) >= 1]
    X = np.asarray(np.stack([dense(row, dtype) for row in plain]), order=order)
    row = dense_rows(X, dim=DIM, signed=True)
    assert row is not None
    assert_same(row, canonical_rows(X, dim=DIM, signed=True))


def test_one_row_that_is_not_plainly_right_leaves_all_to_a_closer_look() -> None:
    """A matrix with a NaN, an empty row, a negative value where none may be or a value that is dropped is not taken."""
    good = np.ones((5, 4))
    assert dense_rows(good, dim=4, signed=False) is not None
    for bad in (np.nan, np.inf, 2e15, 1e-31, -1.0):
        X = good.copy()
        X[3, 2] = bad
        assert dense_rows(X, dim=4, signed=False) is None
    X = good.copy()
    X[4] = 0.0
    assert dense_rows(X, dim=4, signed=False) is None
    assert dense_rows(good, dim=5, signed=False) is None
    assert dense_rows(good[:0], dim=4, signed=False) is None
    assert dense_rows(good[0], dim=4, signed=False) is None


@given(st.lists(st.floats(-1e15, 1e15, allow_subnormal=False), min_size=1, max_size=70))
def test_any_dense_vector_is_the_canonical_row(values: list[float]) -> None:
    """Whatever is answered is what `canonical_rows` makes."""
    x = np.array(values)
    row = dense_row(x, dim=None, signed=True)
    if row is not None:
        assert_same(row, canonical_rows(x.reshape(1, -1), dim=None, signed=True))


@pytest.mark.parametrize(
    "x",
    [
        np.array([1.0, np.nan]), np.array([1.0, np.inf]), np.array([1.0, -np.inf]), np.array([0.0, 0.0]), np.array([]),
        np.array([1.0, 2e15]), np.array([1.0, 1e-31]), np.array([[1.0, 2.0]]), np.array([1.0 + 2.0j, 0.0]), np.array([True, False]),
        np.array(["1", "2"]), np.array([1, 2], object), np.array([1.0, 2.0], np.longdouble), (1.0, 2.0), {0: 1.0}, None,
        [1.0, True], [1.0, None], ["1", "2"], [1.0, "2"], [1.0, np.float64(2.0)], [1, 10**400], [1.0, float("nan")], [[1.0, 2.0]], [],
        [0, 0.0],
    ],
    ids=repr,
)  # fmt: skip
def test_what_is_not_plainly_right_is_left_to_a_closer_look(x: Any) -> None:
    """None, never a row that is wrong."""
    assert dense_row(x, dim=None, signed=True) is None


def test_signs_and_dimensions_are_kept_to() -> None:
    """Negative values only where they are allowed, the dimension to the last feature."""
    x = np.array([1.0, -2.0])
    assert dense_row(x, dim=2, signed=False) is None
    assert dense_row(x, dim=2, signed=True) is not None
    assert dense_row(x, dim=3, signed=True) is None
    assert dense_row(np.abs(x), dim=2, signed=False) is not None


ELEMENTS = st.one_of(
    st.floats(-1e15, 1e15, allow_subnormal=False), st.integers(-(10**6), 10**6), st.sampled_from([0, 0.0, -0.0, 2**53 + 1, 10**15, 2**70])
)


@given(st.lists(ELEMENTS, min_size=1, max_size=40))
def test_a_list_is_what_an_array_is(values: list[float]) -> None:
    """A list of numbers is taken as its array is, to the bit; what a closer look would refuse is not taken."""
    row = dense_row(values, dim=None, signed=True)
    try:
        expected = canonical_rows([values], dim=None, signed=True)
    except InvalidInput:
        assert row is None
        return
    if row is not None:
        assert_same(row, expected)


@given(st.data(), st.integers(1, 5), st.integers(1, 6), st.booleans())
def test_lists_of_vectors_are_what_a_matrix_is(data: st.DataObject, n: int, width: int, arrays: bool) -> None:
    """Lists of lists, or of arrays, are taken as canonical rows are, to the bit."""
    rows = data.draw(st.lists(st.lists(ELEMENTS, min_size=width, max_size=width), min_size=n, max_size=n))
    X: Any = [np.array(row, np.float64) for row in rows] if arrays else rows
    made = dense_rows(X, dim=None, signed=True)
    try:
        expected = canonical_rows(X, dim=None, signed=True)
    except InvalidInput:
        assert made is None
        return
    if made is not None:
        assert_same(made, expected)


def test_lists_of_plain_vectors_are_taken_at_once() -> None:
    """The quick way is taken: of lists, and of arrays of one dtype."""
    for X in ([[1.0, 2], [3, 4.5]], [np.array([1.0, 2.0]), np.array([3.0, 4.0])], [np.array([1, 2], np.int8), np.array([3, 4], np.int8)]):
        assert dense_rows(X, dim=2, signed=False) is not None
    assert dense_row([1.0, 2], dim=2, signed=False) is not None


@pytest.mark.parametrize(
    "X",
    [
        [[1.0, 2.0], [1.0]], [[1.0, 2.0], (1.0, 2.0)], [[1.0], np.ones(1)], [[1.0, True]], [["1"]], [[[1.0]]], [[]], [[1, 10**400]],
        [{0: 1.0}],
        [np.array(1.0), np.array(2.0)], [np.ones(2), np.ones(3)], [np.ones((1, 2))], [np.ones(2), np.ones(2, np.float32)], [1.0, 2.0], [],
        [np.ma.masked_array([1.0, 2.0], [True, False])], [np.array(["1"])], [np.array([True])], ([1.0, 2.0],), [np.array([1], "m8[s]")],
    ],
    ids=repr,
)  # fmt: skip
def test_what_is_no_plain_list_of_vectors_is_left_to_a_closer_look(X: Any) -> None:
    """None, never rows that are wrong, and nothing raised."""
    assert dense_rows(X, dim=None, signed=True) is None
