"""Cosine, Hellinger, Jensen-Shannon and chi-squared against FAISS and pynndescent: queries a second at equal recall; one thread."""

from __future__ import annotations

import json
import os
import pickle
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import kinbin
from common import K, Options, data_set, interleaved, run, spread
from contenders import Contender, of_collection
from databases import fill
from kinbin.features import pairwise
from libraries import EF_CONSTRUCTION, LINKS, NEIGHBOURS, WIDTHS
from peers import cheapest
from report import figure, paragraphs, table
from truth import TOLERANCE

FLOORS = (0.95, 0.99)
OURS = "Kinbin links"
TARGETS = (0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
EPSILONS = (0.02, 0.1, 0.2, 0.3)
DATA = ("mnist", "cifar10_rgbhist512")
KERNELS = os.environ.get("COSINE_KERNELS", "cosine,hellinger,js,chi2").split(",")
SETS = [(name, kernel) for kernel in KERNELS for name in DATA]
MOST_ROWS = {"js": 10_000}
"""FAISS takes minutes to build a graph by Jensen-Shannon divergences of so many."""
RANKED_AGAIN = 30
"""Answers that are asked of a peer that has no such kernel, and ranked by it."""


@dataclass(frozen=True, slots=True)
class Point:
    """One system at one setting."""

    system: str
    setting: float
    contender: Contender


def units(kernel: str, rows: NDArray[Any]) -> NDArray[np.float32]:
    """(n, d) what the other libraries are given: rows that sum to 1 for Jensen-Shannon, else of length 1, of histograms the roots."""
    exact = rows.astype(np.float64)
    if kernel == "js":
        return np.ascontiguousarray((exact / exact.sum(axis=1, keepdims=True)).astype(np.float32))
    exact = np.sqrt(exact) if kernel in ("hellinger", "chi2") else exact
    return np.ascontiguousarray((exact / np.linalg.norm(exact, axis=1, keepdims=True)).astype(np.float32))


def measure(options: Options) -> dict[str, Any]:
    """Every set. What was built is kept in the cache, so that times can be measured again without building."""
    kinbin.warm_up()
    return {"sets": [_measure(name, kernel, options) for name, kernel in SETS]}


def _measure(name: str, kernel: str, options: Options) -> dict[str, Any]:
    data = data_set(name)
    rows, queries = data["X_train"][: options.pick(MOST_ROWS.get(kernel), 2_000)], data["X_test"][: options.pick(1_000, 100)]
    folder = options.cache / f"peers-{name}-{kernel}-{len(rows)}"
    folder.mkdir(parents=True, exist_ok=True)
    near, asked = units(kernel, rows), units(kernel, queries)
    kth = _kept(folder / "truth", lambda: np.concatenate([_kth(kernel, queries[i : i + 100], rows) for i in range(0, len(queries), 100)]))
    seconds: dict[str, float] = {}
    indexes = {system: _built(folder / system.replace(" ", "-"), build, seconds) for system, build in _builders(kernel, near).items()}
    _built(folder / "database", partial(_fill, folder / "kinbin", kernel, rows), seconds)
    with kinbin.open(folder / "kinbin") as database:
        collection = database.collection("c")
        points = [Point(OURS, target, of_collection(collection, queries.astype(np.float32), target, "links")) for target in TARGETS] + list(
            _of_peers(indexes, asked, _ranked_again(rows, queries) if kernel == "chi2" else None)
        )
        recalls = [_recall(kernel, (rows, queries), kth, point.contender.rows(point.contender.many())) for point in points]
        times = interleaved({str(i): point.contender.many for i, point in enumerate(points)}, options.rounds(3, 1))
        codes = collection.stats()["links"]
    lines = [
        {"system": point.system, "value": point.setting, "recall": recall, "seconds": spent}
        for point, recall, spent in zip(points, recalls, times.values(), strict=True)
    ]
    return {
        "name": name, "kernel": kernel, "rows": len(rows), "queries": len(queries), "code_bytes": codes["code_bytes"],
        "code_recall": codes["code_recall"], "built": seconds, "lines": lines,
    }  # fmt: skip


def _kept(path: Path, make: Callable[[], Any]) -> Any:
    """What was made before, or is made now and kept."""
    if not path.exists():
        path.write_bytes(pickle.dumps(make()))
    return pickle.loads(path.read_bytes())


def _built(path: Path, build: Callable[[], Any], seconds: dict[str, float]) -> Any:
    """The same of an index; writes down what building took."""

    def make() -> Any:
        started = time.perf_counter()
        return build(), time.perf_counter() - started

    index, seconds[path.name] = _kept(path, make)
    return _unpacked(index)


def _fill(folder: Path, kernel: str, rows: NDArray[Any]) -> str:
    """A linked collection on disk."""
    with kinbin.open(folder) as database:
        return json.dumps(fill(database.create_collection("c", kernel=kernel, dim=rows.shape[1], seed=0), rows.astype(np.float32)))


def _builders(kernel: str, near: NDArray[np.float32]) -> dict[str, Callable[[], Any]]:
    return {"FAISS HNSW": lambda: _hnsw(kernel, near), "pynndescent": lambda: _descent(kernel, near)}


def _hnsw(kernel: str, near: NDArray[np.float32]) -> Any:
    import faiss

    faiss.omp_set_num_threads(1)
    metric = faiss.METRIC_JensenShannon if kernel == "js" else faiss.METRIC_INNER_PRODUCT
    index = faiss.IndexHNSWFlat(near.shape[1], LINKS, metric)
    index.hnsw.efConstruction = EF_CONSTRUCTION
    index.add(near)
    return faiss.serialize_index(index)


def _descent(kernel: str, near: NDArray[np.float32]) -> Any:
    import pynndescent

    metric = "jensen_shannon" if kernel == "js" else "cosine"
    index = pynndescent.NNDescent(near, metric=metric, n_neighbors=NEIGHBOURS, n_jobs=1, random_state=1, compressed=False)
    index.prepare()
    return index


def _unpacked(index: Any) -> Any:
    import faiss

    return faiss.deserialize_index(index) if isinstance(index, np.ndarray) else index


Ranker = Callable[[NDArray[np.int64]], NDArray[np.int64]]


def _of_peers(indexes: dict[str, Any], asked: NDArray[np.float32], again: Ranker | None) -> Iterator[Point]:
    """The other libraries. again: ranks more answers (m, n) by the kernel that they have not, and keeps the best."""
    count = K if again is None else RANKED_AGAIN
    graph, forest = indexes["FAISS HNSW"], indexes["pynndescent"]
    for width in WIDTHS:

        def search(width: int = int(width)) -> NDArray[np.int64]:
            graph.hnsw.efSearch = max(width, count)
            found: NDArray[np.int64] = graph.search(asked, count)[1]
            return found

        yield Point("FAISS HNSW", width, _contender("FAISS HNSW", search, again))
    for epsilon in EPSILONS:

        def query(epsilon: float = epsilon) -> NDArray[np.int64]:
            found: NDArray[np.int64] = forest.query(asked, k=count, epsilon=epsilon)[0].astype(np.int64)
            return found

        yield Point("pynndescent", epsilon, _contender("pynndescent", query, again))


def _contender(what: str, ask: Callable[[], NDArray[np.int64]], again: Ranker | None) -> Contender:
    return Contender(what, ask if again is None else lambda: again(ask()), lambda _: None, lambda answer: answer)


def _ranked_again(rows: NDArray[Any], queries: NDArray[Any]) -> Ranker:
    """By chi-squared, in NumPy: as who has such a library would do it."""
    near, asked = (np.ascontiguousarray((X / X.sum(axis=1, keepdims=True)).astype(np.float32)) for X in (rows, queries))

    def rank(found: NDArray[np.int64]) -> NDArray[np.int64]:
        best = np.empty((len(found), K), np.int64)
        for i in range(len(found)):
            some = near[found[i]]
            scores = (some * asked[i] / (some + asked[i] + np.float32(1e-30))).sum(axis=1)
            best[i] = found[i][np.argsort(-scores)[:K]]
        return best

    return rank


def _kth(kernel: str, queries: NDArray[Any], rows: NDArray[Any]) -> NDArray[np.float64]:
    """(m,) the score of each query's k-th neighbour."""
    return np.asarray(np.partition(pairwise(queries, rows, kernel=kernel), -K, axis=1)[:, -K])


def _recall(kernel: str, pair: tuple[NDArray[Any], NDArray[Any]], kth: NDArray[np.float64], found: NDArray[np.int64]) -> float:
    """Mean recall: answered rows that score as much as the true tenth."""
    rows, queries = pair
    reached = 0
    for i in range(len(found)):
        which = np.unique(found[i][found[i] >= 0])
        if not len(which):
            # FAISS finds nothing at all by Jensen-Shannon divergences of some rows with zeros.
            continue
        reached += int((pairwise(queries[i : i + 1], rows[which], kernel=kernel) >= kth[i] - TOLERANCE).sum())
    return reached / found.size


def render(result: dict[str, Any]) -> str:
    """For each floor of recall the cheapest setting of everybody."""
    return paragraphs(*(part for floor in FLOORS for part in (f"At recall@10 ≥ {floor}, batch:", _floor(result, floor))))


def _floor(result: dict[str, Any], floor: float) -> str:
    lines: list[tuple[object, ...]] = []
    for each in result["sets"]:
        systems = dict.fromkeys(line["system"] for line in each["lines"])
        best = {system: cheapest((line for line in each["lines"] if line["system"] == system), floor) for system in systems}
        for system, line in best.items():
            what = f"{each['kernel']}, {each['name']}: {system}"
            if line is None:
                lines.append((f"{what}, not reached", *[None] * 4))
                continue
            spent = spread([1e6 * second / each["queries"] for second in line["seconds"]])["median"]
            ours = best[OURS]
            share = None if ours is None else spent / spread([1e6 * second / each["queries"] for second in ours["seconds"]])["median"]
            lines.append((f"{what}, {line['value']:g}", figure(line["recall"], 4), 1e6 / spent, spent, share))
    return table(("", "recall@10", "queries/s", "µs a query", f"time / {OURS}"), lines)


if __name__ == "__main__":
    run("cosines", measure, render)
