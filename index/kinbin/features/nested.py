"""The kernel of nested histograms for scikit-learn: kernel matrices of images, and the rows that feature maps take."""

# mypy: disable-error-code="misc"
from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from kinbin.items.images import IMAGES
from kinbin.items.kind import Form
from kinbin.items.vectors import VECTORS
from kinbin.parameters import one_of
from kinbin.query.threads import parts, run_together
from kinbin.rows.asked import queries_record
from kinbin.rows.record import pack_rows, record_offsets
from kinbin.rows.rows import Rows
from kinbin.rows.scratch import Scratch
from kinbin.segments.scores import score_rows
from kinbin.spaces.registry import space_of
from kinbin.spaces.space import Space

__all__ = ["NestedHistogramKernel"]

OUTPUTS = ("kernel", "rows")
_PAIRS = 1 << 22
"""Scored between two looks at the interpreter."""


class NestedHistogramKernel(TransformerMixin, BaseEstimator):
    """Kernel matrices of images by nested histograms, for estimators that take precomputed kernels; or rows for feature maps.

    (Kernels through nested histograms, Cuturi and Fukumizu, definition 1 and proposition 2.) An image is divided into 1, 4, 16, … cells;
    a cell T has the kernel k_T = exp(−ψ_T / λ) of its histograms of 512 colours, and K_T = (1 − ε) k_T + ε Π K_U over its four parts.

    Parameters:
        levels: how many grids there are, 1 to 4; the paper's D is one less. base: ψ, "tv", "chi2", "jd", "h2" or "h1".
        width: λ. epsilon: ε; one, or one for each level above the finest: 0 compares wholes alone, 1 the finest cells alone.
        output: of `transform`: "kernel", (n, m) values with the m images of `fit`; or "rows", a CSR (n, features) with the histograms of
            all levels, each weighed by what it counts in K. `make_pipeline(NestedHistogramKernel(output="rows"), GCWSFeatures())` is an
            explicit map: its inner products are the min-max similarity of these rows, which is not K, and orders images nearly as K does.

    X is a list of images as a collection of images takes them, an array (n, height, width, 3) of uint8, or a matrix (n, 512 · 4^(levels −
    1)), dense or CSR, of the counts of the cells of the finest grid, row by row.

    Attributes:
        rows_: the images of `fit`, as rows.

    Raises:
        InvalidInput: a parameter, or an image, cannot be taken. Cost: 0.3 to 3 µs a pair and thread, by the number of levels and colours.
    """

    def __init__(
        self,
        levels: int = 3,
        *,
        base: str = "tv",
        width: float = 1.0,
        epsilon: float | Sequence[float] = 0.5,
        output: str = "kernel",
    ) -> None:
        self.levels = levels
        self.base = base
        self.width = width
        self.epsilon = epsilon
        self.output = output

    def _space(self) -> Space:
        one_of("output", self.output, OUTPUTS)
        return space_of("nested", {"levels": self.levels, "base": self.base, "lambda": self.width, "epsilon": self.epsilon})

    def _rows(self, X: Any) -> Rows:
        space = self._space()
        assert space.pyramid is not None
        form = Form(space.pyramid.dim, signed=False)
        matrix = hasattr(X, "tocsr") or (isinstance(X, np.ndarray) and X.ndim == 2)
        return space.rows_of((VECTORS if matrix else IMAGES).rows(X, form))

    def fit(self, X: Any, y: Any = None) -> NestedHistogramKernel:  # noqa: ARG002
        """Keep the images that others are compared with."""
        self.rows_ = self._rows(X)
        return self

    def transform(self, X: Any) -> Any:
        """(n, m) float64 kernel values, or (n, features) rows, as `output` says."""
        check_is_fitted(self)
        rows = self._rows(X)
        return _kernel(self._space(), rows, self.rows_) if self.output == "kernel" else self._matrix(rows)

    def fit_transform(self, X: Any, y: Any = None, **_: Any) -> Any:
        """The same of the images of `fit`."""
        self.fit(X, y)
        return _kernel(self._space(), self.rows_, self.rows_) if self.output == "kernel" else self._matrix(self.rows_)

    def pairwise(self, X: Any, Y: Any = None) -> NDArray[np.float64]:
        """(n, m) kernel values of X and Y, or of X and itself; nothing is fitted."""
        rows = self._rows(X)
        return _kernel(self._space(), rows, rows if Y is None else self._rows(Y))

    def _matrix(self, rows: Rows) -> sp.csr_array:
        pyramid = self._space().pyramid
        assert pyramid is not None
        return sp.csr_array((rows.values, rows.features.astype(np.int64), rows.indptr), shape=(len(rows), pyramid.row_dim))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = True
        tags.input_tags.three_d_array = True
        tags.input_tags.positive_only = True
        return tags


def _kernel(space: Space, left: Rows, right: Rows) -> NDArray[np.float64]:
    """(n, m) scores, by several threads (`kinbin.set_threads`)."""
    offsets = record_offsets(right.indptr, False)
    records = np.zeros(int(offsets[-1]), np.uint8)
    pack_rows(right.indptr, right.features, right.values, right.norms, False, offsets, records)
    places = np.uint64(records.ctypes.data) + offsets[:-1].astype(np.uint64), np.diff(offsets)
    out = np.empty((len(left), len(right)))
    step = max(1, _PAIRS // max(1, len(right)))

    def score_part(part: slice) -> None:
        scratch = Scratch(False)
        for first in range(part.start, part.stop, step):
            some = left.slice(first, min(first + step, part.stop))
            spans = np.zeros((len(some), 3), np.int64)
            spans[:, 1], spans[:, 2] = len(right), np.arange(len(some)) * len(right)
            scores = np.empty(len(some) * len(right))
            score_rows(space.record, queries_record(some), *places, spans, scratch.record, scores)
            out[first : first + len(some)] = scores.reshape(len(some), len(right))

    run_together([partial(score_part, part) for part in parts(len(left))])
    return out
