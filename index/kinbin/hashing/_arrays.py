"""What the samplers ask of their arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinbin.hashing.arithmetic import MAX_BANDS, MAX_ROWS

__all__ = ["check_sizes", "plain"]


def check_sizes(r: int, bands: int) -> None:
    """Raise ValueError unless 1 <= r <= MAX_ROWS and 1 <= bands <= MAX_BANDS."""
    if not 1 <= r <= MAX_ROWS:
        raise ValueError(f"r must be 1 to {MAX_ROWS}, not {r}")
    if not 1 <= bands <= MAX_BANDS:
        raise ValueError(f"bands must be 1 to {MAX_BANDS}, not {bands}")


def plain(array: NDArray[Any]) -> NDArray[Any]:
    """The array itself if it is contiguous, aligned and writable, else a copy that is.

    A read-only or strided array would make numba compile the kernel again, for half a second.
    """
    return array if array.flags.carray else np.array(array, order="C")
