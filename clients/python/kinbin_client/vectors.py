"""The forms in which a vector may be given, and their JSON. NumPy and SciPy are recognised by what they offer, never imported."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol, TypeAlias

from kinbin_client.errors import InvalidArgument

__all__ = ["Array", "Sparse", "SparseMatrix", "Tokens", "Vector", "Vectors", "encode_vector", "iterate_vectors"]


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


@dataclass(frozen=True, slots=True, init=False)
class Sparse:
    """A sparse vector: value `values[i]` at feature `indices[i]`; no feature twice. Arrays are kept as lists.

    Usage: `client.query(Sparse([3, 70001], [1.5, 2.0]))`
    """

    indices: list[int]
    values: list[float]

    def __init__(self, indices: Sequence[int] | Array, values: Sequence[float] | Array) -> None:
        pair = [column.tolist() if hasattr(column, "tolist") else list(column) for column in (indices, values)]
        if len(pair[0]) != len(pair[1]):
            raise InvalidArgument(f"Sparse has {len(pair[0])} indices and {len(pair[1])} values")
        object.__setattr__(self, "indices", pair[0])
        object.__setattr__(self, "values", pair[1])


@dataclass(frozen=True, slots=True)
class Tokens:
    """Counts (or weights) of tokens; the service hashes the tokens to features.

    Usage: `client.query(Tokens({"red": 3, "apple": 1}))`
    """

    counts: Mapping[str, float]


Vector: TypeAlias = Sequence[float] | Mapping[int, float] | Mapping[str, float] | Sparse | Tokens | Array | SparseMatrix
"""One vector: dense (sequence or 1-d array), {feature: weight}, {token: count}, Sparse, Tokens, or a sparse matrix of one row."""

Vectors: TypeAlias = Sequence[Vector] | Array | SparseMatrix
"""Many vectors: a sequence of them, a 2-d array (a row each) or a sparse matrix (a row each)."""


def encode_vector(vector: Vector) -> Any:
    """The JSON form of one vector: a list, or {"indices", "values"}, or {"tokens"}; InvalidArgument if it is none."""
    given: Any = vector
    if isinstance(given, Sparse):
        return {"indices": given.indices, "values": given.values}
    if isinstance(given, Tokens):
        return _encode_mapping(given.counts, tokens=True)
    if isinstance(given, Mapping):
        return _encode_mapping(given)
    if hasattr(given, "tocsr"):
        rows = list(_rows_of_sparse(given))
        if len(rows) != 1:
            raise InvalidArgument(f"one vector was expected, not a sparse matrix of {len(rows)} rows")
        return rows[0]
    if hasattr(given, "tolist"):
        if len(getattr(given, "shape", (0,))) != 1:
            raise InvalidArgument(f"one vector was expected, not an array of shape {given.shape}")
        return given.tolist()
    if isinstance(given, Sequence) and not isinstance(given, str | bytes | bytearray):
        return list(given)
    raise InvalidArgument(f"a vector is a sequence of numbers, a mapping, Sparse, Tokens or an array, not {type(given).__name__}")


def iterate_vectors(vectors: Vectors) -> tuple[int, Iterator[Any]]:
    """How many vectors there are, and their JSON forms one after the other (made as they are asked for).

    The iterator raises InvalidArgument with the position of a vector that cannot be encoded.
    """
    given: Any = vectors
    if hasattr(given, "tocsr") or (hasattr(given, "tolist") and hasattr(given, "shape")):
        if len(given.shape) != 2:
            raise InvalidArgument(f"many vectors were expected: two dimensions, not the shape {tuple(given.shape)}")
        rows = _rows_of_sparse(given) if hasattr(given, "tocsr") else (row.tolist() for row in given)
        return given.shape[0], rows
    if isinstance(given, Mapping | Sparse | Tokens | str | bytes) or not isinstance(given, Sequence):
        raise InvalidArgument(f"many vectors are a sequence of vectors, a 2-d array or a sparse matrix, not {type(given).__name__}")
    return len(given), _each(given)


def _each(vectors: Sequence[Vector]) -> Iterator[Any]:
    for position, vector in enumerate(vectors):
        try:
            yield encode_vector(vector)
        except InvalidArgument as error:
            raise InvalidArgument(str(error.args[0]), position) from None


def _rows_of_sparse(matrix: Any) -> Iterator[dict[str, Any]]:
    """The rows of a SciPy matrix (or its only one), repeated entries summed."""
    csr = (matrix.reshape(1, -1) if len(matrix.shape) == 1 else matrix).tocsr()
    if not csr.has_canonical_format:
        csr = csr.copy()
        csr.sum_duplicates()
    for start, stop in pairwise(csr.indptr.tolist()):
        yield {"indices": csr.indices[start:stop].tolist(), "values": csr.data[start:stop].tolist()}


def _encode_mapping(mapping: Mapping[Any, float], tokens: bool = False) -> dict[str, Any]:
    if not mapping and not tokens:
        raise InvalidArgument("an empty mapping is neither {feature: weight} nor {token: count}")
    if all(isinstance(key, str) for key in mapping):
        return {"tokens": {str(key): value for key, value in mapping.items()}}
    if tokens:
        raise InvalidArgument("the keys of Tokens are strings")
    if all(hasattr(key, "__index__") and not isinstance(key, bool) for key in mapping):
        return {"indices": [int(key) for key in mapping], "values": list(mapping.values())}
    raise InvalidArgument("the keys of a mapping are all integers ({feature: weight}) or all strings ({token: count})")
