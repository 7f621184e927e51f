"""Sums over the features of two rows, for all pairs of two blocks of rows: what kernel matrices are made of.

Everything is float64. Dense blocks: sixty-four rows of the right block stand side by side, a feature a line, so that one instruction
serves several pairs; each pair's terms are added in the order of the features, four at a time, whatever the processor. Sparse blocks: a
left row is laid out over all features, and each right row's nonzeros look it up.
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator"
from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from kinbin.native.jit import inline, inner, strict

__all__ = ["WIDTH", "entropies", "entropy_sums", "harmonic_sums", "magnitudes", "shared_sums", "sparse_sums"]

WIDTH = 64
"""Right rows that stand side by side; blocks have a multiple of it."""
LINES = 32
"""Features of a tile: 16 kB, which stays in the first cache. (Of 256 features, in the second one, 512 took twice the time each.)"""

_LEAST = 1e-75
"""Sums of two values below it add nothing that counts, and the product of four of them would be lost."""
_FRACTION = np.int64(0xFFFFFFFFFFFFF)
_SQRT_HALF_BITS = np.int64(0x3FE6A09E667F3BCD)
_RAISED = np.int64(1024 << 52)
_TWO_52_BITS = np.int64(0x4330000000000000)
_TWO_52 = 4503599627370496.0
_PER_LN2 = 1.4426950408889634


@inner
def _lay_side_by_side(Y, first, feature, tile):
    """Features feature … of right rows first … first + WIDTH - 1, as tile (LINES, WIDTH). Returns how many; lines past them are 0."""
    count = min(LINES, Y.shape[1] - feature)
    for j in range(WIDTH):
        for f in range(count):
            tile[f, j] = Y[first + j, feature + f]
    for f in range(count, min(LINES, (count + 3) // 4 * 4)):
        for j in range(WIDTH):
            tile[f, j] = 0.0
    return count


@inline
def _at(row, f):
    """A value of a left row, and 0 past its end."""
    return row[f] if f < row.shape[0] else 0.0


@inline
def _begin(total, left, right):
    for j in range(WIDTH):
        total[j] = left + right[j]


@inline
def _end(total, left, right):
    """Rows that share nothing have exactly 0, not the difference of two sums."""
    for j in range(WIDTH):
        total[j] = max(total[j], 0.0) if left > 0.0 and right[j] > 0.0 else 0.0


@strict
def shared_sums(X, Y, left, right, tile, out):
    """Write Σ min of the sign-split rows of all pairs to out (n, m) float64: half of what their sums exceed Σ |u - v|.

    X (n, d), Y (m, d): half of the values, float64, C-contiguous, m a multiple of WIDTH; left (n,), right (m,): sums of their magnitudes;
    tile (LINES, WIDTH) float64 is work space. Cost: 0.05 to 0.07 ns a feature and pair.
    """
    for first in range(0, Y.shape[0], WIDTH):
        theirs = right[first : first + WIDTH]
        for feature in range(0, X.shape[1], LINES):
            count = _lay_side_by_side(Y, first, feature, tile)
            for i in range(X.shape[0]):
                u, total = X[i, feature : feature + count], out[i, first : first + WIDTH]
                if feature == 0:
                    _begin(total, left[i], theirs)
                for f in range(0, count, 4):
                    u0, u1, u2, u3 = u[f], _at(u, f + 1), _at(u, f + 2), _at(u, f + 3)
                    v0, v1, v2, v3 = tile[f], tile[f + 1], tile[f + 2], tile[f + 3]
                    for j in range(WIDTH):
                        total[j] -= (abs(u0 - v0[j]) + abs(u1 - v1[j])) + (abs(u2 - v2[j]) + abs(u3 - v3[j]))
                if feature + count == X.shape[1]:
                    _end(total, left[i], theirs)


@inline
def _known(whole):
    return whole if whole > _LEAST else 1.0


@strict
def harmonic_sums(X, Y, left, right, tile, out):
    """Write Σ 2 u v / (u + v) of all pairs of rows that are not negative to out, terms of two zeros being 0. As `shared_sums`.

    2 u v / (u + v) = (u + v) / 2 - (u - v)² / (2 (u + v)), and four terms share one division: a / b + c / d = (a d + c b) / (b d).
    Cost: 0.1 ns a feature and pair.
    """
    for first in range(0, Y.shape[0], WIDTH):
        theirs = right[first : first + WIDTH]
        for feature in range(0, X.shape[1], LINES):
            count = _lay_side_by_side(Y, first, feature, tile)
            for i in range(X.shape[0]):
                u, total = X[i, feature : feature + count], out[i, first : first + WIDTH]
                if feature == 0:
                    _begin(total, left[i], theirs)
                for f in range(0, count, 4):
                    u0, u1, u2, u3 = u[f], _at(u, f + 1), _at(u, f + 2), _at(u, f + 3)
                    v0, v1, v2, v3 = tile[f], tile[f + 1], tile[f + 2], tile[f + 3]
                    for j in range(WIDTH):
                        a, b, c, d = u0 - v0[j], u1 - v1[j], u2 - v2[j], u3 - v3[j]
                        p, q, r, s = _known(u0 + v0[j]), _known(u1 + v1[j]), _known(u2 + v2[j]), _known(u3 + v3[j])
                        one, other = a * a * q + b * b * p, c * c * s + d * d * r
                        total[j] -= (one * (r * s) + other * (p * q)) / ((p * q) * (r * s))
                if feature + count == X.shape[1]:
                    _end(total, left[i], theirs)


@inline
def _x_log_x(x):
    """x log2(x) of x ≥ 0, to 1e-14 of its size; without a branch, so that it vectorises."""
    bits = np.float64(x).view(np.int64) - _SQRT_HALF_BITS
    mantissa = np.int64((bits & _FRACTION) + _SQRT_HALF_BITS).view(np.float64)
    # The exponent becomes a float through 2**52: only AVX-512 converts vectors of int64.
    exponent = np.int64(((bits + _RAISED) >> 52) | _TWO_52_BITS).view(np.float64) - (_TWO_52 + 1024.0)
    s = (mantissa - 1.0) / (mantissa + 1.0)
    z = s * s
    p = 2.0 / 17.0
    p = p * z + 2.0 / 15.0
    p = p * z + 2.0 / 13.0
    p = p * z + 2.0 / 11.0
    p = p * z + 2.0 / 9.0
    p = p * z + 2.0 / 7.0
    p = p * z + 2.0 / 5.0
    p = p * z + 2.0 / 3.0
    return x * (exponent + (s + s + s * z * p) * _PER_LN2)


@strict
def entropy_sums(X, Y, left, right, tile, out):
    """Write Σ ½ (u log2(1 + v / u) + v log2(1 + u / v)) of all pairs of rows that are not negative to out, terms with a zero being 0.

    As `shared_sums`, but rows sum to 1, and left and right are sums of -g of their halves, g(x) = x log2 x: each term is
    g(u' + v') - g(u') - g(v') of halves u' and v'. Cost: 0.7 ns a feature and pair.
    """
    for first in range(0, Y.shape[0], WIDTH):
        theirs = right[first : first + WIDTH]
        for feature in range(0, X.shape[1], LINES):
            count = _lay_side_by_side(Y, first, feature, tile)
            for i in range(X.shape[0]):
                total = out[i, first : first + WIDTH]
                if feature == 0:
                    _begin(total, left[i], theirs)
                for f in range(count):
                    u, v = X[i, feature + f], tile[f]
                    for j in range(WIDTH):
                        total[j] += _x_log_x(u + v[j])
                if feature + count == X.shape[1]:
                    _end(total, left[i], theirs)


@inline
def _shared(u, v):
    """min of the magnitudes where the signs agree."""
    return max(0.0, min(u, v)) - min(0.0, max(u, v))


@inline
def _harmonic(u, v):
    return 2.0 * u * (v / _known(u + v))


@inline
def _entropy(u, v):
    # Most features of a right row are none of the left row's.
    return 0.5 * (u * math.log2(1.0 + v / u) + v * math.log2(1.0 + u / v)) if u > 0.0 and v > 0.0 else 0.0


@strict
def sparse_sums(kind, left, right, laid_out, out):
    """Write the sums of all pairs of two CSR blocks to out (n, m) float64. Cost: 1 to 2 ns a nonzero of the right block and left row.

    kind: 0 "shared", 1 "dot", 2 "harmonic", 3 "entropy" (`spaces.pairwise.Sum`). left, right: starts int64, features int64, values
    float64. laid_out: (features,) float64 zeros, and zeros afterwards.
    """
    (starts, features, values), (their_starts, their_features, their_values) = left, right
    for i in range(out.shape[0]):
        for p in range(starts[i], starts[i + 1]):
            laid_out[features[p]] = values[p]
        for j in range(out.shape[1]):
            low, high = their_starts[j], their_starts[j + 1]
            total = 0.0
            if kind == 0:
                for p in range(low, high):
                    total += _shared(laid_out[their_features[p]], their_values[p])
            elif kind == 1:
                for p in range(low, high):
                    total += laid_out[their_features[p]] * their_values[p]
            elif kind == 2:
                for p in range(low, high):
                    total += _harmonic(laid_out[their_features[p]], their_values[p])
            else:
                for p in range(low, high):
                    total += _entropy(laid_out[their_features[p]], their_values[p])
            out[i, j] = total
        for p in range(starts[i], starts[i + 1]):
            laid_out[features[p]] = 0.0


def magnitudes(X: NDArray[np.float64]) -> NDArray[np.float64]:
    """(n,) Σ |x| of rows."""
    return np.asarray(np.abs(X).sum(axis=1))


def entropies(X: NDArray[np.float64]) -> NDArray[np.float64]:
    """(n,) Σ -x log2 x of rows."""
    return np.asarray(-(X * np.log2(np.where(X > 0.0, X, 1.0))).sum(axis=1))
