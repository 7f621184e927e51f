"""SciPy's sparse matrices: whatever stands in their arrays, they are read as SciPy reads them, or refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import kinbin
from refusals import refused, unchanged

WIDTH = 8


@pytest.fixture(scope="module", params=[None, WIDTH], ids=["sparse", "dim"])
def collection(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[kinbin.Collection]:
    """One for all tests, which change nothing in it."""
    with kinbin.open(tmp_path_factory.mktemp("matrices")) as db:
        made = db.create_collection("c", kernel="gmm", dim=request.param)
        made.add(["here"], [{0: 1.0, 2: 2.0}])
        yield made


def compressed(kind: Any = sp.csr_matrix, **parts: Any) -> Any:
    """Two rows, [1 at 0, 2 at 3] and [3 at 1], with some arrays put in the place of those that SciPy has checked."""
    made = kind(np.array([[1.0, 0, 0, 2, 0, 0, 0, 0], [0, 3, 0, 0, 0, 0, 0, 0]]))
    for name, part in parts.items():
        setattr(made, name, np.array(part))
    return made


def coordinates(**parts: Any) -> Any:
    """The same by coordinates."""
    made = sp.coo_matrix((np.array([1.0, 2, 3]), (np.array([0, 0, 1]), np.array([0, 3, 1]))), shape=(2, WIDTH))
    for name, part in parts.items():
        setattr(made, name, np.array(part))
    return made


def contradicts(layout: str, why: str) -> tuple[str, str, int | None]:
    """The refusal of a matrix that cannot be read."""
    return "bad_vector", f"this {layout} matrix contradicts itself: {why}; build it anew", None


def outside(side: str, length: int, found: int, position: int | None) -> tuple[str, str, int | None]:
    """The refusal of a place outside of the shape."""
    detail = f"a {side} index of a matrix of {length} {side}s is from 0 to {length - 1}, this one has {found}"
    return "out_of_range", detail, position


BAD: dict[str, tuple[Callable[[], Any], tuple[str, str, int | None]]] = {
    "a negative column": (lambda: compressed(indices=[-5, 3, 1]), outside("column", WIDTH, -5, 0)),
    "a negative column in the second row": (lambda: compressed(indices=[0, 3, -1]), outside("column", WIDTH, -1, 1)),
    "a wrapped column": (
        lambda: compressed(indices=np.array([0, 2**64 - 5, 1], np.uint64)),
        outside("column", WIDTH, 2**64 - 5, 0),
    ),
    "a column beyond": (lambda: compressed(indices=[0, 3, WIDTH]), outside("column", WIDTH, WIDTH, 1)),
    "columns that are fractions": (
        lambda: compressed(indices=[0.0, 3.0, 1.0]),
        ("bad_vector", "indices are whole numbers, those of this matrix have dtype float64", None),
    ),
    "indptr of too few": (lambda: compressed(indptr=[0, 3]), contradicts("csr", "indptr is 2 of int64, not 3 whole numbers")),
    "indptr of too many": (lambda: compressed(indptr=[0, 2, 3, 3]), contradicts("csr", "indptr is 4 of int64, not 3 whole numbers")),
    "indptr of fractions": (lambda: compressed(indptr=[0.0, 2, 3]), contradicts("csr", "indptr is 3 of float64, not 3 whole numbers")),
    "indptr from 1": (lambda: compressed(indptr=[1, 2, 3]), contradicts("csr", "indptr begins with 1, not with 0")),
    "indptr beyond the data": (lambda: compressed(indptr=[0, 2, 9]), contradicts("csr", "indptr ends at 9, and there are 3 values")),
    "indptr short of the data": (
        lambda: compressed(indptr=[0, 1, 2]),
        contradicts("csr", "indptr ends at 2, and there are 3 values (matrix.prune() drops the rest)"),
    ),
    "indptr that descends": (lambda: compressed(indptr=[0, 5, 3]), contradicts("csr", "indptr descends")),
    "indptr that wraps": (lambda: compressed(indptr=np.array([0, 2**63, 3], np.uint64)), contradicts("csr", "indptr descends")),
    "fewer values than columns": (lambda: compressed(data=[1.0, 2.0]), contradicts("csr", "3 indices came with 2 values")),
    "values in two dimensions": (lambda: compressed(data=np.ones((3, 2))), contradicts("csr", "3 indices came with 3 values")),
    "a negative row of columns": (lambda: compressed(sp.csc_matrix, indices=[-1, 1, 0]), outside("row", 2, -1, None)),
    "a row of columns beyond": (lambda: compressed(sp.csc_matrix, indices=[0, 10**6, 0]), outside("row", 2, 10**6, None)),
    "indptr of columns beyond": (
        lambda: compressed(sp.csc_matrix, indptr=[0, 1, 2, 2, 2, 2, 2, 2, 50]),
        contradicts("csc", "indptr ends at 50, and there are 3 values"),
    ),
    "a negative block": (
        lambda: compressed(lambda X: sp.bsr_matrix(X, blocksize=(1, 2)), indices=[-1, 1, 0]),
        outside("column", 4, -1, None),
    ),
    "a negative coordinate": (lambda: coordinates(col=[0, -3, 1]), outside("column", WIDTH, -3, None)),
    "a row beyond by coordinates": (lambda: coordinates(row=[0, 10**6, 1]), outside("row", 2, 10**6, None)),
    "too few coordinates": (lambda: coordinates(data=[1.0, 2.0]), contradicts("coo", "3 places came with 2 values")),
    "complex numbers": (lambda: compressed(data=[1j, 2, 3]), ("bad_vector", "vectors are numbers, this matrix has dtype complex128", 0)),
    "dates": (lambda: compressed(data=np.zeros(3, "M8[D]")), ("bad_vector", "vectors are numbers, this matrix has dtype datetime64[D]", 0)),
    "records": (
        lambda: compressed(data=np.zeros(3, [("a", "f8")])),
        ("bad_vector", "vectors are numbers, this matrix has dtype [('a', '<f8')]", 0),
    ),
}


@pytest.mark.parametrize("label", BAD)
def test_a_bad_matrix_is_refused(label: str, collection: kinbin.Collection) -> None:
    """A matrix that names no feature, or contradicts itself, is refused before SciPy's own code reads it; nothing is written."""
    make, (code, detail, position) = BAD[label]
    with unchanged(collection):
        with refused(code, detail, position=position, field="vector"):
            collection.add(["x", "y"], make())
        with refused(code, detail, position=position, field="vector"):
            collection.query_batch(make())


@pytest.mark.parametrize("make", [lambda: compressed(indices=[-5, 3, 1])[[0]], lambda: compressed(indptr=[0, 2, 9])])
def test_a_bad_matrix_is_refused_among_vectors(make: Callable[[], Any], collection: kinbin.Collection) -> None:
    """A bad matrix in a list of vectors, or as a query, is refused too."""
    with unchanged(collection):
        with pytest.raises(kinbin.InvalidInput) as caught:
            collection.add(["x", "y"], [{0: 1.0}, make()])
        assert caught.value.problems[0].position == 1
        with pytest.raises(kinbin.InvalidInput):
            collection.query(make())


def test_a_broken_list_of_lists_is_refused(collection: kinbin.Collection) -> None:
    """A LIL matrix whose lists hold places outside of its shape is refused."""
    matrix = sp.lil_matrix(np.array([[1.0, 0, 0, 2, 0, 0, 0, 0]]))
    matrix.rows[0] = [0, -3]
    with unchanged(collection), refused(*outside("column", WIDTH, -3, 0)[:2], position=0, field="vector"):
        collection.add(["x"], matrix)


@pytest.mark.parametrize("rows", [10**12, 10_001])
def test_a_matrix_of_too_many_rows_is_refused_unread(rows: int, collection: kinbin.Collection) -> None:
    """A matrix with more rows than memory has room for is refused by its shape: there are other ids, or it is over the limit on queries."""
    matrix = sp.coo_matrix(([1.0], ([0], [0])), shape=(rows, WIDTH))
    with unchanged(collection), refused("bad_parameter", f"{rows} vectors came with 1 ids; send one for each", field="ids"):
        collection.add(["x"], matrix)
    with refused("over_limit", f"queries: at most 10000, not {rows}", field="queries", limit="batch_queries"):
        collection.query_batch(matrix)


@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csr_array, sp.csc_matrix, sp.csc_array])
def test_what_a_matrix_has_twice_is_added_up(kind: Any, db: kinbin.Database) -> None:
    """Entries of the same place are summed, as SciPy sums them in every format, and the caller's matrix keeps them."""
    collection = db.create_collection("c", dim=2)
    twice = kind((np.array([1.0, 2.0, 4.0, 8.0]), np.array([1, 1, 0, 1]), np.array([0, 2, 4])), shape=(2, 2))
    assert twice.nnz == 4
    collection.add(["a", "b"], twice)
    stored = [np.asarray(item.vector).tolist() for item in collection.get(["a", "b"]) if item is not None]
    assert stored == twice.toarray().tolist()
    assert twice.nnz == 4


def test_entries_that_cancel_out_are_zero(db: kinbin.Database) -> None:
    """A row whose entries add up to nothing is a zero vector."""
    matrix = sp.csr_array((np.array([1.0, -1.0]), np.array([1, 1]), np.array([0, 2])), shape=(1, 3))
    with pytest.raises(kinbin.InvalidInput) as caught:
        db.create_collection("c").add(["a"], matrix)
    assert caught.value.code == "zero_vector"


class Frame:
    """What NumPy makes an array of, as it does of a data frame or a tensor."""

    def __init__(self, content: Any) -> None:
        self.content = content

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        """Its numbers."""
        if self.content is None:
            raise RuntimeError("it lies elsewhere")
        return np.array(self.content, dtype)

    def __iter__(self) -> Iterator[Any]:
        return iter(("names", "of", "columns"))


def test_what_numpy_makes_an_array_of_is_one(db: kinbin.Database) -> None:
    """Data frames and tensors are the arrays that NumPy makes of them; what gives none, or none of numbers, is refused."""
    collection = db.create_collection("c", dim=3)
    X = [[1.0, 2, 3], [4, 5, 6]]
    assert collection.add(["a", "b"], Frame(X)).indexed == 2
    assert collection.add(["a", "b"], [Frame(x) for x in X]).unchanged == 2
    assert collection.query(Frame(X[1]), k=1).ids == ["b"]
    with unchanged(collection):
        with refused("bad_vector", "this Frame gives no array: it lies elsewhere", field="vector"):
            collection.add(["a"], Frame(None))
        with refused("bad_vector", "vectors are numbers, this array has dtype object", position=0, field="vector"):
            collection.add(["a"], Frame([[1, None, 3]]))
