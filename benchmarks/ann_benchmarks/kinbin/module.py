"""Kinbin for ann-benchmarks: sets by Jaccard similarity, which is the kernel `minmax` of rows of ones.

The folder is copied into ann_benchmarks/algorithms of that project; it is no part of Kinbin's own packages.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import kinbin

from ..base.module import BaseANN  # noqa: TID252 - the project's own algorithms import it so

__all__ = ["Kinbin"]

ADDED_AT_ONCE = 5_000
ASKED_AT_ONCE = int(kinbin.LIMITS["batch_queries"].value)
NARROW = 65_536
"""Collections of at most so many dimensions keep 16-bit feature numbers, which are scored faster."""


class Kinbin(BaseANN):  # type: ignore[misc]  # the base class is there where the folder is copied to
    """Sets of ids in a database in a temporary folder; k nearest by Jaccard similarity."""

    def __init__(self, metric: str, linked: bool = True) -> None:
        """metric: "jaccard". linked: build the neighbour graph, too, for the mode "links"."""
        if metric != "jaccard":
            raise NotImplementedError(f"Kinbin answers by jaccard here, not by {metric}")
        self._linked = linked
        self._folder = tempfile.TemporaryDirectory(prefix="kinbin-")
        self._database = kinbin.open(Path(self._folder.name))
        self._target, self._mode = 0.9, "auto"
        self._verified = 0
        self._answers: list[list[int]] = []

    def fit(self, X: Sequence[Any] | NDArray[Any]) -> None:
        """X: n sets, each a sequence of ids ≥ 0, or a matrix (n, d) of zeros and ones. Empty sets are nobody's neighbours."""
        self._dense = isinstance(X, np.ndarray) and X.ndim == 2
        rows = [self._ids(row) for row in X]
        self._dim = NARROW if max((row[-1] for row in rows if len(row)), default=0) < NARROW - 1 else None
        self._collection = self._database.create_collection("sets", kernel="minmax", dim=self._dim, seed=0)
        numbers = [i for i, row in enumerate(rows) if len(row)]
        for first in range(0, len(numbers), ADDED_AT_ONCE):
            here = numbers[first : first + ADDED_AT_ONCE]
            self._collection.add([str(i) for i in here], [self._vector(rows[i]) for i in here])
        self._collection.compact()
        if self._linked:
            self._collection.link()

    def set_query_arguments(self, target_recall: float, mode: str = "auto") -> None:
        """target_recall: what is to be found of the true neighbours, 0 to 1. mode: "auto", "links", "bands" or "exact"."""
        self._target, self._mode = target_recall, mode
        self._verified = 0

    def query(self, v: Any, n: int) -> list[int]:
        """Numbers of the n nearest sets, the nearest first."""
        ids = self._ids(v)
        if not len(ids):
            return []
        answer = self._collection.query(self._vector(ids), k=n, target_recall=self._target, mode=self._mode)
        self._verified += answer.verified
        return [int(name) for name in answer.ids]

    def batch_query(self, X: Sequence[Any] | NDArray[Any], n: int) -> None:
        """Answer many queries at once; `get_batch_results` has the answers."""
        rows = [self._ids(row) for row in X]
        asked = [i for i, row in enumerate(rows) if len(row)]
        self._answers = [[] for _ in rows]
        for first in range(0, len(asked), ASKED_AT_ONCE):
            here = asked[first : first + ASKED_AT_ONCE]
            vectors = [self._vector(rows[i]) for i in here]
            batch = self._collection.query_batch(vectors, k=n, target_recall=self._target, mode=self._mode)
            self._verified += int(batch.verified.sum())
            for i, names in zip(here, batch.ids, strict=True):
                self._answers[i] = [int(name) for name in names if name is not None]

    def get_batch_results(self) -> list[list[int]]:
        """Numbers of the nearest sets of each query of the last batch."""
        return self._answers

    def get_additional(self) -> dict[str, Any]:
        """Exact similarities computed since the arguments were set."""
        return {"dist_comps": self._verified}

    def done(self) -> None:
        """Remove the database."""
        self._database.close()
        self._folder.cleanup()

    def __str__(self) -> str:
        return f"Kinbin(linked={self._linked}, mode={self._mode}, target_recall={self._target})"

    def _ids(self, row: Any) -> NDArray[Any]:
        """The distinct ids of a set, ascending."""
        ids: NDArray[Any] = np.flatnonzero(row) if self._dense else np.unique(np.asarray(row))
        return ids

    def _vector(self, ids: NDArray[Any]) -> kinbin.Sparse:
        """A row of ones. Ids beyond a narrow collection occur in queries only: they share one feature, which weighs as much as they."""
        weights = np.ones(len(ids), np.float32)
        if self._dim is not None and ids[-1] >= self._dim - 1:
            known = int(np.searchsorted(ids, self._dim - 1))
            ids, weights = np.append(ids[:known], self._dim - 1), np.append(weights[:known], np.float32(len(ids) - known))
        return kinbin.Sparse(ids.astype(np.uint64), weights)
