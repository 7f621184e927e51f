"""The forms in which a vector may be given, and their JSON. NumPy and SciPy are recognised by what they offer, never imported."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from math import isfinite
from typing import Any, Protocol, TypeAlias, TypeVar

from kinbin_client._matrices import sparse_rows
from kinbin_client.errors import InvalidArgument

__all__ = [
    "Array",
    "ByField",
    "Sparse",
    "SparseMatrix",
    "Tokens",
    "Vector",
    "Vectors",
    "encode_vector",
    "iterate_vectors",
    "kind",
    "vector_fault",
]


class Array(Protocol):
    """What is asked of a NumPy array (or of anything like it)."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Its lengths: one for a vector, two for many."""

    def tolist(self) -> Any:
        """Its numbers as (nested) lists."""


class SparseMatrix(Protocol):
    """What is asked of a SciPy sparse matrix or array."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Its lengths: one for a vector, two for many."""

    def tocsr(self) -> Any:
        """Itself in compressed sparse rows."""


MASKED = "masked arrays are not taken, since nothing here leaves masked values out: fill the mask with .filled(0), or drop what is masked"
ZERO = "a vector has at least one value that is not zero (1e-30 or more), this one has none: similarity to it is undefined"


@dataclass(frozen=True, slots=True, init=False)
class Sparse:
    """A sparse vector: value `values[i]` at feature `indices[i]`; no feature twice. Arrays are kept as lists.

    Usage: `client.query(Sparse([3, 70001], [1.5, 2.0]))`
    """

    indices: list[int]
    values: list[float]

    def __init__(self, indices: Sequence[int] | Array, values: Sequence[float] | Array) -> None:
        pair = [_column(indices, "indices are a list of whole numbers"), _column(values, "values are a list of numbers")]
        if len(pair[0]) != len(pair[1]):
            raise _bad(f"{len(pair[1])} values came with {len(pair[0])} indices; send one value for each index")
        object.__setattr__(self, "indices", pair[0])
        object.__setattr__(self, "values", pair[1])


@dataclass(frozen=True, slots=True)
class Tokens:
    """Counts (or weights) of tokens, or tokens that count as often as they occur; the service hashes them to features.

    Usage: `client.query(Tokens({"red": 3, "apple": 1}))`
    """

    counts: Mapping[str, float] | Collection[str]


_Tokens: TypeAlias = Mapping[str, float] | Set[str] | list[str] | tuple[str, ...] | Tokens
Vector: TypeAlias = Sequence[float] | Mapping[int, float] | _Tokens | Sparse | Array | SparseMatrix
"""One vector: dense (sequence or 1-d array), {feature: weight}, {token: count}, a set or a list of tokens (of weight 1, or
as often as they are repeated), Sparse, Tokens, or a sparse matrix of one row."""

Vectors: TypeAlias = Sequence[Vector] | Array | SparseMatrix
"""Many vectors: a sequence of them, a 2-d array (a row each) or a sparse matrix (a row each)."""


_Of = TypeVar("_Of")
ByField: TypeAlias = Mapping[str, _Of]
"""For each field of a collection with several, by its name."""


def encode_vector(vector: Vector) -> Any:
    """The JSON form of one vector: a list, or {"indices", "values"}, or {"tokens"}; InvalidArgument if it is none."""
    given: Any = vector
    if isinstance(given, Sparse):
        return {"indices": given.indices, "values": given.values}
    # Before mappings: a DOK matrix is one of places and values.
    if hasattr(given, "tocsr"):
        if len(given.shape) > 2 or (len(given.shape) == 2 and given.shape[0] != 1):
            raise _bad(f"one vector is expected here, this matrix has {given.shape[0]} rows")
        try:
            return next(sparse_rows(given))
        except InvalidArgument as error:
            raise InvalidArgument(str(error.args[0]), None, error.code) from None
    tokens = _tokens_of(given)
    if tokens is not None:
        return {"tokens": _counts(tokens)}
    if isinstance(given, Mapping):
        return _encode_mapping(given)
    if hasattr(given, "tolist") and not isinstance(given, type):
        return _array(given)
    if isinstance(given, Sequence) and not isinstance(given, str | bytes | bytearray):
        return list(given)
    forms = "a list of numbers, indices with values, or tokens (strings, with or without weights)"
    hint = "; put tokens into a list or a set" if isinstance(given, str) else ""
    if isinstance(given, int | float) and not isinstance(given, bool):
        hint = "; the numbers of a vector go into a list of their own"
    raise _bad(f"a vector is {forms}; this is {kind(given)}{hint}")


def iterate_vectors(vectors: Vectors) -> tuple[int, Iterator[Any]]:
    """How many vectors there are, and their JSON forms one after the other (made as they are asked for).

    The iterator raises InvalidArgument with the position of a vector that cannot be encoded.
    """
    given: Any = vectors
    if hasattr(given, "tocsr") or (hasattr(given, "tolist") and isinstance(getattr(given, "shape", None), tuple)):
        _refuse_masked(given)
        if len(given.shape) != 2:
            raise _bad(f"a batch is a matrix of shape (n, d) or a list of vectors, this array has {len(given.shape)} dimension(s)")
        if hasattr(given, "tocsr"):
            return given.shape[0], sparse_rows(given)
        if _kind_of_numbers(given) not in "fiu":
            raise InvalidArgument(f"vectors are numbers, this array has dtype {given.dtype}", 0, "bad_vector")
        return given.shape[0], (row.tolist() for row in given)
    if isinstance(given, Mapping | Sparse | Tokens | str | bytes) or not isinstance(given, Sequence):
        raise _bad(f"a batch is a sequence of vectors, this is {type(given).__name__}; put a single vector into a list")
    return len(given), _each(given)


def kind(value: object) -> str:
    """What a value is, in the words of JSON where it has any."""
    names = {bool: "a boolean", str: "a string", dict: "an object", list: "a list", set: "a set", type(None): "null", float: "a fraction"}
    return names.get(type(value), type(value).__name__)


def vector_fault(encoded: Any) -> tuple[str, str]:
    """Code and text of why an encoded vector has no JSON."""
    values = encoded
    if isinstance(encoded, dict):
        values = encoded["values"] if "values" in encoded else encoded["tokens"].values()
    plain = [value.item() if hasattr(value, "item") else value for value in values]
    if any(isinstance(value, float) and not isfinite(value) for value in plain):
        return "non_finite", "values are finite numbers, this vector has a NaN or an infinity"
    wrong = next((value for value in plain if not isinstance(value, int | float)), None)
    return "bad_vector", f"values are numbers, one of these is {kind(wrong)}"


def _bad(text: str) -> InvalidArgument:
    return InvalidArgument(text, None, "bad_vector")


def _refuse_masked(given: Any) -> None:
    if hasattr(given, "mask") and hasattr(given, "filled"):
        raise _bad(MASKED)


def _kind_of_numbers(array: Any) -> str:
    """NumPy's letter for the numbers of an array; what has none is left to the service."""
    return str(getattr(getattr(array, "dtype", None), "kind", "f"))


def _array(array: Any) -> Any:
    _refuse_masked(array)
    dimensions = len(getattr(array, "shape", (0,)))
    if dimensions != 1 or _kind_of_numbers(array) not in "fiu":
        dtype = getattr(array, "dtype", type(array).__name__)
        raise _bad(f"values are numbers in one dimension, these have dtype {dtype}, {dimensions} dimension(s)")
    return array.tolist()


def _column(column: Any, words: str) -> list[Any]:
    """One of the two lists of Sparse; what has no order, or is text, is none."""
    if hasattr(column, "tolist") and not isinstance(column, type):
        _refuse_masked(column)
        listed: Any = column.tolist()
    else:
        unordered = isinstance(column, str | bytes | Set | Mapping) or hasattr(column, "tocsr")
        listed = column if unordered or not isinstance(column, Iterable) else list(column)
    if not isinstance(listed, list):
        raise _bad(f"{words}, this is {kind(column)}")
    return listed


def _each(vectors: Sequence[Vector]) -> Iterator[Any]:
    for position, vector in enumerate(vectors):
        try:
            yield encode_vector(vector)
        except InvalidArgument as error:
            raise InvalidArgument(str(error.args[0]), position, error.code) from None


def _tokens_of(given: Any) -> Any:
    """The tokens of a vector that is made of them, as a mapping, set or sequence; None of any other."""
    if isinstance(given, Tokens):
        return given.counts
    if isinstance(given, Mapping):
        inner = given["tokens"] if given.keys() == {"tokens"} else None
        return inner if isinstance(inner, Mapping | Set | list | tuple) else None
    if isinstance(given, Set):
        return given
    is_list = isinstance(given, Sequence) and not isinstance(given, str | bytes | bytearray)
    return given if is_list and len(given) and isinstance(given[0], str) else None


def _counts(tokens: Any) -> dict[str, float]:
    """Tokens with their weights; in a set or a list each counts as often as it occurs."""
    if not isinstance(tokens, Mapping | Set | Sequence) or isinstance(tokens, str | bytes):
        raise _bad(f"tokens are strings in a list or a set, or an object of token and weight; this is {kind(tokens)}")
    wrong = [token for token in tokens if not isinstance(token, str)]
    if wrong:
        raise _bad(f"tokens are strings, one of these is {kind(wrong[0])}; write numbers as strings, or give them as indices with values")
    counts = tokens if isinstance(tokens, Mapping) else Counter(tokens)
    return dict(counts)


def _encode_mapping(mapping: Mapping[Any, float]) -> dict[str, Any]:
    if not mapping:
        raise InvalidArgument(ZERO, None, "zero_vector")
    if all(isinstance(key, str) for key in mapping):
        return {"tokens": _counts(mapping)}
    if all(hasattr(key, "__index__") and not isinstance(key, bool) for key in mapping):
        return {"indices": [int(key) for key in mapping], "values": list(mapping.values())}
    raise _bad("the keys of a mapping are all integers ({feature: weight}) or all strings ({token: count})")
