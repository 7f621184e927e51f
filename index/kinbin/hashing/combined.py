"""A hash of the min-max kernel and a sign bit in one code: collides with probability J × (1 - acos(rho) / pi), the kernel mm_acos.

Two independent hashes agree together with the product of their probabilities (Li, "A Comparison Study of Nonlinear Kernels", equation
14, has the kernel). The bit has random numbers of its own, so that it is independent of the codes of `projections`.
The bits are fixed by HASHING.md, section 11.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kinbin.hashing.arithmetic import DOMAIN_COMBINED, mix64
from kinbin.hashing.dart import DartSampler
from kinbin.hashing.gcws import GcwsSampler
from kinbin.hashing.projections import Family, ProjectionSampler
from kinbin.native.jit import strict
from kinbin.rows.rows import Rows

__all__ = ["CombinedSampler"]

_BIT = Family(DOMAIN_COMBINED, 1, cauchy=False)


class CombinedSampler:
    """Codes of a sampler of the min-max kernel, each with a sign bit. Safe for concurrent callers, as its parts are.

    What codes cost is the sum of both parts.
    """

    def __init__(self, name: str, base: GcwsSampler | DartSampler, *, dim: int | None, table_bytes: int) -> None:
        """base: whose seed and normalising are taken. table_bytes: the limit of the random numbers of the bits."""
        self.name = name
        self.seed = base.seed
        self.normalise = base.normalise
        self._base = base
        self._bits = ProjectionSampler("sign", _BIT, seed=base.seed, normalise=base.normalise, dim=dim, table_bytes=table_bytes)

    @property
    def nbytes(self) -> int:
        """Memory that the parameters of both take now."""
        return self._base.nbytes + self._bits.nbytes

    def codes(self, rows: Rows, r: int, bands: int) -> NDArray[np.uint32]:
        """Codes (n, r, bands) of canonical rows. Raises ValueError where the part of the min-max kernel does."""
        codes = self._base.codes(rows, r, bands)
        _combine(codes.reshape(-1), self._bits.codes(rows, r, bands).reshape(-1))
        return codes


@strict
def _combine(codes, bits):  # type: ignore[no-untyped-def]
    """Mix bits (m,) uint32 of 0 or 1 into codes (m,) uint32: what was the same in both stays the same, else with chance 2**-32."""
    for i in range(codes.shape[0]):
        both = (np.uint64(codes[i]) << np.uint64(1)) | np.uint64(bits[i])
        codes[i] = np.uint32(mix64(both) & np.uint64(0xFFFFFFFF))
