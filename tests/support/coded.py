"""Rows and codes for the tests of links: any rows, their true distance, and codes in clusters."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

import kinbin
import naive
from kinbin.rows.canonical import canonical_rows
from kinbin.rows.rows import Rows

WIDTH = 64
VALUES = st.floats(-1e3, 1e3, width=32).filter(lambda value: abs(value) >= 1e-3)
SPARSE_ROWS = st.dictionaries(st.integers(0, 2**63 - 1), VALUES, min_size=1, max_size=20)


def canonical(rows: list[dict[int, float]]) -> Rows:
    """Rows as the library keeps them."""
    return canonical_rows([kinbin.Sparse(list(row), list(row.values())) for row in rows], dim=None, signed=True)


def shape_distance(left: dict[int, float], right: dict[int, float]) -> float:
    """L1 of two rows, each divided by its sum of absolute values."""
    p, q = naive.normalised(naive.row(left)), naive.normalised(naive.row(right))
    return sum(abs(p.get(feature, 0.0) - q.get(feature, 0.0)) for feature in p.keys() | q.keys())


def unit(row: dict[int, float], *, roots: bool) -> dict[int, float]:
    """A row divided by its length, or the square roots of the row divided by its sum, by the definition."""
    weights = {feature: abs(value) ** 0.5 if roots else value for feature, value in naive.row(row).items()}
    length = sum(weight * weight for weight in weights.values()) ** 0.5
    return {feature: weight / length for feature, weight in weights.items()}


def unit_distance(left: dict[int, float], right: dict[int, float], *, roots: bool) -> float:
    """L2 of two unit rows."""
    a, b = unit(left, roots=roots), unit(right, roots=roots)
    return float(sum((a.get(feature, 0.0) - b.get(feature, 0.0)) ** 2 for feature in a.keys() | b.keys()) ** 0.5)


def codes_of(n: int, seed: int = 0, clusters: int = 20) -> NDArray[np.uint8]:
    """Codes in clusters."""
    rng = np.random.default_rng(seed)
    centres = rng.integers(30, 220, (clusters, WIDTH))
    codes: NDArray[np.uint8] = np.clip(centres[rng.integers(0, clusters, n)] + rng.integers(-15, 16, (n, WIDTH)), 0, 255).astype(np.uint8)
    return codes
