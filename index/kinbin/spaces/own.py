"""A distance that is a Python function: kernels call it for each row that is scored, under the interpreter's lock.

What it raises, and what is no distance, is kept (`Functions.failures`), and the row scores NaN, as a damaged one does: the search ends,
and whoever asked gets the error in the place of one about damage.
"""

from __future__ import annotations

import ctypes
import math
from typing import Any

import numpy as np

from kinbin.embeddings.landmarks import LANDMARKS
from kinbin.errors import InvalidInput, KinbinError
from kinbin.items.functions import CALLABLE, Functions
from kinbin.items.kind import Form, Kind
from kinbin.native.callbacks import Callback
from kinbin.rows.record import HEADER
from kinbin.rows.rows import Rows
from kinbin.spaces.ordered import distance_of, distance_score
from kinbin.spaces.space import Code, Objects, Space

__all__ = ["own_space"]

_NO_FEATURES, _NO_NORMS = np.empty(0, np.uint64), np.empty(0)
_ROW_NS = 20_000.0
"""What a call is taken to last: a Python function that does something."""


class _Calls:
    """The function of one collection, as kernels call it."""

    def __init__(self, kind: Kind, form: Form, functions: Functions) -> None:
        self._kind = kind
        self._form = form
        self._functions = functions
        self._queries: dict[int, Any] = {}
        """By the address of a look-up, the query that is laid out there: one thread uses it at a time."""

    def _object(self, values: int, count: int) -> Any:
        """The object of so many numbers at an address."""
        numbers = np.frombuffer(ctypes.string_at(values, 4 * count), np.float32)
        # Kinds look at the values alone: features and sums are left out.
        return self._kind.item(Rows(np.array([0, count]), _NO_FEATURES, numbers, _NO_NORMS), 0, self._form)

    def prepare(self, values: int, count: int, looked_up: int) -> float:
        """Make an object of a query."""
        self._queries.pop(looked_up, None)
        try:
            self._queries[looked_up] = self._object(values, count)
        except BaseException as error:  # noqa: BLE001  # it may not pass through machine code; `score` tells
            self._functions.fail(_told("the decoder", error))
        return 0.0

    def score(self, row: int, nnz: int, looked_up: int) -> float:
        """The score that stands for the distance of a stored object and the query; NaN if there is none."""
        try:
            return self._scored(row, nnz, looked_up)
        except BaseException as error:  # noqa: BLE001  # it may not pass through machine code
            self._functions.fail(_told("the distance", error))
            return math.nan

    def _scored(self, row: int, nnz: int, looked_up: int) -> float:
        distance = self._functions.distance
        if distance is None:
            raise self._functions.missing()
        if looked_up not in self._queries:
            return math.nan
        # Rows are narrow: two bytes a feature, then four a number.
        stored = self._object(row + HEADER + (2 * nnz + 3) // 4 * 4, nnz)
        apart = float(distance(self._queries[looked_up], stored))
        if not 0.0 <= apart < math.inf:
            raise InvalidInput.of(
                "bad_distance", f"a distance is a finite number from 0 on, the function returned {apart}", field="distance"
            )
        return float(distance_score.py_func(apart))


def _told(what: str, error: BaseException) -> BaseException:
    """The error that users see: that of the library with the function's own as its cause."""
    if isinstance(error, KinbinError) or not isinstance(error, Exception):
        return error
    told = InvalidInput.of("distance_failed", f"{what} raised {type(error).__name__}: {error}"[:300], field="distance")
    told.__cause__ = error
    return told


def own_space(kind: Kind, form: Form, functions: Functions) -> Space:
    """Items of a kind under a function that may be given later. Pools are found by distances from stored objects (`LANDMARKS`)."""
    calls = _Calls(kind, form, functions)
    objects = Objects(Callback(calls.prepare), lambda _rows: 1, lambda _numbers: _ROW_NS)
    return Space(
        CALLABLE, "a function", "what a Python function returns", shapes=False, signed=True,
        code=Code(Callback(calls.score), objects=objects), printed=distance_of, score_of=distance_score.py_func, ascending=True,
        printed_range=(0.0, math.inf), embeddings=(LANDMARKS,), functions=functions,
    )  # fmt: skip
