"""The items that gateways and one server both hold in tests: many that tie, with identical rows and without, and none that does."""

from __future__ import annotations

import numpy as np

__all__ = ["AGED", "DIM", "IDS", "PAYLOADS", "ROWS", "TIED", "UNTIED"]

ROWS, DIM = 240, 12
IDS = [f"i{i}" for i in range(ROWS)]
_rng = np.random.default_rng(11)
TIED = _rng.integers(0, 3, (ROWS, DIM)).astype(np.float32)
"""Many alike: equal rows, and rows that have nothing in common."""
TIED[:, 0] += TIED.sum(axis=1) == 0
TIED[7] = TIED[11] * np.float32(1 + 2**-22)
AGED = TIED.copy()
"""As many ties, and no row twice: ngmm does not see by which power of two a row is multiplied."""
_seen: set[bytes] = set()
for _row in AGED:
    while _row.tobytes() in _seen:
        _row *= 2
    _seen.add(_row.tobytes())
UNTIED = _rng.gamma(0.5, 1.0, (ROWS, DIM)).astype(np.float32) + np.float32(0.01)
PAYLOADS = [
    {"year": 2_000 + i % 9, "tag": "odd" if i % 2 else ["even", "x"], "shot": i % 5 if i % 11 else None, "deep": {"n": -i}}
    if i % 13
    else None
    for i in range(ROWS)
]
