"""The chi-squared kernel of histograms: Σ 2 u v / (u + v) of rows that sum to 1; and two rising functions of it.

Its pairs are told apart by t = Σ |u − v| / 2, of which the min-max similarity is J = (1 − t) / (1 + t). With w = (u + v) / 2 and
x = |u − v| / (u + v), 1 − score = Σ w x², Σ w = 1 and Σ w x = t: so t² ≤ 1 − score ≤ t (Jensen; x ≤ 1), and both ends are attained.
(Comparison study of nonlinear kernels, section 1; the bounds are proved in HASHING.md, section 9.)
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinbin.native.jit import reassoc, strict
from kinbin.native.memory import float64_at, item, pointer_f32, pointer_u16, pointer_u64
from kinbin.rows.lookup import lookup_at, narrow_weight, norm_at, wide_of, wide_weight
from kinbin.rows.record import HEADER
from kinbin.spaces.pairwise import CHI_SQUARED, Pairwise
from kinbin.spaces.prints import GAMMA, Print, PrintKind
from kinbin.spaces.rounding import ROUNDING, snapped
from kinbin.spaces.space import Code, Space
from kinbin.spaces.transfer import apart_of, scores_vouching, similarity_of

__all__ = ["ACOS_CHI2", "CHI2", "EXP_CHI2"]

U64 = np.uint64


@reassoc
def _narrow(address, nnz, norm, own, cells):
    """Σ 2 u v / (u V + v U) over the nonzeros v of a narrow row; u is 0 where the query has none. Cost: 1 ns a nonzero.

    norm: V, of the row. own: U, of the query.
    """
    features = pointer_u16(address)
    values = pointer_f32(address + U64((2 * nnz + 3) // 4 * 4))
    total = 0.0
    for x in range(nnz):
        u, v = np.float64(narrow_weight(cells, item(features, x))), np.float64(item(values, x))
        total += 2.0 * u * v / (u * norm + v * own)
    return total


@reassoc
def _wide(address, nnz, norm, own, lookup):
    """The same of a wide row."""
    features = pointer_u64(address)
    values = pointer_f32(address + U64(8 * nnz))
    cells = wide_of(lookup.cells, lookup.keys, lookup.weights)
    total = 0.0
    for x in range(nnz):
        u, v = np.float64(wide_weight(cells, item(features, x), False)), np.float64(item(values, x))
        total += 2.0 * u * v / (u * norm + v * own)
    if cells.keys[-1] != 0:
        for x in range(nnz):
            u, v = np.float64(wide_weight(cells, item(features, x), True)), np.float64(item(values, x))
            total += 2.0 * u * v / (u * norm + v * own)
    return total


@strict
def _score(row, nnz, looked_up):
    """The score of a stored row against the query in the look-up. Rows that are the same but for a factor score 1."""
    lookup, own, norm = lookup_at(looked_up), norm_at(looked_up), float64_at(row)
    body = row + U64(HEADER)
    score = _wide(body, nnz, norm, own, lookup) if lookup.wide else _narrow(body, nnz, norm, own, lookup.cells)
    return snapped(score, nnz)


@strict
def _best(_context, distance, _norm, _other):
    """1 − t²: no pair whose shapes are 2 t apart scores more."""
    apart = apart_of(distance)
    return 1.0 - apart * apart


@strict
def _farthest(_context, score):
    """2 t of the pair that is farthest apart of those that score so much."""
    return 2.0 * math.sqrt(max(0.0, 1.0 - score))


@strict
def _least(_context, score):
    """The min-max similarity of that pair, though the score may be rounded up."""
    return similarity_of(math.sqrt(max(1.0 - score + ROUNDING, 0.0)))


def _score_at(similarities: NDArray[np.float64]) -> NDArray[np.float64]:
    """The scores from which on pairs are so similar at least."""
    return scores_vouching(similarities, lambda apart: 1.0 - apart * apart)


_ACOS = Print(PrintKind.ACOS)
_PAIRWISE = Pairwise((CHI_SQUARED,))
_CODE = Code(_score, _best, _farthest, _least)


def _exponential(values: Mapping[str, Any]) -> Space:
    printed = Print(PrintKind.EXPONENTIAL, values["gamma"])
    return Space(
        "exp_chi2", "exponential chi-squared", "exp(−γ (1 − chi2)), u, v ≥ 0", shapes=True, signed=False, code=_CODE,
        score_at=_score_at, pairwise=_PAIRWISE, printed=printed, score_of=printed.score_of,
        declared={"gamma": GAMMA}, parameters=dict(values), of=_exponential,
    )  # fmt: skip


CHI2 = Space(
    "chi2", "chi-squared", "Σ 2 u v / (u + v) of rows that sum to 1, u, v ≥ 0", shapes=True, signed=False,
    code=_CODE, score_at=_score_at, pairwise=_PAIRWISE,
)  # fmt: skip
ACOS_CHI2 = Space(
    "acos_chi2", "arc-cosine chi-squared", "1 − acos(chi2) / π, u, v ≥ 0", shapes=True, signed=False,
    code=_CODE, score_at=_score_at, pairwise=_PAIRWISE, printed=_ACOS, score_of=_ACOS.score_of,
)  # fmt: skip
EXP_CHI2 = _exponential({"gamma": GAMMA.default})
