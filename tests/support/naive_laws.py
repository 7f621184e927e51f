"""Probabilities of collision from their definitions, by quadrature. Imports nothing of Kinbin."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import owens_t

COMPONENTS = 16


def sign_law(rho: float) -> float:
    """Two signs of a Gaussian projection agree."""
    return 1.0 - math.acos(min(max(rho, -1.0), 1.0)) / math.pi


def argmax_law(rho: float, nodes: int = 160, components: int = COMPONENTS) -> float:
    """The same component has the greatest magnitude, with the same sign (HASHING.md, section 12); to 1e-12."""
    half = 0.5 * math.acos(min(max(rho, -1.0), 1.0))
    at, weight = np.polynomial.legendre.leggauss(nodes)
    angle, radius = np.meshgrid((at + 1) * (math.pi / 4 - half / 2), (at + 1) * 6, indexing="ij")
    weights = np.outer(weight * (math.pi / 4 - half / 2), weight * 6)
    mass = _mass(radius, angle, half)
    density = radius * np.exp(-radius * radius / 2) / (2 * math.pi)
    return float((4 * components * weights * density * np.clip(mass, 0, 1) ** (components - 1)).sum())


def _mass(radius: NDArray[np.float64], angle: NDArray[np.float64], half: float) -> NDArray[np.float64]:
    """P[|X| < x, |Y| < y] where x, y are the pair at a radius and an angle."""
    x, y = radius * np.cos(angle - half), radius * np.cos(angle + half)
    corner = np.arctan2(np.cos(angle) * math.cos(half) ** 2, np.sin(angle) * math.sin(half) ** 2)
    left = owens_t(x, np.tan(corner - half)) - owens_t(x, np.tan(angle - half))
    right = owens_t(y, np.tan(angle + half)) - owens_t(y, np.tan(corner + half - math.pi))
    mass: NDArray[np.float64] = 1 - 2 * (left + right)
    return mass


def argmax_laws(rhos: NDArray[np.float64]) -> NDArray[np.float64]:
    """`argmax_law` of many cosines, by a series through 48 of its values; to 1e-11."""
    angles = np.arccos(np.clip(rhos, -1.0, 1.0))
    return np.asarray(np.polynomial.chebyshev.chebval(2 * angles / math.pi - 1, _series()), np.float64)


@cache
def _series() -> NDArray[np.float64]:
    nodes = np.polynomial.chebyshev.chebpts1(48)
    values = [argmax_law(math.cos((node + 1) * math.pi / 2)) for node in nodes]
    return np.asarray(np.polynomial.chebyshev.chebfit(nodes, values, 47), np.float64)
