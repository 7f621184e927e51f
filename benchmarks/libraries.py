"""Indexes of other libraries over the same rows: how each is built, asked and weighed.

They are given rows whose absolute values sum to 1, and measure L1 distance: that orders answers exactly as `ngmm` does.
score = (2 - distance) / (2 + distance), for rows with signs as well: splitting signs keeps the distance.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from common import K, Skipped
from contenders import Contender

__all__ = ["EF_CONSTRUCTION", "LINKS", "PEERS", "Peer", "flat", "hnsw", "normalised", "of_faiss"]

LINKS = 16
EF_CONSTRUCTION = 100


@dataclass(frozen=True, slots=True)
class Peer:
    """A kind of index of another library, with the ladder of its one setting at query time."""

    name: str
    setting: str
    """What the ladder's values are called; empty where there is nothing to set."""
    ladder: tuple[float, ...]
    build: Callable[[Any], Any]
    """The index of normalised rows, ready to be asked."""
    contender: Callable[[Any, Any, float], Contender]
    """Index, normalised queries, and a value of the ladder."""
    weigh: Callable[[Any, Path], int]
    """Bytes of the index with its rows, as the library would save it; the path is free to write to."""
    takes_sparse: bool = False
    most_rows: int | None = None
    """It is given only so many rows; None: all."""
    timed_again: bool = False
    """Building is timed in every round, not just once."""


def normalised(rows: Any) -> Any:
    """Rows whose absolute values sum to 1, as float32: (n, d) C-contiguous, or CSR where they came as a sparse matrix."""
    if scipy.sparse.issparse(rows):
        exact = scipy.sparse.csr_matrix(rows, dtype=np.float64)
        sums = np.asarray(abs(exact).sum(axis=1)).ravel()
        return scipy.sparse.csr_matrix(scipy.sparse.diags(1.0 / sums) @ exact, dtype=np.float32)
    exact = np.asarray(rows, np.float64)
    return np.ascontiguousarray((exact / np.abs(exact).sum(axis=1, keepdims=True)).astype(np.float32))


def _missing(package: str) -> Skipped:
    return Skipped(f"{package} is not installed: make bench installs it")


# ------------------------------------------------------------------------------------------- FAISS


def _faiss() -> Any:
    try:
        import faiss
    except ModuleNotFoundError:
        raise _missing("faiss-cpu") from None
    faiss.omp_set_num_threads(1)
    return faiss


def flat(rows: NDArray[np.float32]) -> Any:
    """An exact scan of dense rows."""
    faiss = _faiss()
    index = faiss.IndexFlat(rows.shape[1], faiss.METRIC_L1)
    index.add(rows)
    return index


def hnsw(rows: NDArray[np.float32], links: int = LINKS, construction: int = EF_CONSTRUCTION) -> Any:
    """A graph of dense rows, M = 16 and efConstruction = 100 unless others are given."""
    faiss = _faiss()
    index = faiss.IndexHNSWFlat(rows.shape[1], links, faiss.METRIC_L1)
    index.hnsw.efConstruction = construction
    index.add(rows)
    return index


def of_faiss(index: Any, queries: NDArray[np.float32], what: str, width: int | None = None) -> Contender:
    """A FAISS index asked by itself, or a graph asked with an efSearch."""

    def search(some: NDArray[np.float32]) -> Any:
        if width is not None:
            index.hnsw.efSearch = width
        return index.search(some, K)

    return Contender(what, lambda: search(queries), lambda i: search(queries[i : i + 1]), lambda answer: answer[1])


def _weigh_faiss(index: Any, _: Path) -> int:
    return int(_faiss().serialize_index(index).nbytes)


# ------------------------------------------------------------------------------------- pynndescent

NEIGHBOURS = 30


def _nn_descent(rows: Any) -> Any:
    """A graph by NN-descent of dense or CSR rows, prepared for queries."""
    try:
        import pynndescent
    except ModuleNotFoundError:
        raise _missing("pynndescent") from None
    index = pynndescent.NNDescent(rows, metric="manhattan", n_neighbors=NEIGHBOURS, n_jobs=1, random_state=0)
    index.prepare()
    return index


def _of_nn_descent(index: Any, queries: Any, epsilon: float) -> Contender:
    def search(some: Any) -> Any:
        return index.query(some, k=K, epsilon=epsilon)

    what = f"pynndescent, epsilon {epsilon:g}"
    return Contender(what, lambda: search(queries), lambda i: search(queries[i : i + 1]), lambda answer: np.asarray(answer[0], np.int64))


# ------------------------------------------------------------------------------------------- Annoy

TREES = 50


def _trees(rows: NDArray[np.float32]) -> Any:
    """A forest of random projections of dense rows."""
    try:
        from annoy import AnnoyIndex
    except ModuleNotFoundError:
        raise _missing("annoy") from None
    index = AnnoyIndex(rows.shape[1], "manhattan")
    index.set_seed(1)
    for i, row in enumerate(rows):
        index.add_item(i, row)
    index.build(TREES, n_jobs=1)
    return index


def _of_trees(index: Any, queries: NDArray[np.float32], nodes: float) -> Contender:
    search_k = int(nodes)

    def search(i: int) -> list[int]:
        found: list[int] = index.get_nns_by_vector(queries[i], K, search_k)
        return found

    return Contender(f"Annoy, search_k {search_k:,}", lambda: [search(i) for i in range(len(queries))], search, _filled)


def _weigh_trees(index: Any, path: Path) -> int:
    index.save(str(path))
    return path.stat().st_size


def _filled(answers: list[list[int]]) -> NDArray[np.int64]:
    """(m, 10) of lists that may be shorter."""
    return np.array([found[:K] + [-1] * (K - len(found)) for found in answers], np.int64)


# -------------------------------------------------------------------------------------- datasketch

HASHES = 128
RANKED_AGAIN = 200
_AT_ONCE = 100
"""Rows of a call of minhash_many, which makes arrays of nonzeros × hashes."""


class Forest:
    """datasketch's LSHForest of weighted MinHashes, whose first 200 answers are ranked by L1 distance: it gives no scores itself."""

    def __init__(self, rows: Any) -> None:
        try:
            from datasketch import MinHashLSHForest, WeightedMinHashGenerator
        except ModuleNotFoundError:
            raise _missing("datasketch") from None
        self._signed = bool(rows.min() < 0)
        self._rows = self.prepared(rows)
        self._generator = WeightedMinHashGenerator(self._rows.shape[1], HASHES, seed=1)
        self._forest = MinHashLSHForest(num_perm=HASHES)
        for i, sketch in enumerate(self._sketches(self._rows)):
            self._forest.add(i, sketch)
        self._forest.index()

    def prepared(self, rows: Any) -> Any:
        """CSR without negative values: where the indexed rows have some, feature f becomes f, or d + f where it is negative."""
        matrix = scipy.sparse.csr_matrix(rows)
        return scipy.sparse.hstack([matrix.maximum(0), (-matrix).maximum(0)], "csr") if self._signed else matrix

    def size(self) -> int:
        """Bytes of the forest and its rows; the parameters of the hashes can be drawn again."""
        return len(pickle.dumps((self._rows, self._forest)))

    def search(self, queries: Any) -> list[list[int]]:
        """Up to 10 row numbers for each prepared query, the nearest first."""
        weights = np.zeros(queries.shape[1], np.float32)
        out = []
        for i, sketch in enumerate(self._sketches(queries)):
            here = slice(queries.indptr[i], queries.indptr[i + 1])
            weights[queries.indices[here]] = queries.data[here]
            out.append(self._nearest(weights, self._forest.query(sketch, RANKED_AGAIN)))
            weights[queries.indices[here]] = 0.0
        return out

    def _nearest(self, weights: NDArray[np.float32], candidates: list[int]) -> list[int]:
        """The 10 candidates that share the most weight with a query: rows sum to 1, so their L1 distance is the least."""
        if not candidates:
            return []
        rows = self._rows[candidates]
        shared = np.add.reduceat(np.minimum(weights[rows.indices], rows.data), rows.indptr[:-1])
        return [candidates[place] for place in np.argsort(-shared, kind="stable")[:K]]

    def _sketches(self, rows: Any) -> list[Any]:
        parts = [self._generator.minhash_many(rows[first : first + _AT_ONCE]) for first in range(0, rows.shape[0], _AT_ONCE)]
        return [sketch for part in parts for sketch in part]


def _of_forest(forest: Forest, queries: Any, _: float) -> Contender:
    prepared = forest.prepared(queries)
    return Contender("datasketch", lambda: forest.search(prepared), lambda i: forest.search(prepared[i : i + 1]), _filled)


# --------------------------------------------------------------------------------------- the peers

WIDTHS = (10, 16, 24, 32, 40, 48, 64, 80, 100, 128, 160, 200)
"""efSearch."""
EPSILONS = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3)
NODES = (500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000)
"""search_k."""


def _of_graph(index: Any, queries: NDArray[np.float32], width: float) -> Contender:
    return of_faiss(index, queries, f"FAISS HNSW, efSearch {int(width)}", int(width))


def _weigh_pickled(index: Any, _: Path) -> int:
    return len(pickle.dumps(index))


PEERS = (
    Peer("FAISS HNSW M=16 efC=100", "efSearch", WIDTHS, hnsw, _of_graph, _weigh_faiss, timed_again=True),
    Peer("FAISS HNSW M=32 efC=200", "efSearch", WIDTHS, partial(hnsw, links=32, construction=200), _of_graph, _weigh_faiss),
    Peer("FAISS IndexFlat", "", (0,), flat, lambda index, queries, _: of_faiss(index, queries, "FAISS IndexFlat"), _weigh_faiss),
    Peer(
        f"pynndescent n_neighbors={NEIGHBOURS}", "epsilon", EPSILONS, _nn_descent, _of_nn_descent, _weigh_pickled, takes_sparse=True
    ),
    Peer(f"Annoy, {TREES} trees", "search_k", NODES, _trees, _of_trees, _weigh_trees),
    Peer(
        f"datasketch LSHForest, {HASHES} hashes", "", (0,), Forest, _of_forest, lambda forest, _: forest.size(),
        takes_sparse=True, most_rows=5_000,
    ),
)  # fmt: skip
