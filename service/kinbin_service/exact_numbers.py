"""Stored values on their way into JSON, which knows no float32."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

import kinbin

__all__ = ["exact_numbers"]

_LEAST = np.float32(kinbin.LIMITS["value_min"].value)

_TWICE_ROUNDED = np.uint32(0x15AE43FD).view(np.float32)
"""The one float32 between the smallest and the largest value that Kinbin stores whose shortest decimal (7.038531e-26), read as a double
and then made float32, becomes its neighbour (all of them were tried). Given by its bits, as it cannot be written that way here either."""


def exact_numbers(values: NDArray[np.float32]) -> NDArray[Any]:
    """Values as JSON has to hold them, so that whoever reads doubles and makes them float32 has the same bits.

    float32, which is written with as few digits as tell it apart. All digits of a double are written where one value needs them,
    or is smaller than vectors hold: series and points have such, which were not all tried.
    """
    sizes = np.abs(values)
    needed = np.any((sizes == _TWICE_ROUNDED) | ((sizes < _LEAST) & (sizes > 0.0)))
    return values.astype(np.float64) if needed else values
