"""The data sets on which libraries are compared: rows to search, and others to ask with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from common import Options, data_set
from patches import random_patches

__all__ = ["SETS", "VectorSet", "word_counts"]

DIMENSIONS = 128
"""Of the sets that are made here."""
CELLS, ORIENTATIONS = 4, 8
"""A histogram of oriented gradients has 4 × 4 cells of 8 orientations."""
ROWS = 50_000


@dataclass(frozen=True, slots=True)
class VectorSet:
    """Rows and queries as a user has them: (n, d) and (m, d), dense or CSR, not normalised."""

    title: str
    rows: Any
    queries: Any

    @property
    def is_sparse(self) -> bool:
        """Whether dense rows would not fit into memory."""
        return bool(scipy.sparse.issparse(self.rows))


def word_counts(part: str) -> Any:
    """The counts of words in messages as CSR (n, 56436); part: "train" or "test"."""
    news = data_set("news20_counts")
    arrays = (news[f"{part}_data"], news[f"{part}_indices"], news[f"{part}_indptr"])
    return scipy.sparse.csr_matrix(arrays, shape=tuple(int(side) for side in news[f"{part}_shape"]))


def _colours(options: Options) -> VectorSet:
    data = data_set("cifar10_rgbhist512")
    return VectorSet("colour histograms of photographs", *_cut(options, data["X_train"], data["X_test"]))


def _digits(options: Options) -> VectorSet:
    data = data_set("mnist")
    return VectorSet("handwritten digits, pixel by pixel", *_cut(options, data["X_train"], data["X_test"]))


def _gradients(options: Options) -> VectorSet:
    """Histograms of oriented gradients of 16 × 16 patches of photographs, ten of each image."""
    data = data_set("cifar10_rgb_small")
    rows = oriented_gradients(random_patches(data["X_train"], options.pick(ROWS, 2_000), seed=0))
    queries = oriented_gradients(random_patches(data["X_test"], options.pick(1_000, 100), seed=1))
    return VectorSet("histograms of oriented gradients: dense, of low contrast", rows, queries)


def _components(options: Options) -> VectorSet:
    """Digits on the principal components of the rows that are searched."""
    data = data_set("mnist")
    rows, queries = (np.asarray(part, np.float64) for part in _cut(options, data["X_train"], data["X_test"]))
    mean = rows.mean(axis=0)
    # The right singular vectors of the centred rows, by way of their smaller square.
    _, _, directions = np.linalg.svd((rows - mean).T @ (rows - mean), hermitian=True)
    projected = (np.ascontiguousarray((part - mean) @ directions[:DIMENSIONS].T, np.float32) for part in (rows, queries))
    return VectorSet("principal components of digits: signed, dense", *projected)


def _words(options: Options) -> VectorSet:
    return VectorSet("word counts of messages: sparse", *_cut(options, word_counts("train"), word_counts("test")))


SETS: dict[str, Callable[[Options], VectorSet]] = {
    "cifar10_rgbhist512": _colours,
    "mnist": _digits,
    "hog128": _gradients,
    "mnist_pca128": _components,
    "news20_counts": _words,
}


def _cut(options: Options, rows: Any, queries: Any) -> tuple[Any, Any]:
    """All rows and 1,000 queries, or a few of both."""
    return rows[: options.pick(None, 2_000)], queries[: options.pick(1_000, 100)]


def oriented_gradients(patches: NDArray[np.uint8]) -> NDArray[np.float32]:
    """(n, 128) of RGB patches (n, side, side, 3): in each of 4 × 4 cells, magnitudes of brightness gradients by 8 directions.

    Directions are unsigned, and share a magnitude between the two nearest, as in Dalal and Triggs (2005); cells share nothing,
    and blocks are not normalised, because the kernel normalises the row.
    """
    bright = patches.astype(np.float32).mean(axis=3)
    down, right = np.gradient(bright, axis=(1, 2))
    size = np.hypot(down, right)
    place = np.arctan2(down, right) % np.pi * (ORIENTATIONS / np.pi)
    lower = np.floor(place)
    share = place - lower
    bins = lower.astype(np.int64) % ORIENTATIONS
    n, side = bright.shape[:2]
    cell = np.arange(side) * CELLS // side
    first = (np.arange(n)[:, None, None] * CELLS**2 + cell[:, None] * CELLS + cell) * ORIENTATIONS
    out = np.bincount((first + bins).ravel(), (size * (1 - share)).ravel(), n * DIMENSIONS)
    out += np.bincount((first + (bins + 1) % ORIENTATIONS).ravel(), (size * share).ravel(), n * DIMENSIONS)
    # A patch of one colour has no gradient, and no neighbours: it gets a flat histogram.
    rows = out.reshape(n, DIMENSIONS)
    rows[rows.sum(axis=1) == 0] = 1.0
    return rows.astype(np.float32)
