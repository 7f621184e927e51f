"""Hashes of the square roots of rows: their cosine is the Hellinger kernel of the rows.

(Kernels through nested histograms, section 3; the bits are fixed by HASHING.md, section 9.)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kinbin.hashing.sampler import Sampler
from kinbin.rows.rows import Rows

__all__ = ["RootSampler"]


class RootSampler:
    """A sampler whose codes are those of rows with the square root of each value, rounded to float32. Values are not negative."""

    def __init__(self, base: Sampler) -> None:
        self._base = base
        self.name = base.name
        self.seed = base.seed
        self.normalise = base.normalise

    @property
    def nbytes(self) -> int:
        """Memory that parameters take now."""
        return self._base.nbytes

    def codes(self, rows: Rows, r: int, bands: int) -> NDArray[np.uint32]:
        """Codes (n, r, bands), as `Sampler.codes`."""
        roots = np.sqrt(rows.values)
        norms = np.zeros(len(rows))
        filled = np.flatnonzero(np.diff(rows.indptr))
        norms[filled] = np.add.reduceat(roots.astype(np.float64), rows.indptr[filled])
        return self._base.codes(Rows(rows.indptr, rows.features, roots, norms), r, bands)
