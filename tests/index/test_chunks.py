"""Adds of more items than one transaction takes: the same as many adds, and what is told when one of them fails."""

from __future__ import annotations

import copy
import itertools
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

import kinbin
from kinbin import Sparse
from refusals import refused, unchanged

N, SIZE = 17, 5
SetLimit = Callable[[str, int], None]


class Frame:
    """What a data frame is to Kinbin: a shape, an array, and slices by position at `iloc` only."""

    def __init__(self, matrix: NDArray[Any]) -> None:
        self._matrix = matrix
        self.shape = matrix.shape
        self.iloc = matrix

    def __array__(self, dtype: Any = None, copy: Any = None) -> NDArray[Any]:
        return self._matrix

    def __getitem__(self, key: object) -> Any:
        raise KeyError(key)


class Tensor:
    """An array of another library, without slices."""

    def __init__(self, matrix: NDArray[Any]) -> None:
        self._matrix = matrix

    def __array__(self, dtype: Any = None, copy: Any = None) -> NDArray[Any]:
        return self._matrix


FORMS: dict[str, Callable[[NDArray[Any]], Any]] = {
    "array": lambda X: X,
    "float32": lambda X: X.astype(np.float32),
    "list of lists": lambda X: X.tolist(),
    "tuple of arrays": tuple,
    "mappings": lambda X: [dict(enumerate(x)) for x in X.tolist()],
    "Sparse": lambda X: [Sparse(np.flatnonzero(x), x[x != 0]) for x in X],
    "csr": sp.csr_matrix,
    "coo": sp.coo_array,
    "csc": sp.csc_matrix,
    "data frame": Frame,
    "tensor": Tensor,
}


@pytest.fixture
def matrix(rng: np.random.Generator) -> NDArray[Any]:
    """N vectors with zeros among them."""
    made = rng.integers(0, 4, (N, 6)).astype(np.float64)
    made[np.arange(N), np.arange(N) % 6] += 1
    return made


def ids() -> list[str]:
    """An id for each."""
    return [f"i{row:02d}" for row in range(N)]


def stored(collection: kinbin.Collection) -> list[tuple[str, Any, Any]]:
    """All items."""
    items = collection.scroll(limit=1_000, include=("vector", "payload")).items
    return [(item.id, np.asarray(item.vector).tolist(), item.payload) for item in items]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("name", "value"), [("batch_items", SIZE), ("batch_nonzeros", 20)])
def test_a_large_add_is_many_small_ones(form: str, name: str, value: int, matrix: Any, db: kinbin.Database, set_limit: SetLimit) -> None:
    """Whatever form the vectors have, an add over a limit stores what single adds store, in parts within the limit."""
    payloads = [{"row": row} if row % 2 else None for row in range(N)]
    single = db.create_collection("single", dim=6)
    for row, identifier in enumerate(ids()):
        single.add([identifier], matrix[row : row + 1], payloads[row : row + 1])
    large = db.create_collection("large", dim=6)
    large.add(["i03", "i16"], [matrix[3], matrix[0]], [payloads[3], None])
    set_limit(name, value)
    told: list[tuple[int, int]] = []
    result = large.add(ids(), FORMS[form](matrix), payloads, progress=lambda done, total: told.append((done, total)))
    assert result == kinbin.AddResult(indexed=N - 2, updated=1, unchanged=1, count=N)
    assert stored(large) == stored(single)
    assert large.check().ok
    assert [total for _, total in told] == [N] * len(told)
    ends = [0, *(done for done, _ in told)]
    assert ends[-1] == N
    measure = np.ones(N) if name == "batch_items" else (matrix != 0).sum(axis=1)
    sizes = [measure[start:end].sum() for start, end in itertools.pairwise(ends)]
    assert max(sizes) <= value
    assert len(sizes) > 2
    # Each part is as large as fits: the item after it would have passed the limit.
    assert all(size + measure[end] > value for size, end in zip(sizes, ends[1:-1], strict=False))


def test_an_add_within_the_limits_is_one_transaction(matrix: Any, db: kinbin.Database, set_limit: SetLimit) -> None:
    """All or none up to the limits: the last bad vector keeps the others out."""
    set_limit("batch_items", N)
    set_limit("batch_nonzeros", int((matrix != 0).sum()))
    collection = db.create_collection("c", dim=6)
    matrix[-1, 0] = np.nan
    with unchanged(collection), pytest.raises(kinbin.InvalidInput) as found:
        collection.add(ids(), matrix)
    assert found.value.acknowledged == 0
    matrix[-1, 0] = 1.0
    told: list[int] = []
    collection.add(ids(), matrix, progress=lambda done, total: told.append(done))
    assert told == [N]


@pytest.mark.parametrize("form", ["array", "list of lists", "csr"])
def test_a_failure_tells_what_was_stored(form: str, matrix: Any, db: kinbin.Database, set_limit: SetLimit) -> None:
    """The parts before the bad one are stored; the error counts them, and its position is counted from the start of the call."""
    set_limit("batch_items", SIZE)
    collection = db.create_collection("c", dim=6)
    matrix[12] = 0
    with pytest.raises(kinbin.InvalidInput) as found:
        collection.add(ids(), FORMS[form](matrix))
    error = found.value
    assert (error.code, error.acknowledged, error.problems[0].position) == ("zero_vector", 10, 12)
    assert str(error).startswith("item 12: ")
    assert str(error).endswith(" (10 items of this add were stored before)")
    assert [item.id for item in collection.scroll().items] == ids()[:10]
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert (str(again), again.acknowledged, again.problems) == (str(error), 10, error.problems)
    matrix[12] = 1
    assert collection.add(ids(), FORMS[form](matrix)) == kinbin.AddResult(indexed=7, updated=0, unchanged=10, count=N)


def test_a_conflict_tells_what_was_stored(matrix: Any, db: kinbin.Database, set_limit: SetLimit) -> None:
    """With mode insert, the parts before the one with a known id are stored."""
    collection = db.create_collection("c", dim=6)
    collection.add(["i11"], matrix[:1])
    set_limit("batch_items", SIZE)
    with pytest.raises(kinbin.ItemConflict, match=r"10 items of this add were stored before") as found:
        collection.add(ids(), matrix, mode="insert")
    assert (found.value.acknowledged, found.value.ids, collection.count()) == (10, ("i11",), 11)


def test_what_can_be_seen_at_once_is_refused_at_once(matrix: Any, db: kinbin.Database, set_limit: SetLimit) -> None:
    """Ids, payloads and the number of vectors are looked at before the first part is written."""
    set_limit("batch_items", SIZE)
    collection = db.create_collection("c", dim=6)
    with unchanged(collection):
        for X in (matrix[1:], matrix[1:].tolist(), sp.csr_matrix(matrix[1:]), Tensor(matrix[1:])):
            with refused("bad_parameter", "16 vectors came with 17 ids; send one for each", field="ids"):
                collection.add(ids(), X)
        with pytest.raises(kinbin.InvalidInput, match="the id 'i00' is at position 0 already"):
            collection.add([*ids()[:-1], "i00"], matrix)
        with pytest.raises(kinbin.InvalidInput, match="a payload has finite numbers only"):
            collection.add(ids(), matrix, [*[None] * (N - 1), {"a": float("nan")}])
        for X in (None, 5, "x" * N, dict.fromkeys(range(N), 1.0), {"a", "b"}):
            with pytest.raises(kinbin.InvalidInput, match="a batch is a sequence of vectors"):
                collection.add(ids(), X)


def test_atomic_keeps_an_add_in_one_transaction(matrix: Any, db: kinbin.Database, set_limit: SetLimit) -> None:
    """What does not fit one transaction is refused if it has to."""
    collection = db.create_collection("c", dim=6)
    set_limit("batch_items", N - 1)
    with unchanged(collection), refused("over_limit", "ids: at most 16, not 17", field="ids", limit="batch_items"):
        collection.add(ids(), matrix, atomic=True)
    set_limit("batch_items", N)
    collection.add(ids(), matrix, atomic=True)
    assert collection.count() == N
