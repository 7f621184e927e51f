"""Min-wise hashing of sets (Broder, "On the resemblance and containment of documents", 1997): no parameters, whatever the features.

Hash j of a set is the least of a random order of its features, which is that of their bits mixed with a key of j. Two sets
agree in a hash with the probability of their Jaccard similarity. Nothing of it is stored: the samplers of collections are others.
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator"
from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kinbin.hashing.arithmetic import GAMMA, mix64
from kinbin.native.jit import inline, strict
from kinbin.rows.rows import Rows

__all__ = ["MinHash"]

_LOW = np.uint64(0xFFFFFFFF)
_NONE = np.uint64(0xFFFFFFFFFFFFFFFF)


class MinHash:
    """Codes of sets by one seed. Holds no state."""

    def __init__(self, seed: int) -> None:
        self._seed = np.uint64(seed)

    def codes(self, rows: Rows, r: int, bands: int) -> NDArray[np.uint32]:
        """Codes (n, r, bands) of rows, whose values do not matter. Cost: 1 ns a feature and hash."""
        codes = np.empty((len(rows), r, bands), np.uint32)
        _least(rows.indptr, rows.features, self._seed, codes)
        return codes


@inline
def _lesser(one, other):
    return min(other, one)


@strict
def _least(indptr, features, seed, codes):
    """Write codes (n, r, bands) uint32: the low bits of the least mixed feature."""
    n, r, bands = codes.shape
    for row in range(n):
        first, past = indptr[row], indptr[row + 1]
        for x in range(r):
            for j in range(bands):
                key = mix64(seed + np.uint64(1 + x * bands + j) * GAMMA)
                least = _NONE
                for p in range(first, past):
                    least = _lesser(mix64(features[p] ^ key), least)
                codes[row, x, j] = np.uint32(least & _LOW)
