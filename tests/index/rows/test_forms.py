"""The forms a vector may have: whichever it comes in, the same row is stored and the same answer given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import kinbin
import naive
from awkward import DIM, NARROW, WIDE, narrow_rows, wide_rows
from kinbin.items.kind import Form
from kinbin.items.vectors import VECTORS
from kinbin.rows.canonical import canonical_rows
from kinbin.rows.rows import Rows

pytestmark = pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")

Matrix = NDArray[np.float64]
WIDTH = 12


def a_matrix() -> Matrix:
    """Rows of whole numbers, which every form holds exactly."""
    rng = np.random.default_rng(1)
    X = rng.integers(-5, 6, (20, WIDTH)) * (rng.random((20, WIDTH)) < 0.5)
    X[:, 3] = 1
    return X.astype(np.float64)


def strided(X: Matrix) -> Matrix:
    """The same matrix, every second element of a larger one."""
    larger = np.full((2 * X.shape[0], 2 * X.shape[1]), 77.0)
    larger[::2, ::2] = X
    return larger[::2, ::2]


def read_only(X: Matrix) -> Matrix:
    """The same matrix, not to be written."""
    frozen = X.copy()
    frozen.setflags(write=False)
    return frozen


def shuffled(x: Matrix) -> NDArray[np.int64]:
    """The features of a row, not in order."""
    return np.random.default_rng(2).permutation(np.flatnonzero(x))


def unsorted_csr(X: Matrix) -> Any:
    """A CSR matrix whose indices do not ascend."""
    indices = [shuffled(x) for x in X]
    indptr = np.cumsum([0, *map(len, indices)])
    return sp.csr_array((np.concatenate([x[i] for x, i in zip(X, indices, strict=True)]), np.concatenate(indices), indptr), shape=X.shape)


FORMS: dict[str, Callable[[Matrix], Any]] = {
    "float64": lambda X: X,
    "float32": lambda X: X.astype(np.float32),
    "float16": lambda X: X.astype(np.float16),
    "longdouble": lambda X: X.astype(np.longdouble),
    "int64": lambda X: X.astype(np.int64),
    "int8": lambda X: X.astype(np.int8),
    "big-endian": lambda X: X.astype(">f8"),
    "Fortran order": np.asfortranarray,
    "strided": strided,
    "reversed twice": lambda X: X[::-1, ::-1].copy()[::-1, ::-1],
    "read-only": read_only,
    "memoryview": lambda X: X.data,
    "np.matrix": np.asmatrix,
    "np.matrix of float16": lambda X: np.asmatrix(X.astype(np.float16)),
    "lists": lambda X: X.tolist(),
    "lists of integers": lambda X: X.astype(int).tolist(),
    "tuples": lambda X: tuple(tuple(x) for x in X.tolist()),
    "lists of numpy numbers": lambda X: [[np.float32(v) if v % 2 else np.int16(v) for v in x] for x in X],
    "list of arrays": list,
    "list of strided arrays": lambda X: list(strided(X)),
    "iterator": iter,
    "array of lists": lambda X: np.array([*X.tolist(), None], object)[:-1],
    "CSR array": sp.csr_array,
    "CSR matrix": sp.csr_matrix,
    "CSR of integers": lambda X: sp.csr_array(X.astype(np.int32)),
    "CSR of float32": lambda X: sp.csr_array(X.astype(np.float32)),
    "CSR, not sorted": unsorted_csr,
    "CSC array": sp.csc_array,
    "COO array": sp.coo_array,
    "LIL matrix": sp.lil_matrix,
    "DOK array": sp.dok_array,
    "list of DOK rows": lambda X: [sp.dok_array(x[None]) for x in X],
    "list of CSR rows": lambda X: [sp.csr_array(x[None]) for x in X],
    "list of sparse arrays of one dimension": lambda X: [sp.coo_array(x) for x in X],
    "{int: weight}": lambda X: [{int(f): float(x[f]) for f in shuffled(x)} for x in X],
    "{numpy integer: weight}": lambda X: [{f: x[f] for f in shuffled(x)} for x in X],
    "{int: weight} with zeros": lambda X: [dict(enumerate(x.tolist())) for x in X],
    "Sparse of lists": lambda X: [kinbin.Sparse(shuffled(x).tolist(), x[shuffled(x)].tolist()) for x in X],
    "Sparse of arrays": lambda X: [kinbin.Sparse(shuffled(x), x[shuffled(x)]) for x in X],
    "Sparse of uint64 and float32": lambda X: [kinbin.Sparse(shuffled(x).astype(np.uint64), x[shuffled(x)].astype(np.float32)) for x in X],
    "Sparse of mixed integers": lambda X: [kinbin.Sparse([*shuffled(x)[:1], *shuffled(x)[1:].tolist()], x[shuffled(x)]) for x in X],
    "mixed": lambda X: [x if i % 3 == 0 else x.tolist() if i % 3 == 1 else dict(enumerate(x.tolist())) for i, x in enumerate(X)],
}


def assert_same(found: Rows, expected: Rows) -> None:
    """Two sets of rows are the same, bit for bit and by type."""
    for name in ("indptr", "features", "values", "norms"):
        a, b = getattr(found, name), getattr(expected, name)
        assert a.dtype == b.dtype
        assert a.flags.c_contiguous
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("dim", [WIDTH, None], ids=["dim", "sparse"])
@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_the_same_row(form: str, dim: int | None) -> None:
    """Each form of the same numbers becomes the same canonical rows."""
    X = a_matrix()
    expected = canonical_rows(X, dim=dim, signed=True)
    assert [dict(zip(*(part.tolist() for part in expected.row(i)), strict=True)) for i in range(len(X))] == [naive.row(x) for x in X]
    assert_same(canonical_rows(FORMS[form](X), dim=dim, signed=True), expected)


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("form", FORMS)
def test_few_vectors_in_every_form_are_the_same_rows(form: str, count: int) -> None:
    """A collection takes one vector, or two, as it takes many, by whichever way it does."""
    X = a_matrix()[:count]
    assert_same(VECTORS.rows(FORMS[form](X), Form(WIDTH, signed=True)), canonical_rows(X, dim=WIDTH, signed=True))


@pytest.mark.parametrize("dim", [WIDTH, None], ids=["dim", "sparse"])
@pytest.mark.parametrize(
    "form", ["float64", "lists", "CSR array", "COO array", "list of sparse arrays of one dimension", "{int: weight}", "Sparse of arrays"]
)
def test_every_form_is_stored_and_answered_alike(form: str, dim: int | None, db: kinbin.Database) -> None:
    """What is added in one form is unchanged by an add in another, and found by queries in it with the same answers."""
    X = a_matrix()
    collection = db.create_collection("c", dim=dim, seed=1)
    ids = [str(i) for i in range(len(X))]
    assert collection.add(ids, X).indexed == 20
    again = FORMS[form](X)
    assert collection.add(ids, again).unchanged == 20
    expected = collection.query_batch(X, k=20)
    batch = collection.query_batch(again, k=20)
    np.testing.assert_array_equal(batch.ids, expected.ids)
    np.testing.assert_array_equal(batch.scores, expected.scores)
    first = collection.query(again[0] if isinstance(again, list | np.ndarray) else again.tocsr()[[0]], k=20)
    assert first.ids == expected[0].ids
    np.testing.assert_array_equal(first.scores, expected[0].scores)


def test_a_sparse_array_of_one_dimension_is_a_query(db: kinbin.Database) -> None:
    """scipy's arrays of one dimension are vectors."""
    collection = db.create_collection("c")
    collection.add(["a"], [{1: 2.0, 5: 3.0}])
    for x in (sp.csr_array(np.array([0, 2.0, 0, 0, 0, 3.0])), sp.coo_array(np.array([0, 2.0, 0, 0, 0, 3.0]))):
        assert collection.query(x).scores.tolist() == [1.0]


@given(vector=narrow_rows)
def test_dense_and_sparse_forms_agree(vector: dict[int, float]) -> None:
    """Any row is the same from a dictionary, as an array and as a list, and is what the twin keeps of it."""
    dense = np.zeros(DIM)
    dense[list(vector)] = list(vector.values())
    expected = canonical_rows([vector], dim=DIM, signed=True)
    for form in (dense, dense[None], dense.tolist(), kinbin.Sparse(list(vector), list(vector.values()))):
        assert_same(canonical_rows(form if isinstance(form, np.ndarray) and form.ndim == 2 else [form], dim=DIM, signed=True), expected)
    features, values = expected.row(0)
    assert dict(zip(features.tolist(), values.tolist(), strict=True)) == naive.row(vector)
    assert (np.diff(features.astype(np.int64)) > 0).all()
    assert expected.norms[0] == pytest.approx(sum(map(abs, naive.row(vector).values())), rel=1e-15)


@given(vectors=st.lists(wide_rows, max_size=6))
def test_a_batch_is_its_vectors_one_by_one(vectors: list[dict[int, float]]) -> None:
    """Rows of a batch are those of its vectors alone, in their order."""
    batch = canonical_rows(vectors, dim=None, signed=True)
    assert len(batch) == len(vectors)
    for i, vector in enumerate(vectors):
        assert_same(batch.slice(i, i + 1), canonical_rows([vector], dim=None, signed=True))


@pytest.mark.parametrize("nothing", [[], (), np.zeros((0, 5)), sp.csr_array((0, 5))], ids=lambda x: type(x).__name__)
def test_no_vectors_are_rows_of_the_same_types(nothing: Any) -> None:
    """An empty batch has arrays of the types of any other, so that no kernel is compiled for it."""
    rows = canonical_rows(nothing, dim=5, signed=True)
    assert len(rows) == 0
    assert [array.dtype for array in (rows.indptr, rows.features, rows.values, rows.norms)] == [np.int64, np.uint64, np.float32, np.float64]


# ------------------------------------------------------------------------------------------- giving back


def test_get_gives_back_dense_vectors(db: kinbin.Database) -> None:
    """A dense vector comes back as the float32 array that was sent, of its dimension, before and after a merge."""
    collection = db.create_collection("c", dim=DIM)
    X = np.zeros((len(NARROW), DIM), np.float32)
    for x, row in zip(X, NARROW.values(), strict=True):
        x[list(row)] = list(row.values())
    collection.add(list(NARROW), X)
    for _ in range(2):
        for x, item in zip(X, collection.get(list(NARROW)), strict=True):
            assert item is not None
            assert isinstance(item.vector, np.ndarray)
            assert item.vector.dtype == np.float32
            assert item.vector.shape == (DIM,)
            np.testing.assert_array_equal(item.vector, x)
        collection.compact()


@pytest.mark.parametrize("dim", [None, 2**17])
def test_get_gives_back_sparse_vectors(dim: int | None, db: kinbin.Database) -> None:
    """A sparse vector comes back with its features ascending and its float32 values, before and after a merge."""
    rows = WIDE if dim is None else NARROW
    collection = db.create_collection("c", dim=dim)
    collection.add(list(rows), list(rows.values()))
    for _ in range(2):
        for row, item in zip(rows.values(), collection.get(list(rows)), strict=True):
            assert item is not None
            if dim is None:
                assert isinstance(item.vector, kinbin.Sparse)
                features, values = np.asarray(item.vector.indices), np.asarray(item.vector.values)
                assert features.dtype == np.uint64
                assert values.dtype == np.float32
            else:
                assert isinstance(item.vector, np.ndarray)
                assert item.vector.shape == (dim,)
                features = np.flatnonzero(item.vector)
                values = item.vector[features]
            assert features.tolist() == sorted(naive.row(row))
            assert dict(zip(features.tolist(), values.tolist(), strict=True)) == naive.row(row)
        collection.compact()


def test_what_get_gives_can_be_sent_again(db: kinbin.Database) -> None:
    """A vector that was read is a vector to add and to query by, and changes nothing."""
    for name, dim, rows in (("dense", DIM, NARROW), ("sparse", None, WIDE)):
        collection = db.create_collection(name, dim=dim)
        collection.add(list(rows), list(rows.values()))
        vectors = [item.vector for item in collection.get(list(rows)) if item is not None]
        assert collection.add(list(rows), vectors).unchanged == len(rows)
        assert all(answer.scores[0] == 1.0 for answer in collection.query_batch(vectors, k=1))


def test_vectors_given_back_are_copies(db: kinbin.Database) -> None:
    """Writing into what get returned, or into what was added, changes nothing that is stored."""
    collection = db.create_collection("c", dim=3)
    sent = np.array([[1.0, 2.0, 3.0]])
    collection.add(["a"], sent)
    sent[:] = 9
    for _ in range(2):
        (item,) = collection.get(["a"])
        assert item is not None
        assert isinstance(item.vector, np.ndarray)
        assert item.vector.tolist() == [1.0, 2.0, 3.0]
        item.vector[:] = 7


# ------------------------------------------------------------------------------------------------ tokens

TOKEN_FEATURES = {
    "": 6_510_301_506_637_419_378,
    "a": 1_702_698_405_120_146_464,
    "red": 5_882_832_613_211_370_630,
    "apple": 8_059_044_902_196_643_659,
    "Straße": 670_302_369_791_670_175,
    "日本": 2_111_531_202_205_358_580,
    "🦊": 276_725_443_976_063_300,
    "a b": 1_476_217_369_544_039_389,
    "\0": 2_612_498_352_262_937_418,
}
"""Stored for ever: these numbers never change."""


@pytest.mark.parametrize("token", TOKEN_FEATURES)
def test_the_feature_of_a_token(token: str) -> None:
    """A token's feature is the number that was published for it, below 2**63."""
    assert kinbin.token_feature(token) == TOKEN_FEATURES[token] < 2**63


def test_tokens_in_every_form_are_the_same_row() -> None:
    """{str: weight}, Tokens and their hashed features in Sparse or a dictionary are one row."""
    counts = {"red": 3, "apple": 1, "🦊": 0.5, "": 2, "zero": 0}
    hashed = {kinbin.token_feature(token): weight for token, weight in counts.items()}
    expected = canonical_rows([hashed], dim=None, signed=True)
    for form in (counts, kinbin.Tokens(counts), dict(reversed(counts.items())), kinbin.Sparse(list(hashed), list(hashed.values()))):
        assert_same(canonical_rows([form], dim=None, signed=True), expected)
    assert expected.indptr.tolist() == [0, 4]


@pytest.mark.parametrize(
    "form",
    [
        {"quick", "brown"},
        frozenset({"quick", "brown"}),
        {"quick": 5, "brown": 7}.keys(),
        ["quick", "brown"],
        ("brown", "quick"),
        [np.str_("quick"), "brown"],
        {"tokens": ["quick", "brown"]},
        {"tokens": {"quick", "brown"}},
        {"tokens": {"quick": 1, "brown": 1}},
        kinbin.Tokens(["quick", "brown"]),
        kinbin.Tokens({"quick", "brown"}),
    ],
    ids=lambda form: type(form).__name__,  # the order of a set differs from process to process
)
def test_a_set_is_its_tokens_of_weight_one(form: Any, db: kinbin.Database) -> None:
    """Sets and lists of strings are tokens of weight 1, to add and to query by, alone and among many."""
    collection = db.create_collection("c", kernel="minmax")
    expected = canonical_rows([{"quick": 1, "brown": 1}], dim=None, signed=False)
    assert_same(canonical_rows([form], dim=None, signed=False), expected)
    collection.add(["set", "other"], [form, {"brown", "fox"}])
    assert collection.query(form).ids == ["set", "other"]
    np.testing.assert_allclose(collection.query_batch([form, {"fox"}], k=2).scores, [[1, 1 / 3], [1 / 2, 0]])


def test_a_list_counts_what_it_repeats() -> None:
    """A token weighs as often as it stands in a list; one that is named "tokens" is a token like others."""
    for form in (["a", "b", "a"], {"tokens": ["a", "b", "a"]}, kinbin.Tokens(["b", "a", "a"])):
        assert_same(canonical_rows([form], dim=None, signed=True), canonical_rows([{"a": 2, "b": 1}], dim=None, signed=True))
    named = canonical_rows([{"tokens": 3}, {"tokens": 1, "a": 2}, ["tokens"]], dim=None, signed=True)
    assert named.indptr.tolist() == [0, 1, 3, 4]
    assert named.row(0)[0].tolist() == [kinbin.token_feature("tokens")]


def test_tokens_are_found_and_come_back_hashed(db: kinbin.Database) -> None:
    """Bags of strings are scored by their weights; get gives their hashed features."""
    collection = db.create_collection("c", kernel="minmax")
    collection.add(["fruit", "colour"], [{"apple": 2, "red": 1}, kinbin.Tokens({"red": 3})])
    answer = collection.query({"red": 1, "apple": 2})
    assert answer.ids == ["fruit", "colour"]
    np.testing.assert_allclose(answer.scores, [1.0, 1 / 5])
    (item,) = collection.get(["colour"])
    assert item is not None
    assert isinstance(item.vector, kinbin.Sparse)
    assert np.asarray(item.vector.indices).tolist() == [kinbin.token_feature("red")]
    assert np.asarray(item.vector.values).tolist() == [3.0]


def test_tokens_are_not_normalised_as_text(db: kinbin.Database) -> None:
    """Tokens differ when their characters do: case, accents composed or not, spaces."""
    features = {kinbin.token_feature(token) for token in ("é", "e\u0301", "E", "e", " e", "e ", "É")}
    assert len(features) == 7
