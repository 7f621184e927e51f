"""Every ranking of the kernels: recall of a call without options, time at equal recall, exact scans of linked rows."""

from __future__ import annotations

import gc
import json
import os
import statistics
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import kinbin
import report
from common import K, Options, interleaved, run, workspace
from databases import fill
from kinbin.features import pairwise
from report import figure, paragraphs, table
from truth import TOLERANCE, rows_answered
from vector_sets import SETS, VectorSet

RANKINGS = {
    "ngmm": "gint, tv",
    "gmm": "minmax",
    "chi2": "exp_chi2, acos_chi2",
    "js": "",
    "hellinger": "",
    "cosine": "acos, rbf, frbf",
    "mm_acos": "",
    "mm_acos_chi2": "",
    "gmm*acos": "",
}
"""A kernel of each order of neighbours, and those that print other numbers of the same order."""
DATA = ("mnist", "cifar10_rgbhist512", "news20_counts")
TARGETS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98)
FLOOR = 0.95
OURS = "ngmm"
"""What the others' times are compared with."""
QUERIES = 500
SCANNED = 50
_BLOCK = 100
"""Queries whose scores of all rows are in memory at a time."""


def measure(options: Options) -> dict[str, Any]:
    """Every kernel on every data set, or those of KERNEL_SETS and KERNEL_NAMES.

    Sets that are left out keep what was saved of them, with when and where that was measured.
    """
    kinbin.warm_up()
    sets = os.environ.get("KERNEL_SETS", ",".join(DATA)).split(",")
    names = os.environ.get("KERNEL_NAMES", ",".join(RANKINGS)).split(",")
    measured = _kept(options, sets)
    for name in sets:
        data = SETS[name](options)
        lines = []
        for kernel in names:
            lines.append(_measure(kernel, data, options))
            gc.collect()
            print(f"{name} {kernel}: recall {lines[-1]['recall']:.4f}, {lines[-1]['auto_us']:.1f} us", flush=True)
        measured[name] = {"title": data.title, "rows": data.rows.shape[0], "dimension": data.rows.shape[1], "kernels": lines}
    return {"floor": FLOOR, "queries": QUERIES, "sets": {name: measured[name] for name in DATA if name in measured}}


def _kept(options: Options, sets: list[str]) -> dict[str, Any]:
    """What was saved of other sets, where results are those of the document."""
    path = report.RESULTS / "kernels.json"
    if options.results != report.RESULTS or not path.exists():
        return {}
    saved = json.loads(path.read_text(encoding="utf-8"))
    where = f"{saved['date']}, {saved['machine']['instructions']}, at {saved['versions']['commit']}"
    return {name: {"measured": where} | each for name, each in saved["result"]["sets"].items() if name not in sets}


def _measure(kernel: str, data: VectorSet, options: Options) -> dict[str, Any]:
    queries = data.queries[:QUERIES]
    kth = _kth_scores(kernel, data.rows, queries)
    with workspace(options) as folder, kinbin.open(folder) as database:
        dimension = None if data.is_sparse else data.rows.shape[1]
        collection = database.create_collection("c", kernel=kernel, dim=dimension, seed=0)
        few = queries[:SCANNED]
        fill(collection, data.rows, link=False)
        plain = _median(partial(collection.query_batch, few, k=K, mode="exact"), options) / SCANNED
        if collection.stats()["links"] is not None:
            # The background was faster.
            plain = float("nan")
        collection.link()
        linked = _median(partial(collection.query_batch, few, k=K, mode="exact"), options) / SCANNED
        answer = collection.query_batch(queries, k=K)
        bands = collection.query_batch(queries, k=K, mode="bands")
        return {
            "kernel": kernel,
            "recall": _recall(kernel, data.rows, queries, answer, kth), "paths": _shares(answer.modes),
            "auto_us": _micros(partial(collection.query_batch, queries, k=K), options),
            "cheapest": _cheapest(kernel, collection, data, kth, options),
            "bands": {
                "recall": _recall(kernel, data.rows, queries, bands, kth), "bound": float(np.nanmean(bands.recall_lower_bounds)),
                "verified": float(np.mean(bands.verified)),
            },
            "scan_us": {"plain": 1e6 * plain, "linked": 1e6 * linked},
        }  # fmt: skip


def _cheapest(
    kernel: str, collection: kinbin.Collection, data: VectorSet, kth: NDArray[np.float64], options: Options
) -> dict[str, Any] | None:
    """The fastest target of a walk that reaches the recall; None: none does, or there are no links."""
    queries = data.queries[:QUERIES]
    if collection.stats()["links"] is None:
        return None
    lines = []
    for target in TARGETS:
        ask = partial(collection.query_batch, queries, k=K, target_recall=target, mode="links")
        recall = _recall(kernel, data.rows, queries, ask(), kth)
        if recall >= FLOOR:
            lines.append({"target": target, "recall": recall, "us": _micros(ask, options)})
    return min(lines, key=lambda line: line["us"]) if lines else None


def _median(ask: Any, options: Options) -> float:
    return statistics.median(interleaved({"": ask}, options.rounds(5, 2))[""])


def _micros(ask: Any, options: Options) -> float:
    return 1e6 * _median(ask, options) / QUERIES


def _shares(modes: list[str]) -> dict[str, float]:
    return {mode: modes.count(mode) / len(modes) for mode in dict.fromkeys(modes)}


def _kth_scores(kernel: str, rows: Any, queries: Any) -> NDArray[np.float64]:
    """(m,) the score of each query's k-th neighbour, by exact kernel matrices."""
    out = np.empty(queries.shape[0])
    for first in range(0, len(out), _BLOCK):
        scores = pairwise(queries[first : first + _BLOCK], rows, kernel=kernel)
        out[first : first + _BLOCK] = np.partition(scores, scores.shape[1] - K, axis=1)[:, -K]
    return out


def _recall(kernel: str, rows: Any, queries: Any, answer: kinbin.AnswerBatch, kth: NDArray[np.float64]) -> float:
    """Mean recall; the answered rows are scored anew, by kernel matrices."""
    answered = rows_answered(answer.ids)
    found = 0
    for i in range(len(answered)):
        which = np.unique(answered[i][answered[i] >= 0])
        found += int((pairwise(queries[i : i + 1], rows[which], kernel=kernel) >= kth[i] - TOLERANCE).sum())
    return found / answered.size


def render(result: dict[str, Any]) -> str:
    """A table for each data set."""
    return paragraphs(*(part for each in result["sets"].values() for part in _set_parts(each, result)))


def _set_parts(each: dict[str, Any], result: dict[str, Any]) -> tuple[str, str]:
    titles = (
        "kernel (the same order)", "recall@10, no options", "µs a query", "walked", f"µs at {result['floor']}, walks",
        f"time / {OURS}", "bands: recall", "their mean bound", "rows verified", "scan, µs", "linked, µs", "plain / linked",
    )  # fmt: skip
    ours = next((one["cheapest"] for one in each["kernels"] if one["kernel"] == OURS), None)
    lines = []
    for one in each["kernels"]:
        best, scan, bands = one["cheapest"], one["scan_us"], one["bands"]
        same = RANKINGS.get(one["kernel"], "")
        lines.append((
            f"`{one['kernel']}`" + (f" ({same})" if same else ""), figure(one["recall"], 4),
            one["auto_us"], one["paths"].get("links", 0.0), best and best["us"],
            best["us"] / ours["us"] if best and ours else None, figure(bands["recall"], 4),
            bands["bound"], bands["verified"], scan["plain"], scan["linked"],
            None if scan["plain"] is None else scan["plain"] / scan["linked"],
        ))  # fmt: skip
    when = f" Measured {each['measured']}." if "measured" in each else ""
    head = f"**{each['title']}.** {each['rows']:,} rows of {each['dimension']:,} dimensions, {result['queries']} queries, k = {K}.{when}"
    return head, table(titles, lines)


if __name__ == "__main__":
    run("kernels", measure, render)
