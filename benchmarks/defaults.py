"""A call without options: batches, single calls, how many queries bands or a scan complete, and FAISS at the recall that is reached."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

import kinbin
from common import K, Options, interleaved, latencies, run, spread, workspace
from contenders import Contender, mean_recall
from databases import file_bytes, fill, layout
from libraries import flat, hnsw, normalised, of_faiss
from patches import DIMENSION, histograms, open_matrix, query_histograms
from report import figure, paragraphs, table
from truth import Judge, rows_answered
from vector_sets import SETS, VectorSet

WIDTHS = (16, 24, 32, 48, 64, 96, 128, 192, 256, 384)
"""efSearch."""
NAMES = ("cifar10_rgbhist512", "mnist", "hog128", "mnist_pca128")
LARGE = 1_000_000
SINGLE = 500
"""Queries that are asked one by one."""


def measure(options: Options) -> dict[str, Any]:
    """Four sets beside FAISS, and a million rows alone: a graph of FAISS over these would take most of an hour to build."""
    kinbin.warm_up()
    sets = [_measure(SETS[name](options), options, beside=True) for name in NAMES]
    count = options.pick(LARGE, 20_000)
    matrix = open_matrix(histograms(count, options.cache), count)
    large = VectorSet(f"colour histograms of patches, {DIMENSION}-d", matrix, query_histograms(options.pick(500, 50)))
    return {"sets": [*sets, _measure(large, options, beside=False)]}


def _measure(data: VectorSet, options: Options, *, beside: bool) -> dict[str, Any]:
    judge = Judge(data.rows, data.queries, K)
    with workspace(options) as folder, kinbin.open(folder) as database:
        collection = database.create_collection("c", dim=data.rows.shape[1], seed=0)
        built = fill(collection, data.rows)
        ours = Contender(
            "Kinbin",
            lambda: collection.query_batch(data.queries, k=K),
            lambda i: collection.query(data.queries[i], k=K),
            lambda answer: rows_answered(answer.ids),
        )
        answers = ours.many()
        recall = float(judge.recalls(ours.rows(answers)).mean())
        walking = partial(collection.query_batch, data.queries, k=K, mode="links")
        walks = Contender("Kinbin links", walking, ours.one, ours.rows)
        contenders = {"ours": ours, "walks": walks, **(_peers(data, judge, recall) if beside else {})}
        seconds = interleaved({name: one.many for name, one in contenders.items()}, options.rounds(5, 1))
        singles = {name: partial(_ask, one) for name, one in contenders.items() if name in {"ours", "graph"}}
        count = min(SINGLE, data.queries.shape[0])
        return {
            "title": data.title, "rows": data.rows.shape[0], "queries": data.queries.shape[0], "layout": layout(collection),
            "recall": recall, "walks_recall": mean_recall(walks, judge),
            "steps": Counter(" ".join(steps[1:]) or "nothing" for steps in answers.steps),
            "built": max(built.values()), "bytes": file_bytes(folder, "c") / data.rows.shape[0],
            "what": {name: one.what for name, one in contenders.items()},
            "seconds": seconds, "single": latencies(singles, count, loop=min(25, count // 20)),
        }  # fmt: skip


def _ask(contender: Contender, i: int) -> Any:
    return contender.one(i)


def _peers(data: VectorSet, judge: Judge, recall: float) -> dict[str, Contender]:
    """A scan, and a graph with the least width that finds as much; none of the graph where no width does."""
    rows, queries = normalised(data.rows), normalised(data.queries)
    graph = hnsw(rows)
    ladder = (of_faiss(graph, queries, f"efSearch {width}", width) for width in WIDTHS)
    found = next((one for one in ladder if mean_recall(one, judge) >= recall), None)
    scan = of_faiss(flat(rows), queries, "flat")
    return {"scan": scan} if found is None else {"graph": found, "scan": scan}


# ------------------------------------------------------------------------------------------ tables


def render(result: dict[str, Any]) -> str:
    """A line a set: in batches, and one by one."""
    sets = result["sets"]
    batches = [_batches(each) for each in sets]
    singles = [
        (each["title"], name, *(figure(each["single"][key][value]) for value in ("p50", "mean", "p99")))
        for each in sets
        for key, name in (("ours", "Kinbin"), ("graph", "FAISS HNSW"))
        if key in each["single"]
    ]
    return paragraphs(
        "In batches, µs a query, medians. *Completed*: of how many queries the walk was followed by bands or a scan, as they are far from "
        'all rows or would have been lost; *walks alone* is `mode="links"` at the same target. FAISS HNSW has M = 16, efConstruction = 100 '
        "and the least efSearch tried that finds as much.",
        table(
            ("data", "rows", "recall@10", "without options", "completed", "walks alone", "their recall", "FAISS HNSW", "FAISS flat"),
            batches,
        ),
        "One by one, µs.",
        table(("data", "", "p50", "mean", "p99"), singles),
        "Built, durably and linked: "
        + "; ".join(f"{each['title']} {figure(each['built'])} s, {each['bytes']:,.0f} bytes a row with free pages" for each in sets)
        + ".",
    )  # fmt: skip


def _batches(each: dict[str, Any]) -> tuple[object, ...]:
    def micros(name: str) -> object:
        return spread([1e6 * seconds / each["queries"] for seconds in each["seconds"][name]])["median"] if name in each["seconds"] else None

    completed = sum(count for steps, count in each["steps"].items() if "scan" in steps or "bands" in steps)
    graph = micros("graph")
    return (
        each["title"], f"{each['rows']:,}", figure(each["recall"]), micros("ours"), f"{completed / each['queries']:.1%}", micros("walks"),
        figure(each["walks_recall"]), None if graph is None else f"{figure(graph)} ({each['what']['graph']})", micros("scan"),
    )  # fmt: skip


if __name__ == "__main__":
    run("defaults", measure, render)
