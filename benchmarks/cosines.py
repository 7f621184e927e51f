"""Cosine and Hellinger against FAISS and pynndescent on unit rows: queries a second at equal recall; one thread, one process."""

from __future__ import annotations

import json
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
from libraries import EF_CONSTRUCTION, LINKS, NEIGHBOURS, WIDTHS, of_faiss
from peers import cheapest
from report import figure, paragraphs, table
from truth import TOLERANCE

FLOORS = (0.95, 0.99)
OURS = "Kinbin links"
TARGETS = (0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
EPSILONS = (0.02, 0.1, 0.2, 0.3)
SETS = (("mnist", "cosine"), ("cifar10_rgbhist512", "cosine"), ("mnist", "hellinger"), ("cifar10_rgbhist512", "hellinger"))


@dataclass(frozen=True, slots=True)
class Point:
    """One system at one setting."""

    system: str
    setting: float
    contender: Contender


def units(kernel: str, rows: NDArray[Any]) -> NDArray[np.float32]:
    """(n, d) the rows whose inner products are the scores: divided by their lengths, of Hellinger their square roots."""
    exact = np.sqrt(rows.astype(np.float64)) if kernel == "hellinger" else rows.astype(np.float64)
    return np.ascontiguousarray((exact / np.linalg.norm(exact, axis=1, keepdims=True)).astype(np.float32))


def measure(options: Options) -> dict[str, Any]:
    """Every set. What was built is kept in the cache, so that times can be measured again without building."""
    kinbin.warm_up()
    return {"sets": [_measure(name, kernel, options) for name, kernel in SETS]}


def _measure(name: str, kernel: str, options: Options) -> dict[str, Any]:
    data = data_set(name)
    rows, queries = data["X_train"][: options.pick(None, 2_000)], data["X_test"][: options.pick(1_000, 100)]
    folder = options.cache / f"cosines-{name}-{kernel}-{len(rows)}"
    folder.mkdir(parents=True, exist_ok=True)
    near, asked = units(kernel, rows), units(kernel, queries)
    kth = _kept(folder / "truth", lambda: np.partition(asked @ near.T, -K, axis=1)[:, -K])
    seconds: dict[str, float] = {}
    indexes = {system: _built(folder / system.replace(" ", "-"), build, seconds) for system, build in _builders(near).items()}
    _built(folder / "database", partial(_fill, folder / "kinbin", kernel, rows), seconds)
    with kinbin.open(folder / "kinbin") as database:
        collection = database.collection("c")
        points = [Point(OURS, target, of_collection(collection, queries.astype(np.float32), target, "links")) for target in TARGETS] + list(
            _of_peers(indexes, asked)
        )
        recalls = [_recall(near, asked, kth, point.contender.rows(point.contender.many())) for point in points]
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


def _builders(near: NDArray[np.float32]) -> dict[str, Callable[[], Any]]:
    return {"FAISS HNSW": lambda: _hnsw(near), "pynndescent": lambda: _descent(near)}


def _hnsw(near: NDArray[np.float32]) -> Any:
    import faiss

    faiss.omp_set_num_threads(1)
    index = faiss.IndexHNSWFlat(near.shape[1], LINKS, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction = EF_CONSTRUCTION
    index.add(near)
    return faiss.serialize_index(index)


def _descent(near: NDArray[np.float32]) -> Any:
    import pynndescent

    index = pynndescent.NNDescent(near, metric="cosine", n_neighbors=NEIGHBOURS, n_jobs=1, random_state=1, compressed=False)
    index.prepare()
    return index


def _unpacked(index: Any) -> Any:
    import faiss

    return faiss.deserialize_index(index) if isinstance(index, np.ndarray) else index


def _of_peers(indexes: dict[str, Any], asked: NDArray[np.float32]) -> Iterator[Point]:
    """The other libraries: the cosines of unit rows order answers as the kernel does."""
    for width in WIDTHS:
        yield Point("FAISS HNSW", width, of_faiss(indexes["FAISS HNSW"], asked, "FAISS HNSW", int(width)))
    forest = indexes["pynndescent"]
    for epsilon in EPSILONS:
        many = partial(forest.query, asked, k=K, epsilon=epsilon)
        yield Point("pynndescent", epsilon, Contender("pynndescent", many, lambda _: None, lambda answer: answer[0].astype(np.int64)))


def _recall(near: NDArray[np.float32], asked: NDArray[np.float32], kth: NDArray[np.float32], found: NDArray[np.int64]) -> float:
    """Mean recall: answered rows that score as much as the true tenth."""
    scores = np.einsum("mkd,md->mk", near[found], asked)
    scores[found < 0] = -np.inf
    return float((scores >= kth[:, None] - TOLERANCE).mean())


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
