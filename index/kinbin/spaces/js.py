"""The Jensen–Shannon kernel of histograms: 1 − JSD / ln 2 of rows that sum to 1.

With r = u / (u + v) and H the entropy of (r, 1 − r) in bits, it is Σ H(r) (u + v) / 2 over the features that both rows have. H(r) is
2 √(r (1 − r)) at most, so no pair scores more than under `hellinger`: rows are hashed and coded by their roots. Products, and collections
hashed by `gcws` or `dart`, have the bounds of `spaces.transfer` with φ(x) = ((1 + x) ln(1 + x) + (1 − x) ln(1 − x)) / 2, φ(1) = ln 2
(HASHING.md, section 9).
(Kernels through nested histograms, section 3, names the divergence; Endres and Schindelin 2003 show that its root is a metric.)
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from kinbin.native.jit import inline, reassoc, strict
from kinbin.native.logarithm import log2
from kinbin.native.memory import float64_at, item, pointer_f32, pointer_u16, pointer_u64
from kinbin.rows.lookup import lookup_at, narrow_weight, norm_at, wide_of, wide_weight
from kinbin.rows.record import HEADER
from kinbin.spaces.angle import angle_best, angle_farthest
from kinbin.spaces.hellinger import ROOT_LAWS
from kinbin.spaces.pairwise import JENSEN_SHANNON, Pairwise
from kinbin.spaces.rounding import ROUNDING, snapped
from kinbin.spaces.space import UNIT_ROOTS, Code, Space
from kinbin.spaces.transfer import apart_of, scores_vouching, similarity_of

__all__ = ["JS"]

U64 = np.uint64
_LN2 = math.log(2.0)
_NEARLY_DISJOINT = 1.0 - 1e-9
_STEPS = 20


@inline
def _shared(p, q):
    """(p + q) H(p / (p + q)) in bits; 0 if one of them is."""
    both = p + q
    r, rest = p / both, q / both
    return -both * (r * log2(r) + rest * log2(rest))


@reassoc
def _narrow(address, nnz, norm, own, cells):
    """Σ (u V + v U) H over the nonzeros v of a narrow row; u is 0 where the query has none. Cost: 3 to 4 ns a nonzero.

    norm: V, of the row. own: U, of the query.
    """
    features = pointer_u16(address)
    values = pointer_f32(address + U64((2 * nnz + 3) // 4 * 4))
    total = 0.0
    for x in range(nnz):
        total += _shared(np.float64(narrow_weight(cells, item(features, x))) * norm, np.float64(item(values, x)) * own)
    return total


@reassoc
def _wide(address, nnz, norm, own, lookup):
    """The same of a wide row. Cost: 6 to 10 ns a nonzero; as much again if second cells are used.

    Most features of sparse rows are not the query's. Their logarithms count nothing, but cost less than a branch, or than to put the
    others together first: loops without either become vectors.
    """
    features = pointer_u64(address)
    values = pointer_f32(address + U64(8 * nnz))
    cells = wide_of(lookup.cells, lookup.keys, lookup.weights)
    total = 0.0
    for x in range(nnz):
        u = np.float64(wide_weight(cells, item(features, x), False))
        total += _shared(u * norm, np.float64(item(values, x)) * own)
    if cells.keys[-1] != 0:
        for x in range(nnz):
            u = np.float64(wide_weight(cells, item(features, x), True))
            total += _shared(u * norm, np.float64(item(values, x)) * own)
    return total


@strict
def _score(row, nnz, looked_up):
    """The score of a stored row against the query in the look-up. Rows that are the same but for a factor score 1."""
    lookup, own, norm = lookup_at(looked_up), norm_at(looked_up), float64_at(row)
    body = row + U64(HEADER)
    shared = _wide(body, nnz, norm, own, lookup) if lookup.wide else _narrow(body, nnz, norm, own, lookup.cells)
    return snapped(0.5 * shared / (norm * own), nnz)


@inline
def _phi(apart):
    """φ of 0 ≤ t < 1."""
    return 0.5 * ((1.0 + apart) * math.log1p(apart) + (1.0 - apart) * math.log1p(-apart))


@strict
def _best(_context, distance, _norm, _other):
    """1 − φ(t) / ln 2: no pair whose shapes are 2 t apart scores more."""
    apart = apart_of(distance)
    return 0.0 if apart >= 1.0 else 1.0 - _phi(apart) / _LN2


@strict
def _farthest(_context, score):
    """2 t of the pair that is farthest apart of those that score so much; not less, but by up to 1e-9 more.

    Newton's method for φ(t) = D from above: φ is convex, so that no step passes the root. It begins at √(2 D): φ(t) ≥ t² / 2.
    """
    wanted = _LN2 * max(0.0, 1.0 - score)
    apart = min(math.sqrt(2.0 * wanted), _NEARLY_DISJOINT)
    if apart == _NEARLY_DISJOINT and _phi(apart) < wanted:
        return 2.0
    for _ in range(_STEPS):
        step = (_phi(apart) - wanted) / max(math.atanh(apart), 1e-300)
        apart -= max(step, 0.0)
        if step < 1e-13:
            break
    return 2.0 * min(apart + 1e-12, 1.0)


@strict
def _least(context, score):
    """The min-max similarity of that pair, though the score may be rounded up."""
    return similarity_of(0.5 * _farthest(context, score - ROUNDING))


def _most(apart: NDArray[np.float64]) -> NDArray[np.float64]:
    """U of an array of t."""
    near = np.minimum(apart, 1.0 - 1e-16)
    phi = 0.5 * ((1.0 + near) * np.log1p(near) + (1.0 - near) * np.log1p(-near))
    return np.where(apart < 1.0, 1.0 - phi / _LN2, 0.0) + 1e-11  # what `_farthest` adds, and its steps leave


JS = Space(
    "js", "Jensen-Shannon", "1 − JSD(u, v) / ln 2 of rows that sum to 1, u, v ≥ 0", shapes=True, signed=False,
    code=Code(_score, angle_best, angle_farthest, _least, _best), score_at=lambda similarities: scores_vouching(similarities, _most),
    pairwise=Pairwise((JENSEN_SHANNON,)), geometry=UNIT_ROOTS, laws=ROOT_LAWS,
)  # fmt: skip
