"""The samplers by name, and which one a collection gets when its owner does not say."""

from __future__ import annotations

from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from kinbin.hashing.arithmetic import MAX_BANDS, MAX_ROWS
from kinbin.hashing.dart import DartSampler
from kinbin.hashing.gcws import DEFAULT_TABLE_BYTES, GcwsSampler
from kinbin.rows.rows import Rows

__all__ = ["GCWS_DEFAULT_BYTES", "MAX_BANDS", "MAX_ROWS", "SAMPLERS", "Sampler", "default_sampler", "make_sampler"]

SAMPLERS: Final = ("gcws", "dart")

GCWS_DEFAULT_BYTES: Final = 32 * 2**20
"""`gcws` is the default while its parameters fit this: about what stays in a server's last-level cache,
past which GCWS waits for memory and dart sampling is faster. 1,165 features at r = 6, L = 200."""

_PARAMETER_BYTES: Final = 12
_USUAL_HASHES: Final = 6 * 200


class Sampler(Protocol):
    """A locality-sensitive hash family: two rows of kernel value J agree in each code with probability J.

    Code (x, j) of a row is hash number j of sketch x, fixed for ever by (seed, x, j) and the row:
    whatever r, bands, the batch, the threads, the state of any cache or the processor. Codes of
    different (x, j) are independent. Concurrent callers are welcome; kernels release the GIL.
    """

    @property
    def name(self) -> str:
        """One of SAMPLERS."""
        ...

    @property
    def seed(self) -> int:
        """What all hashes are functions of, 0 … 2**64-1."""
        ...

    @property
    def normalise(self) -> bool:
        """Whether weights are divided by the row's norm."""
        ...

    @property
    def nbytes(self) -> int:
        """Memory that parameters take now."""
        ...

    def codes(self, rows: Rows, r: int, bands: int) -> NDArray[np.uint32]:
        """Codes (n, r, bands), C-contiguous. ValueError for r or bands outside 1 … MAX_ROWS, 1 … MAX_BANDS."""
        ...


def make_sampler(name: str, *, seed: int, normalise: bool, dim: int | None = None, table_bytes: int = DEFAULT_TABLE_BYTES) -> Sampler:
    """The sampler of a collection.

    `seed` 0 … 2**64-1; `normalise` divides weights by the row's norm first (ngmm, gint); `dim` bounds
    the features (None: unbounded); `table_bytes` limits the parameters that "gcws" keeps.
    Raises ValueError for an unknown name, a seed out of range, or "dart" without `normalise`.
    """
    if not 0 <= seed < 2**64:
        raise ValueError("seed must be 0 to 2**64 - 1")
    if name == "gcws":
        return GcwsSampler(seed=seed, normalise=normalise, dim=dim, table_bytes=table_bytes)
    if name == "dart":
        if not normalise:
            raise ValueError("dart sampling needs weights that sum to 1: use gcws for kernels that do not normalise")
        return DartSampler(seed=seed)
    raise ValueError(f"no sampler is called {name!r}: choose one of {', '.join(SAMPLERS)}")


def default_sampler(kernel_normalised: bool, dim: int | None) -> str:
    """The name of the faster sampler that serves the kernel.

    gcws for kernels that do not normalise, and while its parameters for `dim` signed features at
    r = 6, L = 200 fit GCWS_DEFAULT_BYTES; dart, which has none, on larger and unbounded feature spaces.
    """
    if not kernel_normalised:
        return "gcws"
    if dim is not None and 2 * dim * _USUAL_HASHES * _PARAMETER_BYTES <= GCWS_DEFAULT_BYTES:
        return "gcws"
    return "dart"
