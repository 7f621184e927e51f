"""What `tune` predicts of twelve settings, held against the collection after a rebuild with each of them."""

from __future__ import annotations

import os
import time
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

import kinbin
from common import Options, data_set, ids_of, run, workspace
from report import paragraphs, table

K, TARGET = 10, 0.9
ROWS, SAMPLE, OTHERS, QUERIES, REPEATS = 20_000, 4_000, 4_000, 500, 3
SETS = ("cifar10_rgbhist512", "mnist", "news20_counts", "reuters_r8_counts")
CHOICES = tuple((rows, bands) for rows in (2, 3, 4, 6) for bands in (64, 128, 200))
_TIED = 1e-12


def measure(options: Options) -> dict[str, Any]:
    """Every set, every setting."""
    kinbin.set_threads(1)
    return {
        "calibrated": bool(os.environ.get("KINBIN_COSTS")),
        "k": K,
        "target": TARGET,
        "sets": {name: _of_set(name, options) for name in SETS},
    }


def _of_set(name: str, options: Options) -> dict[str, Any]:
    """Predictions of one set, and what came of them."""
    rows, queries = _rows_of(name, options)
    with workspace(options) as folder, kinbin.open(folder) as database:
        dim = None if scipy.sparse.issparse(rows) else int(rows.shape[1])
        collection = database.create_collection("rows", dim=dim)
        collection.add(ids_of(0, rows.shape[0]), rows)
        collection.compact()
        began = time.thread_time()
        told = collection.tune(K, TARGET, sample=min(options.pick(SAMPLE, 100), rows.shape[0] // 2), choices=CHOICES)
        seconds = time.thread_time() - began
        # Another draw of rows than that of the prediction. Each finds itself first.
        others = rows[np.sort(np.random.default_rng(1).permutation(rows.shape[0])[: options.pick(OTHERS, 100)])]
        asked = _Asked(queries, _kth(collection, queries, K), others, _kth(collection, others, K + 1))
        lines = [_of_setting(collection, one, asked, options) for one in told.bands]
    return {
        "rows": int(rows.shape[0]),
        "sample": told.sample,
        "tuning_s": seconds,
        "suggested": [told.suggested.rows, told.suggested.bands],
        "settings": lines,
    }


class _Asked(NamedTuple):
    """Queries and other stored rows, each with the score of its last true neighbour."""

    queries: Any
    kth: NDArray[np.float64]
    others: Any
    kth_of_others: NDArray[np.float64]


def _kth(collection: kinbin.Collection, queries: Any, k: int) -> NDArray[np.float64]:
    return np.array([scores[-1] for scores in collection.query_batch(queries, k=k, mode="exact").scores])


def _of_setting(collection: kinbin.Collection, told: kinbin.BandsForecast, asked: _Asked, options: Options) -> dict[str, Any]:
    """One setting: the collection laid out so, and searched."""
    collection.rebuild(told.rows, told.bands)
    answers = collection.query_batch(asked.queries, k=K, mode="bands")
    others = collection.query_batch(asked.others, k=K + 1, mode="bands")
    few = asked.others[: len(asked.kth)]
    times: dict[str, list[float]] = {"queries": [], "rows": []}
    for _ in range(options.rounds(REPEATS)):
        for of, batch, k in (("queries", asked.queries, K), ("rows", few, K + 1)):
            began = time.thread_time()
            collection.query_batch(batch, k=k, mode="bands")
            times[of].append((time.thread_time() - began) / batch.shape[0] * 1e6)
    recall = float(np.mean([(scores >= least - _TIED).mean() for scores, least in zip(answers.scores, asked.kth, strict=True)]))
    found = [(scores[1:] >= least - _TIED).sum() / K for scores, least in zip(others.scores, asked.kth_of_others, strict=True)]
    return {
        "rows": told.rows, "bands": told.bands, "recall": told.recall, "error": told.recall_error,
        "measured": recall, "measured_rows": float(np.mean(found)),
        "us": told.microseconds, "measured_us": float(np.median(times["queries"])), "measured_us_rows": float(np.median(times["rows"])),
        "verified": told.verified, "measured_verified": float(np.mean([answer.verified for answer in answers])),
    }  # fmt: skip


def _rows_of(name: str, options: Options) -> tuple[Any, Any]:
    """Rows and queries, without empty ones."""
    data, most = data_set(name), (options.pick(ROWS, 2_000), options.pick(QUERIES, 50))
    if "X_train" in data:
        return data["X_train"][: most[0]].astype(np.float32), data["X_test"][: most[1]].astype(np.float32)
    found = []
    for part, count in zip(("train", "test"), most, strict=True):
        shape = tuple(int(side) for side in data[f"{part}_shape"])
        counts = scipy.sparse.csr_matrix((data[f"{part}_data"], data[f"{part}_indices"], data[f"{part}_indptr"]), shape=shape)
        found.append(counts[np.diff(counts.indptr) > 0][:count].astype(np.float32))
    return found[0], found[1]


def render(result: dict[str, Any]) -> str:
    """The worst of each set, then every setting."""
    worst = []
    for name, one in result["sets"].items():
        of_rows, of_queries = ([abs(line["recall"] - line[what]) for line in one["settings"]] for what in ("measured_rows", "measured"))
        near = [f"{sum(value <= 0.02 for value in off)} of {len(off)}" for off in (of_rows, of_queries)]
        times = [
            [max(line["us"] / line[what], line[what] / line["us"]) for line in one["settings"]]
            for what in ("measured_us_rows", "measured_us")
        ]
        quick = [f"{sum(value <= 1.5 for value in off)} of {len(off)}" for off in times]
        figures = (max(of_rows), near[0], max(of_queries), near[1], max(times[0]), quick[0], max(times[1]), quick[1], one["tuning_s"])
        worst.append((f"`{name}`, {one['rows']:,} rows, {one['sample']:,} drawn", *figures))
    header = (
        "set", "recall off, at most: other rows", "within .02", "queries", "within .02",
        "time off, at most: other rows", "within 1.5", "queries", "within 1.5", "tuning, s",
    )  # fmt: skip
    lines = [
        (
            f"`{name}` {line['rows']}x{line['bands']}",
            line["recall"],
            line["error"],
            line["measured_rows"],
            line["measured"],
            line["us"],
            line["measured_us_rows"],
            line["measured_us"],
            line["verified"],
            line["measured_verified"],
        )
        for name, one in result["sets"].items()
        for line in one["settings"]
    ]
    columns = (
        "setting",
        "recall predicted",
        "its error",
        "of other rows",
        "of queries",
        "µs predicted",
        "of other rows",
        "of queries",
        "rows scored, predicted",
        "measured",
    )
    costs = (
        "Costs are those of this machine (`kinbin calibrate`)."
        if result["calibrated"]
        else "Costs are the default ones, of another machine."
    )
    return paragraphs(costs, table(header, worst), table(columns, lines))


if __name__ == "__main__":
    run("tune", measure, render)
