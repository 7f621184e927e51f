"""The Hellinger kernel of histograms, or Bhattacharyya's coefficient: Σ √(u v) of rows that sum to 1.

It is the cosine of the rows' roots: these are hashed, by random projections, and bands prove by their law; these are coded, and codes
prune by how far apart they are (`spaces.angle`). Its bounds by the distance of shapes are those of `spaces.transfer` with
φ(x) = 1 − √(1 − x²) (HASHING.md, section 9): the weakest of the family, since pairs whose features all differ by the same share are
far from what data hold. Products are pruned by them.
(Kernels through nested histograms, section 3.)
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from kinbin.hashing.laws import argmax_collision, sign_collision
from kinbin.native.jit import reassoc, strict
from kinbin.native.memory import float64_at, item, pointer_f32, pointer_u16, pointer_u64
from kinbin.rows.lookup import lookup_at, narrow_weight, norm_at, wide_of, wide_weight
from kinbin.rows.record import HEADER
from kinbin.spaces.angle import angle_best, angle_farthest
from kinbin.spaces.cosine import scores_vouching_cosine
from kinbin.spaces.pairwise import ROOTS, Pairwise
from kinbin.spaces.rounding import ROUNDING, snapped
from kinbin.spaces.space import UNIT_ROOTS, Code, Law, Space
from kinbin.spaces.transfer import apart_of, scores_vouching, similarity_of

__all__ = ["HELLINGER", "ROOT_LAWS"]

U64 = np.uint64
_DISTANCES = 1e-14
"""Distances may be too large by so much, which is nothing but where they are nearly 2: a root makes 1e-7 of it there."""
_ROOTS = 2e-7
"""More than rounding roots to float32 takes from the probability of a collision: two angles of 6e-8, times 1.2 (HASHING.md, section 9)."""


@reassoc
def _narrow(address, nnz, cells):
    """Σ √(u v) over the nonzeros v of a narrow row; u is 0 where the query has none. Cost: 1 ns a nonzero."""
    features = pointer_u16(address)
    values = pointer_f32(address + U64((2 * nnz + 3) // 4 * 4))
    total = 0.0
    for x in range(nnz):
        total += math.sqrt(np.float64(narrow_weight(cells, item(features, x))) * np.float64(item(values, x)))
    return total


@reassoc
def _wide(address, nnz, lookup):
    """The same of a wide row."""
    features = pointer_u64(address)
    values = pointer_f32(address + U64(8 * nnz))
    cells = wide_of(lookup.cells, lookup.keys, lookup.weights)
    total = 0.0
    for x in range(nnz):
        total += math.sqrt(np.float64(wide_weight(cells, item(features, x), False)) * np.float64(item(values, x)))
    if cells.keys[-1] != 0:
        for x in range(nnz):
            total += math.sqrt(np.float64(wide_weight(cells, item(features, x), True)) * np.float64(item(values, x)))
    return total


@strict
def _score(row, nnz, looked_up):
    """The score of a stored row against the query in the look-up. Rows that are the same but for a factor score 1."""
    lookup, own, norm = lookup_at(looked_up), norm_at(looked_up), float64_at(row)
    body = row + U64(HEADER)
    shared = _wide(body, nnz, lookup) if lookup.wide else _narrow(body, nnz, lookup.cells)
    return snapped(shared / math.sqrt(norm * own), nnz)


@strict
def _best(_context, distance, _norm, _other):
    """√(1 − t²): no pair whose shapes are 2 t apart scores more. Of 1 − t: 1 − t² loses its digits where t is nearly 1."""
    shared = min(1.0 - apart_of(distance) + _DISTANCES, 1.0)
    return math.sqrt(shared * (2.0 - shared))


@strict
def _farthest(_context, score):
    """2 t of the pair that is farthest apart of those that score so much."""
    return 2.0 * math.sqrt(max(0.0, (1.0 - score) * (1.0 + score)))


@strict
def _least(context, score):
    """The min-max similarity of that pair, though the score may be rounded up."""
    return similarity_of(0.5 * _farthest(context, max(score - ROUNDING, 0.0)))


def _score_at(similarities: NDArray[np.float64]) -> NDArray[np.float64]:
    """The scores from which on pairs are so similar at least."""
    return scores_vouching(similarities, lambda apart: np.sqrt((1.0 - apart) * (1.0 + apart)))


@strict
def _argmax(row, nnz, looked_up):
    """The probability that codes of "argmax" of the roots collide: the score is their cosine."""
    return argmax_collision(_score(row, nnz, looked_up))


@strict
def _sign(row, nnz, looked_up):
    """The same of "sign"."""
    return sign_collision(_score(row, nnz, looked_up))


@strict
def _least_argmax(_context, score):
    """The least of them of a pair of this score, though it may be rounded up."""
    return max(argmax_collision(score - ROUNDING) - _ROOTS, 0.0)


@strict
def _least_sign(_context, score):
    """The same of "sign"."""
    return max(sign_collision(score - ROUNDING) - _ROOTS, 0.0)


def _law(sampler: Literal["argmax", "sign"], least: Any, collision: Any) -> Law:
    return Law(least, lambda probabilities: scores_vouching_cosine(sampler, probabilities + _ROOTS), collision, roots=True)


ROOT_LAWS = {"argmax": _law("argmax", _least_argmax, _argmax), "sign": _law("sign", _least_sign, _sign)}
"""Of samplers of the roots, for every kernel that is nowhere above this one: its pairs collide at least as often as its score says."""


HELLINGER = Space(
    "hellinger", "Hellinger", "Σ √(u v) of rows that sum to 1, u, v ≥ 0", shapes=True, signed=False,
    code=Code(_score, angle_best, angle_farthest, _least, _best), score_at=_score_at, pairwise=Pairwise((ROOTS,)), geometry=UNIT_ROOTS,
    laws=ROOT_LAWS,
)  # fmt: skip
