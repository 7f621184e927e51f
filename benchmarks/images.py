"""Images by nested histograms: walks against scans at recall 0.95, bands, durable adds; whole images and patches cut from them."""

from __future__ import annotations

import os
import statistics
import time
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

import kinbin
from common import K, Options, data_set, ids_of, interleaved, run, workspace
from report import figure, paragraphs, table

BASES = ("tv", "chi2")
SETTINGS = {"images": ("images of 32 × 32, grids of 1, 4, 16 and 64 cells", 4), "patches": ("patches of 16 × 16, grids of 1, 4 and 16", 3)}
TARGETS = (0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98)
FLOOR = 0.95
QUERIES, SCANNED = 100, 10
_TOLERANCE = 1e-9
_BATCH = 1_000
Pixels = NDArray[np.uint8]


def pictures(kind: str, options: Options) -> tuple[Pixels, Pixels]:
    """(n, h, w, 3) images and queries: 5,000 photographs, or 50,000 patches of them (2,000 if quick)."""
    held = data_set("cifar10_rgb_small")
    X, Q = held["X_train"].reshape(-1, 32, 32, 3), held["X_test"].reshape(-1, 32, 32, 3)
    if kind == "patches":
        rng = np.random.default_rng(0)
        X, Q = (_cut(one, count, rng) for one, count in ((X, 2_000 if options.quick else 50_000), (Q, QUERIES)))
    return X[:2_000] if options.quick else X, Q[:QUERIES]


def _cut(images: Pixels, count: int, rng: np.random.Generator) -> Pixels:
    which, y, x = rng.integers(0, len(images), count), *rng.integers(0, 17, (2, count))
    return np.stack([images[i, a : a + 16, b : b + 16] for i, a, b in zip(which, y, x, strict=True)])


def measure(options: Options) -> dict[str, Any]:
    """All settings. IMAGES_FOLDER: databases are made there once and kept, so that they need not be made while times are taken."""
    kinbin.set_threads(1)
    kept = os.environ.get("IMAGES_FOLDER")
    with workspace(options) as folder, kinbin.open(Path(kept) if kept else folder) as database:
        lines = [_measure(database, kind, base, options) for kind in SETTINGS for base in BASES]
        return {"floor": FLOOR, "queries": QUERIES, "lines": lines, "adds": _adds(database, options)}


def _filled(database: kinbin.Database, name: str, images: Pixels, parameters: dict[str, Any], *, link: bool) -> kinbin.Collection:
    there = name in database.collections()
    collection = database.create_collection(name, items="images", parameters=parameters, exist_ok=True)
    if not there:
        for start in range(0, len(images), _BATCH):
            collection.add(ids_of(start, min(start + _BATCH, len(images))), images[start : start + _BATCH])
        collection.compact()
    if link and collection.stats()["links"] is None:
        collection.link()
    return collection


def _measure(database: kinbin.Database, kind: str, base: str, options: Options) -> dict[str, Any]:
    images, queries = pictures(kind, options)
    parameters = {"levels": SETTINGS[kind][1], "base": base, "lambda": 1.0, "epsilon": 0.5}
    plain = _filled(database, f"{kind}-{base}-plain", images, parameters, link=False)
    linked = _filled(database, f"{kind}-{base}", images, parameters, link=True)
    few, many = list(queries[:SCANNED]), list(queries)
    scan = _median(
        {"plain": partial(plain.query_batch, few, mode="exact"), "linked": partial(linked.query_batch, few, mode="exact")}, options
    )
    kth = linked.query_batch(many, k=K, mode="exact").scores[:, -1]
    walks = []
    for target in TARGETS:
        ask = partial(linked.query_batch, many, k=K, target_recall=target, mode="links")
        recall = _recall(ask(), kth)
        if recall >= FLOOR:
            walks.append({"target": target, "recall": recall, "us": 1e6 * _median({"": ask}, options)[""] / QUERIES})
    best = min(walks, key=lambda walk: walk["us"]) if walks else None
    target = best["target"] if best else FLOOR
    alone = _median({"": lambda: [linked.query(one, k=K, target_recall=target, mode="links") for one in many]}, options)[""]
    auto = linked.query_batch(many, k=K)
    bands = linked.query_batch(many, k=K, mode="bands")
    return {
        "kind": kind, "base": base, "rows": linked.count(), "best": best, "alone_us": 1e6 * alone / QUERIES,
        "auto": _recall(auto, kth), "scan_us": {name: 1e6 * one / SCANNED for name, one in scan.items()},
        "bands": {
            "recall": _recall(bands, kth), "bound": float(np.nanmean(bands.recall_lower_bounds)),
            "verified": float(np.mean(bands.verified)),
        },
    }  # fmt: skip


def _median(tasks: dict[str, Any], options: Options) -> dict[str, float]:
    return {name: statistics.median(seconds) for name, seconds in interleaved(tasks, options.rounds(3, 1)).items()}


def _recall(answers: kinbin.AnswerBatch, kth: NDArray[np.float64]) -> float:
    """By score, so that ties are fair."""
    return float(np.mean([(answer.scores >= one - _TOLERANCE).sum() / K for answer, one in zip(answers, kth, strict=True)]))


def _adds(database: kinbin.Database, options: Options) -> dict[str, float]:
    """Durable adds, images a second: of arrays, and of files in memory of 32 × 32 pixels and of 512 × 512."""
    images = pictures("images", options)[0][:_BATCH]
    large = np.kron(images[:20], np.ones((1, 16, 16, 1), np.uint8))
    forms: dict[str, list[Any]] = {
        "arrays": list(images), "PNG": [_file(one, "PNG") for one in images], "JPEG": [_file(one, "JPEG") for one in images],
        "JPEG 512 × 512": [_file(one, "JPEG") for one in large],
    }  # fmt: skip
    rates = {}
    for form, given in forms.items():
        collection = database.create_collection("adds", items="images", parameters={"levels": 4})
        collection.add(["first"], given[:1])
        started = time.perf_counter()
        collection.add(ids_of(0, len(given)), given)
        rates[form] = len(given) / (time.perf_counter() - started)
        database.drop_collection("adds")
    return rates


def _file(pixels: Pixels, form: str) -> bytes:
    out = BytesIO()
    Image.fromarray(pixels).save(out, form)
    return out.getvalue()


def render(result: dict[str, Any]) -> str:
    """A table of searches and one of adds."""
    titles = (
        "rows", "ψ", f"µs a query at {result['floor']}, walks, batch", "recall", "µs, alone", "scan, µs", "scan / walk",
        "linked scan, µs", "recall, no options", "bands: recall", "their mean bound", "rows verified",
    )  # fmt: skip
    lines = []
    for one in result["lines"]:
        best, scan, bands = one["best"], one["scan_us"], one["bands"]
        lines.append((
            f"{one['rows']:,} {SETTINGS[one['kind']][0]}", one["base"], best and best["us"], best and figure(best["recall"], 3),
            one["alone_us"], scan["plain"], best and scan["plain"] / best["us"], scan["linked"], figure(one["auto"], 3),
            figure(bands["recall"], 3), bands["bound"], bands["verified"],
        ))  # fmt: skip
    adds = table(("durable adds", "images/s"), list(result["adds"].items()))
    head = f"{result['queries']} queries, k = {K}, λ = 1, ε = 0.5, one thread; a scan computes the kernel of every row."
    return paragraphs(head, table(titles, lines), adds)


if __name__ == "__main__":
    run("images", measure, render)
