"""Dynamic time warping of two series, in a Sakoe-Chiba band, with lower bounds and early abandoning; and the Euclidean distance.

A path leads from the first steps of both series to the last ones; each of its moves advances one of them, or both. It costs the sum of the
squared Euclidean distances of the steps that it pairs. The distance is the root of the least cost of a path. (Berndt and Clifford 1994;
Sakoe and Chiba 1978.)

*The band.* Steps i and j may be paired where |i − j| ≤ r, with r = max(⌊window · max(n, m)⌋, |n − m|) of series of n and of m steps:
window 0 of equal lengths is the Euclidean distance, window 1 no restriction. (1e-9 is added before it is rounded down, so that 0.1 of 30
is 3.)

*Stopping early.* Three bounds are tried in the order of their cost: the pairs of first and of last steps (LB_Kim's two points that sum up);
what each step of the row lies outside of the query's envelope (LB_Keogh; Keogh and Ratanamahatana 2005); and, as the warping goes along,
the least cost so far and that bound of the steps to come (Rakthanmanon et al. 2012, section 4.1). The envelope is that of the band of two
series of the query's length; it serves rows whose band is as wide. Others have the query's greatest and least values for it.

Inputs are float32, arithmetic is float64. The cells of an anti-diagonal depend on the two before it only: eight are computed at a time.
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator"
from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinbin.distances.ragged import Ragged
from kinbin.native.jit import inline, inner, reassoc, strict
from kinbin.native.lanes import LANES, warp_lanes
from kinbin.native.memory import (
    address_of,
    f32_array,
    f64_array,
    float64_at,
    i64_array,
    i64_at,
    item,
    pointer_f32,
    u64_array,
    u64_at,
)

__all__ = [
    "Warping",
    "dtw_matrix",
    "dtw_to",
    "euclidean_squared",
    "lay_out_series",
    "most_warping_words",
    "reach",
    "warped_squared",
    "warping_at",
    "warping_words",
]

U64 = np.uint64
_WORDS = 16
"""Of `_Asked`."""
_PART = 8
"""Steps that a bound is kept for together."""
_CHECKED = 8
"""Anti-diagonals from one look at the cutoff to the next."""
_SURE = 1.0 + 1e-9
"""What must be passed before something is left out: sums in another order differ in their last digits."""


class _Asked(NamedTuple):
    """A query that is laid out: 16 words, of which the first nine are addresses. Behind them lies what they point to."""

    values: Any
    """(steps, dims) float32 of the query, where the caller has them."""
    planes: Any
    """(dims, stride) float32 of the query."""
    upper: Any
    """(steps, dims) float32: its envelope."""
    lower: Any
    top: Any
    """(8, dims) float32: its greatest values, over and over."""
    bottom: Any
    turned: Any
    """Work: float32 planes of a row, last step first."""
    cells: Any
    """Work: three anti-diagonals of float64."""
    parts: Any
    """Work: float64 bounds of a row's steps, eight together."""
    steps: Any
    dims: Any
    stride: Any
    """Values of a plane."""
    radius: Any
    """Steps to either side that the envelope covers."""
    room: Any
    """Steps of the longest row that there is work space for."""
    window: Any


@inline
def warping_at(base):
    """The query that is laid out at an address."""
    return _Asked(
        u64_at(base), u64_at(base + U64(8)), u64_at(base + U64(16)), u64_at(base + U64(24)), u64_at(base + U64(32)),
        u64_at(base + U64(40)), u64_at(base + U64(48)), u64_at(base + U64(56)), u64_at(base + U64(64)),
        i64_at(base + U64(72)), i64_at(base + U64(80)), i64_at(base + U64(88)), i64_at(base + U64(96)), i64_at(base + U64(104)),
        float64_at(base + U64(112)),
    )  # fmt: skip


def warping_words(steps: int, dims: int, room: int) -> int:
    """The 8-byte words that a query of so many steps takes, for rows of at most `room` steps."""
    values = dims * (steps + LANES) + 2 * steps * dims + 2 * _PART * dims + dims * (room + LANES)
    return _WORDS + values // 2 + 6 + 3 * (steps + 2 + LANES) + room // _PART + 2


def most_warping_words(numbers: int, room: int, dims: int) -> int:
    """The most words of a query of so many numbers, for rows of so many at most, of any number of dimensions up to `dims`."""
    dims = min(numbers, dims)
    values = 3 * numbers + room + dims * (2 * LANES + 2 * _PART)
    return _WORDS + values // 2 + 6 + 3 * (numbers + 2 + LANES) + room // _PART + 2


@inner
def lay_out_series(base, values, steps, dims, window, room):
    """Lay a query out at an address with room for `warping_words`. values: the address of (steps, dims) float32, which stay there.

    Cost: 5 µs for 128 steps of 6 dimensions.
    """
    stride = steps + LANES
    words = u64_array(base, _WORDS)
    words[0] = values
    at = base + U64(8 * _WORDS)
    sizes = (dims * stride, steps * dims, steps * dims, _PART * dims, _PART * dims, dims * (room + LANES))
    for x in range(6):
        words[1 + x] = at
        at += U64((sizes[x] + 1) // 2 * 8)
    words[7] = at
    words[8] = at + U64(8 * 3 * (steps + 2 + LANES))
    counts = i64_array(base, _WORDS)
    radius = min(_reach(steps, steps, window), steps)
    counts[9], counts[10], counts[11], counts[12], counts[13] = steps, dims, stride, radius, room
    f64_array(base, _WORDS)[14] = window
    asked = warping_at(base)
    own, planes = pointer_f32(values), f32_array(asked.planes, dims * stride)
    for k in range(dims):
        for i in range(stride):
            planes[k * stride + i] = item(own, min(i, steps - 1) * dims + k)
        _envelope(asked, k)
        _extremes(asked, k)
    return asked


@inner
def _envelope(asked, k):
    """The greatest and the least value in dimension k of the steps at most `radius` away.

    Cost: two comparisons a value, whatever the radius (Lemire 2009). Places are kept where the cells of a warping will be.
    """
    steps, radius, values = asked.steps, asked.radius, pointer_f32(asked.planes + U64(4 * k * asked.stride))
    upper, lower = f32_array(asked.upper, steps * asked.dims), f32_array(asked.lower, steps * asked.dims)
    greatest, least = i64_array(asked.cells, steps), i64_array(asked.cells + U64(8 * steps), steps)
    up, up_end, down, down_end = 0, 0, 0, 0
    for i in range(steps + radius):
        if i < steps:
            value = item(values, i)
            while up_end > up and item(values, greatest[up_end - 1]) <= value:
                up_end -= 1
            while down_end > down and item(values, least[down_end - 1]) >= value:
                down_end -= 1
            greatest[up_end], least[down_end] = i, i
            up_end, down_end = up_end + 1, down_end + 1
        j = i - radius
        if j >= 0:
            up += greatest[up] < j - radius
            down += least[down] < j - radius
            upper[j * asked.dims + k] = item(values, greatest[up])
            lower[j * asked.dims + k] = item(values, least[down])


@inner
def _extremes(asked, k):
    """The greatest and the least of all values in dimension k, eight times each."""
    values = pointer_f32(asked.planes + U64(4 * k * asked.stride))
    top, bottom = f32_array(asked.top, _PART * asked.dims), f32_array(asked.bottom, _PART * asked.dims)
    most, least = item(values, 0), item(values, 0)
    for i in range(1, asked.steps):
        most, least = max(most, item(values, i)), min(least, item(values, i))
    for i in range(_PART):
        top[i * asked.dims + k], bottom[i * asked.dims + k] = most, least


@inline
def _reach(steps, other, window):
    """r of the band of two series of so many steps."""
    return max(np.int64(window * max(steps, other) + 1e-9), abs(steps - other))


def reach(steps: int, other: int, window: float) -> int:
    """r: how many steps apart two steps may be that are paired, of series of so many steps."""
    return max(math.floor(window * max(steps, other) + 1e-9), abs(steps - other))


class Warping:
    """A query, laid out for rows of at most `longest` steps. One thread at a time may use it: it has the work space."""

    def __init__(self, series: NDArray[np.float32], window: float, longest: int) -> None:
        """series (steps, dims) contiguous; window from 0 to 1."""
        self._series = series
        self._words = np.empty(warping_words(len(series), series.shape[1], longest), np.uint64)
        self.address = address_of(self._words)
        _prepared(self.address, address_of(series), *series.shape, float(window), longest)


@strict
def _prepared(base, values, steps, dims, window, room):
    """As `lay_out_series`, for Python."""
    lay_out_series(U64(base), U64(values), steps, dims, window, room)


@reassoc
def _outside(row, upper, lower, count):
    """Σ (what a value lies beyond its bounds)² of so many values. Addresses of float32."""
    values, most, least = pointer_f32(row), pointer_f32(upper), pointer_f32(lower)
    total = 0.0
    for x in range(count):
        value, up, down = np.float64(item(values, x)), np.float64(item(most, x)), np.float64(item(least, x))
        beyond = value - up if value > up else (down - value if value < down else 0.0)
        total += beyond * beyond
    return total


@reassoc
def euclidean_squared(one, other, count):
    """Σ (a − b)² of so many float32 at two addresses."""
    left, right = pointer_f32(one), pointer_f32(other)
    total = 0.0
    for x in range(count):
        apart = np.float64(item(left, x)) - np.float64(item(right, x))
        total += apart * apart
    return total


@inner
def _ends(asked, row, steps):
    """The pairs of first and of last steps: every path has them."""
    dims = asked.dims
    total = euclidean_squared(asked.values, row, dims)
    if steps > 1 or asked.steps > 1:
        last, own = U64(4 * (steps - 1) * dims), U64(4 * (asked.steps - 1) * dims)
        total += euclidean_squared(asked.values + own, row + last, dims)
    return total


@inner
def _keogh(asked, row, steps, cutoff):
    """What a row's steps cost at least, summed from the last: `parts[b]` is that of the steps from 8 b on; and `parts[0]` is returned.

    As soon as it passes the cutoff, it is returned as it is by then.
    """
    wide = _reach(asked.steps, steps, asked.window)
    near = wide <= asked.radius and steps <= asked.steps
    parts = f64_array(asked.parts, asked.room // _PART + 2)
    count = (steps + _PART - 1) // _PART
    total = 0.0
    for b in range(count):
        skip = U64(4 * b * _PART * asked.dims)
        upper, lower = (asked.upper + skip, asked.lower + skip) if near else (asked.top, asked.bottom)
        parts[b] = _outside(row + skip, upper, lower, min(_PART, steps - b * _PART) * asked.dims)
        total += parts[b]
        if total > cutoff:
            return total
    parts[count] = 0.0
    for b in range(count - 1, -1, -1):
        parts[b] += parts[b + 1]
    return total


@inner
def _turn(asked, row, steps):
    """Lay a row out in planes, last step first."""
    values, dims = pointer_f32(row), asked.dims
    turned = f32_array(asked.turned, (steps + LANES) * dims)
    for j in range(steps):
        for k in range(dims):
            turned[k * (steps + LANES) + steps - 1 - j] = item(values, j * dims + k)


@inner
def _first(diagonal, steps, wide):
    """The first step of the query that has a cell on an anti-diagonal."""
    return max(0, diagonal - (steps - 1), (diagonal - wide + 1) // 2)


@inner
def _last(diagonal, steps, wide):
    """The last step of the query of so many that has a cell on an anti-diagonal."""
    return min(steps - 1, diagonal, (diagonal + wide) // 2)


@inner
def _least_of(cells, first, last):
    """The least of the cells first … last of an anti-diagonal."""
    least = np.inf
    for i in range(first, last + 1):
        least = min(least, cells[i + 1])
    return least


@inner
def _warp(asked, steps, cutoff):
    """The squared distance to the row that is laid out, or inf as soon as it is known to pass the cutoff.

    Cell (i, j) of anti-diagonal i + j lies at place i + 1 of one of three arrays that take turns. The places next to those of a diagonal
    are infinite.
    """
    n, size = asked.steps, asked.steps + 2 + LANES
    wide = _reach(n, steps, asked.window)
    cells = f64_array(asked.cells, 3 * size)
    parts = f64_array(asked.parts, asked.room // _PART + 2)
    cells[:] = np.inf
    cells[0] = 0.0
    earlier, before, now = 0, size, 2 * size
    x_stride, y_stride = U64(4 * asked.stride), U64(4 * (steps + LANES))
    for s in range(n + steps - 1):
        first, last = _first(s, steps, wide), _last(s, n, wide)
        for i in range(first, last + 1, LANES):
            warp_lanes(
                asked.cells + U64(8 * (now + i + 1)), asked.cells + U64(8 * (before + i + 1)), asked.cells + U64(8 * (earlier + i)),
                asked.planes + U64(4 * i), asked.turned + U64(4 * (steps - 1 - s + i)), x_stride, y_stride, asked.dims,
            )  # fmt: skip
        cells[now + first] = np.inf
        cells[now + last + 2] = np.inf
        if s % _CHECKED == _CHECKED - 1 and cutoff < np.inf:
            least = _least_of(cells[now : now + size], first, last)
            least = min(least, _least_of(cells[before : before + size], _first(s - 1, steps, wide), _last(s - 1, n, wide)))
            # Each of the steps that no cell has reached yet costs what the bound says.
            if least + parts[(s - first + _PART) // _PART] > cutoff:
                return np.inf
        earlier, before, now = before, now, earlier
    return cells[before + n]


@inner
def warped_squared(asked, row, steps, cutoff):
    """The squared distance of a row from the query, or some number above the cutoff if it is above it.

    row: the address of (steps, dims) float32, of the query's dims and at most as many steps as there is room for (otherwise NaN).
    cutoff: a squared distance; inf for none.
    """
    if steps < 1 or steps > asked.room:
        return np.nan
    sure = cutoff * _SURE
    if sure < np.inf:
        if _ends(asked, row, steps) > sure:
            return np.inf
        if _keogh(asked, row, steps, sure) > sure:
            return np.inf
    _turn(asked, row, steps)
    return _warp(asked, steps, sure)


@strict
def _distances(address, row, offsets, cutoff, out):
    """Distances of objects from a query, or inf where they pass the cutoff."""
    asked = warping_at(U64(address))
    for j in range(len(out)):
        a = offsets[j]
        found = warped_squared(asked, U64(row) + U64(4 * a * asked.dims), offsets[j + 1] - a, cutoff * cutoff)
        out[j] = math.sqrt(found)


def dtw_to(series: NDArray[np.float32], others: Ragged, window: float = 1.0, cutoff: float = math.inf) -> NDArray[np.float64]:
    """(n,) distances of a series (steps, dims) from n others of the same dims; some number above the cutoff where it is passed.

    Cost: one thread, 3 µs for 128 steps of 6 dimensions and window 0.1; memory of one series.
    """
    out = np.empty(len(others))
    warping = Warping(np.ascontiguousarray(series, np.float32), window, int(others.sizes.max(initial=1)))
    _distances(warping.address, address_of(others.values), others.offsets, float(cutoff), out)
    return out


def dtw_matrix(left: Ragged, right: Ragged, window: float = 1.0) -> NDArray[np.float64]:
    """(n, m) distances of all pairs of two lists of series of the same dims. Cost: n m distances, one thread."""
    return np.stack([dtw_to(left.one(i), right, window) for i in range(len(left))])
