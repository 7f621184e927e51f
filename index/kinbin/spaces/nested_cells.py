"""What nested histograms make of a pair, cell by cell: the pass of `spaces.nested` once more, in NumPy, with all that it passes by."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinbin.parameters import Value
from kinbin.rows.rows import Rows
from kinbin.spaces.pyramid import NODE, REST, SMALL, Pyramid

__all__ = ["Node", "nodes_of"]

Values = NDArray[np.float64]
_LN2 = math.log(2.0)


class Node(NamedTuple):
    """A cell of a grid, after its four parts."""

    level: int
    y: int
    x: int
    apart: float
    """ψ."""
    kernel: float
    """k = exp(−ψ / λ)."""
    value: float
    """K."""
    share: float
    """ε; 0 of the finest grid."""
    parts: float
    """The product of the K of its parts; 1 where there are none."""


def _jensen(u: Values, v: Values) -> Values:
    both = u + v
    r = np.where(u > 0.0, u / both, 1.0)
    return 0.5 * _LN2 * (both + both * (r * np.log2(r) + v / both * np.log2(v / both)) - u)


_BEYOND: Mapping[str, Callable[[Values, Values], Values]] = {
    "tv": lambda u, v: np.abs(u - v) - u,
    "chi2": lambda u, v: (u - v) ** 2 / (u + v) - u,
    "jd": _jensen,
    "h2": lambda u, v: v - 2.0 * np.sqrt(u * v),
    "h1": lambda u, v: np.abs(np.sqrt(u) - np.sqrt(v)) - np.sqrt(u),
}
"""ψ(u, v) − ψ(u, 0), of v > 0."""


def nodes_of(pyramid: Pyramid, parameters: Mapping[str, Value], query: Rows, item: Rows) -> list[Node]:
    """Every cell, parts before what they are parts of, the whole image last. Cost: 1 ms."""
    base, width = str(parameters["base"]), float(parameters["lambda"])  # type: ignore[arg-type]
    given = parameters["epsilon"]
    epsilon = [*(given if isinstance(given, tuple) else [float(given)] * (pyramid.levels - 1)), 0.0]
    u, v = _laid_out(pyramid, query), _laid_out(pyramid, item)
    totals = [one[-2] + one[-1] for one in (u, v)]
    levels, parents, _ = pyramid.places
    positions = _positions(pyramid)
    products = np.ones(pyramid.nodes)
    out = []
    for node in range(pyramid.nodes):
        level = int(levels[node])
        scale = SMALL / pyramid.weights[level]
        a, b = (one[node * NODE : node * NODE + REST] * (scale / total) for one, total in zip((u, v), totals, strict=True))
        theirs = b > 0.0
        alone = (u[node * NODE + REST] + u[node * NODE + REST + 1]) * (scale / totals[0]) / SMALL
        apart = float(_BEYOND[base](a[theirs], b[theirs]).sum() + alone * (0.5 * _LN2 if base == "jd" else 1.0))
        kernel, share = math.exp(-max(apart, 0.0) / width), float(epsilon[level])
        value = (1.0 - share) * kernel + share * products[node]
        out.append(Node(level, *positions[node], max(apart, 0.0), kernel, float(value), share, float(products[node])))
        if parents[node] >= 0:
            products[parents[node]] *= value
    return out


def _laid_out(pyramid: Pyramid, row: Rows) -> Values:
    values = np.zeros(pyramid.row_dim)
    values[row.features.astype(np.int64)] = row.values
    return values


def _positions(pyramid: Pyramid) -> dict[int, tuple[int, int]]:
    """The row and column of each node in its grid."""
    _, parents, finest = pyramid.places
    found = {}
    for place, cell in enumerate(finest.tolist()):
        node, (y, x) = cell, divmod(place, pyramid.side)
        while node >= 0:
            found[node] = y, x
            node, y, x = int(parents[node]), y // 2, x // 2
    return found
