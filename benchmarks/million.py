"""A million rows against 50,000 of the same kind: time a query at equal recall, building, bytes, opening, memory."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import kinbin
from common import SPREAD, K, Options, in_new_process, interleaved, least_setting, memory, run, spread, workspace
from databases import compacted_copy_bytes, file_bytes, fill, layout, opening, record_bytes
from patches import DIMENSION, histograms, open_matrix, query_histograms
from report import figure, paragraphs, table
from truth import Judge, rows_answered

FLOOR = 0.96
TARGETS = (0.3, 0.4, 0.5, 0.6, 0.65, 0.7, 0.75, 0.8, 0.82, 0.84, 0.86, 0.88, 0.9, 0.92, 0.95, 0.98, 0.99, 0.999)
DEFAULT = 0.9
BATCH = 5_000
SCANNED = 100
"""Queries of a timed exact scan: it takes long."""
MEBIBYTE = float(1 << 20)


def measure(options: Options) -> dict[str, Any]:
    """Build both sizes, each in a process of its own; find the targets; time everything in one more process."""
    sizes = options.pick((50_000, 1_000_000), (2_000, 20_000))
    cache = histograms(sizes[1], options.cache)
    queries = query_histograms(options.pick(500, 50))
    kinbin.warm_up()
    with workspace(options) as folder:
        built = [in_new_process(_build, folder, cache, rows) for rows in sizes]
        answers = in_new_process(_answers, folder, sizes, queries)
        chosen = []
        for rows, by_target in zip(sizes, answers, strict=True):
            judge = Judge(open_matrix(cache, rows), queries, K)
            auto, exact = (float(judge.recalls(by_target.pop(mode)).mean()) for mode in ("auto", "exact"))
            ladder = {float(target): float(judge.recalls(found).mean()) for target, found in by_target.items()}
            target = least_setting(ladder, FLOOR)
            chosen.append({"target": target, "recall": ladder[target], "auto": auto, "exact": exact, "ladder": list(ladder.items())})
        timed = in_new_process(_times, folder, sizes, [one["target"] for one in chosen], queries, options.rounds(5, 2))
        vector = queries[0].toarray()[0]
        opened = [opening(folder, str(rows), vector, options.rounds(5, 2), warm=True) for rows in sizes]
        disk = [_disk(folder, rows, open_matrix(cache, rows)) for rows in sizes]
    lines = zip(sizes, built, chosen, disk, opened, strict=True)
    return {
        "queries": queries.shape[0],
        "floor": FLOOR,
        "sizes": [{"rows": rows, "built": b, "chosen": c, "disk": d, "opening": o} for rows, b, c, d, o in lines],
        **timed,
    }


def _build(folder: Path, cache: Path, rows: int) -> dict[str, Any]:
    """Fill a collection; seconds, layout, memory of this process."""
    matrix = open_matrix(cache, rows)
    with kinbin.open(folder) as database:
        collection = database.create_collection(str(rows), dim=DIMENSION, seed=0)
        seconds = fill(collection, matrix, BATCH)
        return {**seconds, "layout": layout(collection), "memory": memory()}


def _answers(folder: Path, sizes: tuple[int, ...], queries: Any) -> list[dict[str, NDArray[np.int64]]]:
    """The rows that each size answers, by target and by mode with the default target."""
    out = []
    with kinbin.open(folder) as database:
        for rows in sizes:
            collection = database.collection(str(rows))
            found = {str(target): rows_answered(_ask(collection, queries, target).ids) for target in TARGETS}
            found |= {mode: rows_answered(_ask(collection, queries, DEFAULT, mode).ids) for mode in ("auto", "exact")}
            out.append(found)
    return out


def _ask(collection: kinbin.Collection, queries: Any, target: float, mode: str = "bands") -> kinbin.AnswerBatch:
    return collection.query_batch(queries, k=K, target_recall=target, mode=mode)


def _times(folder: Path, sizes: tuple[int, ...], targets: list[float], queries: Any, repeats: int) -> dict[str, Any]:
    """Microseconds a query of both sizes by bands and by scan, taking turns; memory of a process that answers."""
    few = queries[:SCANNED]
    with kinbin.open(folder) as database:
        collections = [database.collection(str(rows)) for rows in sizes]
        for target, collection in zip(targets, collections, strict=True):
            _ask(collection, queries, target)
        held = memory()
        tasks: dict[str, Callable[[], object]] = {}
        for rows, target, collection in zip(sizes, targets, collections, strict=True):
            tasks[f"bands {rows}"] = lambda c=collection, t=target: _ask(c, queries, t)  # type: ignore[misc]
            tasks[f"auto {rows}"] = lambda c=collection: _ask(c, queries, DEFAULT, "auto")  # type: ignore[misc]
            tasks[f"exact {rows}"] = lambda c=collection: _ask(c, few, DEFAULT, "exact")  # type: ignore[misc]
        seconds = interleaved(tasks, repeats)
    counts = {name: (few if name.startswith("exact") else queries).shape[0] for name in seconds}
    micros = {name: [1e6 * second / counts[name] for second in values] for name, values in seconds.items()}
    small, large = (f"bands {rows}" for rows in sizes)
    return {
        "us_per_query": {name: spread(values) for name, values in micros.items()},
        "ratio_to_small": _ratio(micros[large], micros[small]),
        "ratio_to_scan": _ratio(micros[f"exact {sizes[1]}"], micros[large]),
        "memory_answering": held,
    }


def _ratio(of: list[float], to: list[float]) -> float:
    """Median of the rounds' ratios."""
    return statistics.median(a / b for a, b in zip(of, to, strict=True))


def _disk(folder: Path, rows: int, matrix: Any) -> dict[str, int]:
    """Bytes of the file, of its pages in use, and of the vectors in it."""
    copy = folder / f"copy-{rows}"
    live = compacted_copy_bytes(folder, str(rows), copy)
    (copy / "data.mdb").unlink()
    return {"file": file_bytes(folder, str(rows)), "live": live, "records": record_bytes(matrix)}


def render(result: dict[str, Any]) -> str:
    """Queries, then what a database of that size costs."""
    small, large = (size["rows"] for size in result["sizes"])
    growth, scan = figure(result["ratio_to_small"]), figure(result["ratio_to_scan"])
    return paragraphs(
        f"{result['queries']} queries in one batch, k = {K}, the least target that reaches recall@10 ≥ {result['floor']}.",
        _query_table(result),
        f"{figure(large / small)} times the rows take {growth} times the time. "
        f"An exact scan of {large:,} rows takes {scan} times as long as the bands. (Medians of the rounds' ratios.)",
        _cost_table(result["sizes"]),
        _memory_line(result["memory_answering"]),
    )


def _query_table(result: dict[str, Any]) -> str:
    lines = []
    for size in result["sizes"]:
        chosen, rows = size["chosen"], size["rows"]
        target = f"{chosen['target']:g}" + ("" if chosen["recall"] >= result["floor"] else " (**does not reach it; none does**)")
        for mode, name, recall in (
            ("bands", f"bands, target {target}", chosen["recall"]),
            ("auto", f"auto, target {DEFAULT} (a call without options)", chosen["auto"]),
            ("exact", "exact", chosen["exact"]),
        ):
            times = result["us_per_query"][f"{mode} {rows}"]
            lines.append((f"{rows:,} rows, {name}", recall, *(times[which] for which in SPREAD)))
    return table(("", "recall@10", *(f"µs a query, {which}" for which in SPREAD)), lines)


def _cost_table(sizes: list[dict[str, Any]]) -> str:
    def row(name: str, value: Callable[[dict[str, Any]], object]) -> tuple[object, ...]:
        return (name, *(value(size) for size in sizes))

    lines = [
        row("runs", lambda size: size["built"]["layout"]),
        row("building: seconds until merged", lambda size: size["built"]["compacted"]),
        row("of them until the last add was acknowledged", lambda size: size["built"]["added"]),
        row("rows/s", lambda size: size["rows"] / size["built"]["compacted"]),
        row("building: peak of resident memory, pages of the file included, MiB", lambda size: size["built"]["memory"]["peak"] / MEBIBYTE),
        row("building: memory of its own at the end, MiB", lambda size: size["built"]["memory"]["own"] / MEBIBYTE),
        row("file, MiB", lambda size: size["disk"]["file"] / MEBIBYTE),
        row("file, bytes a row", lambda size: size["disk"]["file"] / size["rows"]),
        row("without free pages, bytes a row", lambda size: size["disk"]["live"] / size["rows"]),
        row("of them vectors", lambda size: size["disk"]["records"] / size["rows"]),
        row("opening in a new process, ms", lambda size: size["opening"]["open"] + size["opening"]["collection"]),
        row("its first query, ms", lambda size: size["opening"]["first_query"]),
        row("its second query, ms", lambda size: size["opening"]["second_query"]),
        row("its memory of its own, MiB", lambda size: size["opening"]["own_bytes"] / MEBIBYTE),
    ]
    return table(("", *(f"{size['rows']:,} rows" for size in sizes)), lines)


def _memory_line(answering: dict[str, int]) -> str:
    own, files, peak = (figure(answering[key] / MEBIBYTE) for key in ("own", "files", "peak"))
    return f"A process that answered from both sizes holds {own} MiB of its own and {files} MiB of pages of files; its peak was {peak} MiB."


if __name__ == "__main__":
    run("million", measure, render)
