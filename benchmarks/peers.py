"""FAISS over the same rows: L1 distance of rows that sum to 1 orders answers exactly as `ngmm` does.

score = (2 - distance) / (2 + distance), for rows with signs as well: splitting signs keeps the distance.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from common import Skipped

__all__ = ["EF_CONSTRUCTION", "LINKS", "flat", "hnsw", "normalised"]

LINKS = 16
EF_CONSTRUCTION = 100


def normalised(rows: NDArray[Any]) -> NDArray[np.float32]:
    """Dense float32 rows whose absolute values sum to 1."""
    exact = np.asarray(rows, np.float64)
    return np.ascontiguousarray((exact / np.abs(exact).sum(axis=1, keepdims=True)).astype(np.float32))


def _faiss() -> Any:
    try:
        import faiss
    except ModuleNotFoundError:
        raise Skipped("faiss-cpu is not installed: make bench installs it") from None
    faiss.omp_set_num_threads(1)
    return faiss


def flat(rows: NDArray[np.float32]) -> Any:
    """An exact scan of dense rows."""
    faiss = _faiss()
    index = faiss.IndexFlat(rows.shape[1], faiss.METRIC_L1)
    index.add(rows)
    return index


def hnsw(rows: NDArray[np.float32]) -> Any:
    """A graph of dense rows, M = 16, efConstruction = 100."""
    faiss = _faiss()
    index = faiss.IndexHNSWFlat(rows.shape[1], LINKS, faiss.METRIC_L1)
    index.hnsw.efConstruction = EF_CONSTRUCTION
    index.add(rows)
    return index
