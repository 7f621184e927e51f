"""A million rows against 50,000 of the same kind: time a query at equal recall, building, linking, bytes, opening, memory.

With --rows as many as that against a tenth of them; both databases are kept in the cache folder, so that what they were built for can be
measured again, on a quiet machine.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import kinbin
from common import SPREAD, K, Options, ids_of, in_new_process, interleaved, least_setting, memory, ratio, run, spread, workspace
from databases import compacted_copy_bytes, file_bytes, layout, opening, record_bytes
from patches import DIMENSION, histograms, open_matrix, query_histograms
from report import figure, paragraphs, table
from stages import Stages, summed_up, watched
from truth import Judge, rows_answered
from workers import held_by

FLOOR = 0.95
TARGETS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.65, 0.7, 0.75, 0.8, 0.82, 0.84, 0.86, 0.88, 0.9, 0.92, 0.95, 0.98, 0.99, 0.999)
DEFAULT = 0.9
INDEXES = ("bands", "links")
BATCH = 5_000
UNLIT = 1_000_000
"""Histograms that photographs have in their own light (`patches`): of more, queries come in other light as well."""
SCANNED = 100
"""Queries of a timed exact scan: it takes long."""
TIMED = 500
"""Queries of the other timed batches."""
WORKERS = (1, 4)
MEBIBYTE, GIBIBYTE = float(1 << 20), 1 << 30
MACHINES, FILLED = (16, 64, 256), 0.8
"""GiB of memory of machines that are told of, and how full they may be."""
ALLOWED_GROWTH, ALLOWED_EACH = 1.2, 150e6
"""Four workers together may hold 1.2 times what one holds and 150 MB for each of them."""


def measure(options: Options) -> dict[str, Any]:
    """Build both sizes, each in a process of its own; find the targets; time everything in one more process."""
    sizes = (options.rows // 10, options.rows) if options.rows else options.pick((50_000, 1_000_000), (2_000, 20_000))
    cache = histograms(sizes[1], options.cache)
    asked = query_histograms(options.pick(1_000, 100), lit=sizes[1] > UNLIT)
    queries = asked[: options.pick(TIMED, 50)]
    kinbin.warm_up()
    with _folder(options) as work:
        folder = work / "database"
        built = [_built(work, cache, rows, queries) for rows in sizes]
        answers = in_new_process(_answers, folder, sizes, queries)
        chosen = [_chosen(found, Judge(open_matrix(cache, rows), queries, K)) for rows, found in zip(sizes, answers, strict=True)]
        timed = in_new_process(_times, folder, sizes, chosen, queries, options.rounds(5, 2))
        vector = queries[0].toarray()[0]
        opened = [opening(folder, str(rows), vector, options.rounds(5, 2), warm=True) for rows in sizes]
        held = {str(count): held_by(count, folder, str(sizes[1]), asked, chosen[1]["links"]["target"]) for count in WORKERS}
        disk = [_disk(folder, rows, open_matrix(cache, rows)) for rows in sizes]
    lines = zip(sizes, built, chosen, disk, opened, strict=True)
    return {
        "queries": queries.shape[0],
        "floor": FLOOR,
        "sizes": [{"rows": rows, "built": b, "chosen": c, "disk": d, "opening": o} for rows, b, c, d, o in lines],
        "workers": {"queries": asked.shape[0], "held": held},
        **timed,
    }


@contextmanager
def _folder(options: Options) -> Iterator[Path]:
    """Where databases lie: they are removed, or kept where --rows says how many rows there are, for those take long to build."""
    if options.rows:
        folder = options.cache / f"million-{options.rows}"
        folder.mkdir(parents=True, exist_ok=True)
        yield folder
    else:
        with workspace(options) as folder:
            yield folder


def _built(work: Path, cache: Path, rows: int, queries: Any) -> dict[str, Any]:
    """Build a collection of so many rows, unless it is there: what that took, and how queries fared meanwhile."""
    told = work / f"built-{rows}.json"
    if not told.exists():
        with watched(work / "database", str(rows), queries) as asked:
            built = in_new_process(_build, work, cache, rows)
        built["served"] = {name: summed_up(asked, stage) for name, stage in built["stages"].items()}
        told.write_text(json.dumps(built), encoding="utf-8")
    built = json.loads(told.read_text(encoding="utf-8"))
    assert isinstance(built, dict)
    return built


def _build(work: Path, cache: Path, rows: int) -> dict[str, Any]:
    """Fill a collection, merge and link it: each stage, the layout, bytes of the file before links. Goes on where one broke off."""
    folder = work / "database"
    matrix, stages = open_matrix(cache, rows), Stages(f"{rows:,} rows", work / f"stages-{rows}.json")
    with kinbin.open(folder) as database:
        if "added" not in stages.taken and str(rows) in database.collections():
            database.drop_collection(str(rows))
        collection = database.create_collection(str(rows), dim=DIMENSION, seed=0, exist_ok=True)
        if "added" not in stages.taken:
            with stages.stage("added"):
                for first in range(0, rows, BATCH):
                    last = min(first + BATCH, rows)
                    collection.add(ids_of(first, last), matrix[first:last])
        if "merged" not in stages.taken:
            with stages.stage("merged"):
                collection.compact()
        size = file_bytes(folder, str(rows))
        with stages.stage("linked"):
            collection.link()
        return {"stages": stages.taken, "layout": layout(collection), "unlinked_file": size}


def _answers(folder: Path, sizes: tuple[int, ...], queries: Any) -> list[dict[str, Any]]:
    """The rows that each size answers, by index and target, and by mode with the default target."""
    out = []
    with kinbin.open(folder) as database:
        for rows in sizes:
            collection = database.collection(str(rows))
            found: dict[str, Any] = {
                index: {target: rows_answered(_ask(collection, queries, target, index).ids) for target in TARGETS} for index in INDEXES
            }
            found |= {mode: rows_answered(_ask(collection, queries, DEFAULT, mode).ids) for mode in ("auto", "exact")}
            out.append(found)
    return out


def _chosen(found: dict[str, Any], judge: Judge) -> dict[str, Any]:
    """For each index the least target that reaches the recall; the recall of the other modes."""
    out: dict[str, Any] = {mode: float(judge.recalls(found[mode]).mean()) for mode in ("auto", "exact")}
    for index in INDEXES:
        ladder = {target: float(judge.recalls(rows).mean()) for target, rows in found[index].items()}
        target = least_setting(ladder, FLOOR)
        out[index] = {"target": target, "recall": ladder[target], "ladder": list(ladder.items())}
    return out


def _ask(collection: kinbin.Collection, queries: Any, target: float, mode: str) -> kinbin.AnswerBatch:
    return collection.query_batch(queries, k=K, target_recall=target, mode=mode)


def _times(folder: Path, sizes: tuple[int, ...], chosen: list[dict[str, Any]], queries: Any, repeats: int) -> dict[str, Any]:
    """Microseconds a query of both sizes by links, bands and scan, taking turns; memory of a process that answers."""
    few = queries[:SCANNED]
    with kinbin.open(folder) as database:
        tasks: dict[str, Callable[[], object]] = {}
        for rows, settings in zip(sizes, chosen, strict=True):
            collection = database.collection(str(rows))
            for index in INDEXES:
                _ask(collection, queries, settings[index]["target"], index)
                tasks[f"{index} {rows}"] = lambda c=collection, t=settings[index]["target"], i=index: _ask(c, queries, t, i)  # type: ignore[misc]
            tasks[f"auto {rows}"] = lambda c=collection: _ask(c, queries, DEFAULT, "auto")  # type: ignore[misc]
            tasks[f"exact {rows}"] = lambda c=collection: _ask(c, few, DEFAULT, "exact")  # type: ignore[misc]
        held = memory()
        seconds = interleaved(tasks, repeats)
    counts = {name: (few if name.startswith("exact") else queries).shape[0] for name in seconds}
    micros = {name: [1e6 * second / counts[name] for second in values] for name, values in seconds.items()}
    small, large = sizes
    return {
        "us_per_query": {name: spread(values) for name, values in micros.items()},
        "ratio_to_small": {index: ratio(micros[f"{index} {large}"], micros[f"{index} {small}"]) for index in INDEXES},
        "ratio_to_scan": {index: ratio(micros[f"exact {large}"], micros[f"{index} {large}"]) for index in INDEXES},
        "memory_answering": held,
    }


def _disk(folder: Path, rows: int, matrix: Any) -> dict[str, int]:
    """Bytes of the file, of its pages in use, and of the vectors in it."""
    copy = folder.with_name(f"copy-{rows}")
    live = compacted_copy_bytes(folder, str(rows), copy)
    (copy / "data.mdb").unlink()
    return {"file": file_bytes(folder, str(rows)), "live": live, "records": record_bytes(matrix)}


def render(result: dict[str, Any]) -> str:
    """Queries, then what a database of that size costs, then the memory of those who answer from it."""
    small, large = (size["rows"] for size in result["sizes"])
    growth = (f"{figure(result['ratio_to_small'][index])} times the time by {index}" for index in INDEXES)
    scan = (f"{figure(result['ratio_to_scan'][index])} times as long as {index}" for index in INDEXES)
    return paragraphs(
        f"{result['queries']} queries in one batch, k = {K}, the least target that reaches recall@10 ≥ {result['floor']}.",
        _query_table(result),
        f"{figure(large / small)} times the rows take {' and '.join(growth)}. "
        f"An exact scan of {large:,} rows takes {' and '.join(scan)}. (Medians of the rounds' ratios.)",
        _stage_table(result["sizes"]),
        _cost_table(result["sizes"]),
        _memory_line(result["memory_answering"]),
        *_worker_parts(result["workers"], large),
        _in_short(result),
    )


def _in_short(result: dict[str, Any]) -> str:
    """What one machine carries, and from where on several are better; by what the larger collection takes."""
    size = result["sizes"][-1]
    rows, disk = size["rows"], size["disk"]
    each, most = disk["live"] / rows, disk["file"] / rows
    own = sum(one["Pss_Anon"] for one in result["workers"]["held"][str(WORKERS[-1])])
    micros = result["us_per_query"][f"links {rows}"]["median"]
    machines = ", ".join(f"one of {gib} GiB {(gib * GIBIBYTE * FILLED - own) / each / 1e6:.0f} million rows" for gib in MACHINES)
    return (
        f"**In short.** A row of this kind takes {figure(each)} bytes of the file without free pages, {figure(most)} with them. Filled to "
        f"{FILLED:.0%}, the memory of a machine holds all that is read of the file: {machines}. A core answers {figure(1e6 / micros)} "
        "queries a second by links. Several machines are better for more rows or queries than that, or where one may be lost without a "
        "pause: each query costs more processor there."
    )


def _query_table(result: dict[str, Any]) -> str:
    lines = []
    for size in result["sizes"]:
        chosen, rows = size["chosen"], size["rows"]
        modes = [(index, _target_text(index, chosen[index], result["floor"]), chosen[index]["recall"]) for index in INDEXES]
        modes.append(("auto", f"auto, target {DEFAULT} (a call without options)", chosen["auto"]))
        modes.append(("exact", "exact", chosen["exact"]))
        for mode, name, recall in modes:
            times = result["us_per_query"][f"{mode} {rows}"]
            lines.append((f"{rows:,} rows, {name}", recall, *(times[which] for which in SPREAD)))
    return table(("", "recall@10", *(f"µs a query, {which}" for which in SPREAD)), lines)


def _target_text(index: str, chosen: dict[str, Any], floor: float) -> str:
    return f"{index}, target {chosen['target']:g}" + ("" if chosen["recall"] >= floor else " (**does not reach it; none does**)")


def _cost_table(sizes: list[dict[str, Any]]) -> str:
    def row(name: str, value: Callable[[dict[str, Any]], object]) -> tuple[object, ...]:
        return (name, *(value(size) for size in sizes))

    lines = [
        row("runs", lambda size: size["built"]["layout"]),
        row("file before linking, MiB", lambda size: size["built"]["unlinked_file"] / MEBIBYTE),
        row("file, MiB", lambda size: size["disk"]["file"] / MEBIBYTE),
        row("file, bytes a row", lambda size: size["disk"]["file"] / size["rows"]),
        row("without free pages, bytes a row", lambda size: size["disk"]["live"] / size["rows"]),
        row("of them vectors", lambda size: size["disk"]["records"] / size["rows"]),
        row("opening in a new process, linked, ms", lambda size: size["opening"]["open"] + size["opening"]["collection"]),
        row("its first query, ms", lambda size: size["opening"]["first_query"]),
        row("its second query, ms", lambda size: size["opening"]["second_query"]),
        row("its memory of its own, MiB", lambda size: size["opening"]["own_bytes"] / MEBIBYTE),
    ]
    return table(("", *(f"{size['rows']:,} rows" for size in sizes)), lines)


def _stage_table(sizes: list[dict[str, Any]]) -> str:
    """What each stage of building took, and how single queries fared that another process asked meanwhile."""
    header = (
        "stage", "seconds", "rows/s", "peak of memory, pages of the file included, MiB", "of its own at its end, MiB", "others, cores",
        "queries meanwhile", "p50, ms", "p99", "longest",
    )  # fmt: skip
    lines = []
    for size in sizes:
        for name, stage in size["built"]["stages"].items():
            served = size["built"]["served"][name]
            memory_of = (None if stage[which] is None else stage[which] / MEBIBYTE for which in ("peak", "own"))
            times = (served.get(which) for which in ("p50", "p99", "longest"))
            figures = (stage["seconds"], size["rows"] / stage["seconds"], *memory_of, stage["others_cores"], served.get("queries"), *times)
            lines.append((f"{size['rows']:,} rows: {name}", *figures))
    return table(header, lines)


def _memory_line(answering: dict[str, int]) -> str:
    own, files, peak = (figure(answering[key] / MEBIBYTE) for key in ("own", "files", "peak"))
    return f"A process that answered from both sizes holds {own} MiB of its own and {files} MiB of pages of files; its peak was {peak} MiB."


def _worker_parts(workers: dict[str, Any], rows: int) -> tuple[str, str]:
    """Memory of one and of several processes, and whether several together keep within what they may hold."""
    one, many = (workers["held"][str(count)] for count in WORKERS)
    names = {
        "private pages": ("Private_Clean", "Private_Dirty"),
        "of them written to": ("Private_Dirty",),
        "pages shared with another process": ("Shared_Clean", "Shared_Dirty"),
        "resident in all": ("Rss",),
        "resident, shared pages counted in parts (Pss)": ("Pss",),
        "of it memory of its own, no file's": ("Pss_Anon",),
    }
    lines = []
    for name, fields in names.items():
        single, *several = (sum(each[field] for field in fields) / MEBIBYTE for each in (*one, *many))
        lines.append((name, single, min(several), max(several), sum(several)))
    title = f"{workers['queries']:,} queries by links from {rows:,} rows, MiB"
    together = sum(each["Pss"] for each in many)
    allowed = ALLOWED_GROWTH * one[0]["Pss"] + len(many) * ALLOWED_EACH
    return (
        table((title, "one process", f"each of {len(many)}, least", f"each of {len(many)}, most", f"{len(many)} together"), lines),
        (
            f"{len(many)} processes together hold {figure(together / MEBIBYTE)} MiB, shared pages counted once; they may hold "
            f"{ALLOWED_GROWTH} times what one holds and {ALLOWED_EACH / 1e6:g} MB each, which is {figure(allowed / MEBIBYTE)} MiB: "
            f"{'kept' if together <= allowed else '**not kept**'}."
        ),
    )


if __name__ == "__main__":
    run("million", measure, render, sizes="millions")
