"""Rows as projected unit vectors, and how far apart two of those are in L2: codes for kernels that are functions of a cosine.

A row is divided by its length (or the square roots of its shape are taken, whose length is 1), and projected on to a few hundred
directions that are orthogonal to each other; each coordinate is rounded to 8 bits. Such a projection never makes two rows farther
apart, so the distance of two codes, less what rounding changed, is a lower bound of the true L2 distance. Directions are the leading
principal ones of a sample, turned at random among themselves: no coordinate is then much larger than another, so one step serves all.
Features that the sample did not show are projected on to nothing, which keeps the bound.

The arithmetic is float32 in the written order: the same on every processor, so that codes can be compared with what is stored.
"""

# mypy: disable-error-code="no-untyped-def,assignment"
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kinbin.codes.folded import LANES
from kinbin.native.jit import inline, strict
from kinbin.native.memory import item, pointer_f32, squared_differences_64, squared_differences_128, u64_array
from kinbin.rows.asked import asked_of

__all__ = ["encode_unit", "encode_units", "project_units", "projecting_by", "square_distance"]

U64 = np.uint64
_OFFSET = 128.0
_AT_ONCE = 4
"""Nonzeros that are added up in one turn: sums are written and read again a quarter as often."""
_ULP = 2.0**-24


class Projecting(NamedTuple):
    """How rows are projected, as compiled code sees it."""

    step: Any
    width: Any
    roots: Any
    matrix: Any
    """Address of (slots + 1, width) float32: the shift, then the direction of each slot."""
    known: Any
    """(slots,) uint64 ascending features; none: a feature is its slot."""
    slots: Any


@inline
def projecting_by(coder):
    """What a record (of a coder, or of a graph) says of projecting."""
    return Projecting(coder.step, coder.width, coder.roots != 0, coder.matrix, u64_array(coder.known, coder.known_count), coder.slots)


@inline
def _slot_of(projecting, feature):
    """The slot of a feature; -1: it has none."""
    known = projecting.known
    if len(known) == 0:
        return np.int64(feature) if feature < U64(projecting.slots) else np.int64(-1)
    low, high = 0, len(known)
    while low < high:
        middle = (low + high) // 2
        if known[middle] < feature:
            low = middle + 1
        else:
            high = middle
    return low if low < len(known) and known[low] == feature else np.int64(-1)


@inline
def _weight(roots, value):
    """What a value counts before rows are divided by their lengths."""
    return np.sqrt(np.float64(abs(value))) if roots else np.float64(value)


@inline
def _direction(projecting, feature, weight):
    """(address of a feature's direction, its weight); a feature without one has that of another, and no weight."""
    slot = _slot_of(projecting, feature)
    address = projecting.matrix + U64(4) * U64(projecting.width) * U64(slot + 1)
    return pointer_f32(address), np.float32(weight) if slot >= 0 else np.float32(0.0)


@inline
def _project(projecting, features, values, sums):
    """Write the coordinates of a row, less the shift, to sums (width,) float32. Returns what they are off at most, in L2.

    With u = 2**-24 and n nonzeros each sum is off by (n + 2) u / (1 − (n + 2) u) times the sum of the magnitudes that go into it,
    at most; no direction is longer than 1, and neither is the shift.
    """
    roots, width, count = projecting.roots, projecting.width, len(features)
    squares = 0.0
    for x in range(count):
        weight = _weight(roots, values[x])
        squares += weight * weight
    scale = 1.0 / np.sqrt(squares)
    shift = pointer_f32(projecting.matrix)
    for j in range(width):
        sums[j] = item(shift, j)
    magnitude = 1.0
    whole = count - count % _AT_ONCE
    for x in range(0, whole, _AT_ONCE):
        row_a, a = _direction(projecting, features[x], _weight(roots, values[x]) * scale)
        row_b, b = _direction(projecting, features[x + 1], _weight(roots, values[x + 1]) * scale)
        row_c, c = _direction(projecting, features[x + 2], _weight(roots, values[x + 2]) * scale)
        row_d, d = _direction(projecting, features[x + 3], _weight(roots, values[x + 3]) * scale)
        for j in range(width):
            sums[j] = (((sums[j] + a * item(row_a, j)) + b * item(row_b, j)) + c * item(row_c, j)) + d * item(row_d, j)
        magnitude += abs(a) + abs(b) + abs(c) + abs(d)
    for x in range(whole, count):
        row_a, a = _direction(projecting, features[x], _weight(roots, values[x]) * scale)
        for j in range(width):
            sums[j] = sums[j] + a * item(row_a, j)
        magnitude += abs(a)
    return (count + 3) * _ULP * 1.001 * magnitude


@inline
def encode_unit(projecting, features, values, sums, code):
    """Write the code (width,) uint8 of one row; sums (width or more,) float32 is scratch. Returns its error in L2."""
    off = _project(projecting, features, values, sums)
    step = projecting.step
    squares = 0.0
    for j in range(projecting.width):
        rounded = min(max(np.rint(sums[j] / step) + _OFFSET, 0.0), 255.0)
        code[j] = np.uint8(rounded)
        rest = sums[j] - step * (rounded - _OFFSET)
        squares += rest * rest
    return np.float32(np.sqrt(squares) * 1.000001 + off + 1e-7)


@strict
def project_units(coder, rows, out):
    """The coordinates (n, P) float32 of n rows, less the shift. Cost: 15 ns a nonzero and 128 coordinates."""
    projecting = projecting_by(coder[0])
    indptr, features, values, norms = asked_of(rows[0])
    for i in range(len(norms)):
        a, b = indptr[i], indptr[i + 1]
        _project(projecting, features[a:b], values[a:b], out[i])


@strict
def encode_units(coder, rows, table, codes, errors):
    """Codes (n, P) uint8 and errors (n,) float32 of n rows. table: (1, P or more) float32, scratch.

    A code is round(coordinate / step) + 128, cut to 0 … 255. errors: at least what code and row are apart within the directions, in L2.
    Cost: as `project_units`, and 2 ns a coordinate.
    """
    projecting = projecting_by(coder[0])
    indptr, features, values, norms = asked_of(rows[0])
    for i in range(len(norms)):
        a, b = indptr[i], indptr[i + 1]
        errors[i] = encode_unit(projecting, features[a:b], values[a:b], table[0], codes[i])


@inline
def square_distance(left, right, width):
    """Σ (a − b)² of the codes at two addresses. Cost: 1.7 ns for 64 bytes, 2.6 for 128, 5.1 for 256."""
    total = np.uint32(0)
    pairs = width // (2 * LANES)
    for c in range(pairs):
        total += squared_differences_128(left + U64(2 * LANES * c), right + U64(2 * LANES * c))
    if width % (2 * LANES) != 0:
        total += squared_differences_64(left + U64(2 * LANES * pairs), right + U64(2 * LANES * pairs))
    return total
