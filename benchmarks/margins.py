"""Where the best peer is near: bands alone on denser histograms, walks on gradients and on principal components, against FAISS HNSW."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import kinbin
from common import K, Options, Skipped, data_set, interleaved, latencies, run, spread, workspace
from contenders import Contender, mean_recall, of_collection
from databases import fill, layout
from libraries import hnsw, normalised, of_faiss
from patches import random_patches
from peers import LOOP, cheapest
from report import figure, paragraphs, table
from truth import Judge
from vector_sets import SETS, VectorSet

FLOORS = (0.95, 0.99)
TARGETS = (0.1, 0.3, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95)
WIDTHS = (10, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 128, 160, 200)
"""efSearch."""
SIDE = 24
"""Pixels of a patch's edge."""
HUES, SHADES = 18, 3
"""Bins of hue; of saturation and of value."""


def measure(options: Options) -> dict[str, Any]:
    """The parts that are asked for (MARGIN_PARTS), one after the other."""
    names = os.environ.get("MARGIN_PARTS", ",".join(PARTS)).split(",")
    if unknown := [name for name in names if name not in PARTS]:
        raise Skipped(f"MARGIN_PARTS names {', '.join(PARTS)}, and no {', '.join(unknown)}")
    kinbin.warm_up()
    measured: dict[str, Any] = {"floors": FLOORS, "loop": LOOP}
    for name in names:
        _, mode, load = PARTS[name]
        measured[name] = _measure(load(options), mode, options)
    return measured


def _measure(data: VectorSet, mode: str, options: Options) -> dict[str, Any]:
    """Batches of everybody's ladder in turns; then single calls of who reaches a recall the fastest."""
    rows, queries = normalised(data.rows), normalised(data.queries)
    judge, graphs, builds = Judge(data.rows, data.queries, K), {}, {}
    for links, construction in GRAPHS:
        name, began = f"FAISS HNSW M={links} efC={construction}", time.perf_counter()
        graphs[name] = hnsw(rows, links, construction)
        builds[name] = time.perf_counter() - began
    with workspace(options) as folder, kinbin.open(folder) as database:
        collection = database.create_collection("c", dim=rows.shape[1], seed=0)
        builds["Kinbin"] = max(fill(collection, data.rows, link=mode == "links").values())
        ladders: dict[str, dict[float, Contender]] = {
            "Kinbin": {target: of_collection(collection, data.queries, target, mode) for target in TARGETS},
            **{
                name: {width: of_faiss(graph, queries, f"{name}, efSearch {width}", width) for width in WIDTHS}
                for name, graph in graphs.items()
            },
        }
        contenders = {(who, setting): one for who, ladder in ladders.items() for setting, one in ladder.items()}
        seconds = interleaved({str(key): one.many for key, one in contenders.items()}, options.rounds(5, 2))
        lines = [
            {"who": key[0], "key": str(key), "what": one.what, "recall": mean_recall(one, judge), "seconds": seconds[str(key)]}
            for key, one in contenders.items()
        ]
        chosen = {floor: [cheapest((line for line in lines if line["who"] == who), floor) for who in ladders] for floor in FLOORS}
        by_key = {str(key): one for key, one in contenders.items()}
        asked = {line["key"]: by_key[line["key"]] for best in chosen.values() for line in best if line is not None}
        return {
            "title": data.title, "rows": len(rows), "dimension": rows.shape[1], "queries": len(queries), "layout": layout(collection),
            "builds": builds, "nonzeros": float((data.rows != 0).sum() / len(rows)), "lines": lines,
            "chosen": {str(floor): [None if line is None else line["key"] for line in best] for floor, best in chosen.items()},
            "single": _single(asked, len(queries)),
        }  # fmt: skip


def _single(asked: dict[str, Contender], count: int) -> dict[str, dict[str, float]]:
    return latencies({key: partial(_ask, one) for key, one in asked.items()}, count, loop=min(LOOP, count // 20))


def _ask(contender: Contender, i: int) -> Any:
    return contender.one(i)


# -------------------------------------------------------------------------------------------- data


def _hues(options: Options) -> VectorSet:
    """Histograms of hue, saturation and value (18 × 3 × 3) of 24 × 24 patches of photographs, ten of each image."""
    data = data_set("cifar10_rgb_small")
    sizes = options.pick(50_000, 2_000), options.pick(1_000, 100)
    parts = zip((data["X_train"], data["X_test"]), sizes, (0, 1), strict=True)
    rows, queries = (_histograms(random_patches(images, count, seed, SIDE)) for images, count, seed in parts)
    return VectorSet("colour histograms by hue, saturation and value", rows, queries)


def _histograms(patches: NDArray[np.uint8]) -> NDArray[np.float32]:
    """(n, 162) pixels of each bin, of RGB patches (n, side, side, 3)."""
    n = len(patches)
    pixels = patches.reshape(n, -1, 3).astype(np.float32) / 255
    red, green, blue = np.moveaxis(pixels, -1, 0)
    value = pixels.max(axis=2)
    chroma = value - pixels.min(axis=2)
    apart = np.where(chroma == 0, 1, chroma)
    hue = np.where(value == red, (green - blue) / apart % 6, np.where(value == green, (blue - red) / apart + 2, (red - green) / apart + 4))
    saturation = chroma / np.where(value == 0, 1, value)
    bins = np.minimum(hue * (HUES / 6), HUES - 1).astype(np.int64)
    for shade in (saturation, value):
        bins = bins * SHADES + np.minimum(shade * SHADES, SHADES - 1).astype(np.int64)
    size = HUES * SHADES**2
    counts = np.bincount((np.arange(n)[:, None] * size + bins).ravel(), minlength=n * size)
    return counts.reshape(n, size).astype(np.float32)


GRAPHS = ((16, 100), (32, 200))
"""M and efConstruction."""
PARTS: dict[str, tuple[str, str, Callable[[Options], VectorSet]]] = {
    "bands": ("Bands alone", "bands", _hues),
    "gradients": ("Walks", "links", SETS["hog128"]),
    "alone": ("Walks", "links", SETS["mnist_pca128"]),
}
"""By name: what it is called, the mode, the data."""


# ------------------------------------------------------------------------------------------ tables


def render(result: dict[str, Any]) -> str:
    """For each set, what reaches a recall the fastest: batches, and single calls."""
    parts: list[str] = []
    for name, (title, mode, _) in PARTS.items():
        if name not in result:
            continue
        each = result[name]
        parts.append(
            f"**{title}: {each['title']}**, {each['rows']:,} rows of {each['dimension']} dimensions, {figure(each['nonzeros'])} of them "
            f"not zero; {each['queries']:,} queries, k = {K}; {each['layout']}; single calls in loops of {result['loop']}."
        )
        parts.append(_table(each))
        if "builds" in each:  # results of before have none
            parts.append(_built(each["builds"], linked=mode == "links"))
    return paragraphs(*parts)


def _built(seconds: dict[str, float], *, linked: bool) -> str:
    ours = seconds["Kinbin"]
    others = (f"{name} {figure(taken)} s ({figure(taken / ours)})" for name, taken in seconds.items() if name != "Kinbin")
    return f"Built, durably{' and linked' if linked else ''}, in {figure(ours)} s; in memory {', '.join(others)}."


def _table(each: dict[str, Any]) -> str:
    by_key = {line["key"]: line for line in each["lines"]}
    lines: list[tuple[object, ...]] = []
    for floor, keys in each["chosen"].items():
        ours = by_key.get(keys[0])
        for key in keys:
            if key is None or ours is None:
                lines.append((f"recall ≥ {floor}: not reached", *[None] * 7))
                continue
            line, single = by_key[key], each["single"][key]
            times = spread([1e6 * seconds / each["queries"] for seconds in line["seconds"]])
            first = spread([1e6 * seconds / each["queries"] for seconds in ours["seconds"]])
            ratio = times["median"] / first["median"]
            lines.append((
                f"recall ≥ {floor}: {line['what']}", figure(line["recall"], 4), times["median"], times["least"], figure(ratio),
                single["p50"], single["mean"], figure(single["mean"] / each["single"][ours["key"]]["mean"]),
            ))  # fmt: skip
    return table(("", "recall@10", "batch: µs a query, median", "least", "time / Kinbin", "alone: p50", "mean", "mean / Kinbin"), lines)


if __name__ == "__main__":
    run("margins", measure, render)
