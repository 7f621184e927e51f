"""The kernel of nested histograms: pictures that are alike as a whole, and part by part.

A node T of a pyramid of grids (`spaces.pyramid`) has the kernel k_T = exp(−ψ(T) / λ) of its two histograms, whose entries are shares of
the whole picture, and K_T = (1 − ε_l) k_T + ε_l Π K_U over its four children U, l its level; in the finest level K_T = k_T. The score is
K of the root. That is the mean over all ways to divide a picture, again and again, of Π k, a node of level l being divided with
probability ε_l. (Kernels through nested histograms, sections 2.3 and 3.2, proposition 2; section 3.3 has the divergences ψ.)

With ψ_l the sum of ψ over level l and P(l) the probability that a picture divided alike everywhere ends at level l, K ≤ Σ P(l)
exp(−ψ_l / λ); and ψ_l ≥ Ψ(t_l), t_l half the L1 distance of level l. `spaces.nested_bounds` makes of it what a pair scores at most
whose rows are so far apart. (HASHING.md, section 9.)
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinbin.errors import InvalidInput
from kinbin.native.jit import inline, reassoc, strict
from kinbin.native.logarithm import log2
from kinbin.native.memory import f64_array, float64_at, i64_array, item, pointer_f32, pointer_u16, u64_at
from kinbin.native.records import Layout
from kinbin.parameters import Value
from kinbin.rows.lookup import context_at, lookup_at, narrow_weight
from kinbin.rows.record import HEADER
from kinbin.spaces.nested_bounds import BASES, STEPS, most_of, shares_of
from kinbin.spaces.once import once
from kinbin.spaces.prints import Parameter
from kinbin.spaces.pyramid import MOST_LEVELS, NODE, REST, SMALL, Pyramid
from kinbin.spaces.space import Code, Space
from kinbin.spaces.transfer import apart_of, similarity_of

__all__ = ["NESTED"]

U64 = np.uint64
_TV, _CHI2, _JD, _H2, _H1 = range(5)
_HALF_LN2 = 0.5 * math.log(2.0)
_SAME = 4e-7
"""Pairs whose ψ is not larger are the same: values are float32."""
_TILT = {"tv": 0.3, "chi2": 0.35, "jd": 0.12, "h2": 0.37, "h1": 8.0}
"""How much larger ψ is in a level than in the one above, of photographs that are near each other (CIFAR-10, grids 1 to 64)."""

TREE = Layout(
    "NESTED",
    base=("count", "which ψ"),
    rate=("number", "1 / λ"),
    nodes=("count", "cells of all grids"),
    levels=("i64[]", "the level of each node"),
    shares=("f64[]", "(4,) ε of each level; 0 of the finest"),
    scales=("f64[]", "(4,) what values of each level are divided by"),
    rounding=("number", "scores may be too large by so much"),
    most=("f64[]", "the most of pairs that are so many steps of t apart"),
)
_BASE, _RATE, _NODES, _LEVELS, _SHARES, _SCALES, _ROUNDING, _MOST = (
    U64(TREE.offset(name)) for name in ("base", "rate", "nodes", "levels", "shares", "scales", "rounding", "most")
)


@inline
def _tv(u, v):
    """|u − v| − u."""
    return abs(u - v) - u


@inline
def _chi2(u, v):
    """(u − v)² / (u + v) − u, v > 0."""
    return (u - v) * (u - v) / (u + v) - u


@inline
def _jd(u, v):
    """½ (u ln u + v ln v) − m ln m − ½ u ln 2, m = (u + v) / 2, v > 0: in bits of u + v, times ln 2."""
    both = u + v
    r, rest = u / both, v / both
    return _HALF_LN2 * (both + both * (r * log2(r) + rest * log2(rest)) - u)


@inline
def _h2(u, v):
    """(√u − √v)² − u."""
    return v - 2.0 * math.sqrt(u * v)


@inline
def _h1(u, v):
    """|√u − √v| − √u."""
    root = math.sqrt(u)
    return abs(root - math.sqrt(v)) - root


@reassoc
def _beyond(base, place, span, cells, scales):
    """Σ ψ(u, v) − ψ(u, 0) over some nonzeros v of a row. place: (its features, its values); span: (first, end); scales: (row's, query's).

    u is 0 where the query has none. Cost: 1 to 4 ns a nonzero.
    """
    features, values = place
    own, other = scales
    total = 0.0
    if base == _TV:
        for x in range(span[0], span[1]):
            total += _tv(np.float64(narrow_weight(cells, item(features, x))) * other, np.float64(item(values, x)) * own)
    elif base == _CHI2:
        for x in range(span[0], span[1]):
            total += _chi2(np.float64(narrow_weight(cells, item(features, x))) * other, np.float64(item(values, x)) * own)
    elif base == _JD:
        for x in range(span[0], span[1]):
            total += _jd(np.float64(narrow_weight(cells, item(features, x))) * other, np.float64(item(values, x)) * own)
    elif base == _H2:
        for x in range(span[0], span[1]):
            total += _h2(np.float64(narrow_weight(cells, item(features, x))) * other, np.float64(item(values, x)) * own)
    else:
        for x in range(span[0], span[1]):
            total += _h1(np.float64(narrow_weight(cells, item(features, x))) * other, np.float64(item(values, x)) * own)
    return total


@inline
def _both_parts(cells, feature):
    """A sum of the query, which lies in two features."""
    return np.float64(narrow_weight(cells, feature)) + np.float64(narrow_weight(cells, feature + 1))


@strict
def _score(row, nnz, looked_up):
    """K of a stored row and the query in the look-up. Rows that are the same but for a factor score 1."""
    if nnz < 1:
        return math.nan
    context, cells = context_at(looked_up), lookup_at(looked_up).cells
    base, rate, nodes = np.int64(u64_at(context + _BASE)), float64_at(context + _RATE), np.int64(u64_at(context + _NODES))
    levels = i64_array(u64_at(context + _LEVELS), nodes)
    shares, scales = f64_array(u64_at(context + _SHARES), 4), f64_array(u64_at(context + _SCALES), 4)
    features = pointer_u16(row + U64(HEADER))
    values = pointer_f32(row + U64(HEADER) + U64((2 * nnz + 3) // 4 * 4))
    whole = np.float64(item(values, nnz - 1))
    if nnz > 1 and np.int64(item(features, nnz - 2)) == nodes * NODE:
        whole += np.float64(item(values, nnz - 2))
    own, other = SMALL / whole, SMALL / _both_parts(cells, nodes * NODE)
    alone = (_HALF_LN2 if base == _JD else 1.0) / SMALL
    # Products of the kernels of the nodes of a level that have the same parent, so far.
    first, second, third = 1.0, 1.0, 1.0
    score, x = 0.0, 0
    for node in range(nodes):
        level = levels[node]
        scale = scales[level]
        begin, rest = x, node * NODE + REST
        while x < nnz and np.int64(item(features, x)) < rest:
            x += 1
        apart = _beyond(base, (features, values), (begin, x), cells, (own * scale, other * scale))
        while x < nnz and np.int64(item(features, x)) < rest + 2:
            x += 1
        # What the query has alone: all that it has, less what `_beyond` took off.
        apart += _both_parts(cells, rest) * other * scale * alone
        kernel = math.exp(-rate * max(apart, 0.0))
        share = shares[level]
        if level == 3:
            third *= kernel
        elif level == 2:
            second *= (1.0 - share) * kernel + share * third
            third = 1.0
        elif level == 1:
            first *= (1.0 - share) * kernel + share * second
            second = 1.0
        else:
            score = (1.0 - share) * kernel + share * first
    return 1.0 if score > 1.0 - _SAME * rate else score


@inline
def _at(context, step):
    return f64_array(u64_at(context + _MOST), STEPS + 1)[step]


@strict
def _best(context, distance, _norm, _other):
    """The most that a pair scores whose rows are so far apart in L1: that of the step before."""
    return _at(context, np.int64(apart_of(distance) * STEPS))


@strict
def _farthest(context, score):
    """The distance beyond which no pair scores so much: 2 t of the first step that scores less. The table falls."""
    low, high = 0, STEPS + 1
    while low < high:
        middle = (low + high) // 2
        if _at(context, middle) < score:
            high = middle
        else:
            low = middle + 1
    return 2.0 * min(np.float64(low) / STEPS, 1.0)


@strict
def _least(context, score):
    """The least min-max similarity of the rows of a pair of this score."""
    return similarity_of(0.5 * _farthest(context, score - float64_at(context + _ROUNDING)))


_BOUNDED = Code(_score, _best, _farthest, _least)
_ORDERED = Code(_score, _best, _farthest)


def _scores_vouching(context: Any, similarities: NDArray[np.float64]) -> NDArray[np.float64]:
    """The inverse of `_least` for arrays of any shape; inf where nothing is so similar."""
    record, most, _ = context()
    finite = similarities <= 1.0
    scores = np.full(similarities.shape, np.inf)
    apart = (1.0 - similarities[finite]) / (1.0 + similarities[finite])
    # The step before, and what `_least` takes off; a hair more, so that it falls below that step.
    scores[finite] = most[np.floor(np.clip(apart, 0.0, 1.0) * STEPS).astype(np.int64)] + record["rounding"][0] + 1e-11
    return scores


def _context(pyramid: Pyramid, base: str, width: float, shares: NDArray[np.float64]) -> tuple[NDArray[np.void], NDArray[np.float64], Any]:
    """The record that the code is handed, the table of what pairs score at most, and what else has to live as long."""
    most = most_of(base, width, shares, pyramid.weights / pyramid.weights.sum())
    scales, own = np.zeros(MOST_LEVELS), np.zeros(MOST_LEVELS)
    scales[: pyramid.levels], own[: pyramid.levels - 1] = 1.0 / pyramid.weights, shares
    levels = pyramid.places[0]
    record = TREE.record(
        base=BASES.index(base), rate=1.0 / width, nodes=pyramid.nodes, levels=levels, shares=own, scales=scales,
        rounding=1e-11 + 2.5 * _SAME / width, most=most,
    )  # fmt: skip
    return record, most, (levels, own, scales)


def _shares(levels: int, epsilon: Value) -> NDArray[np.float64]:
    """(levels − 1,) ε of each level that is divided."""
    if not isinstance(epsilon, tuple):
        return np.full(levels - 1, float(epsilon))
    if len(epsilon) != levels - 1:
        text = f"epsilon is one number, or one for each of the {levels - 1} levels above the finest, not {len(epsilon)} of them"
        raise InvalidInput.of("bad_parameter", text, field="parameters")
    return np.array(epsilon)


def _nested(values: Mapping[str, Any]) -> Space:
    """The kernel with these parameters, which are in their ranges.

    Raises:
        InvalidInput: code "bad_parameter": not as many epsilon as there are levels to divide.
    """
    levels, base, width = int(values["levels"]), str(values["base"]), float(values["lambda"])
    shares = _shares(levels, values["epsilon"])
    # Where a level's ψ is larger, its kernel is smaller, and less of the score hangs on it.
    weights = [share * math.exp(-_TILT[base] / width * level) for level, share in enumerate(shares_of(shares).tolist())]
    try:
        pyramid = Pyramid.weighing(weights, rooted=base == "h1")
    except ValueError:
        text = "of these lambda and epsilon the weight of a level lies in the middle of two: change one of them in its last digits"
        raise InvalidInput.of("bad_parameter", text, field="parameters") from None
    context = once(lambda: _context(pyramid, base, width, shares))
    return Space(
        "nested", "nested histograms", "K_T = (1 − ε) exp(−ψ_T / λ) + ε Π K_U over the parts U of T, u, v ≥ 0", shapes=True, signed=False,
        code=_BOUNDED if base in ("tv", "chi2") else _ORDERED, score_at=partial(_scores_vouching, context),
        declared=_DECLARED, parameters=dict(values), of=_nested, context=lambda: context()[0], pyramid=pyramid,
    )  # fmt: skip


_DECLARED = {
    "levels": Parameter(3, 1, MOST_LEVELS, "how many grids there are: of 1, 4, 16 and 64 cells", whole=True),
    "base": Parameter("tv", 0, 0, "ψ, how histograms are compared: total variation, χ², Jensen divergence, Hellinger", words=BASES),
    "lambda": Parameter(1.0, 0.1, 10_000.0, "how slowly scores fall with ψ: the larger, the slower"),
    "epsilon": Parameter(0.5, 0.0, 1.0, "how much parts count: 0, the whole alone; 1, the finest cells alone", several=MOST_LEVELS - 1),
}  # fmt: skip
NESTED = _nested({name: one.default for name, one in _DECLARED.items()})
