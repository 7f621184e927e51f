"""The Hausdorff distance of two sets of points, and the modified one; Euclidean ground distance.

Both are the greater of two directed ones. From A to B that is, over the points of A, of the distances to the nearest point of B

    hausdorff             the greatest
    modified_hausdorff    the mean     (Dubuisson and Jain 1994, d_6 under f_2: their MHD; no metric)

*Stopping early.* A point whose nearest neighbour cannot be farther than the greatest found so far is left (Taha and Hanbury 2015); points
are visited in strides, so that consecutive ones do not resemble each other, for the reason that they give for a random order. Beyond that
a distance stops at the cutoff, which both kinds pass as early as possible: with the first point that lies so far away, or a sum that does.

Inputs are float32, arithmetic is float64; a point is compared with eight at a time.
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator"
from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinbin.distances.ragged import Ragged
from kinbin.native.jit import inline, inner, strict
from kinbin.native.lanes import LANES, least_of_lanes, lower_lanes
from kinbin.native.memory import address_of, f32_array, f64_array, i64_array, i64_at, item, pointer_f32, u64_array, u64_at

__all__ = [
    "PointSet",
    "hausdorff_matrix",
    "hausdorff_squared",
    "hausdorff_to",
    "lay_out_points",
    "modified_hausdorff",
    "most_points_words",
    "points_at",
    "points_words",
]

U64 = np.uint64
_WORDS = 8
"""Of `_Asked`."""
_STRIDE = 8
"""Points are visited so many apart: all of the first in each stride, then all of the second."""
_SURE = 1.0 + 1e-9
"""What must be passed before something is left out: sums in another order differ in their last digits."""


class _Asked(NamedTuple):
    """A query that is laid out: 8 words, of which the first four are addresses. Behind them lies what they point to."""

    values: Any
    """(size, dims) float32 of the query, where the caller has them."""
    planes: Any
    """(dims, stride) float32 of the query; its last point fills up to the stride."""
    turned: Any
    """Work: float32 planes of a row."""
    least: Any
    """Work: (stride,) float64, squared distances to the nearest point of the row."""
    size: Any
    dims: Any
    stride: Any
    """Points of a plane, a multiple of eight."""
    room: Any
    """Points of the largest row that there is work space for."""


@inline
def points_at(base):
    """The query that is laid out at an address."""
    return _Asked(
        u64_at(base), u64_at(base + U64(8)), u64_at(base + U64(16)), u64_at(base + U64(24)),
        i64_at(base + U64(32)), i64_at(base + U64(40)), i64_at(base + U64(48)), i64_at(base + U64(56)),
    )  # fmt: skip


def points_words(size: int, dims: int, room: int) -> int:
    """The 8-byte words that a query of so many points takes, for rows of at most `room` points."""
    return _WORDS + (dims + 1) * (size + LANES) + dims * (room + LANES)


def most_points_words(numbers: int, room: int, dims: int) -> int:
    """The most words of a query of so many numbers, for rows of so many at most, of any number of dimensions up to `dims`."""
    return _WORDS + 2 * numbers + room + (2 * min(numbers, dims) + 1) * LANES


@inner
def lay_out_points(base, values, size, dims, room):
    """Lay a query out at an address with room for `points_words`. values: the address of (size, dims) float32, which stay there."""
    stride = (size + LANES - 1) // LANES * LANES
    words, counts = u64_array(base, _WORDS), i64_array(base, _WORDS)
    words[0], words[1] = values, base + U64(8 * _WORDS)
    words[3] = words[1] + U64(4 * dims * stride)
    words[2] = words[3] + U64(8 * stride)
    counts[4], counts[5], counts[6], counts[7] = size, dims, stride, room
    _planes(values, size, dims, words[1])
    return points_at(base)


class PointSet:
    """A query, laid out for rows of at most `largest` points. One thread at a time may use it: it has the work space."""

    def __init__(self, points: NDArray[np.float32], largest: int) -> None:
        """points (size, dims) contiguous."""
        self._points = points
        self._words = np.empty(points_words(len(points), points.shape[1], largest), np.uint64)
        self.address = address_of(self._words)
        _prepared(self.address, address_of(points), *points.shape, largest)


@strict
def _prepared(base, values, size, dims, room):
    """As `lay_out_points`, for Python."""
    lay_out_points(U64(base), U64(values), size, dims, room)


@inner
def _planes(points, size, dims, out):
    """Lay points out in planes; the last one fills them up. Returns the points of a plane."""
    values = pointer_f32(points)
    stride = (size + LANES - 1) // LANES * LANES
    planes = f32_array(out, stride * dims)
    for i in range(stride):
        for k in range(dims):
            planes[k * stride + i] = item(values, min(i, size - 1) * dims + k)
    return stride


@inner
def _directed(points, size, planes, stride, dims, greatest, cutoff):
    """The greater of `greatest` and the directed distance of points from those in planes, all squared; past the cutoff some number above.

    points: address of (size, dims). Cost: a sixth of a nanosecond a pair and dimension that is compared.
    """
    for start in range(min(_STRIDE, size)):
        for i in range(start, size, _STRIDE):
            point, least = points + U64(4 * i * dims), np.inf
            for j in range(0, stride, LANES):
                least = min(least, least_of_lanes(point, planes + U64(4 * j), U64(4 * stride), dims))
                if least <= greatest:
                    break
            if not least <= greatest:
                greatest = least
                if greatest > cutoff:
                    return greatest
    return greatest


@inner
def hausdorff_squared(asked, row, size, cutoff):
    """The squared Hausdorff distance of a row from the query, or some number above the cutoff if it is above it.

    row: the address of (size, dims) float32, of the query's dims and at most as many points as there is room for (otherwise NaN).
    cutoff: a squared distance; inf for none.
    """
    if size < 1 or size > asked.room:
        return np.nan
    sure = cutoff * _SURE
    there = _directed(row, size, asked.planes, asked.stride, asked.dims, 0.0, sure)
    if there > sure:
        return there
    stride = _planes(row, size, asked.dims, asked.turned)
    return _directed(asked.values, asked.size, asked.turned, stride, asked.dims, there, sure)


@inner
def modified_hausdorff(asked, row, size, cutoff):
    """The modified Hausdorff distance of a row from the query, or some number above the cutoff if it is above it.

    As `hausdorff_squared`, but no square: neither the distance, nor the cutoff. All pairs are compared once, until the cutoff is passed.
    """
    if size < 1 or size > asked.room:
        return np.nan
    sure = cutoff * _SURE * size
    least = f64_array(asked.least, asked.stride)
    least[:] = np.inf
    there = 0.0
    for start in range(min(_STRIDE, size)):
        for i in range(start, size, _STRIDE):
            point, nearest = row + U64(4 * i * asked.dims), np.inf
            for j in range(0, asked.stride, LANES):
                found = lower_lanes(point, asked.planes + U64(4 * j), U64(4 * asked.stride), asked.dims, asked.least + U64(8 * j))
                nearest = min(nearest, found)
            there += math.sqrt(nearest)
            if there > sure:
                return np.inf
    back = 0.0
    for i in range(asked.size):
        back += math.sqrt(least[i])
    return max(there / size, back / asked.size)


@strict
def _distances(address, row, offsets, modified, cutoff, out):
    """Distances of objects from a query, or some number above the cutoff."""
    asked = points_at(U64(address))
    for j in range(len(out)):
        a = offsets[j]
        place = U64(row) + U64(4 * a * asked.dims)
        if modified:
            out[j] = modified_hausdorff(asked, place, offsets[j + 1] - a, cutoff)
        else:
            out[j] = math.sqrt(hausdorff_squared(asked, place, offsets[j + 1] - a, cutoff * cutoff))


def hausdorff_to(points: NDArray[np.float32], others: Ragged, *, modified: bool = False, cutoff: float = math.inf) -> NDArray[np.float64]:
    """(n,) distances of a set of points (size, dims) from n others of the same dims; some number above the cutoff where it is passed.

    Cost: one thread, a microsecond for two sets of 40 points in the plane; memory of one set.
    """
    out = np.empty(len(others))
    asked = PointSet(np.ascontiguousarray(points, np.float32), int(others.sizes.max(initial=1)))
    _distances(asked.address, address_of(others.values), others.offsets, modified, float(cutoff), out)
    return out


def hausdorff_matrix(left: Ragged, right: Ragged, *, modified: bool = False) -> NDArray[np.float64]:
    """(n, m) distances of all pairs of two lists of point sets of the same dims. Cost: n m distances, one thread."""
    return np.stack([hausdorff_to(left.one(i), right, modified=modified) for i in range(len(left))])
