"""Pairs of histograms that come near the bounds of a space, and a count of those that break them: for tests and `benchmarks/bounds.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinbin.native.calls import call_bound, call_curve
from kinbin.native.jit import strict
from kinbin.spaces.native import SLACK
from kinbin.spaces.space import UNIT_ROOTS, Space

__all__ = ["FAMILIES", "SCORES", "Gaps", "Matrix", "climbed", "gaps", "shaped"]

Matrix = NDArray[np.float64]
Pairs = tuple[Matrix, Matrix]
Score = Callable[[Matrix, Matrix], Matrix]


def shaped(rows: Matrix) -> Matrix:
    """(n, d) rows divided by their sums."""
    return np.asarray(rows / rows.sum(axis=1, keepdims=True))


def _random(rng: np.random.Generator, n: int, d: int) -> Matrix:
    """Some flat, some peaked, some sparse."""
    rows = rng.random((n, d)) ** rng.integers(1, 9, (n, 1)) * (rng.random((n, d)) < rng.choice([0.2, 0.6, 1.0], (n, 1)))
    rows[:, 0] += 1e-12
    return rows


def _strangers(rng: np.random.Generator, n: int, d: int) -> Pairs:
    return _random(rng, n, d), _random(rng, n, d)


def _nearly_the_same(rng: np.random.Generator, n: int, d: int) -> Pairs:
    rows = _random(rng, n, d)
    return rows, rows * (1.0 + 10.0 ** rng.uniform(-13, 0, (n, 1)) * rng.random((n, d)))


def _nearly_disjoint(rng: np.random.Generator, n: int, d: int) -> Pairs:
    left = rng.random((n, d)) < 0.5
    rare = 10.0 ** rng.uniform(-15, -1, (n, 1))
    u, v = _strangers(rng, n, d)
    return np.where(left, u, rare * u) + 1e-300, np.where(left, rare * v, v) + 1e-300


def _spikes(rng: np.random.Generator, n: int, d: int) -> Pairs:
    """One large value, shared or not, and tails."""
    u, v = _strangers(rng, n, d)
    u[:, 1] += 10.0 ** rng.uniform(-2, 12, n)
    v[np.arange(n), rng.integers(1, 3, n)] += 10.0 ** rng.uniform(-2, 12, n)
    return u, v


def _same_share(rng: np.random.Generator, n: int, d: int) -> Pairs:
    """All features differ by the same share: what attains the least similarity."""
    share = np.where(rng.random((n, 1)) < 0.5, rng.random((n, 1)), 1.0 - 10.0 ** rng.uniform(-12, 0, (n, 1)))
    half = np.where(np.arange(d) % 2 == 0, 1.0 + share, 1.0 - share)
    scale = np.repeat(_random(rng, n, d // 2) + 1e-6, 2, axis=1)
    return scale * half, scale * half.reshape(n, -1, 2)[:, :, ::-1].reshape(n, -1)


def _two_cells(rng: np.random.Generator, n: int, d: int) -> Pairs:
    """Two features hold nearly everything."""
    u, v = np.full((n, d), 1e-14), np.full((n, d), 1e-14)
    u[:, 0], v[:, 0] = rng.random(n), rng.random(n)
    u[:, 1], v[:, 1] = 1.0 - u[:, 0], 1.0 - v[:, 0]
    return u, v


def _apart_or_alike(rng: np.random.Generator, n: int, d: int) -> Pairs:
    """Features agree, or only one row has them: what attains the greatest similarity of a score."""
    rows = _random(rng, n, d) + 1e-9
    where = rng.integers(0, 3, (n, d))
    return np.where(where == 1, 0.0, rows) + 1e-12, np.where(where == 2, 0.0, rows) + 1e-12


FAMILIES = (_strangers, _nearly_the_same, _nearly_disjoint, _spikes, _same_share, _two_cells, _apart_or_alike)


def _chi2(u: Matrix, v: Matrix) -> Matrix:
    return np.asarray(1.0 - ((u - v) ** 2 / np.maximum(u + v, 1e-300)).sum(axis=1) / 2.0)


def _entropy(u: Matrix, v: Matrix) -> Matrix:
    both = np.maximum(u + v, 1e-300)
    r = u / both
    return np.asarray(r * np.log2(np.maximum(r, 1e-300)) * both)


def _js(u: Matrix, v: Matrix) -> Matrix:
    return np.asarray(-0.5 * (_entropy(u, v) + _entropy(v, u)).sum(axis=1))


def _hellinger(u: Matrix, v: Matrix) -> Matrix:
    return np.asarray(np.sqrt(u * v).sum(axis=1))


def _ngmm(u: Matrix, v: Matrix) -> Matrix:
    return np.asarray(np.minimum(u, v).sum(axis=1) / np.maximum(u, v).sum(axis=1))


def _acos(value: Matrix) -> Matrix:
    return np.asarray(1.0 - np.arccos(np.clip(value, -1.0, 1.0)) / np.pi)


def _cosine(u: Matrix, v: Matrix) -> Matrix:
    return np.asarray((u * v).sum(axis=1) / np.sqrt((u * u).sum(axis=1) * (v * v).sum(axis=1)))


SCORES: dict[str, Score] = {
    "chi2": _chi2,
    "js": _js,
    "hellinger": _hellinger,
    "mm_acos": lambda u, v: _ngmm(u, v) * _acos(_cosine(u, v)),
    "mm_acos_chi2": lambda u, v: _ngmm(u, v) * _acos(_chi2(u, v)),
    "gint*js": lambda u, v: 2.0 * _ngmm(u, v) / (1.0 + _ngmm(u, v)) * _js(u, v),
    "acos*chi2*hellinger": lambda u, v: _acos(_cosine(u, v)) * _chi2(u, v) * _hellinger(u, v),
}
"""Of kernels with bounds by the min-max similarity, from their definitions in NumPy."""


@strict
def _bounds(space, scores, distances, out):  # type: ignore[no-untyped-def]
    """Of pairs of these scores and distances, into out (3, n): least similarity, farthest distance (as searches ask for it), best score."""
    one = space[0]
    for i in range(len(scores)):
        out[0, i] = call_curve(one.least, one.context, scores[i])
        out[1, i] = call_curve(one.farthest, one.context, scores[i] * (1.0 - SLACK))
        out[2, i] = call_bound(one.best, one.context, distances[i], 1.0, 1.0)


class Gaps(NamedTuple):
    """How far pairs are from breaking a bound; below 0 they break it."""

    least: Matrix
    """Similarity, less the least of such a score."""
    farthest: Matrix
    """The farthest distance for such a score, less the distance."""
    best: Matrix
    """The most of such a distance, less the score."""


def gaps(space: Space, score: Score, u: Matrix, v: Matrix) -> Gaps:
    """Of (n, d) pairs of rows that sum to 1."""
    scores = score(u, v)
    rooted = space.geometry == UNIT_ROOTS
    distances = np.linalg.norm(np.sqrt(u) - np.sqrt(v), axis=1) if rooted else np.abs(u - v).sum(axis=1)
    out = np.empty((3, len(u)))
    _bounds(space.hashed_by("gcws").record, scores, distances, out)
    similarity = _ngmm(u, v)
    return Gaps(similarity - out[0], out[1] - distances, out[2] - scores)


def climbed(space: Space, score: Score, rng: np.random.Generator, count: int, steps: int) -> Matrix:
    """The least gap of the similarity that some pairs reach which are changed wherever that makes it smaller. Returns (count,)."""
    u, v = (shaped(rng.random((count, 6)) ** 3 + 1e-9) for _ in range(2))
    best = gaps(space, score, u, v).least
    for _ in range(steps):
        size = 10.0 ** rng.uniform(-4, 0, (count, 1))
        tried = [shaped(rows * np.exp(size * rng.normal(size=rows.shape) * (rng.random(rows.shape) < 0.5))) for rows in (u, v)]
        gap = gaps(space, score, tried[0], tried[1]).least
        nearer = gap < best
        u[nearer], v[nearer], best[nearer] = tried[0][nearer], tried[1][nearer], gap[nearer]
    return best
