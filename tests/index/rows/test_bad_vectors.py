"""Vectors that cannot be taken: the same code, text and place from every method, and nothing written."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import kinbin
from kinbin.limits import LIMITS, Limit
from processor_time import at_most
from refusals import refused, unchanged

NON_FINITE = ("non_finite", "values are finite numbers, this vector has a NaN or an infinity")
OUT_OF_RANGE = ("out_of_range", "values are between -1e+15 and 1e+15, this vector has one outside; rescale it")
ZERO = (
    "zero_vector",
    "a vector has at least one value that is not zero (1e-30 or more), this one has none: similarity to it is undefined",
)
NEGATIVE = (
    "negative_value",
    "this collection's kernel takes values ≥ 0, this vector has a negative one; use one that takes any, such as ngmm or cosine",
)
BEYOND = ("dimension_mismatch", "feature ids of this collection are below its dimension 3, one of these is not")
TWICE = ("duplicate_feature", "a feature occurs once in a vector, one of these occurs twice; add its values up first")
FEATURE = ("out_of_range", "a feature id is a whole number from 0 to 2**63-1, one of these is not")
KINDS = "a vector is a list of numbers, indices with values, or tokens (strings, with or without weights); this is "
OF_ITS_OWN = "; the numbers of a vector go into a list of their own"
TOKENS = "this collection takes vectors of dimension 3; strings are tokens, which need a collection without a dimension"
MASKED = "masked arrays are not taken, since nothing here leaves masked values out: fill the mask with .filled(0), or drop what is masked"


def dimension(arrived: int) -> tuple[str, str]:
    """The refusal of a vector of another length."""
    return "dimension_mismatch", f"this collection takes vectors of dimension 3, this one has {arrived}"


def bad(detail: str) -> tuple[str, str]:
    """The refusal of what is no vector at all."""
    return "bad_vector", detail


def values(kind: str) -> tuple[str, str]:
    """The refusal of a value that is no number."""
    return bad(f"values are numbers, one of these is {kind}")


def indices(kind: str) -> tuple[str, str]:
    """The refusal of a feature id that is no whole number."""
    return bad(f"indices are whole numbers, one of these is {kind}")


def tokens(kind: str) -> tuple[str, str]:
    """The refusal of a token that is no string."""
    return bad(f"tokens are strings, one of these is {kind}; write numbers as strings, or give them as indices with values")


Problem = tuple[str, str]
Table = dict[str, tuple[Any, Problem]]

ANY: Table = {
    "NaN": ([1.0, float("nan"), 2.0], NON_FINITE),
    "infinity": ([1.0, float("inf"), 2.0], NON_FINITE),
    "minus infinity": ([1.0, float("-inf"), 2.0], NON_FINITE),
    "NaN in an array": (np.array([1.0, np.nan, 2.0]), NON_FINITE),
    "NaN in float32": (np.array([1.0, np.nan, 2.0], np.float32), NON_FINITE),
    "NaN by feature": ({1: float("nan")}, NON_FINITE),
    "infinity in Sparse": (kinbin.Sparse([1], [float("inf")]), NON_FINITE),
    "NaN in a CSR row": (sp.csr_array(np.array([[1.0, np.nan, 2.0]])), NON_FINITE),
    "beyond float64": (np.array([1.0, np.longdouble("1e4000"), 2.0], np.longdouble), NON_FINITE),
    "too large": ([1.0, 1.001e15, 2.0], OUT_OF_RANGE),
    "too large and negative": ([1.0, -1.001e15, 2.0], OUT_OF_RANGE),
    "too large for float32": ([1.0, 1e39, 2.0], OUT_OF_RANGE),
    "a large integer": ([1, 2 * 10**15, 2], OUT_OF_RANGE),
    "an integer of 400 digits": ([1, 10**400, 2], OUT_OF_RANGE),
    "an integer of 4,301 digits": ([1, 10**4_300, 2], OUT_OF_RANGE),
    "400 digits by feature": ({1: 10**400}, OUT_OF_RANGE),
    "zero": ([0.0, 0.0, 0.0], ZERO),
    "integer zero": ([0, 0, 0], ZERO),
    "minus zero": ([-0.0, -0.0, -0.0], ZERO),
    "zero array": (np.zeros(3), ZERO),
    "subnormal only": ([1e-310, 0.0, 5e-324], ZERO),
    "below the least value only": ([9e-31, 0.0, 9e-31], ZERO),
    "zero by feature": ({1: 0.0}, ZERO),
    "nothing by feature": ({}, ZERO),
    "nothing in Sparse": (kinbin.Sparse([], []), ZERO),
    "an empty CSR row": (sp.csr_array((1, 3)), ZERO),
    "duplicate in Sparse": (kinbin.Sparse([0, 2, 0], [1.0, 2.0, 3.0]), TWICE),
    "duplicate in arrays": (kinbin.Sparse(np.array([2, 2]), np.array([1.0, 1.0])), TWICE),
    "duplicate of a zero": (kinbin.Sparse([2, 2], [1.0, 0.0]), TWICE),
    "a boolean": ([1.0, True, 2.0], values("a boolean")),
    "booleans": (np.array([True, False, True]), bad("values are numbers in one dimension, these have dtype bool, 1 dimension(s)")),
    "a numpy boolean": ([1.0, np.True_, 2.0], values("bool")),
    "a boolean by feature": ({1: True}, values("a boolean")),
    "a CSR row of booleans": (sp.csr_array(np.array([[True, False, True]])), bad("vectors are numbers, this matrix has dtype bool")),
    "a string": ([1.0, "2", 3.0], values("a string")),
    "the string nan": ([1.0, "nan", 3.0], values("a string")),
    "strings": (np.array(["1", "2", "3"]), bad("values are numbers in one dimension, these have dtype <U1, 1 dimension(s)")),
    "a string by feature": ({1: "2"}, values("a string")),
    "null": ([1.0, None, 3.0], values("null")),
    "a list inside": ([1.0, [2.0], 3.0], values("a list")),
    "an object inside": ([1.0, {}, 3.0], values("an object")),
    "a complex number": ([1.0, 2j, 3.0], values("complex")),
    "a numpy complex number": ([1.0, np.complex128(2j), 3.0], values("complex128")),
    "a time span": ([1.0, np.timedelta64(2), 3.0], values("timedelta64")),
    "complex numbers": (np.array([1j, 2, 3]), bad("values are numbers in one dimension, these have dtype complex128, 1 dimension(s)")),
    "objects": (np.array([1, None, 3], object), bad("values are numbers in one dimension, these have dtype object, 1 dimension(s)")),
    "text": ("abc", bad(KINDS + "a string; put tokens into a list or a set")),
    "bytes": (b"abc", bad(KINDS + "bytes")),
    "nothing": (None, bad(KINDS + "null")),
    "a number": (3.5, bad(KINDS + "a fraction" + OF_ITS_OWN)),
    "a boolean alone": (True, bad(KINDS + "a boolean")),
    "a set of numbers": ({1, 2}, tokens("int")),
    "a set of numbers and strings": (frozenset(["red", 2.5]), tokens("a fraction")),
    "strings and then numbers": (["red", 2], tokens("int")),
    "strings and then null": (["red", None], tokens("null")),
    "tokens that hold numbers": ({"tokens": ["red", 2]}, tokens("int")),
    "a generator": ((x for x in (1.0, 2.0, 3.0)), bad(KINDS + "generator")),
    "a masked array": (np.ma.masked_array([9.0, 1, 1], [True, False, False]), bad(MASKED)),
    "a masked array of integers": (np.ma.masked_array([9, 1, 1], [True, False, False]), bad(MASKED)),
    "a masked value": (np.ma.masked, bad(MASKED)),
    "masked values": (kinbin.Sparse([1], np.ma.masked_array([1.0])), bad(MASKED)),
    "masked features": (kinbin.Sparse(np.ma.masked_array([1]), [1.0]), bad(MASKED)),
    "records": (np.zeros(3, [("a", "f8")]), bad("values are numbers in one dimension, these have dtype [('a', '<f8')], 1 dimension(s)")),
    "dates": (np.zeros(3, "M8[D]"), bad("values are numbers in one dimension, these have dtype datetime64[D], 1 dimension(s)")),
    "no dimension": (np.array(3.0), bad("values are numbers in one dimension, these have dtype float64, 0 dimension(s)")),
    "three dimensions": (np.ones((1, 1, 3)), bad("values are numbers in one dimension, these have dtype float64, 3 dimension(s)")),
    "a negative feature": ({-1: 1.0}, FEATURE),
    "a feature of 64 bits": ({2**63: 1.0}, FEATURE),
    "a feature of 400 digits": ({10**400: 1.0}, FEATURE),
    "a negative feature in an array": (kinbin.Sparse(np.array([-1]), [1.0]), FEATURE),
    "a feature of 64 bits in an array": (kinbin.Sparse(np.array([2**63], np.uint64), [1.0]), FEATURE),
    "a fractional feature": ({1.5: 1.0}, indices("a fraction")),
    "a boolean feature": ({True: 1.0}, indices("a boolean")),
    "a null feature": ({None: 1.0}, indices("null")),
    "a string feature": (kinbin.Sparse(["1"], [1.0]), indices("a string")),
    "a time span as a feature": (kinbin.Sparse([np.timedelta64(1)], [1.0]), indices("timedelta64")),
    "features that are fractions": (
        kinbin.Sparse(np.array([1.0]), [1.0]),
        bad("indices are whole numbers in one dimension, these have dtype float64, 1 dimension(s)"),
    ),
    "a matrix of features": (
        kinbin.Sparse(np.array([[1]]), [1.0]),
        bad("indices are whole numbers in one dimension, these have dtype int64, 2 dimension(s)"),
    ),
    "features that are one number": (kinbin.Sparse(1, [1.0]), bad("indices are a list of whole numbers, this is int")),
    "features that are text": (kinbin.Sparse("1", [1.0]), bad("indices are a list of whole numbers, this is a string")),
    "values that are one number": (kinbin.Sparse([1], 1.0), bad("values are a list of numbers, this is a fraction")),
    "values that are text": (kinbin.Sparse([1], "1"), bad("values are a list of numbers, this is a string")),
    "too few values": (kinbin.Sparse([1, 2], [1.0]), bad("1 values came with 2 indices; send one value for each index")),
    "too many values": (kinbin.Sparse([1], [1.0, 2.0]), bad("2 values came with 1 indices; send one value for each index")),
}
"""Refused by every collection."""

DENSE: Table = {
    "too short": ([1.0, 2.0], dimension(2)),
    "too long": ([1.0, 2.0, 3.0, 4.0], dimension(4)),
    "empty": ([], dimension(0)),
    "a longer array": (np.ones(4), dimension(4)),
    "a wider CSR row": (sp.csr_array(np.ones((1, 4))), dimension(4)),
    "a feature beyond": ({3: 1.0}, BEYOND),
    "a feature beyond in Sparse": (kinbin.Sparse([0, 2**62], [1.0, 2.0]), BEYOND),
    "tokens": ({"red": 1}, bad(TOKENS)),
    "Tokens": (kinbin.Tokens({"red": 1}), bad(TOKENS)),
}
"""Refused by a collection of dimension 3."""

SPARSE: Table = {
    "an empty list": ([], ZERO),
    "no tokens": (kinbin.Tokens({}), ZERO),
    "a token of weight zero": ({"red": 0}, ZERO),
    "a token of weight NaN": ({"red": float("nan")}, NON_FINITE),
    "a token of boolean weight": ({"red": True}, values("a boolean")),
    "a token of weight text": ({"red": "1"}, values("a string")),
    "tokens that are one string": (
        kinbin.Tokens("red"),
        bad("tokens are strings in a list or a set, or an object of token and weight; this is a string"),
    ),
    "tokens mixed with features": ({"red": 1, 2: 1}, tokens("int")),
    "an empty set": (set(), ZERO),
    "an empty list of tokens": ({"tokens": []}, ZERO),
    "a lone surrogate in a set": ({"a\ud800"}, bad("a token holds a lone surrogate, which is no character; send valid UTF-8")),
    "features mixed with tokens": ({2: 1, "red": 1}, indices("a string")),
    "a lone surrogate": ({"a\ud800": 1}, bad("a token holds a lone surrogate, which is no character; send valid UTF-8")),
}
"""Refused by a collection without a dimension."""

UNSIGNED: Table = {
    "a negative value": ([1.0, -2.0, 3.0], NEGATIVE),
    "a negative value in an array": (np.array([1, -2, 3]), NEGATIVE),
    "a negative value by feature": ({1: -1e-3}, NEGATIVE),
    "negative and below the least value": ([1.0, -1e-40, 3.0], NEGATIVE),
}
"""Refused by a collection with the kernel minmax."""


@dataclass
class Collections:
    """Collections with one item each."""

    db: kinbin.Database
    made: dict[str, kinbin.Collection] = field(default_factory=dict)

    def get(self, name: str, **options: Any) -> kinbin.Collection:
        """A collection that holds the item "here"."""
        if name not in self.made:
            self.made[name] = self.db.create_collection(name, **options)
            self.made[name].add(["here"], [{0: 1.0, 2: 2.0}], [{"kept": True}])
        return self.made[name]


@pytest.fixture(scope="module")
def collections(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The collections of this module: no test changes what is in them."""
    with kinbin.open(tmp_path_factory.mktemp("bad")) as db:
        made = Collections(db)
        made.get("dense", dim=3)
        made.get("sparse")
        made.get("minmax", kernel="minmax", dim=3)
        yield made


CASES = [
    pytest.param(name, vector, problem, id=f"{name}: {label}")
    for table, names in ((ANY, ("dense", "sparse")), (DENSE, ("dense",)), (SPARSE, ("sparse",)), (UNSIGNED, ("minmax",)))
    for label, (vector, problem) in table.items()
    for name in names
]


@pytest.mark.parametrize(("name", "vector", "problem"), CASES)
def test_a_bad_vector_is_refused(name: str, vector: Any, problem: Problem, collections: Collections) -> None:
    """Add (among good vectors), query and query_batch refuse the vector with its code, text and position, and write nothing."""
    collection = collections.get(name)
    good = {0: 1.0}
    code, detail = problem
    with unchanged(collection):
        with refused(code, detail, position=2, field="vector"):
            collection.add(["here", "new", "bad", "more"], [good, good, vector, good])
        with refused(code, detail, position=1, field="vector"):
            collection.query_batch([good, vector])
        with pytest.raises(kinbin.InvalidInput, match=re.escape(detail)) as caught:
            collection.query(vector)
        assert caught.value.code == code
        assert caught.value.problems[0].field == "vector"


def masked_part(name: str) -> Any:
    """A sparse matrix of which one array is masked."""
    matrix = sp.csr_matrix(np.ones((2, 3)))
    part = getattr(matrix, name)
    setattr(matrix, name, np.ma.masked_array(part, np.arange(len(part)) == 1))
    return matrix


MATRICES: dict[str, tuple[Any, Problem, int | None]] = {
    "NaN": (np.array([[1, 2, 3], [1, np.nan, 3]]), NON_FINITE, 1),
    "too large": (np.array([[1, 2, 3], [1, 2e15, 3]]), OUT_OF_RANGE, 1),
    "a zero row": (np.array([[1, 2, 3], [0, 0, 0]]), ZERO, 1),
    "a zero CSR row": (sp.csr_array(np.array([[1, 2, 3], [0, 0, 0]])), ZERO, 1),
    "wrong width": (np.ones((2, 4)), dimension(4), 0),
    "CSR of wrong width": (sp.csr_array(np.ones((2, 4))), dimension(4), 0),
    "booleans": (np.ones((2, 3), bool), bad("vectors are numbers, this array has dtype bool"), 0),
    "strings": (np.array([["1", "2", "3"]] * 2), bad("vectors are numbers, this array has dtype <U1"), 0),
    "objects": (np.ones((2, 3), object), bad("vectors are numbers, this array has dtype object"), 0),
    "complex": (np.ones((2, 3), complex), bad("vectors are numbers, this array has dtype complex128"), 0),
    "CSR of booleans": (sp.csr_array(np.ones((2, 3), bool)), bad("vectors are numbers, this matrix has dtype bool"), 0),
    "CSR of complex": (sp.csr_array(np.ones((2, 3), complex)), bad("vectors are numbers, this matrix has dtype complex128"), 0),
    "ragged": ([[1, 2, 3], [1, 2]], dimension(2), 1),
    "one array": (np.ones(3), bad("a batch is a matrix of shape (n, d) or a list of vectors, this array has 1 dimension(s)"), None),
    "one sparse array": (
        sp.csr_array(np.ones(3)),
        bad("a batch is a matrix of shape (n, d) or a list of vectors, this array has 1 dimension(s)"),
        None,
    ),
    "a cube": (np.ones((2, 3, 3)), bad("a batch is a matrix of shape (n, d) or a list of vectors, this array has 3 dimension(s)"), None),
    "text": ("ab", bad("a batch is a sequence of vectors, this is str; put a single vector into a list"), None),
    "an object": ({0: 1.0}, bad("a batch is a sequence of vectors, this is dict; put a single vector into a list"), None),
    "nothing": (None, bad("a batch is a sequence of vectors, this is NoneType; put a single vector into a list"), None),
    "one Sparse": (
        kinbin.Sparse([1], [1.0]),
        bad("a batch is a sequence of vectors, this is Sparse; put a single vector into a list"),
        None,
    ),
    "a type": (np.float32, bad("a batch is a sequence of vectors, this is type; put a single vector into a list"), None),
    "a set of vectors": (
        {(1, 2, 3), (3, 2, 1)},
        bad("a batch is a sequence of vectors, this is set; put a single vector into a list"),
        None,
    ),
    "one list of tokens": (["red", "blue"], bad(KINDS + "a string; put tokens into a list or a set"), 0),
    "masked": (np.ma.masked_array(np.ones((2, 3)), np.eye(2, 3, dtype=bool)), bad(MASKED), None),
    "masked values of a sparse matrix": (masked_part("data"), bad(MASKED), 0),
    "masked columns of a sparse matrix": (masked_part("indices"), bad(MASKED), 0),
    "a masked row": ([np.ones(3), np.ma.masked_array(np.ones(3), [False, False, True])], bad(MASKED), 1),
    "objects of no dimension": (
        np.array(None),
        bad("a batch is a matrix of shape (n, d) or a list of vectors, this array has 0 dimension(s)"),
        None,
    ),
    "records": (np.zeros((2, 3), [("a", "f8")]), bad("vectors are numbers, this array has dtype [('a', '<f8')]"), 0),
    "one vector as a list": ([1.0, 2.0], bad(KINDS + "a fraction" + OF_ITS_OWN), 0),
    "a matrix in a list": (
        [np.ones((2, 3)), np.ones(3)],
        bad("values are numbers in one dimension, these have dtype float64, 2 dimension(s)"),
        0,
    ),
    "a CSR matrix in a list": ([np.ones(3), sp.csr_array(np.ones((2, 3)))], bad("one vector is expected here, this matrix has 2 rows"), 1),
}
"""Batches: what arrived, the problem, its position."""


@pytest.mark.parametrize("label", MATRICES)
def test_a_bad_batch_is_refused(label: str, collections: Collections) -> None:
    """A batch as a whole is refused with code, text and the first bad position, and nothing is written."""
    batch, (code, detail), position = MATRICES[label]
    collection = collections.get("dense")
    with unchanged(collection):
        with refused(code, detail, position=position, field="vector"):
            collection.add(["x", "y"], batch)
        with refused(code, detail, position=position, field="vector"):
            collection.query_batch(batch)


def test_query_takes_one_vector(collections: Collections) -> None:
    """A matrix given to query is refused, and the text names query_batch."""
    collection = collections.get("dense")
    with refused("bad_vector", "query takes one vector, this is a matrix; use query_batch", field="vector"):
        collection.query(np.ones((1, 3)))
    for several in ([[1, 2, 3]], [np.ones(3)], [(1, 2, 3)]):
        with refused(
            "bad_vector", "query takes one vector, this is a list of 1; use query_batch, or leave the outer brackets out", field="vector"
        ):
            collection.query(several)
    with refused("bad_vector", KINDS + "int" + OF_ITS_OWN, field="vector", position=0):
        collection.add(["x"], [1, 2, 3])
    with refused("bad_vector", "query takes one vector, this matrix has 2 rows; use query_batch", field="vector"):
        collection.query(sp.csr_array(np.ones((2, 3))))


def test_the_first_eight_bad_vectors_are_named(collections: Collections) -> None:
    """Of many bad vectors, the first eight are listed with their positions, from lists and from arrays."""
    collection = collections.get("dense")
    X = np.ones((100, 3))
    X[5::4] = 0
    for batch in (X, X.tolist(), sp.csr_array(X)):
        with unchanged(collection), pytest.raises(kinbin.InvalidInput) as caught:
            collection.add([str(i) for i in range(100)], batch)
        assert [problem.position for problem in caught.value.problems] == list(range(5, 37, 4))
        assert {problem.code for problem in caught.value.problems} == {"zero_vector"}


def test_the_number_of_vectors_is_that_of_the_ids(collections: Collections) -> None:
    """More or fewer vectors than ids are refused."""
    collection = collections.get("dense")
    with unchanged(collection):
        with refused("bad_parameter", "2 vectors came with 3 ids; send one for each", field="ids"):
            collection.add(["a", "b", "c"], np.ones((2, 3)))
        with refused("bad_parameter", "1 vectors came with 0 ids; send one for each", field="ids"):
            collection.add([], np.ones((1, 3)))


def test_large_values_are_refused_quickly(collections: Collections) -> None:
    """An integer of a million digits costs no time."""
    with at_most(3), refused(*OUT_OF_RANGE, position=0, field="vector"):
        collections.get("dense").add(["a"], [[1 << 3_000_000, 1, 1]])


OVER: dict[str, tuple[int, Callable[[kinbin.Collection], Any], str, int | None, str]] = {
    "nonzeros": (5, lambda c: c.add(["a", "b"], [{0: 1}, dict.fromkeys(range(5), 1)]), "a vector has at most 4 nonzeros", 1, "vector"),
    "batch_nonzeros": (6, lambda c: c.add(["a", "b"], np.ones((2, 3)), atomic=True), "vectors: at most 5, not 6", None, "vectors"),
    "batch_items": (3, lambda c: c.add(["a", "b", "c"], np.ones((3, 3)), atomic=True), "ids: at most 2, not 3", None, "ids"),
    "batch_queries": (3, lambda c: c.query_batch(np.ones((3, 3))), "queries: at most 2, not 3", None, "queries"),
}
"""What is sent of each limit's unit, the call, and the refusal when one less is allowed."""


@pytest.mark.parametrize("name", OVER)
def test_a_batch_over_a_limit_is_refused(name: str, db: kinbin.Database, set_limit: Callable[[str, int], None]) -> None:
    """What passes a limit is refused by the limit's name and value; what reaches it exactly is taken."""
    size, call, detail, position, place = OVER[name]
    collection = db.create_collection("c")
    set_limit(name, size - 1)
    with unchanged(collection), refused("over_limit", detail, position=position, field=place, limit=name):
        call(collection)
    set_limit(name, size)
    call(collection)


def test_the_limits_of_values_and_features_are_those_of_the_table(db: kinbin.Database) -> None:
    """The largest and least values and the largest feature id of the limits table are taken."""
    collection = db.create_collection("c")
    most, least, last = (LIMITS[name].value for name in ("value", "value_min", "feature_id"))
    assert (most, least, last) == (1e15, 1e-30, 2**63 - 1)
    collection.add(["a"], [{0: most, 1: -most, 2: least, 3: -least, int(last): 1.0, 5: least / 2}])
    (item,) = collection.get(["a"])
    assert item is not None
    assert isinstance(item.vector, kinbin.Sparse)
    assert list(item.vector.indices) == [0, 1, 2, 3, last]  # type: ignore[arg-type]
    np.testing.assert_array_equal(item.vector.values, np.array([most, -most, least, -least, 1.0], np.float32))


@pytest.mark.slow
def test_a_row_may_have_just_the_limit_of_nonzeros(db: kinbin.Database) -> None:
    """A vector of 1,048,576 nonzeros is stored beside small ones, found and given back, before and after a merge; one more is refused."""
    collection = db.create_collection("c")
    most = int(LIMITS["nonzeros"].value)
    full = kinbin.Sparse(np.arange(most), np.ones(most))
    collection.add(["full", "other"], [full, {0: 1.0}])
    for _ in range(2):
        (item,) = collection.get(["full"])
        assert item is not None
        assert len(item.vector.indices) == most  # type: ignore[union-attr, arg-type]
        for mode in ("exact", "bands"):
            assert collection.query(full, k=1, mode=mode).ids == ["full"]
            assert collection.query({0: 2.0}, k=1, mode=mode).ids == ["other"]
        collection.compact()
    with refused("over_limit", "a vector has at most 1048576 nonzeros", position=0, field="vector", limit="nonzeros"):
        collection.add(["more"], [kinbin.Sparse(np.arange(most + 1), np.ones(most + 1))])


def test_every_limit_has_a_name_a_value_a_unit_and_a_reason() -> None:
    """The limits table is complete, and is what its keys say."""
    for name, limit in kinbin.LIMITS.items():
        assert isinstance(limit, Limit)
        assert limit.name == name
        assert limit.value > 0
        assert limit.unit
        assert limit.reason
