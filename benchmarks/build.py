"""Building: durable adds against FAISS's graph in memory, bytes on disk, and opening in a new process."""

from __future__ import annotations

import gc
import time
from pathlib import Path
from typing import Any

import kinbin
from common import SPREAD, Options, data_set, ratio, run, spread, workspace
from databases import BATCH, compacted_copy_bytes, file_bytes, fill, layout, opening, record_bytes
from libraries import EF_CONSTRUCTION, LINKS, hnsw, normalised
from report import figure, paragraphs, table

BANDS = 128


def measure(options: Options) -> dict[str, Any]:
    """Build with both, taking turns; then weigh and open a database of 128 bands."""
    data = data_set("cifar10_rgbhist512")
    rows, query = data["X_train"][: options.pick(50_000, 3_000)], data["X_test"][0]
    dense = normalised(rows)
    kinbin.warm_up()
    hnsw(dense[:500])
    times: dict[str, list[float]] = {"added": [], "compacted": [], "linked": [], "faiss": []}
    layouts: list[str] = []
    with workspace(options) as folder:
        for turn in range(options.rounds(3)):
            built = _build(folder / f"default-{turn}", rows, None)
            layouts.append(built.pop("layout"))
            for step, until in built["seconds"].items():
                times[step].append(until)
            gc.collect()
            started = time.perf_counter()
            hnsw(dense)
            times["faiss"].append(time.perf_counter() - started)
        disk = _weigh(folder / "weighed", rows)
        repeats = options.rounds(5, 2)
        opened = {name: opening(folder / "weighed", "c", query, repeats, warm=name == "warm") for name in ("cold", "warm")}
    return {
        "rows": len(rows), "dimension": rows.shape[1], "nonzeros": mean_nonzeros(rows), "batch": BATCH, "layout": layouts[-1],
        "seconds": {name: spread(values) for name, values in times.items()},
        "ratio_to_faiss": {step: ratio(times["faiss"], times[step]) for step in ("compacted", "linked")},
        "disk": disk, "opening": opened,
    }  # fmt: skip


def mean_nonzeros(rows: Any) -> float:
    """Mean nonzeros a row."""
    return float((rows != 0).sum() / len(rows))


def _build(folder: Path, rows: Any, bands: int | None, *, link: bool = True) -> dict[str, Any]:
    """A new database of all rows; times and layout."""
    with kinbin.open(folder) as database:
        collection = database.create_collection("c", dim=rows.shape[1], seed=0, bands=bands)
        return {"seconds": fill(collection, rows, link=link), "layout": layout(collection)}


def _weigh(folder: Path, rows: Any) -> dict[str, Any]:
    """Bytes of a database with 128 bands, before it is linked and after."""
    built = _build(folder, rows, BANDS, link=False)
    size = file_bytes(folder, "c")
    live = compacted_copy_bytes(folder, "c", folder.with_name("copy"))
    with kinbin.open(folder) as database:
        database.collection("c").link()
    linked = compacted_copy_bytes(folder, "c", folder.with_name("linked-copy"))
    records = record_bytes(rows)
    return {"layout": built["layout"], "file_bytes": size, "live_bytes": live, "linked_bytes": linked, "record_bytes": records}


def render(result: dict[str, Any]) -> str:
    """Three tables: speed, bytes, opening."""
    fast = result["ratio_to_faiss"]
    rows, dimension, nonzeros = result["rows"], result["dimension"], figure(result["nonzeros"])
    return paragraphs(
        f"{rows:,} rows of {dimension} bins, {nonzeros} of them not zero, in adds of {result['batch']:,}; Kinbin made {result['layout']}.",
        _speed_table(rows, result["seconds"]),
        f"Kinbin builds {figure(fast['compacted'])} times as fast as FAISS HNSW, merging included, and {figure(fast['linked'])} times as "
        "fast with its links (medians of the rounds' ratios).",
        _disk_table(rows, result["disk"]),
        _opening_table(result["opening"]),
    )


def _speed_table(rows: int, seconds: dict[str, dict[str, float]]) -> str:
    names = {
        "linked": "Kinbin, on disk, merged into one run and linked",
        "compacted": "Kinbin, on disk and merged into one run",
        "added": "Kinbin, until the last add was acknowledged",
        "faiss": f"FAISS HNSW L1 in memory, M={LINKS} efConstruction={EF_CONSTRUCTION}",
    }
    lines = [(name, rows / seconds[key]["median"], *(seconds[key][which] for which in SPREAD)) for key, name in names.items()]
    return table(("building", "rows/s", *(f"seconds, {which}" for which in SPREAD)), lines)


def _disk_table(rows: int, disk: dict[str, Any]) -> str:
    sizes = {
        "file": disk["file_bytes"],
        "of it vectors": disk["record_bytes"],
        "**file beyond vectors and payloads**": disk["file_bytes"] - disk["record_bytes"],
        "file without free pages": disk["live_bytes"],
        "the same beyond vectors and payloads": disk["live_bytes"] - disk["record_bytes"],
        "links": disk["linked_bytes"] - disk["live_bytes"],
    }
    return table((f"bytes with {disk['layout']}", "a row", "all"), [(name, size / rows, size) for name, size in sizes.items()])


def _opening_table(opening: dict[str, dict[str, float]]) -> str:
    names = {"warm": "kernels loaded before, as in a server", "cold": "kernels loaded from the cache on first use"}
    steps = ("open", "collection", "first_query", "second_query")
    lines = [(name, *(opening[key][step] for step in steps)) for key, name in names.items()]
    return table(("new process, ms", "kinbin.open", "collection", "first query", "second query"), lines)


if __name__ == "__main__":
    run("build", measure, render)
