"""The samplers by name, and which one a collection gets when its owner does not say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from kinbin.hashing._parameters import DEFAULT_TABLE_BYTES
from kinbin.hashing.arithmetic import MAX_BANDS, MAX_ROWS
from kinbin.hashing.combined import CombinedSampler
from kinbin.hashing.dart import DartSampler
from kinbin.hashing.gcws import GcwsSampler
from kinbin.hashing.projections import FAMILIES, ProjectionSampler
from kinbin.rows.rows import Rows

__all__ = [
    "GCWS_DEFAULT_BYTES",
    "MAX_BANDS",
    "MAX_ROWS",
    "MINMAX_SAMPLERS",
    "SAMPLERS",
    "Law",
    "Sampler",
    "default_sampler",
    "make_sampler",
]

Law = Literal["minmax", "cosine", "chi2", "mm_acos"]
"""What the probability of a collision is a function of."""

SAMPLERS: Final[Mapping[str, Law]] = {
    "gcws": "minmax",
    "dart": "minmax",
    "argmax": "cosine",
    "sign": "cosine",
    "cauchy": "chi2",
    "gcws_sign": "mm_acos",
    "dart_sign": "mm_acos",
}
"""Every sampler, and what its law is about. That of "cauchy" is approximate: it is for features, and no collection is hashed by it."""

MINMAX_SAMPLERS: Final = tuple(name for name, law in SAMPLERS.items() if law == "minmax")

GCWS_DEFAULT_BYTES: Final = 32 * 2**20
"""`gcws` is the default while its parameters fit this: about what stays in a server's last-level cache,
past which GCWS waits for memory and dart sampling is faster. 1,165 features at r = 6, L = 200."""

_PARAMETER_BYTES: Final = 12
_USUAL_HASHES: Final = 6 * 200


class Sampler(Protocol):
    """A locality-sensitive hash family: two rows agree in each code with a probability that rises with their nearness.

    Of "gcws" and "dart" it is the min-max kernel J of their weights; those of the others are in `laws`.

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

    `seed` 0 … 2**64-1; `normalise` divides weights by the row's norm first (ngmm, gint), which no code of a projection shows; `dim`
    bounds the features (None: unbounded); `table_bytes` limits the parameters that are kept.
    Raises ValueError for an unknown name, a seed out of range, or "dart" and "dart_sign" without `normalise`.
    """
    if not 0 <= seed < 2**64:
        raise ValueError("seed must be 0 to 2**64 - 1")
    if name not in SAMPLERS:
        raise ValueError(f"no sampler is called {name!r}: choose one of {', '.join(SAMPLERS)}")
    if name in FAMILIES:
        return ProjectionSampler(name, FAMILIES[name], seed=seed, normalise=normalise, dim=dim, table_bytes=table_bytes)
    if name.startswith("dart") and not normalise:
        raise ValueError("dart sampling needs weights that sum to 1: use gcws for kernels that do not normalise")
    if name == "dart":
        return DartSampler(seed=seed)
    if name == "dart_sign":
        return CombinedSampler(name, DartSampler(seed=seed), dim=dim, table_bytes=table_bytes)
    if name == "gcws":
        return GcwsSampler(seed=seed, normalise=normalise, dim=dim, table_bytes=table_bytes)
    # a split feature has three parameters, a feature one random number: six times as much
    base = GcwsSampler(seed=seed, normalise=normalise, dim=dim, table_bytes=table_bytes * 6 // 7)
    return CombinedSampler(name, base, dim=dim, table_bytes=table_bytes - table_bytes * 6 // 7)


def default_sampler(kernel_normalised: bool, dim: int | None, law: Law = "minmax") -> str:
    """The name of the faster sampler that serves the kernel.

    Of the min-max kernel: gcws for kernels that do not normalise, and while its parameters for `dim` signed features at
    r = 6, L = 200 fit GCWS_DEFAULT_BYTES; dart, which has none, on larger and unbounded feature spaces. The same choice with a
    sign bit for mm_acos; argmax, the sharper law, for the cosine; cauchy for chi2.
    """
    if law == "cosine":
        return "argmax"
    if law == "chi2":
        return "cauchy"
    small = dim is not None and 2 * dim * _USUAL_HASHES * _PARAMETER_BYTES <= GCWS_DEFAULT_BYTES
    base = "gcws" if small or not kernel_normalised else "dart"
    return f"{base}_sign" if law == "mm_acos" else base
