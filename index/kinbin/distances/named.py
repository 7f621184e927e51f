"""The distances of objects by name, as matrices of all pairs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinbin.distances.dtw import dtw_matrix
from kinbin.distances.hausdorff import hausdorff_matrix
from kinbin.distances.ragged import Ragged

__all__ = ["MATRICES", "matrix_of"]

Matrix = Callable[[Ragged, Ragged], NDArray[np.float64]]

MATRICES: dict[str, Callable[[Mapping[str, float]], Matrix]] = {
    "dtw": lambda values: lambda left, right: dtw_matrix(left, right, values["window"]),
    "euclidean": lambda _values: lambda left, right: dtw_matrix(left, right, 0.0),
    "hausdorff": lambda _values: hausdorff_matrix,
    "modified_hausdorff": lambda _values: lambda left, right: hausdorff_matrix(left, right, modified=True),
}
"""By name: the parameters of a distance → (left, right) → the (n, m) distances of all pairs, float64.

The Euclidean distance, of series of one length, is that of a warping without a window.
"""


def matrix_of(name: str, parameters: Mapping[str, Any]) -> Matrix:
    """All pairs under the distance of a name, with these parameters ("window" of "dtw")."""
    return MATRICES[name](parameters)
