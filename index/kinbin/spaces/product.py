"""Products of two or three kernels: the score is the product of what the parts print.

Parts print 0 … 1, so a product is at most each of them, and at most the product of what codes allow each. With U(t) that product, for
pairs whose shapes are 2 t apart, a pair that scores s has t ≤ U⁻¹(s), and J ≥ (1 − t) / (1 + t) of that. Where a part is J itself and
another the arc cosine, one code holds a hash of each, and collides with the probability of their product: what bands prove
then is s ≤ that. (Comparison study of nonlinear kernels, section 4: MM-acos and MM-acos-χ²; the bounds: HASHING.md, section 9.)
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinbin.hashing.laws import argmax_collision, sign_collision
from kinbin.native.calls import BOUND, SCORE, call_bound, call_score, code_address
from kinbin.native.jit import inline, strict
from kinbin.native.memory import address_of, float64_at, u64_at
from kinbin.native.records import Layout
from kinbin.rows.lookup import context_at
from kinbin.spaces.chi2 import ACOS_CHI2
from kinbin.spaces.cosine import ACOS, COSINE_LAWS
from kinbin.spaces.minmax import NGMM
from kinbin.spaces.once import once
from kinbin.spaces.ordered import signed_score, signed_value
from kinbin.spaces.pairwise import product_of as pairwise_product
from kinbin.spaces.prints import AS_IT_IS, Print, PrintKind
from kinbin.spaces.similarity import best_of_rows, best_of_shapes, similarity_of_rows, similarity_of_shapes
from kinbin.spaces.space import SHAPES, UNIT_ROWS, Code, Law, Space
from kinbin.spaces.transfer import similarity_of

__all__ = ["MM_ACOS", "MM_ACOS_CHI2", "product_of"]

U64 = np.uint64
_ROUNDING = 2e-6
"""Products may be too large by so much: an arc cosine amplifies the last digits of a score near 1."""
_HALVINGS = 40

PART = Layout(
    "PART",
    count=("count", "parts of the product; the same in each"),
    score=("address", "f64 (row, nnz, look-up): as of `SPACE`"),
    best=("address", "f64 (context, distance, norm, norm): the same; 0: codes say nothing of the part"),
    kind=("count", "what is printed of the score: a `PrintKind`"),
    gamma=("number", "its parameter"),
    signed=("count", "whether it is printed of a signed value"),
    rows=("count", "whether what the part prints is the min-max similarity of rows as they are"),
)
_SIZE = U64(PART.dtype.itemsize)
_COUNT, _SCORE, _BEST, _KIND, _GAMMA, _SIGNED, _ROWS = (
    U64(PART.offset(name)) for name in ("count", "score", "best", "kind", "gamma", "signed", "rows")
)
_SAME, _INTERSECTION, _ACOS, _EXPONENTIAL = (
    int(kind) for kind in (PrintKind.SAME, PrintKind.INTERSECTION, PrintKind.ACOS, PrintKind.EXPONENTIAL)
)


@inline
def _printed(part, score):
    """What a part prints of its score, as `Print` does; NaN of a damaged row's."""
    kind, gamma = np.int64(u64_at(part + _KIND)), float64_at(part + _GAMMA)
    value = signed_value(score) if u64_at(part + _SIGNED) != U64(0) else score
    if kind == _SAME:
        return value
    if kind == _INTERSECTION:
        return 2.0 * value / (1.0 + value)
    if kind == _ACOS:
        return 1.0 - math.acos(value) / math.pi
    near = math.exp(-gamma * (1.0 - value))
    return near if kind == _EXPONENTIAL else 0.5 * (near + math.exp(-gamma * (1.0 + value)))


@inline
def _product(row, nnz, looked_up, count):
    """The product of the first parts."""
    context = context_at(looked_up)
    score = 1.0
    for i in range(count):
        part = context + U64(i) * _SIZE
        score *= _printed(part, call_score(u64_at(part + _SCORE), row, nnz, looked_up))
    return score


@strict
def _score(row, nnz, looked_up):
    """The score of a stored row against the query in the look-up."""
    return _product(row, nnz, looked_up, np.int64(u64_at(context_at(looked_up) + _COUNT)))


@inline
def _most(context, distance, norm, other):
    """The product of what the parts print at most."""
    most = 1.0
    for i in range(np.int64(u64_at(context + _COUNT))):
        part = context + U64(i) * _SIZE
        best = u64_at(part + _BEST)
        most *= _printed(part, call_bound(best, U64(0), distance, norm, other) if best != U64(0) else 1.0)
    return most


@strict
def _best(context, distance, norm, other):
    """The most that a pair scores of shapes that are so far apart, and of these norms."""
    return _most(context, distance, norm, other)


@strict
def _farthest(context, score):
    """The distance of shapes beyond which no pair scores so much, by halving; rounded up."""
    near, far = 0.0, 2.0
    if _most(context, far, 1.0, 1.0) >= score:
        return far
    for _ in range(_HALVINGS):
        middle = 0.5 * (near + far)
        if _most(context, middle, 1.0, 1.0) >= score:
            near = middle
        else:
            far = middle
    return far


@strict
def _least_shapes(context, score):
    """The least J of shapes of a pair of this score."""
    return similarity_of(0.5 * _farthest(context, score - _ROUNDING))


@inline
def _of_rows(context):
    """How many parts are the J of rows as they are."""
    count = np.int64(0)
    for i in range(np.int64(u64_at(context + _COUNT))):
        count += np.int64(u64_at(context + U64(i) * _SIZE + _ROWS))
    return count


@strict
def _least_rows(context, score):
    """The least J of rows as they are: the others print 1 at most."""
    return max(score - _ROUNDING, 0.0) ** (1.0 / _of_rows(context))


@strict
def _least_itself(_context, score):
    """A pair's codes of both hashes collide with the probability of the score, or more."""
    return max(score - _ROUNDING, 0.0)


@strict
def _both(row, nnz, looked_up):
    """J (1 − acos ρ / π): the first two parts."""
    return _product(row, nnz, looked_up, 2)


@inline
def _least_cosine(context, score):
    """The least ρ of a pair of this score, where all parts are functions of ρ that rise with it: by halving, rounded down."""
    wanted = score - _ROUNDING
    low, high = -1.0, 1.0
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        product = 1.0
        for i in range(np.int64(u64_at(context + _COUNT))):
            product *= _printed(context + U64(i) * _SIZE, signed_score(middle))
        if product >= wanted:
            high = middle
        else:
            low = middle
    return low


@strict
def _least_argmax(context, score):
    """The least probability that codes of "argmax" of that pair collide."""
    return argmax_collision(_least_cosine(context, score))


@strict
def _least_sign(context, score):
    """The same of "sign"."""
    return sign_collision(_least_cosine(context, score))


@strict
def _fill_best(context, similarities, out):
    """The most that pairs score whose J is at most similarities (m,), into out (m,); inf where J cannot be so large."""
    for i in range(len(similarities)):
        j = similarities[i]
        out[i] = _most(context, 2.0 * (1.0 - j) / (1.0 + j), 1.0, 1.0) + _ROUNDING if j <= 1.0 else np.inf


def product_of(parts: Sequence[Space], name: str = "", title: str = "") -> Space:
    """The product of two or three kernels that print nothing below 0, and have no context of their own.

    Its parameters are those of the parts, as "rbf.gamma". name, title: "gmm*acos" and the like, where none are given.
    """
    parts = _in_order(parts)
    shapes, signed = all(part.shapes for part in parts), all(part.signed for part in parts)
    values = {f"{part.name}.{key}": value for part in parts for key, value in part.parameters.items()}
    declared = {f"{part.name}.{key}": one for part in parts for key, one in part.declared.items()}

    def of(changed: Mapping[str, float]) -> Space:
        return product_of([part if part.of is None else part.of(_own(part, changed)) for part in parts], name, title)

    context = once(lambda: _context(parts))
    coded = any(_best_of_shapes(part) is not None for part in parts)
    angles = all(map(_is_of_cosine, parts))
    similar = sum(map(_is_similarity_of_rows, parts))
    least = None if not coded else _least_shapes if shapes else _least_rows if similar else None
    # Where each part bounds another distance, or none, codes say nothing of the product.
    best, farthest = (_best, _farthest) if coded or angles else (None, None)
    return Space(
        name or "*".join(part.name for part in parts), title or "product", " · ".join(part.name for part in parts),
        shapes=shapes, signed=signed, code=Code(_score, best, farthest, least),
        geometry=UNIT_ROWS if angles else SHAPES,
        printed_range=(0.0, math.prod(part.printed_range[1] for part in parts)),
        score_at=partial(_scores_vouching, context) if shapes else partial(_scores_of_rows, similar),
        laws=_laws(parts, shapes), context=context,
        pairwise=None if any(part.pairwise is None for part in parts) else pairwise_product(*parts),
        declared=declared, parameters=values, of=of if declared else None, factors=tuple(parts),
    )  # fmt: skip


def _own(part: Space, values: Mapping[str, float]) -> dict[str, float]:
    return {key: values[f"{part.name}.{key}"] for key in part.declared}


def _is_similarity(part: Space) -> bool:
    """Whether a part is J itself."""
    return part.code is None and part.printed is NGMM.printed


def _is_similarity_of_rows(part: Space) -> bool:
    """Whether a part is J of rows as they are. Others of such rows may print much for a pair whose J is small."""
    return _is_similarity(part) and not part.shapes


def _is_of_cosine(part: Space) -> bool:
    """Whether a part prints a function of ρ."""
    return part.laws is COSINE_LAWS


def _is_angle(part: Space) -> bool:
    return part.printed == ACOS.printed and part.code is ACOS.code


def _best_of_shapes(part: Space) -> Any:
    """The code that says what a part scores at most whose shapes are so far apart in L1; None: nothing is known."""
    if part.code is None:
        return best_of_shapes if part.shapes else best_of_rows
    return part.code.best if part.geometry == SHAPES and part.codes else part.code.best_of_shapes


def _in_order(parts: Sequence[Space]) -> list[Space]:
    """First the two that one code may hold hashes of: a J, of rows as they are before that of shapes, and the arc cosine."""
    rest = sorted(parts, key=lambda part: part.name)
    similar = sorted(filter(_is_similarity, rest), key=lambda part: part.shapes)[:1]
    first = [*similar, *filter(_is_angle, rest)]
    return [*first, *(part for part in rest if part not in first)]


def _context(parts: Sequence[Space]) -> NDArray[np.void]:
    """(parts,) records of `PART`."""
    records = PART.zeros(len(parts))
    coded = any(_best_of_shapes(part) is not None for part in parts)
    for i, part in enumerate(parts):
        score = part.code.score if part.code is not None else similarity_of_shapes if part.shapes else similarity_of_rows
        best = _best_of_shapes(part) if coded or part.code is None else part.code.best
        printed = part.printed if isinstance(part.printed, Print) else AS_IT_IS
        PART.fill(
            records[i : i + 1], count=len(parts), score=code_address(score, SCORE), best=0 if best is None else code_address(best, BOUND),
            kind=int(printed.kind), gamma=printed.gamma, signed=int(printed.signed), rows=int(_is_similarity_of_rows(part)),
        )  # fmt: skip
    return records


def _laws(parts: Sequence[Space], shapes: bool) -> dict[str, Law]:
    """What rows are hashed by besides J; parts are in order."""
    if _is_similarity(parts[0]) and parts[0].shapes == shapes and _is_angle(parts[1]):
        names = ("gcws_sign", "dart_sign") if shapes else ("gcws_sign",)
        return dict.fromkeys(names, Law(_least_itself, _scores_themselves, _both))
    if not all(map(_is_of_cosine, parts)):
        return {}
    return {
        sampler: Law(least, partial(_scores_of_cosine, parts, sampler), COSINE_LAWS[sampler].collision)
        for sampler, least in (("argmax", _least_argmax), ("sign", _least_sign))
    }


def _scores_vouching(context: Callable[[], NDArray[np.void]], similarities: NDArray[np.float64]) -> NDArray[np.float64]:
    """The inverse of `_least_shapes`, for arrays of any shape."""
    scores = np.empty(similarities.size)
    _fill_best(U64(address_of(context())), np.ascontiguousarray(similarities, np.float64).reshape(-1), scores)
    return scores.reshape(similarities.shape)


def _scores_of_rows(count: int, similarities: NDArray[np.float64]) -> NDArray[np.float64]:
    """The inverse of `_least_rows`."""
    return np.where(similarities > 1.0, np.inf, np.minimum(similarities, 1.0) ** count + _ROUNDING)


def _scores_themselves(probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """The inverse of `_least_itself`."""
    return np.where(probabilities > 1.0, np.inf, probabilities + _ROUNDING)


def _scores_of_cosine(parts: Sequence[Space], sampler: str, probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """The inverse of `_least_argmax`, or `_least_sign`."""
    scores = COSINE_LAWS[sampler].score_at(probabilities)
    possible = np.isfinite(scores)
    scores[possible] = math.prod(part.printed(np.minimum(scores[possible], 1.0)) for part in parts) + _ROUNDING
    return scores


MM_ACOS = product_of([NGMM, ACOS], "mm_acos", "min-max times arc-cosine")
MM_ACOS_CHI2 = product_of([NGMM, ACOS_CHI2], "mm_acos_chi2", "min-max times arc-cosine chi-squared")
