"""Pairs of rows that come near the bounds of a space, and how far they are from breaking them: for tests and `benchmarks/bounds.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from kinbin.native.calls import call_bound, call_curve
from kinbin.native.jit import strict
from kinbin.rows.topk import ALIKE
from kinbin.spaces.cosine import COSINE
from kinbin.spaces.native import SLACK
from kinbin.spaces.ordered import signed_of
from kinbin.spaces.space import SHAPES, UNIT_ROOTS, Space

__all__ = ["ERRORS", "FAMILIES", "SCORES", "Gaps", "Matrix", "climbed", "climbing", "families", "gaps", "real", "shaped"]

Matrix = NDArray[np.float64]
Pairs = tuple[Matrix, Matrix]
Score = Callable[[Matrix, Matrix], Matrix]
Family = Callable[[np.random.Generator, int, int], Pairs]

_SOME = 1_500
"""Of real rows, between which the nearest are looked for."""


def shaped(rows: Matrix) -> Matrix:
    """(n, d) rows divided by their sums of absolute values."""
    return np.asarray(rows / np.abs(rows).sum(axis=1, keepdims=True))


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


def _signed(family: Family) -> Family:
    """Pairs of a family with signs: few that differ, or all that are drawn."""

    def made(rng: np.random.Generator, n: int, d: int) -> Pairs:
        u, v = family(rng, n, d)
        signs = rng.choice([-1.0, 1.0], (n, d))
        return signs * u, np.where(rng.random((n, d)) < rng.choice([0.0, 0.05, 0.5, 1.0], (n, 1)), -1.0, 1.0) * signs * v

    made.__name__ = f"{family.__name__}, signed"
    return made


_SIGNED = tuple(map(_signed, FAMILIES))


def families(space: Space) -> tuple[Family, ...]:
    """Those of a space: with signs too, where it takes them."""
    return (*FAMILIES, *_SIGNED) if space.signed else FAMILIES


def real(rows: Matrix, rng: np.random.Generator, count: int) -> Pairs:
    """Pairs of real rows: each drawn row with another that was drawn, and with its nearest of some."""
    some = np.asarray(rows[rng.permutation(len(rows))[:_SOME]], np.float64)
    drawn = rng.integers(0, len(some), count - count // 2)
    shapes = shaped(some)
    apart = cdist(shapes, shapes, "cityblock")
    np.fill_diagonal(apart, np.inf)
    # One after the other of the nearest, so that no pair comes twice before all have come.
    near = np.argsort(apart, axis=1)[:, : count // 2 // len(some) + 1].T.reshape(-1)[: count // 2]
    left = np.concatenate([drawn, np.arange(count // 2) % len(some)])
    right = np.concatenate([rng.permutation(drawn), near])
    return some[left], some[right]


def _shared(u: Matrix, v: Matrix) -> Matrix:
    """Σ min where signs agree."""
    return np.asarray(np.where((u < 0) == (v < 0), np.minimum(np.abs(u), np.abs(v)), 0.0).sum(axis=1))


def _gmm(u: Matrix, v: Matrix) -> Matrix:
    shared = _shared(u, v)
    return np.asarray(shared / (np.abs(u).sum(axis=1) + np.abs(v).sum(axis=1) - shared))


def _ngmm(u: Matrix, v: Matrix) -> Matrix:
    return _gmm(shaped(u), shaped(v))


def _gint(u: Matrix, v: Matrix) -> Matrix:
    return _shared(shaped(u), shaped(v))


def _chi2(u: Matrix, v: Matrix) -> Matrix:
    u, v = shaped(u), shaped(v)
    return np.asarray(1.0 - ((u - v) ** 2 / np.maximum(u + v, 1e-300)).sum(axis=1) / 2.0)


def _entropy(u: Matrix, v: Matrix) -> Matrix:
    both = np.maximum(u + v, 1e-300)
    r = u / both
    return np.asarray(r * np.log2(np.maximum(r, 1e-300)) * both)


def _js(u: Matrix, v: Matrix) -> Matrix:
    u, v = shaped(u), shaped(v)
    return np.asarray(-0.5 * (_entropy(u, v) + _entropy(v, u)).sum(axis=1))


def _hellinger(u: Matrix, v: Matrix) -> Matrix:
    return np.asarray(np.sqrt(shaped(u) * shaped(v)).sum(axis=1))


def _acos(value: Matrix) -> Matrix:
    return np.asarray(1.0 - np.arccos(np.clip(value, -1.0, 1.0)) / np.pi)


def _cosine(u: Matrix, v: Matrix) -> Matrix:
    """Of shapes, whose squares do not overflow."""
    u, v = shaped(u), shaped(v)
    return np.asarray((u * v).sum(axis=1) / np.sqrt((u * u).sum(axis=1) * (v * v).sum(axis=1)))


def _cosine_score(u: Matrix, v: Matrix) -> Matrix:
    """What stands for it, as spaces rank by it."""
    rho = _cosine(u, v)
    return np.where(rho > ALIKE, rho, ALIKE * (1.0 + np.clip(rho, -1.0, 0.0)))


SCORES: dict[str, Score] = {
    "chi2": _chi2,
    "js": _js,
    "hellinger": _hellinger,
    "mm_acos": lambda u, v: _ngmm(u, v) * _acos(_cosine(u, v)),
    "mm_acos_chi2": lambda u, v: _ngmm(u, v) * _acos(_chi2(u, v)),
    "gint*js": lambda u, v: _gint(u, v) * _js(u, v),
    "acos*chi2*hellinger": lambda u, v: _acos(_cosine(u, v)) * _chi2(u, v) * _hellinger(u, v),
    "cosine": _cosine_score,
    "acos*rbf": lambda u, v: _acos(_cosine(u, v)) * np.exp(_cosine(u, v) - 1.0),
    "gint*rbf": lambda u, v: _gint(u, v) * np.exp(_cosine(u, v) - 1.0),
    "gmm*acos": lambda u, v: _gmm(u, v) * _acos(_cosine(u, v)),
}
"""From their definitions in NumPy: one of each bound. Other kernels print what these score, or are the similarity itself."""
ERRORS = {name: 3e-8 if name == "acos*rbf" else 1e-9 for name in SCORES}
"""Of scores and distances in NumPy. The arc cosine makes 5e-9 of the last digit of a cosine near 1, and this bound is as near as that."""


@strict
def _bounds(space, scores, distances, norms, out):  # type: ignore[no-untyped-def]
    """Of pairs of these scores, distances and (2, n) norms, into out (3, n).

    Least probability of a collision, farthest distance (as searches ask for it), best score.
    """
    one = space[0]
    for i in range(len(scores)):
        out[0, i] = call_curve(one.least, one.context, scores[i])
        out[1, i] = call_curve(one.farthest, one.context, scores[i] * (1.0 - SLACK))
        out[2, i] = call_bound(one.best, one.context, distances[i], norms[0, i], norms[1, i])


class Gaps(NamedTuple):
    """How far pairs are from breaking a bound; below 0 they break it."""

    least: Matrix
    """The probability of a collision, less the least of such a score."""
    farthest: Matrix
    """The farthest distance for such a score, less the distance."""
    best: Matrix
    """The most of such a distance, less the score."""


def gaps(space: Space, score: Score, u: Matrix, v: Matrix) -> Gaps:
    """Of (n, d) pairs of rows. Codes collide by the min-max similarity, or, where that says nothing, by sign."""
    by_similarity = "gcws" in space.samplers
    scores, norms, distances = score(u, v), np.abs([u, v]).sum(axis=2), _distances(space, u, v)
    out = np.empty((3, len(u)))
    _bounds(space.hashed_by("gcws" if by_similarity else "sign").record, scores, distances, norms, out)
    collision = (_ngmm if space.shapes else _gmm)(u, v) if by_similarity else _acos(_cosine(u, v))
    if space.code is COSINE.code:
        out[2], scores = signed_of(out[2]), signed_of(scores)
    # Of rows as they are no distance is too far: their norms count too.
    farthest = out[1] - distances if space.shapes else np.full(len(u), np.inf)
    return Gaps(collision - out[0], farthest, out[2] - scores)


def _distances(space: Space, u: Matrix, v: Matrix) -> Matrix:
    """As the geometry of the space says."""
    u, v = shaped(u), shaped(v)
    if space.geometry == SHAPES:
        return np.asarray(np.abs(u - v).sum(axis=1))
    if space.geometry == UNIT_ROOTS:
        return np.asarray(np.linalg.norm(np.sqrt(u) - np.sqrt(v), axis=1))
    u, v = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (u, v))
    return np.asarray(np.linalg.norm(u - v, axis=1))


def climbing(space: Space, score: Score, rng: np.random.Generator, count: int, steps: int) -> Iterator[Gaps]:
    """The gaps of pairs that are changed wherever that makes one gap smaller, a third of them for each; those of each step."""
    signs = rng.choice([-1.0, 1.0], (count, 6)) if space.signed else np.ones((count, 6))
    u, v = (signs * shaped(rng.random((count, 6)) ** 3 + 1e-9) for _ in range(2))
    chosen = np.arange(count) % len(Gaps._fields)
    best = np.array(gaps(space, score, u, v))
    for _ in range(steps):
        size = 10.0 ** rng.uniform(-4, 0, (count, 1))
        tried = [rows * np.exp(size * rng.normal(size=rows.shape) * (rng.random(rows.shape) < 0.5)) for rows in (u, v)]
        gap = np.array(gaps(space, score, tried[0], tried[1]))
        yield Gaps(*gap)
        nearer = np.take_along_axis(gap < best, chosen[None], axis=0)[0]
        u[nearer], v[nearer], best[:, nearer] = tried[0][nearer], tried[1][nearer], gap[:, nearer]
    yield Gaps(*best)


def climbed(space: Space, score: Score, rng: np.random.Generator, count: int, steps: int) -> Gaps:
    """Those of the last."""
    *_, last = climbing(space, score, rng, count, steps)
    return last
