"""Other data: sparse word counts, handwritten digits, signed vectors of low contrast. Recall, certificates, modes, time."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

import numpy as np

import kinbin
from common import SPREAD, K, Options, data_set, interleaved, run, spread, workspace
from databases import fill, layout
from report import figure, paragraphs, table
from truth import Judge, rows_answered
from vector_sets import word_counts

MODES = ("bands", "links", "auto", "exact")


def measure(options: Options) -> dict[str, Any]:
    """Every data set with the default target, in all modes."""
    kinbin.warm_up()
    return {"sets": [_measure(*each, options) for each in _sets(options)]}


def _sets(options: Options) -> list[tuple[str, int | None, Any, Any]]:
    """Name, dimension of the collection, rows, queries."""
    count, asked = options.pick(None, 2_000), options.pick(1_000, 50)
    digits, topics = data_set("mnist"), data_set("news20_lsa100")
    return [
        ("news20_counts: words of messages, sparse, no dimension given", None, word_counts("train")[:count], word_counts("test")[:asked]),
        ("mnist: handwritten digits", 784, digits["X_train"][:count], digits["X_test"][:asked]),
        ("news20_lsa100: signed, dense, low contrast", 100, topics["X_train"][:count], topics["X_test"][:asked]),
    ]


def _measure(name: str, dimension: int | None, rows: Any, queries: Any, options: Options) -> dict[str, Any]:
    judge = Judge(rows, queries, K)
    with workspace(options) as folder, kinbin.open(folder) as database:
        collection = database.create_collection("c", dim=dimension, seed=0)
        built = fill(collection, rows)
        asks = {mode: partial(collection.query_batch, queries, k=K, mode=mode) for mode in MODES}
        answers = {mode: ask() for mode, ask in asks.items()}
        seconds = interleaved(asks, options.rounds(5, 2))
        return {
            "name": name, "rows": rows.shape[0], "queries": queries.shape[0],
            "nonzeros": float((rows != 0).sum() / rows.shape[0]), "sampler": collection.config.sampler, "layout": layout(collection),
            "rows_a_second": rows.shape[0] / built["compacted"], "prefers": collection.stats()["auto"],
            "modes": [
                {
                    "mode": mode, **_summary(answer, judge),
                    "us_per_query": spread([1e6 * second / queries.shape[0] for second in seconds[mode]]),
                }
                for mode, answer in answers.items()
            ],
        }  # fmt: skip


def _summary(answer: kinbin.AnswerBatch, judge: Judge) -> dict[str, Any]:
    """What a batch is worth and what it says of itself."""
    bounds = answer.recall_lower_bounds
    stated = bounds[~np.isnan(bounds)]
    return {
        "recall": float(judge.recalls(rows_answered(answer.ids)).mean()),
        "certificate": float(stated.mean()) if len(stated) else None,
        "reasons": dict(Counter(reason for reason in answer.no_bounds if reason is not None)),
        "answered_by": dict(Counter(answer.modes)),
        "verified": float(np.mean(answer.verified)),
    }


def render(result: dict[str, Any]) -> str:
    """A table for each data set."""
    return paragraphs(*(part for each in result["sets"] for part in _set_parts(each)))


def _set_parts(each: dict[str, Any]) -> tuple[str, ...]:
    titles = (
        "recall@10",
        "mean certificate",
        "without one",
        "by bands",
        "by links",
        "by a scan",
        "verified, mean",
        *(f"µs a query, {w}" for w in SPREAD),
    )
    lines = []
    reasons: Counter[str] = Counter()
    for one in each["modes"]:
        reasons.update(one["reasons"])
        by = (one["answered_by"].get(path, 0) for path in ("bands", "links", "exact"))
        times = (one["us_per_query"][which] for which in SPREAD)
        lines.append((one["mode"], one["recall"], one["certificate"], sum(one["reasons"].values()), *by, one["verified"], *times))
    size = f"{each['rows']:,} rows of {figure(each['nonzeros'])} nonzeros, {each['queries']:,} queries"
    index = f"sampler {each['sampler']}, {each['layout']}, {figure(each['rows_a_second'])} rows/s built; auto prefers: {each['prefers']}"
    why = "; ".join(f"{reason} ({count})" for reason, count in reasons.items())
    return (f"**{each['name']}.** {size}; {index}.", table(("mode", *titles), lines), *((f"Without a certificate: {why}.",) if why else ()))


if __name__ == "__main__":
    run("other_sets", measure, render)
