"""Every form of a vector becomes its JSON, and what is none is refused with the reason."""

from __future__ import annotations

import array
import copy
import json
import pickle
from collections import Counter, OrderedDict
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy import sparse

from kinbin_client import InvalidArgument, Sparse, Tokens
from kinbin_client._requests import to_json, vector_json
from kinbin_client.vectors import encode_vector, iterate_vectors

PAIRS = {"indices": [3, 7], "values": [1.5, 2]}


@pytest.mark.parametrize(
    ("vector", "expected"),
    [
        ([0.5, 0, 2], [0.5, 0, 2]),
        ((1, 2), [1, 2]),
        (array.array("d", [1.0, 2.0]), [1.0, 2.0]),
        (range(3), [0, 1, 2]),
        (np.array([1.5, 2.0], np.float32), [1.5, 2.0]),
        (np.array([1, 2], np.uint8), [1, 2]),
        (np.arange(6.0)[::2], [0.0, 2.0, 4.0]),
        ({3: 1.5, 7: 2}, PAIRS),
        (OrderedDict({np.int64(3): 1.5, np.int32(7): 2}), PAIRS),
        (Sparse([3, 7], [1.5, 2]), PAIRS),
        (Sparse((3, 7), (1.5, 2)), PAIRS),
        (Sparse(np.array([3, 7]), np.array([1.5, 2.0])), PAIRS),
        (sparse.csr_array(([1.5, 2.0], ([0, 0], [3, 7])), shape=(1, 9)), PAIRS),
        (sparse.csr_matrix(([1.5, 2.0], ([0, 0], [3, 7])), shape=(1, 9)), PAIRS),
        (sparse.coo_array(([1.5, 1.0, 1.0], ([3, 7, 7],)), shape=(9,)), PAIRS),
        (sparse.coo_array(([1.5, 1.0, 1.0], ([0, 0, 0], [3, 7, 7])), shape=(1, 9)), PAIRS),
        (sparse.dok_array(np.array([[0, 0, 0, 1.5, 0, 0, 0, 2]])), PAIRS),
        ({"red": 3, "apple": 1}, {"tokens": {"red": 3, "apple": 1}}),
        (Counter("aab"), {"tokens": {"a": 2, "b": 1}}),
        (Tokens({"a": 2}), {"tokens": {"a": 2}}),
        (Tokens({}), {"tokens": {}}),
        ({"a"}, {"tokens": {"a": 1}}),
        (frozenset(["a"]), {"tokens": {"a": 1}}),
        (["a", "b", "a"], {"tokens": {"a": 2, "b": 1}}),
        (("a", "b"), {"tokens": {"a": 1, "b": 1}}),
        ({"tokens": ["a", "b"]}, {"tokens": {"a": 1, "b": 1}}),
        ({"tokens": {"a": 2}}, {"tokens": {"a": 2}}),
        ({"tokens": 3}, {"tokens": {"tokens": 3}}),
        (Tokens(["a", "a"]), {"tokens": {"a": 2}}),
        (Tokens({"a"}), {"tokens": {"a": 1}}),
    ],
)
def test_form_has_its_json(vector: Any, expected: Any) -> None:
    """Each accepted form is encoded as the contract writes it, in plain numbers."""
    assert json.loads(to_json(encode_vector(vector), "vector")) == expected


@pytest.mark.parametrize(
    ("vector", "words"),
    [
        ("abc", "this is a string; put tokens into a list or a set"),
        (b"abc", "this is bytes"),
        (1.0, "this is a fraction"),
        (None, "this is null"),
        ({1.0, 2.0}, "tokens are strings, one of these is a fraction"),
        (["a", 1], "tokens are strings, one of these is int"),
        (np.float32, "this is type"),
        (Tokens("ab"), "tokens are strings in a list or a set"),
        ({}, "similarity to it is undefined"),
        (np.array([True]), "dtype bool"),
        (np.array(["a"]), "dtype <U1"),
        (np.array([1j]), "dtype complex128"),
        (np.array([1, None]), "dtype object"),
        (np.ma.masked_array([1.0, 2.0], [True, False]), "masked arrays are not taken"),
        ({3: 1, "a": 1}, "all integers"),
        ({1.5: 1}, "all integers"),
        ({True: 1}, "all integers"),
        (Tokens({3: 1}), "strings"),  # type: ignore[dict-item]  # the mistake under test
        (np.ones((2, 2)), "2 dimension"),
        (np.float64(3.0), "0 dimension"),
        (sparse.csr_array((2, 3)), "2 rows"),
    ],
)
def test_what_is_no_vector_is_refused(vector: Any, words: str) -> None:
    """What cannot be one vector is refused with what it was and what is expected."""
    with pytest.raises(InvalidArgument, match=words):
        encode_vector(vector)


@pytest.mark.parametrize(
    "many", [{"a": 1}, {"a", "b"}, "abc", 5, {3: [1.0]}, Sparse([1], [1.0]), np.ones(3), np.ones((1, 1, 1)), sparse.coo_array([1.0, 2.0])]
)
def test_what_are_not_many_vectors_is_refused(many: Any) -> None:
    """One vector, or anything else, in place of many is refused."""
    with pytest.raises(InvalidArgument, match="a batch is"):
        iterate_vectors(many)


def test_bad_vector_among_many_is_located() -> None:
    """Of many vectors, the one that is none is named by its position."""
    count, vectors = iterate_vectors([[1.0], {2: 1.0}, "abc"])  # type: ignore[list-item]  # the mistake under test
    assert count == 3
    with pytest.raises(InvalidArgument, match="item 2:") as refused:
        list(vectors)
    assert refused.value.position == 2


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), np.float32("nan")])
@pytest.mark.parametrize("form", [lambda value: [1.0, value], lambda value: {3: value}, lambda value: {"a": value}])
def test_value_without_json_is_refused(value: float, form: Any) -> None:
    """NaN and infinity have no JSON: they are refused before anything is sent."""
    with pytest.raises(InvalidArgument, match="values are finite numbers, this vector has a NaN or an infinity") as refused:
        vector_json(encode_vector(form(value)))
    assert refused.value.code == "non_finite"


@given(arrays.arrays(np.float32, arrays.array_shapes(min_dims=2, max_dims=2, max_side=6), elements=st.floats(width=32, allow_nan=False)))
def test_rows_of_sparse_matrix_are_its_rows(matrix: Any) -> None:
    """A sparse matrix gives its rows: rebuilt, they are the matrix, value by value."""
    count, rows = iterate_vectors(sparse.csr_array(matrix))
    rebuilt = np.zeros_like(matrix)
    for position, row in enumerate(rows):
        rebuilt[position, row["indices"]] = row["values"]
    assert count == len(matrix)
    np.testing.assert_array_equal(rebuilt, matrix)


def test_sparse_has_a_value_for_each_index() -> None:
    """Columns of different lengths are refused when they are put together."""
    with pytest.raises(InvalidArgument, match="1 values came with 2 indices"):
        Sparse([1, 2], [1.0])


def test_sparse_of_arrays_is_plain() -> None:
    """Made of arrays, Sparse holds plain numbers: it is equal to one made of lists, and can be copied and pickled."""
    vector = Sparse(np.array([3, 7]), np.array([1.5, 2.0], np.float32))
    assert vector == Sparse([3, 7], [1.5, 2.0])
    assert repr(vector) == "Sparse(indices=[3, 7], values=[1.5, 2.0])"
    assert pickle.loads(pickle.dumps(vector)) == copy.copy(vector) == vector


def test_sparse_matrix_given_is_left_as_it_was() -> None:
    """Repeated entries are summed in a copy: the caller's matrix keeps them."""
    matrix = sparse.csr_array((np.array([1.0, 2.0]), np.array([1, 1]), np.array([0, 2])), shape=(1, 3))
    _, rows = iterate_vectors(matrix)
    assert list(rows) == [{"indices": [1], "values": [3.0]}]
    assert matrix.nnz == 2


_LISTED = st.lists(
    st.one_of(
        st.floats(), st.integers(), st.booleans(), st.none(), st.text(max_size=3), st.just(b"x"), st.just(np.float32(0.1)), st.just(1 + 2j),
        st.just([1.0]), st.just({"a": 1.0}), st.just((1.0,)), st.just(Decimal("1.5")),
    ),
    max_size=6,
)  # fmt: skip


@given(_LISTED)
@example([1.0, float("nan")])
@example([1.0, float("inf"), 1e400])
@example([1e-5, 1e22, 5e-324, 1.7976931348623157e308, -0.0, 0.1])
@example([1.0, 10**400])
def test_the_quick_way_writes_what_json_writes(values: list[Any]) -> None:
    """A list that begins with a float is the same value, and is refused alike."""
    listed = [1.5, *values]
    try:
        expected = json.loads(json.dumps(listed, allow_nan=False, default=lambda value: value.item()))
    except (ValueError, TypeError, AttributeError, OverflowError):
        with pytest.raises(InvalidArgument):
            vector_json(listed)
        return
    assert json.loads(vector_json(listed)) == expected
