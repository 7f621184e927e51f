"""The chi-squared kernel of histograms: Σ 2 u v / (u + v) of rows that sum to 1.

Its pairs are told apart by t = Σ |u − v| / 2, of which the min-max similarity is J = (1 − t) / (1 + t). With w = (u + v) / 2 and
x = |u − v| / (u + v), 1 − score = Σ w x², Σ w = 1 and Σ w x = t: so t² ≤ 1 − score ≤ t (Jensen; x ≤ 1), and both ends are attained.
(Comparison study of nonlinear kernels, section 1; the bounds are proved in HASHING.md, section 9.)
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from kinbin.native.jit import reassoc, strict
from kinbin.native.memory import float64_at, item, pointer_f32, pointer_u16, pointer_u64
from kinbin.rows.lookup import lookup_at, narrow_weight, wide_weight
from kinbin.rows.record import HEADER
from kinbin.spaces.space import Code, Space

__all__ = ["CHI2"]

U64 = np.uint64
SAME = 1.0 - 4e-7
"""Above this a score is 1 but for rounding: values are float32."""
NEVER_ZERO = 1e-300
"""Added to sums of weights: where a row has values far smaller than others, their float32 weights may both be 0."""
ROUNDING = 1e-6
"""Scores may be too large by so much; what is proved by them must not be."""


@reassoc
def _narrow(address, nnz, scale, cells):
    """Σ 2 u v / (u + v) over the nonzeros v of a narrow row; u is 0 where the query has none. Cost: 1 ns a nonzero."""
    features = pointer_u16(address)
    values = pointer_f32(address + U64((2 * nnz + 3) // 4 * 4))
    total = 0.0
    for x in range(nnz):
        u, v = np.float64(narrow_weight(cells, item(features, x))), np.float64(item(values, x) * scale)
        total += 2.0 * u * v / (u + v + NEVER_ZERO)
    return total


@reassoc
def _wide(address, nnz, scale, lookup, second):
    """The same of a wide row: what the query's first, or second, cells hold."""
    features = pointer_u64(address)
    values = pointer_f32(address + U64(8 * nnz))
    index = lookup.cells.view(np.uint32)
    total = 0.0
    for x in range(nnz):
        u = np.float64(wide_weight(index, lookup.keys, lookup.weights, item(features, x), second))
        v = np.float64(item(values, x) * scale)
        total += 2.0 * u * v / (u + v + NEVER_ZERO)
    return total


@strict
def _score(row, nnz, looked_up):
    """The score of a stored row against the query in the look-up. Rows that are the same but for a factor score 1."""
    lookup = lookup_at(looked_up)
    scale = np.float32(1.0 / float64_at(row))
    body = row + U64(HEADER)
    if lookup.wide:
        score = _wide(body, nnz, scale, lookup, False)
        if lookup.keys[-1] != 0:
            score += _wide(body, nnz, scale, lookup, True)
    else:
        score = _narrow(body, nnz, scale, lookup.cells)
    return 1.0 if score > SAME else score


@strict
def _best(distance, _norm, _other):
    """1 − t²: no pair whose shapes are 2 t apart scores more."""
    apart = min(max(0.5 * distance, 0.0), 1.0)
    return 1.0 - apart * apart


@strict
def _farthest(score):
    """2 t of the pair that is farthest apart of those that score so much."""
    return 2.0 * math.sqrt(max(0.0, 1.0 - score))


@strict
def _least(score):
    """(1 − t) / (1 + t) of that pair, though the score may be rounded up."""
    apart = math.sqrt(min(max(1.0 - score + ROUNDING, 0.0), 1.0))
    return (1.0 - apart) / (1.0 + apart)


def _score_at(similarities: NDArray[np.float64]) -> NDArray[np.float64]:
    """The scores from which on pairs are so similar at least."""
    finite = similarities <= 1.0
    apart = (1.0 - similarities[finite]) / (1.0 + similarities[finite])
    scores = np.full(similarities.shape, np.inf)
    scores[finite] = 1.0 - apart * apart + ROUNDING
    return scores


CHI2 = Space(
    "chi2", "chi-squared", "Σ 2 u v / (u + v) of rows that sum to 1, u, v ≥ 0", shapes=True, signed=False,
    code=Code(_score, _best, _farthest, _least), score_at=_score_at,
)  # fmt: skip
