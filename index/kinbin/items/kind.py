"""What a kind of items is: which objects it takes, the row that each is stored as, and what distances it is searched by.

An object is stored as a row, so that ids, payloads, deduplication, durability, runs, filters and checks are those of any collection.
The row of a string, a series or a point set is its numbers in order: features 0 … n − 1, zeros kept (`sequence_rows`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinbin.errors import InvalidInput, Problem
from kinbin.items.functions import Functions
from kinbin.limits import limit
from kinbin.parameters import Value, an
from kinbin.rows.identity import MOST_PROBLEMS
from kinbin.rows.matrices import Fault
from kinbin.rows.rows import Rows

__all__ = ["Form", "Kind", "alone", "batch_of", "dense_numbers", "each", "no_dimension", "sequence_rows"]


@dataclass(frozen=True, slots=True)
class Form:
    """What a collection says of its objects; it never changes."""

    dim: int | None = None
    """As `Kind.dimension` judged it."""
    signed: bool = True
    """Whether its kernel takes negative values."""
    parameters: Mapping[str, Value] = field(default_factory=dict)
    """Of its kernel, all of them."""
    functions: Functions | None = None
    """Where its distance is a function of the user's: that and others."""


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """One kind of items. Functions are pure: the same object is the same row, for ever."""

    name: str
    """What users call it: `create_collection(items=…)`. Stored."""
    one: str
    """What one object is called: in messages, and where requests carry it."""
    kernels: Sequence[str]
    """Names of the kernels, or distances, that such items are searched by; the first is the default."""
    dimension: Callable[[int | None], int | None]
    """(the `dim` that a new collection was asked for) → the one it has. Raises InvalidInput where it means nothing, or is missing."""
    rows: Callable[[Any, Form], Rows]
    """(a batch of objects, …) → their rows. Raises InvalidInput that names position, what arrived, what is expected, what to do."""
    row: Callable[[Any, Form], Rows]
    """(one object, …) → its row, alone. Raises InvalidInput without a position."""
    item: Callable[[Rows, int, Form], Any]
    """(rows, which of them, …) → the object, as users get it back: equal, number by number, to what came (float32)."""
    vectors: bool = False
    """Whether items come back as vectors (`Item.vector`), and no objects."""
    wide: Callable[[Form], bool] = lambda _form: False
    """Whether rows carry 64-bit feature ids. Others have at most 65,536 features."""


def no_dimension(dim: int | None) -> None:
    """The `Kind.dimension` of kinds that have none.

    Raises:
        InvalidInput: code "bad_parameter": one was given.
    """
    if dim is not None:
        raise InvalidInput.of("bad_parameter", "dim is of vectors, series and points; these items have none: leave it out", field="dim")


def batch_of(kind: str, one: str, objects: Any, field: str | None = None) -> Sequence[Any]:
    """A batch as something to count and index; arrays as they are. field: where requests carry one, if that has another name.

    Raises:
        InvalidInput: code "bad_object": it is none, or a single object.
    """
    if isinstance(objects, np.ndarray) and objects.ndim > 0:
        return objects  # type: ignore[return-value]
    if isinstance(objects, Iterable) and not isinstance(objects, str | bytes | Mapping | set | frozenset | np.ndarray):
        return objects if isinstance(objects, list | tuple) else list(objects)
    text = f"a batch of {kind} is a list of them, this is {type(objects).__name__}; put a single {one} into a list"
    raise InvalidInput.of("bad_object", text, field=field or one)


def each(objects: Sequence[Any], one: str, judged: Callable[[Any], Any]) -> list[Any]:
    """What `judged` makes of each object; it raises Fault for those that are refused.

    Raises:
        InvalidInput: the first 8 faults, with their positions.
    """
    problems: list[Problem] = []
    out = []
    for position, given in enumerate(objects):
        try:
            out.append(judged(given))
        except Fault as fault:
            problems.append(Problem(fault.code, fault.detail, position, one, fault.over))
            if len(problems) == MOST_PROBLEMS:
                break
    if problems:
        raise InvalidInput(problems)
    return out


def alone(kind: Kind, given: Any, form: Form) -> Rows:
    """The row of one object by what judges batches: its problems name no position."""
    try:
        return kind.rows([given], form)
    except InvalidInput as error:
        raise InvalidInput([replace(problem, position=None) for problem in error.problems]) from None


def dense_numbers(given: Any, one: str) -> NDArray[np.float32]:
    """An object that is made of numbers, as float32 in one piece of its own shape.

    Raises:
        Fault: codes "bad_object", "non_finite", "out_of_range".
    """
    if isinstance(given, np.ma.MaskedArray):
        raise Fault("bad_object", f"{an(one)} is an array of numbers; masked arrays are not taken: fill the mask, or drop what is masked")
    try:
        array = np.asarray(given)
    except Exception as error:  # noqa: BLE001  # whatever foreign code raises
        told = _ragged(given) or str(error)
        raise Fault("bad_object", f"{an(one)} is an array of numbers: {told}"[:160]) from None
    if array.dtype == object and array.size and all(isinstance(value, int) for value in array.flat):
        # Python's whole numbers have no end.
        raise Fault("out_of_range", f"the numbers of {an(one)} are between -{limit('value'):.0e} and {limit('value'):.0e}; rescale it")
    if array.dtype.kind not in "fiu":
        raise Fault("bad_object", f"{an(one)} is an array of numbers of equal lengths, this one has dtype {array.dtype}")
    values = array.astype(np.float64, copy=False)
    if not np.isfinite(values).all():
        raise Fault("non_finite", f"the numbers of {an(one)} are finite, this one has a NaN or an infinity")
    if values.size and np.abs(values).max() > limit("value"):
        raise Fault("out_of_range", f"the numbers of {an(one)} are between -{limit('value'):.0e} and {limit('value'):.0e}; rescale it")
    # Not `ascontiguousarray`, which makes a list of a single number.
    return np.asarray(values, np.float32, order="C")


def _ragged(given: Any) -> str | None:
    """What is said of a list of lists of unequal lengths; None of anything else."""
    if not isinstance(given, list | tuple) or not all(isinstance(part, list | tuple) for part in given):
        return None
    lengths = sorted({len(part) for part in given})
    return f"its lists have as many numbers each, not {lengths[0]} and {lengths[-1]}" if len(lengths) > 1 else None


def sequence_rows(values: NDArray[np.float32], sizes: NDArray[np.int64]) -> Rows:
    """Rows of objects whose numbers lie end to end: features 0 … n − 1 of each, zeros kept. sizes (n,): from 1 to 65,536."""
    indptr = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=indptr[1:])
    features = (np.arange(indptr[-1]) - np.repeat(indptr[:-1], sizes)).astype(np.uint64)
    magnitudes = np.abs(values).astype(np.float64)
    # Of nothing reduceat makes an error.
    norms = np.add.reduceat(magnitudes, indptr[:-1]) if len(sizes) else np.empty(0)
    return Rows(indptr, features, values, norms)
