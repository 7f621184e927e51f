"""Searching 50,000 colour histograms: recall, certificates, and queries a second against FAISS at the same recall."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import kinbin
from common import SPREAD, K, Options, data_set, interleaved, latencies, least_setting, run, spread, workspace
from contenders import mean_recall, of_collection
from databases import fill, layout
from libraries import flat, hnsw, normalised, of_faiss
from report import figure, paragraphs, table
from truth import Judge, rows_answered

FLOOR = 0.98
SEEDS = (0, 1, 2)
DEFAULT = 0.9
TARGETS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.82, 0.84, 0.86, 0.88, 0.9, 0.92, 0.95, 0.98, 0.99, 0.999)
WIDTHS = (10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 128, 160, 192, 256, 384, 512)
"""efSearch."""


def measure(options: Options) -> dict[str, Any]:
    """Quality on three seeds, then speed on the first."""
    data = data_set("cifar10_rgbhist512")
    rows, queries = data["X_train"][: options.pick(50_000, 3_000)], data["X_test"][: options.pick(1_000, 100)]
    judge = Judge(rows, queries, K)
    kinbin.warm_up()
    with workspace(options) as folder, kinbin.open(folder) as database:
        collections = [_filled(database, rows, seed) for seed in SEEDS]
        quality = [_quality(collection, queries, judge, seed) for seed, collection in zip(SEEDS, collections, strict=True)]
        by_target = {target: float(quality[0]["ladder"][target]["recall"]) for target in TARGETS}
        speed = _speed(collections[0], by_target, rows, queries, judge, options.rounds(7, 2))
        return {
            "rows": len(rows), "queries": len(queries), "floor": FLOOR, "layout": layout(collections[0]),
            "default": [{key: one[key] for key in ("seed", "bands", "auto")} for one in quality],
            "certificates_default": _ranges(*_pooled(quality, only=DEFAULT)),
            "certificates": _ranges(*_pooled(quality)),
            "ladder": [
                {"target": target, "recalls": [float(one["ladder"][target]["recall"]) for one in quality]} for target in TARGETS
            ],
            **speed,
        }  # fmt: skip


def _filled(database: kinbin.Database, rows: NDArray[Any], seed: int) -> kinbin.Collection:
    collection = database.create_collection(f"seed{seed}", dim=rows.shape[1], seed=seed)
    fill(collection, rows)
    return collection


# ----------------------------------------------------------------------------------------- quality


def _quality(collection: kinbin.Collection, queries: NDArray[Any], judge: Judge, seed: int) -> dict[str, Any]:
    """Recall and certificates of one seed: by target with bands, and what the default gives."""
    ladder = {}
    for target in TARGETS:
        batch = collection.query_batch(queries, k=K, target_recall=target, mode="bands")
        found = judge.recalls(rows_answered(batch.ids))
        ladder[target] = {"recall": found.mean(), "bounds": batch.recall_lower_bounds, "found": found, "batch": batch}
    auto = collection.query_batch(queries, k=K, mode="auto")
    return {
        "seed": seed, "ladder": ladder,
        "bands": _summary(ladder[DEFAULT]["batch"], ladder[DEFAULT]["found"]),
        "auto": _summary(auto, judge.recalls(rows_answered(auto.ids))),
    }  # fmt: skip


def _summary(batch: kinbin.AnswerBatch, found: NDArray[np.float64]) -> dict[str, Any]:
    """Means of a batch."""
    stated = batch.recall_lower_bounds[~np.isnan(batch.recall_lower_bounds)]
    return {
        "recall": float(found.mean()),
        "certificate": float(stated.mean()) if len(stated) else None,
        "without_certificate": len(batch) - len(stated),
        "linked": batch.modes.count("links"),
        "scanned": batch.modes.count("exact"),
        "candidates": float(np.median(batch.candidates)),
        "verified": float(np.median(batch.verified)),
    }


def _pooled(quality: Sequence[dict[str, Any]], only: float | None = None) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Certificates and recalls of all seeds, of one target or of all."""
    chosen = [one["ladder"][target] for one in quality for target in TARGETS if only in (None, target)]
    return np.concatenate([each["bounds"] for each in chosen]), np.concatenate([each["found"] for each in chosen])


def _ranges(bounds: NDArray[np.float64], found: NDArray[np.float64]) -> list[dict[str, Any]]:
    """Mean certificate and mean recall of the answers in each tenth of the certificate's range."""
    out = []
    for tenth in range(10):
        inside = (bounds >= tenth / 10) & ((bounds < (tenth + 1) / 10) | (tenth == 9))
        if inside.any():
            means = {"certificate": float(bounds[inside].mean()), "recall": float(found[inside].mean())}
            out.append({"from": tenth / 10, "answers": int(inside.sum()), **means})
    return out


# ------------------------------------------------------------------------------------------- speed


def _speed(
    collection: kinbin.Collection, by_target: dict[float, float], rows: NDArray[Any], queries: NDArray[Any], judge: Judge, repeats: int
) -> dict[str, Any]:
    """Everybody at the least setting of his ladder that reaches the recall, taking turns."""
    dense_rows, dense = normalised(rows), normalised(queries)
    graph = hnsw(dense_rows)
    widths = {width: mean_recall(of_faiss(graph, dense, "", width), judge) for width in WIDTHS}
    target = least_setting(by_target, FLOOR)
    reached = by_target[target]
    plain, fair = least_setting(widths, FLOOR), least_setting(widths, reached)
    contenders = {
        "bands": of_collection(collection, queries, target, "bands", f", the least for {FLOOR}"),
        "bands_default": of_collection(collection, queries, DEFAULT, "bands"),
        "auto": of_collection(collection, queries, DEFAULT, "auto", " (what a call without options does)"),
        "exact": of_collection(collection, queries, DEFAULT, "exact"),
        "hnsw": of_faiss(graph, dense, f"FAISS HNSW, efSearch {plain}, the least for {FLOOR}", plain),
        "hnsw_fair": of_faiss(graph, dense, f"FAISS HNSW, efSearch {fair}, the least for Kinbin's {figure(reached)}", fair),
        "flat": of_faiss(flat(dense_rows), dense, "FAISS IndexFlat, exact"),
    }
    for same, name in ((fair == plain, "hnsw_fair"), (target == DEFAULT, "bands_default")):
        if same:
            del contenders[name]
    seconds = interleaved({name: contender.many for name, contender in contenders.items()}, repeats)
    single = latencies({name: contenders[name].one for name in contenders if name not in ("exact", "flat")}, len(queries))
    return {
        "floor_reached": min(reached, widths[plain]) >= FLOOR,
        "hnsw_ladder": [{"ef": width, "recall": recall} for width, recall in widths.items()],
        "batch": [
            {
                "name": name, "what": contender.what, "recall": mean_recall(contender, judge),
                "us_per_query": spread([1e6 * s / len(queries) for s in seconds[name]]),
            }
            for name, contender in contenders.items()
        ],
        "single": [{"what": contenders[name].what, **times} for name, times in single.items()],
    }  # fmt: skip


# ------------------------------------------------------------------------------------------ tables


def render(result: dict[str, Any]) -> str:
    """Recall of the default, certificates, speed at equal recall, single queries."""
    warning = () if result["floor_reached"] else ("**Not everybody reached this recall: who did not stands with his best.**",)
    latencies = [(line["what"], line["p50"], line["p99"], line["mean"]) for line in result["single"]]
    return paragraphs(
        f"{result['rows']:,} rows, {result['queries']:,} queries, k = {K}; the first seed's collection: {result['layout']}.",
        _default_table(result["default"]),
        f'Certificates at target {DEFAULT}, `mode="bands"`, {len(SEEDS)} seeds together:',
        _certificate_table(result["certificates_default"]),
        f"Certificates at all targets from {TARGETS[0]} to {TARGETS[-1]} together:",
        _certificate_table(result["certificates"]),
        _target_table(result["ladder"]),
        f"Speed at recall@10 ≥ {result['floor']}, {result['queries']:,} queries in one batch:",
        *warning,
        _speed_table(result["batch"]),
        table(("one query a call, µs", "p50", "p99", "mean"), latencies),
    )


def _default_table(default: list[dict[str, Any]]) -> str:
    keys = ("recall", "certificate", "without_certificate", "linked", "scanned", "candidates", "verified")
    lines = [(f"{mode}, seed {one['seed']}", *(one[mode][key] for key in keys)) for mode in ("bands", "auto") for one in default]
    titles = ("recall@10", "mean certificate", "without one", "answered by links", "by a scan", "candidates, median", "verified, median")
    return table((f"target {DEFAULT}", *titles), lines)


def _target_table(ladder: list[dict[str, Any]]) -> str:
    lines = [(f"{line['target']:g}", *(figure(recall, 4) for recall in line["recalls"])) for line in ladder]
    return table(('target, `mode="bands"`', *(f"recall@10, seed {seed}" for seed in SEEDS)), lines)


def _speed_table(batch: list[dict[str, Any]]) -> str:
    ours = next(line["us_per_query"]["median"] for line in batch if line["name"] == "bands")
    lines = []
    for line in batch:
        times = line["us_per_query"]
        share = figure(times["median"] / ours)
        lines.append((line["what"], figure(line["recall"], 4), 1e6 / times["median"], *(times[which] for which in SPREAD), share))
    return table(("", "recall@10", "queries/s", *(f"µs a query, {which}" for which in SPREAD), "time / first line"), lines)


def _certificate_table(ranges: list[dict[str, Any]]) -> str:
    return table(
        ("certificate", "answers", "mean certificate", "mean recall", "recall less certificate"),
        [
            (f"{line['from']:.1f} to {line['from'] + 0.1:.1f}", line["answers"], figure(line["certificate"], 4), figure(line["recall"], 4),
             f"{line['recall'] - line['certificate']:+.4f}")
            for line in ranges
        ],
    )  # fmt: skip


if __name__ == "__main__":
    run("search", measure, render)
