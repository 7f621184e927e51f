"""The items that gateways and one server both hold in tests: many that tie, and none that does."""

from __future__ import annotations

import numpy as np

__all__ = ["DIM", "IDS", "PAYLOADS", "ROWS", "TIED", "UNTIED"]

ROWS, DIM = 240, 12
IDS = [f"i{i}" for i in range(ROWS)]
_rng = np.random.default_rng(11)
TIED = _rng.integers(0, 3, (ROWS, DIM)).astype(np.float32)
"""Many alike: equal rows, and rows that have nothing in common."""
TIED[:, 0] += TIED.sum(axis=1) == 0
TIED[7] = TIED[11] * np.float32(1 + 2**-22)
UNTIED = _rng.gamma(0.5, 1.0, (ROWS, DIM)).astype(np.float32) + np.float32(0.01)
PAYLOADS = [
    {"year": 2_000 + i % 9, "tag": "odd" if i % 2 else ["even", "x"], "shot": i % 5 if i % 11 else None, "deep": {"n": -i}}
    if i % 13
    else None
    for i in range(ROWS)
]
