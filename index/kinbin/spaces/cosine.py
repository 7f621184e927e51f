"""The cosine ρ = Σ u v / (|u| |v|) of rows as they are, signed or not, and rising functions of it.

acos prints 1 − acos(ρ) / π, rbf exp(−γ (1 − ρ)): the Gaussian kernel of rows of length 1. frbf, the folded one, is the mean of
exp(−γ (1 − ρ)) and exp(−γ (1 + ρ)), which rises with ρ from 0 on only: it takes no negative values.
(Comparison study of nonlinear kernels, sections 1.2 and 1.4, equations 9 to 12.)

No distance of shapes bounds a cosine: one large value that two rows share makes it nearly 1, whatever the rest. So rows are hashed by
random projections, whose law of collision is a function of ρ itself.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from kinbin.hashing.laws import argmax_collision, rho_at, sign_collision
from kinbin.native.jit import inline, reassoc, strict
from kinbin.native.memory import item, pointer_f32, pointer_u16, pointer_u64
from kinbin.rows.lookup import lookup_at, narrow_weight, squares_at, wide_of, wide_weight
from kinbin.rows.record import HEADER
from kinbin.rows.topk import ALIKE
from kinbin.spaces.angle import angle_best, angle_farthest
from kinbin.spaces.ordered import signed_score, signed_value
from kinbin.spaces.pairwise import COSINE as COSINE_SUM
from kinbin.spaces.pairwise import Block, Pairwise, at_most_one
from kinbin.spaces.prints import GAMMA, Print, PrintKind
from kinbin.spaces.rounding import ROUNDING, snapped
from kinbin.spaces.space import UNIT_ROWS, Code, Law, Space

__all__ = ["ACOS", "COSINE", "COSINE_LAWS", "FRBF", "RBF", "cosine_of", "scores_vouching_cosine"]

U64 = np.uint64


@reassoc
def _narrow(address, nnz, cells):
    """(Σ u v, Σ v²) over the nonzeros v of a narrow row; u is 0 where the query has none. Cost: 1 ns a nonzero."""
    features = pointer_u16(address)
    values = pointer_f32(address + U64((2 * nnz + 3) // 4 * 4))
    total = squares = 0.0
    for x in range(nnz):
        v = np.float64(item(values, x))
        total += np.float64(narrow_weight(cells, item(features, x))) * v
        squares += v * v
    return total, squares


@reassoc
def _wide(address, nnz, lookup):
    """The same of a wide row."""
    features = pointer_u64(address)
    values = pointer_f32(address + U64(8 * nnz))
    cells = wide_of(lookup.cells, lookup.keys, lookup.weights)
    total = squares = 0.0
    for x in range(nnz):
        v = np.float64(item(values, x))
        total += np.float64(wide_weight(cells, item(features, x), False)) * v
        squares += v * v
    if cells.keys[-1] != 0:
        for x in range(nnz):
            total += np.float64(wide_weight(cells, item(features, x), True)) * np.float64(item(values, x))
    return total, squares


@inline
def cosine_of(row, nnz, looked_up):
    """ρ of a stored row and the query in the look-up: exactly 1, or -1, of rows that are the same but for a factor."""
    lookup = lookup_at(looked_up)
    body = row + U64(HEADER)
    if lookup.wide:
        total, squares = _wide(body, nnz, lookup)
    else:
        total, squares = _narrow(body, nnz, lookup.cells)
    rho = total / (math.sqrt(squares) * math.sqrt(squares_at(looked_up)))
    return -snapped(-rho, nnz) if rho < 0.0 else snapped(rho, nnz)


@strict
def _score(row, nnz, looked_up):
    """The score that stands for ρ (`spaces.ordered`); NaN of a damaged row's, which the smaller of it and 0 would hide."""
    rho = cosine_of(row, nnz, looked_up)
    return signed_score(rho) if abs(rho) <= 1.0 else np.nan


@strict
def _argmax(row, nnz, looked_up):
    """The probability that codes of "argmax" collide."""
    return argmax_collision(cosine_of(row, nnz, looked_up))


@strict
def _sign(row, nnz, looked_up):
    """The probability that codes of "sign" collide."""
    return sign_collision(cosine_of(row, nnz, looked_up))


@strict
def _least_argmax(_context, score):
    """The least of them of a pair of this score, though it may be rounded up."""
    return argmax_collision(signed_value(score) - ROUNDING)


@strict
def _least_sign(_context, score):
    """The same of "sign"."""
    return sign_collision(signed_value(score) - ROUNDING)


def scores_vouching_cosine(sampler: Literal["argmax", "sign"], probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """The scores from which on pairs collide with these probabilities at least (any shape); inf where none does."""
    rho = rho_at(sampler, probabilities) + ROUNDING
    scores = np.where(rho > ALIKE, rho, ALIKE * (1.0 + np.minimum(rho, 0.0)))
    return np.where(rho > 1.0 + ROUNDING, np.inf, scores)


COSINE_LAWS: Mapping[str, Law] = {
    "argmax": Law(_least_argmax, lambda probabilities: scores_vouching_cosine("argmax", probabilities), _argmax),
    "sign": Law(_least_sign, lambda probabilities: scores_vouching_cosine("sign", probabilities), _sign),
}
"""Of every kernel whose score stands for ρ."""


def _scores(sums: Sequence[Block], _left: Block, _right: Block) -> Block:
    """The scores that stand for matrices of ρ."""
    rho = at_most_one(sums[0])
    return np.where(rho > ALIKE, rho, ALIKE * (1.0 + np.clip(rho, -1.0, 0.0)))


_PAIRWISE = Pairwise((COSINE_SUM,), _scores, outer="x")
_CODE = Code(_score, angle_best, angle_farthest)


def _space(name: str, title: str, formula: str, printed: Print, **more: Any) -> Space:
    return Space(
        name, title, formula, shapes=True, code=_CODE, geometry=UNIT_ROWS, printed=printed, score_of=printed.score_of, laws=COSINE_LAWS,
        pairwise=_PAIRWISE, **more,
    )  # fmt: skip


def _gaussian(values: Mapping[str, Any]) -> Space:
    return _space(
        "rbf", "Gaussian", "exp(−γ (1 − ρ)), ρ the cosine", Print(PrintKind.EXPONENTIAL, values["gamma"], signed=True), signed=True,
        declared={"gamma": GAMMA}, parameters=dict(values), of=_gaussian,
    )  # fmt: skip


def _folded(values: Mapping[str, Any]) -> Space:
    gamma = values["gamma"]
    return _space(
        "frbf", "folded Gaussian", "(exp(−γ (1 − ρ)) + exp(−γ (1 + ρ))) / 2, ρ the cosine, u, v ≥ 0",
        Print(PrintKind.FOLDED, gamma), signed=False, printed_range=(0.0, 0.5 + 0.5 * math.exp(-2.0 * gamma)),
        declared={"gamma": GAMMA}, parameters=dict(values), of=_folded,
    )  # fmt: skip


COSINE = _space(
    "cosine", "cosine", "Σ u v / (|u| |v|)", Print(signed=True), signed=True, printed_range=(-1.0, 1.0),
)  # fmt: skip
ACOS = _space("acos", "arc-cosine", "1 − acos(cosine) / π", Print(PrintKind.ACOS, signed=True), signed=True)
RBF = _gaussian({"gamma": GAMMA.default})
FRBF = _folded({"gamma": GAMMA.default})
