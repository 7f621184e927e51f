"""Objects of many points laid end to end: series of steps, sets of points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Ragged", "ragged"]


class Ragged(NamedTuple):
    """n objects of points of the same number of dimensions."""

    values: NDArray[np.float32]
    """(all points, dims), contiguous."""
    offsets: NDArray[np.int64]
    """(n + 1,): object i has the points from offsets[i] up to offsets[i + 1], at least one."""

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def dims(self) -> int:
        """Numbers of a point."""
        return int(self.values.shape[1])

    @property
    def sizes(self) -> NDArray[np.int64]:
        """(n,) points of each object."""
        return np.diff(self.offsets)

    def one(self, index: int) -> NDArray[np.float32]:
        """(points, dims) of one object, a view."""
        return self.values[self.offsets[index] : self.offsets[index + 1]]

    def taken(self, indices: NDArray[np.int64]) -> Ragged:
        """The objects with these numbers, copied."""
        sizes = self.sizes[indices]
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        places = np.repeat(self.offsets[:-1][indices] - offsets[:-1], sizes) + np.arange(offsets[-1])
        return Ragged(np.ascontiguousarray(self.values[places]), offsets)


def ragged(objects: Sequence[Any]) -> Ragged:
    """Lay objects end to end: arrays (points, dims), or (points,) of one dimension, of the same dims, each of at least one point.

    They were checked before: this only copies.
    """
    arrays = [np.asarray(one, np.float32) for one in objects]
    shaped = [one[:, None] if one.ndim == 1 else one for one in arrays]
    offsets = np.concatenate([[0], np.cumsum([len(one) for one in shaped])]).astype(np.int64)
    return Ragged(np.ascontiguousarray(np.concatenate(shaped)), offsets)
