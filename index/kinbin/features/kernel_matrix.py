"""Exact kernel matrices: every kernel of the registry, dense and sparse, in blocks on several threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from kinbin.errors import InvalidInput
from kinbin.features.rows import Matrix, narrowed, refuse_negative
from kinbin.features.sums import LINES, WIDTH, entropies, entropy_sums, harmonic_sums, magnitudes, shared_sums, sparse_sums
from kinbin.parameters import arrived
from kinbin.query.threads import run_together, threads_set
from kinbin.spaces.pairwise import Block, Pairwise, Sum
from kinbin.spaces.registry import space_of
from kinbin.spaces.space import Space

__all__ = ["pairwise", "space_for"]

_BLOCK = 256
"""Rows and columns that are computed at a time: 512 kB a sum, so that all steps find it in the second cache."""
_SPARSE_KINDS = {"shared": 0, "dot": 1, "harmonic": 2, "entropy": 3}


def pairwise(
    X: Any, Y: Any = None, *, kernel: str = "ngmm", dtype: DTypeLike = np.float64, parameters: Mapping[str, Any] | None = None, **more: Any
) -> NDArray[Any]:
    """The kernel of all pairs of rows.

    X (n, d), Y (m, d): dense, or sparse of any format; Y None: X itself, of which each pair is computed once. kernel: a name in
    `kinbin.KERNELS`. Its parameters are keyword arguments (gamma=2.0), or a mapping. dtype: float64 or float32, of the result.

    Returns (n, m): within 1e-6 of the definition in exact arithmetic (float32: and rounded). A row of zeros scores 0 with every row,
    itself included, and what the kernel prints of 0 stands for it. Where rows are divided by their sums or lengths, one whose sum or
    length is at most 1e-30 (limit `value_min`) counts as such a row.

    Cost: on one thread 0.06 ns a pair and feature for the min-max family, 0.13 ns for chi-squared, 0.7 ns for Jensen-Shannon, that
    of a matrix product for cosines, and 2 to 5 ns a pair; sparse, 1 ns for each row of X and nonzero of Y; products cost all their
    parts. As many threads as `kinbin.set_threads` says.
    Memory: besides the result, 2 to 4 MB and a block of 256 rows of each matrix a thread, and no copy of dense matrices.

    Raises:
        ValueError: X or Y is no finite matrix of rows. InvalidInput, which is one: they have different widths, no such kernel or
        parameter, negative values where the kernel takes none, values beyond the limit `value`.
    """
    if parameters is not None and not isinstance(parameters, Mapping):
        text = f"parameters are a mapping of names and numbers, not {arrived(parameters)}"
        raise InvalidInput.of("bad_parameter", text, field="parameters")
    if twice := sorted(set(parameters or {}) & set(more)):
        text = f"{', '.join(twice)} came twice: in parameters, and as a keyword argument"
        raise InvalidInput.of("bad_parameter", text, field="parameters")
    space, rule = space_for(kernel, {**(parameters or {}), **more})
    out_type = _result_type(dtype)
    left = _taken(X, space)
    right = left if Y is None else _taken(Y, space)
    if left.X.shape[1] != right.X.shape[1]:
        text = f"X has {left.X.shape[1]} features and Y has {right.X.shape[1]}: rows that are compared have as many"
        raise InvalidInput.of("dimension_mismatch", text, field="vector")
    if left.sparse or right.sparse:
        left, right = narrowed(left.as_sparse(), right.as_sparse())
    out = np.empty((len(left), len(right)), out_type)
    same = Y is None

    def fill(place: tuple[slice, slice], work: Work) -> None:
        rows, columns = place
        sums = [work.sums(one, (left, rows), (right, columns)) for one in rule.sums]
        scores = rule.finish(sums, left.sums[rows, None], right.sums[None, columns])
        out[rows, columns] = space.printed(scores)
        if same:
            _mirror(out, rows, columns)

    places = [place for place in product(_blocks(len(left)), _blocks(len(right))) if not same or place[0].start <= place[1].start]
    _each(places, fill)
    return out


def _result_type(dtype: DTypeLike) -> np.dtype[Any]:
    try:
        out_type = np.dtype(dtype)
    except TypeError:
        raise InvalidInput.of("bad_parameter", f"dtype is float64 or float32, not {arrived(dtype)}", field="dtype") from None
    if out_type not in (np.dtype(np.float64), np.dtype(np.float32)):
        raise InvalidInput.of("bad_parameter", f"dtype is float64 or float32, not {out_type}", field="dtype")
    return out_type


def space_for(kernel: object, parameters: Mapping[str, Any]) -> tuple[Space, Pairwise]:
    """The space of a kernel with these parameters, and how its matrices are computed.

    Raises:
        InvalidInput: there is no such kernel, it has no such parameter, or no matrices.
    """
    if kernel == "nested":
        text = "there are no matrices of the kernel nested here: it is of images, and NestedHistogramKernel has them"
        raise InvalidInput.of("bad_parameter", text, field="kernel")
    space = space_of(kernel, parameters, of_one_length=False)
    if space.pairwise is None:
        raise InvalidInput.of("bad_parameter", f"there are no matrices of the kernel {space.name}", field="kernel")
    return space, space.pairwise


def _taken(X: Any, space: Space) -> Matrix:
    matrix = Matrix.of(X)
    if not space.signed:
        refuse_negative(matrix.X, f"the kernel {space.name}")
    return matrix


def _blocks(count: int) -> list[slice]:
    return [slice(first, min(first + _BLOCK, count)) for first in range(0, count, _BLOCK)]


def _mirror(out: NDArray[Any], rows: slice, columns: slice) -> None:
    """Write what the transposed pairs have, so that the matrix is symmetric to the bit."""
    if rows.start < columns.start:
        out[columns, rows] = out[rows, columns].T
    else:
        block = out[rows, columns]
        lower = np.tril_indices(len(block), -1)
        block[lower] = block.T[lower]


def _each(places: list[tuple[slice, slice]], fill: Callable[[tuple[slice, slice], Work], None]) -> None:
    """Fill every block, each by one thread, each thread with work space of its own."""
    waiting: Iterator[tuple[slice, slice]] = iter(places)
    lock = threading.Lock()

    def work_on() -> None:
        work = Work()
        while True:
            with lock:
                place = next(waiting, None)
            if place is None:
                return
            fill(place, work)

    run_together([work_on] * max(1, min(threads_set(), len(places))))


class Work:
    """Work space of one thread."""

    def __init__(self) -> None:
        self._tile = np.empty((LINES, WIDTH))
        self._laid_out = np.empty(0)
        self._left: dict[Sum, tuple[slice, Any]] = {}

    def sums(self, one: Sum, left: tuple[Matrix, slice], right: tuple[Matrix, slice]) -> Block:
        """(n, m) sums of all pairs of rows of two matrices."""
        (X, rows), (Y, columns) = left, right
        if one not in self._left or self._left[one][0] != rows:
            # A thread goes along the columns: the same left block comes again.
            self._left[one] = rows, X.sparse_block(one, rows) if X.sparse else _block(one, X, rows)
        own = self._left[one][1]
        if X.sparse:
            return self._sparse(one, own, Y.sparse_block(one, columns), X.X.shape[1])
        other = _block(one, Y, columns, WIDTH)
        return np.asarray(own @ other.T) if one.kind == "dot" else self._dense(one, own, other)[:, : columns.stop - columns.start]

    def _dense(self, one: Sum, X: Block, Y: Block) -> Block:
        kernel, reduced = _DENSE[one.kind]
        out = np.empty((len(X), len(Y)))
        kernel(X, Y, reduced(X), reduced(Y), self._tile, out)
        return out

    def _sparse(self, one: Sum, left: Any, right: Any, width: int) -> Block:
        if len(self._laid_out) < width:
            self._laid_out = np.zeros(width)
        out = np.empty((len(left[0]) - 1, len(right[0]) - 1))
        sparse_sums(_SPARSE_KINDS[one.kind], left, right, self._laid_out, out)
        return out


def _block(one: Sum, X: Matrix, rows: slice, multiple: int = 1) -> Block:
    return X.dense_block(one, rows) if one.kind == "dot" else X.halved_block(one, rows, multiple)


_DENSE = {"shared": (shared_sums, magnitudes), "harmonic": (harmonic_sums, magnitudes), "entropy": (entropy_sums, entropies)}
