"""The terms of kernels of vectors: what each feature adds to the sum that a score is a function of.

A space names its sum, what it makes of it and what is printed (`spaces.pairwise`, `spaces.prints`), so every kernel of vectors is told
here; one that does not say what it makes of its sum is told by its score alone. Terms are float64; of the min-max family they are the
float32 products that its scores are made of, so that they add up to the printed score and not to a better one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinbin.explaining.told import Factor, Rest, Term
from kinbin.rows.rows import Rows
from kinbin.spaces.ordered import signed_of
from kinbin.spaces.pairwise import Sum, first_sum
from kinbin.spaces.prints import AS_IT_IS, Print, PrintKind
from kinbin.spaces.rounding import snapped
from kinbin.spaces.shared import SAME
from kinbin.spaces.space import Space

__all__ = ["Pair", "factor_of"]

Values = NDArray[np.float64]

_NOISE = 1e-12
"""Sums in another order differ by less."""
_OUTER = {
    PrintKind.SAME: None,
    PrintKind.ACOS: "1 - acos(x) / pi",
    PrintKind.EXPONENTIAL: "exp(-gamma * (1 - x))",
    PrintKind.FOLDED: "(exp(-gamma * (1 - x)) + exp(-gamma * (1 + x))) / 2",
}
_OF_DISTANCE = "exp(-gamma * x / 2)"
"""Of rows of length 1: their squared distance is 2 (1 − ρ)."""
_ROUNDED = "equal but for rounding"


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """A query and an item, feature by feature."""

    features: NDArray[np.uint64]
    """(n,) those that one of them has, ascending."""
    query: NDArray[np.float32]
    """(n,)"""
    item: NDArray[np.float32]
    norms: tuple[float, float]
    """Sums of magnitudes."""
    nonzeros: int
    """Of the item."""

    @classmethod
    def of(cls, query: Rows, item: Rows) -> Pair:
        """Of two rows."""
        features = np.union1d(query.features, item.features)
        both = []
        for rows in (query, item):
            values = np.zeros(len(features), np.float32)
            values[np.searchsorted(features, rows.features)] = rows.values
            both.append(values)
        return cls(features, both[0], both[1], (float(query.norms[0]), float(item.norms[0])), len(item.values))

    def scaled(self, one: Sum) -> tuple[Values, Values]:
        """Both as they are compared."""
        return _scaled(self.query, self.norms[0], one), _scaled(self.item, self.norms[1], one)


def _scaled(values: NDArray[np.float32], norm: float, one: Sum) -> Values:
    wide = values.astype(np.float64)
    length = norm if one.scale == "sum" else math.sqrt(math.fsum((wide * wide).tolist())) if one.scale == "length" else 1.0
    wide /= length
    return np.sqrt(wide) if one.roots else wide


def _least(u: Values, v: Values) -> Values:
    """The smaller magnitude where the signs agree."""
    return np.where((u < 0.0) == (v < 0.0), np.minimum(np.abs(u), np.abs(v)), 0.0)


def _harmonic(u: Values, v: Values) -> Values:
    # Where one is 0 nothing is shared, and 0 / 0 is not asked for.
    return 2.0 * u * (v / np.where(u + v > 0.0, u + v, 1.0))


def _entropy(u: Values, v: Values) -> Values:
    both = (u > 0.0) & (v > 0.0)
    a, b = np.where(both, u, 1.0), np.where(both, v, 1.0)
    return np.where(both, 0.5 * (a * np.log2(1.0 + b / a) + b * np.log2(1.0 + a / b)), 0.0)


_TERMS: Mapping[str, Callable[[Values, Values], Values]] = {
    "shared": _least,
    "dot": lambda u, v: u * v,
    "harmonic": _harmonic,
    "entropy": _entropy,
}
"""By the kind of a sum, its terms."""


def _rounded_least(pair: Pair, space: Space) -> Values:
    """The minima as `spaces.shared` computes them: of float32 values, scaled in float32."""
    one, other = (np.float32(1.0 / norm) if space.shapes else np.float32(1.0) for norm in pair.norms)
    u, v = pair.query * one, pair.item * other
    return np.where((u < 0.0) == (v < 0.0), np.minimum(np.abs(u), np.abs(v)), np.float32(0.0)).astype(np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class _Terms:
    """The terms of a sum, before anything is named."""

    query: Values
    item: Values
    parts: Values
    least: Values | None = None


def factor_of(space: Space, pair: Pair, score: float | None, names: Mapping[int, str], most: int) -> Factor:
    """What a kernel of vectors makes of a pair.

    score: as the engine has it, before it is printed; None: the kernel is the min-max similarity as a factor of a product, which is
    computed in float64. most: so many terms are listed. Cost: 1 µs a feature.
    """
    printed = space.printed if isinstance(space.printed, Print) else AS_IT_IS
    if not _has_terms(space):
        assert score is not None
        value = float(space.printed(score))
        return Factor(space.name, space.formula, dict(space.parameters), value, value, constants=(("what the kernel prints", value),))
    assert space.pairwise is not None
    (one,) = space.pairwise.sums
    u, v = pair.scaled(one)
    if space.pairwise.ratio:
        return _ratio(space, pair, _Terms(u, v, _least(u, v) if score is None else _rounded_least(pair, space)), score, (names, most))
    assert score is not None
    value = signed_of(score) if printed.signed else score
    if printed.kind is PrintKind.EXPONENTIAL and one.scale == "length":
        found = _Terms(u, v, (u - v) ** 2)
        return _told(space, pair, found, 2.0 * (1.0 - value), space.printed(score), _OF_DISTANCE, (names, most))
    found, outer = _Terms(u, v, _TERMS[one.kind](u, v)), _OUTER[printed.kind]
    own = (space.pairwise.outer or "x").format(a=pair.norms[0], b=pair.norms[1])
    if own != "x":
        value = math.fsum(found.parts.tolist())
        outer = own if outer is None else re.sub(r"\bx\b", f"({own})", outer)
    return _told(space, pair, found, value, space.printed(score), outer, (names, most))


def _has_terms(space: Space) -> bool:
    """Whether a score is known as a function of one sum of terms."""
    by = space.pairwise
    return by is not None and len(by.sums) == 1 and (by.ratio or by.outer is not None or by.finish is first_sum)


def _ratio(space: Space, pair: Pair, terms: _Terms, score: float | None, how: tuple[Mapping[int, str], int]) -> Factor:
    """Of the min-max family: J = shared / (whole − shared), of which gint prints 2 J / (1 + J) = shared, of rows that sum to 1."""
    least = terms.parts
    shared, whole = math.fsum(least.tolist()), 2.0 if space.shapes else pair.norms[0] + pair.norms[1]
    if score is None:
        similarity = shared / (whole - shared)
        score = (1.0 if similarity > SAME else similarity) if space.shapes else snapped.py_func(similarity, pair.nonzeros)
    value = float(space.printed(score))
    plain = isinstance(space.printed, Print) and space.printed.kind is PrintKind.INTERSECTION
    parts = least if plain else least / (whole - shared)
    return _told(space, pair, replace(terms, parts=parts, least=least), value, value, None, how)


def _told(
    space: Space, pair: Pair, terms: _Terms, total: float, value: float, outer: str | None, how: tuple[Mapping[int, str], int]
) -> Factor:
    """Terms in order, those that are not listed together, and what rounding makes."""
    names, most = how
    parts, u, v = terms.parts, terms.query, terms.item
    order = np.lexsort((pair.features, -np.maximum(np.abs(u), np.abs(v)), -np.abs(parts)))
    least = terms.least
    # What both have together of a feature: the greater, or the sum where the signs differ.
    top = None if least is None else np.abs(u) + np.abs(v) - least
    listed = tuple(
        Term(
            float(parts[i]), int(pair.features[i]), names.get(int(pair.features[i])), float(u[i]), float(v[i]),
            None if least is None else float(least[i]), None if top is None else float(top[i]),
        )
        for i in order[:most]
    )  # fmt: skip
    others = order[most:]
    rest = Rest(len(others), _sum(parts, others), _sum(least, others), _sum(top, others))  # type: ignore[arg-type]  # parts are there
    off = total - math.fsum(parts.tolist())
    constants = ((_ROUNDED, off),) if abs(off) > _NOISE else ()
    return Factor(space.name, space.formula, dict(space.parameters), float(value), float(total), outer, listed, rest, constants)


def _sum(values: Values | None, which: NDArray[Any]) -> float | None:
    return None if values is None else math.fsum(values[which].tolist())
