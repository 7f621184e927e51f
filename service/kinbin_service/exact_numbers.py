"""Stored values on their way into JSON, which knows no float32."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["exact_numbers"]

_TWICE_ROUNDED = np.uint32(0x15AE43FD).view(np.float32)
"""The one float32 between the smallest and the largest value that Kinbin stores whose shortest decimal (7.038531e-26), read as a double
and then made float32, becomes its neighbour (all of them were tried). Given by its bits, as it cannot be written that way here either."""


def exact_numbers(values: NDArray[np.float32]) -> NDArray[Any]:
    """Values as JSON has to hold them, so that whoever reads doubles and makes them float32 has the same bits.

    float32, which is written with as few digits as tell it apart, but for one value, which takes all digits of a double.
    """
    return values.astype(np.float64) if np.any(np.abs(values) == _TWICE_ROUNDED) else values
