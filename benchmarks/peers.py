"""Kinbin against other libraries: queries a second at equal recall, exact scans, single calls, builds, bytes; one thread, one process."""

from __future__ import annotations

import gc
import os
import statistics
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import kinbin
from common import SPREAD, K, Options, Skipped, interleaved, latencies, ratio, run, spread, workspace
from contenders import Contender, of_collection
from databases import BATCH, compacted_copy_bytes, file_bytes, fill, layout
from libraries import PEERS, Peer, normalised
from plots import curves
from report import DOCUMENT, figure, paragraphs, table
from truth import TOLERANCE, Judge
from vector_sets import SETS, VectorSet

OURS = "Kinbin links"
"""The system that every other is compared with."""
EXACT = ("Kinbin exact", "FAISS IndexFlat")
FLOORS = (0.95, 0.99)
TARGETS = (0.3, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.92, 0.94, 0.96, 0.98, 0.99, 0.999)
FEW_TARGETS = (0.3, 0.5, 0.8, 0.9, 0.95, 0.99)
CALLED_ALONE = (OURS, "FAISS HNSW", "pynndescent", "Annoy")
"""How the names begin of the systems whose single calls are timed."""
LOOP = 50
"""Calls in a loop before the next system has its turn."""
PLOTS = DOCUMENT.parent / "benchmarks"
WARMED_UP = 500
"""Rows of the index that is built before the timed ones, where a library has something to compile."""


@dataclass(frozen=True, slots=True)
class Mode:
    """A way to ask a collection, with the targets that it is asked with."""

    name: str
    mode: str
    targets: tuple[float, ...]
    certify: bool = False


MODES = (
    Mode(OURS, "links", TARGETS),
    Mode("Kinbin certified links", "links", TARGETS, certify=True),
    Mode("Kinbin auto", "auto", FEW_TARGETS),
    Mode("Kinbin bands", "bands", FEW_TARGETS),
    Mode("Kinbin exact", "exact", (1.0,)),
)


@dataclass(frozen=True, slots=True)
class Point:
    """One system at one setting."""

    system: str
    setting: str
    """What the value is called; empty where there is nothing to set."""
    value: float
    contender: Contender
    judge: Judge


def measure(options: Options) -> dict[str, Any]:
    """Every data set that is there."""
    kinbin.warm_up()
    measured: dict[str, Any] = {}
    skipped: dict[str, str] = {}
    asked = os.environ.get("PEER_SETS", ",".join(SETS)).split(",")
    for name, load in SETS.items():
        if name not in asked:
            skipped[name] = "not asked for (PEER_SETS)"
            continue
        try:
            measured[name] = _measure(load(options), options)
        except Skipped as reason:
            skipped[name] = str(reason)
        gc.collect()
    if not measured:
        raise Skipped("; ".join(skipped.values()))
    return {"floors": FLOORS, "batch": BATCH, "sets": measured, "skipped": skipped}


def _measure(data: VectorSet, options: Options) -> dict[str, Any]:
    """Build everything, ask everybody everything in turns, then weigh."""
    peers = [peer for peer in PEERS if peer.takes_sparse or not data.is_sparse]
    with workspace(options) as folder:
        database, indexes, built = _build_all(data, peers, folder, options.rounds(3))
        with kinbin.open(database) as opened:
            collection = opened.collection("c")
            asked = _ask([*_of_modes(collection, data), *_of_peers(indexes, peers, data)], options.rounds(5, 2))
            made = layout(collection)
        weights = _weigh(indexes, peers, database, folder)
    count = data.rows.shape[0]
    return {
        "title": data.title, "rows": count, "dimension": data.rows.shape[1], "queries": data.queries.shape[0],
        "nonzeros": float((data.rows != 0).sum() / count), "layout": made, **asked, "builds": built, "bytes": weights,
        "given": {peer.name: min(peer.most_rows or count, count) for peer in peers},
        "not_applicable": [peer.name for peer in PEERS if peer not in peers],
    }  # fmt: skip


# ---------------------------------------------------------------------------------------- building


def _build_all(data: VectorSet, peers: list[Peer], folder: Path, rounds: int) -> tuple[Path, dict[str, Any], dict[str, list[float]]]:
    """The last database, the peers' indexes, and seconds by system. Kinbin and who is timed again take turns, the others build once."""
    rows = normalised(data.rows)
    for peer in peers:
        _warm_up(peer, rows[:WARMED_UP])
    seconds: dict[str, list[float]] = {}
    indexes: dict[str, Any] = {}
    for turn in range(rounds):
        for step, until in _build_collection(folder / str(turn), data).items():
            seconds.setdefault(step, []).append(until)
        for peer in peers:
            if turn == 0 or peer.timed_again:
                indexes.pop(peer.name, None)
                gc.collect()
                started = time.perf_counter()
                indexes[peer.name] = peer.build(rows[: peer.most_rows])
                seconds.setdefault(peer.name, []).append(time.perf_counter() - started)
    return folder / str(rounds - 1), indexes, seconds


def _warm_up(peer: Peer, rows: Any) -> None:
    """Build and ask a small index: what is compiled on first use is compiled now."""
    contender = peer.contender(peer.build(rows), rows[:10], peer.ladder[0])
    contender.many()
    contender.one(0)


def _build_collection(folder: Path, data: VectorSet) -> dict[str, float]:
    """Seconds until everything was added, merged, and linked."""
    with kinbin.open(folder) as database:
        dimension = None if data.is_sparse else data.rows.shape[1]
        return fill(database.create_collection("c", dim=dimension, seed=0), data.rows)


def _weigh(indexes: dict[str, Any], peers: list[Peer], database: Path, folder: Path) -> dict[str, int]:
    """Bytes of everybody's index with its rows; the database must not be open in this process."""
    weights = {"file": file_bytes(database, "c"), "live": compacted_copy_bytes(database, "c", folder / "copy")}
    return weights | {peer.name: peer.weigh(indexes[peer.name], folder / "saved") for peer in peers}


# ------------------------------------------------------------------------------------------ asking


def _of_modes(collection: kinbin.Collection, data: VectorSet) -> Iterator[Point]:
    """Kinbin, given vectors as a user has them: it validates and normalises them within the time."""
    judge = Judge(data.rows, data.queries, K)
    for mode in MODES:
        for target in mode.targets:
            contender = of_collection(collection, data.queries, target, mode.mode, certify=mode.certify)
            yield Point(mode.name, "" if mode.mode == "exact" else "target", target, contender, judge)


def _of_peers(indexes: dict[str, Any], peers: list[Peer], data: VectorSet) -> Iterator[Point]:
    """The other libraries, given rows and queries that sum to 1."""
    queries = normalised(data.queries)
    for most_rows in dict.fromkeys(peer.most_rows for peer in peers):
        judge = Judge(data.rows[:most_rows], data.queries, K)
        for peer in peers:
            for value in peer.ladder if peer.most_rows == most_rows else ():
                yield Point(peer.name, peer.setting, value, peer.contender(indexes[peer.name], queries, value), judge)


def _ask(points: list[Point], rounds: int) -> dict[str, Any]:
    """Recall and times of every point, of single calls, and how the two exact scans differ."""
    found = [point.contender.rows(point.contender.many()) for point in points]
    seconds = interleaved({str(i): point.contender.many for i, point in enumerate(points)}, rounds)
    systems: dict[str, list[dict[str, Any]]] = {}
    for point, rows, times in zip(points, found, seconds.values(), strict=True):
        line = {"setting": point.setting, "value": point.value, "recall": float(point.judge.recalls(rows).mean()), "seconds": times}
        systems.setdefault(point.system, []).append(line)
    return {"systems": systems, "single": _single_calls(points, systems, len(found[0])), "exact": _same_answers(points, found)}


def _single_calls(points: list[Point], systems: dict[str, list[dict[str, Any]]], count: int) -> list[dict[str, Any]]:
    """Times of single calls, at the setting that is the cheapest for each recall."""
    contenders = {(point.system, point.value): point.contender for point in points}
    lines = []
    for floor in FLOORS:
        for system in (name for name in systems if name.startswith(CALLED_ALONE)):
            best = cheapest(systems[system], floor)
            if best is not None:
                lines.append({"floor": floor, "system": system, "setting": best["setting"], "value": best["value"]})
    alone = {str(i): contenders[line["system"], line["value"]].one for i, line in enumerate(lines)}
    looped, turns = latencies(alone, count, loop=LOOP), latencies(alone, count)
    return [{**line, "loop": looped[str(i)], "turns": turns[str(i)]} for i, line in enumerate(lines)]


def _same_answers(points: list[Point], found: list[NDArray[np.int64]]) -> dict[str, Any] | None:
    """How the answers of the two exact scans differ; None where only one of them can be asked."""
    scans = {point.system: (rows, point.judge.scores(rows)) for point, rows in zip(points, found, strict=True) if point.system in EXACT}
    if len(scans) < len(EXACT):
        return None
    (ours, our_scores), (theirs, their_scores) = scans.values()
    same = (np.sort(ours, axis=1) == np.sort(theirs, axis=1)).all(axis=1)
    return {"same_rows": int(same.sum()), "largest_difference": float(np.abs(our_scores - their_scores).max())}


def cheapest(curve: Iterable[dict[str, Any]], floor: float) -> dict[str, Any] | None:
    """The fastest measured setting of a system that reaches a recall; None if none does. Nothing is interpolated."""
    reached = [line for line in curve if line["recall"] >= floor]
    return min(reached, key=lambda line: statistics.median(line["seconds"])) if reached else None


# ------------------------------------------------------------------------------------------ tables


def render(result: dict[str, Any]) -> str:
    """All ratios in short, then every data set: curves, equal recall, exact scans, single calls, builds and bytes."""
    sets = result["sets"]
    parts = [part for floor in result["floors"] for part in _in_short(sets, floor)]
    for name, each in sets.items():
        parts += _set_parts(name, each, result)
    parts += [f"**{name}** was skipped: {reason}." for name, reason in result["skipped"].items()]
    return paragraphs(*parts)


def _in_short(sets: dict[str, Any], floor: float) -> tuple[str, str]:
    """One line for each data set, one column for each other system."""
    names = list(dict.fromkeys(name for each in sets.values() for name in (*each["systems"], *each["not_applicable"]) if name != OURS))
    lines = [(name, *(_ratio_cell(each, other, floor) for other in names)) for name, each in sets.items()]
    title = f"Time a query / that of {OURS}, batch, everybody at the cheapest setting that was measured to reach recall@10 ≥ {floor}:"
    return title, table(("", *names), lines)


def _ratio_cell(each: dict[str, Any], system: str, floor: float) -> str:
    """A ratio of times, or why there is none."""
    if system in each["not_applicable"]:
        return "not applicable"
    best, ours = cheapest(each["systems"][system], floor), cheapest(each["systems"][OURS], floor)
    if best is None:
        return f"reaches {_best_recall(each, system)}"
    return f"{OURS} reach {_best_recall(each, OURS)}" if ours is None else figure(ratio(best["seconds"], ours["seconds"]))


def _best_recall(each: dict[str, Any], system: str) -> str:
    return figure(max(line["recall"] for line in each["systems"][system]), 4)


def _set_parts(name: str, each: dict[str, Any], result: dict[str, Any]) -> list[str]:
    """Everything about one data set."""
    shape = f"{each['rows']:,} rows of {each['dimension']:,} dimensions, {figure(each['nonzeros'])} of them not zero"
    parts = [
        f"**{name}: {each['title']}.** {shape}; {each['queries']:,} queries, k = {K}; Kinbin made {each['layout']}.",
        f"![recall and queries a second of every system on {name}](benchmarks/{name}.svg)",
    ]
    if each["not_applicable"]:
        parts.append(f"Not applicable, because they need dense rows: {', '.join(each['not_applicable'])}.")
    parts += [f"{system} is given the first {rows:,} rows only." for system, rows in each["given"].items() if rows < each["rows"]]
    for floor in result["floors"]:
        parts += [f"At recall@10 ≥ {floor}, batch:", _floor_table(each, floor)]
    return [*parts, *_exact_parts(each), _single_table(each), *_build_parts(each, result["batch"])]


def _floor_table(each: dict[str, Any], floor: float) -> str:
    """Every system at its cheapest setting that reaches a recall, or what it reaches at best."""
    lines: list[tuple[object, ...]] = []
    for system, curve in each["systems"].items():
        best = cheapest(curve, floor)
        if best is None:
            lines.append((f"{system}, not reached", _best_recall(each, system), *[None] * (len(SPREAD) + 2)))
        else:
            times = _micros(each, best["seconds"])
            label = system + _set_to(best)
            spent = (times[which] for which in SPREAD)
            lines.append((label, figure(best["recall"], 4), 1e6 / times["median"], *spent, _ratio_cell(each, system, floor)))
    return table(("", "recall@10", "queries/s", *(f"µs a query, {w}" for w in SPREAD), f"time / {OURS}"), lines)


def _set_to(line: dict[str, Any]) -> str:
    """The setting of a line, such as `, efSearch 40`."""
    return f", {line['setting']} {line['value']:,.6g}" if line["setting"] else ""


def _micros(each: dict[str, Any], seconds: list[float]) -> dict[str, float]:
    return spread([1e6 * second / each["queries"] for second in seconds])


def _exact_parts(each: dict[str, Any]) -> tuple[str, ...]:
    """The two exact scans beside each other, where both can scan."""
    if each["exact"] is None:
        return ()
    ours, theirs = (each["systems"][name][0]["seconds"] for name in EXACT)
    lines = [
        (name, *(_micros(each, seconds)[which] for which in SPREAD), ratio(seconds, ours))
        for name, seconds in zip(EXACT, (ours, theirs), strict=True)
    ]
    same, largest = each["exact"]["same_rows"], each["exact"]["largest_difference"]
    verdict = "the answers are the same, but for rows that tie" if largest < TOLERANCE else "**the answers differ**"
    return (
        table(("exact scan of a batch", *(f"µs a query, {which}" for which in SPREAD), f"time / {EXACT[0]}"), lines),
        (
            f"Both scans answer {same:,} of {each['queries']:,} queries with the same rows; in the same place, scores differ by "
            f"{largest:.1e} at most: {verdict}."
        ),
    )


def _single_table(each: dict[str, Any]) -> str:
    titles = [f"one query a call, µs, in loops of {LOOP}", "p50", "p99", "mean", f"mean / {OURS}"]
    titles += ["in turns with all others: p50", "p99", "mean", f"mean / {OURS}"]
    ours = {line["floor"]: line for line in each["single"] if line["system"] == OURS}
    lines = []
    for line in each["single"]:
        cells: list[object] = [f"recall ≥ {line['floor']}: {line['system']}{_set_to(line)}"]
        for way in ("loop", "turns"):
            cells += [line[way][which] for which in ("p50", "p99", "mean")]
            cells.append(line[way]["mean"] / ours[line["floor"]][way]["mean"] if line["floor"] in ours else None)
        lines.append(tuple(cells))
    return table(tuple(titles), lines)


def _build_parts(each: dict[str, Any], batch: int) -> tuple[str, str]:
    """What building takes, and what is left of it on disk or in memory."""
    steps = {
        "linked": f"Kinbin, on disk: adds of {batch:,}, merged, linked",
        "compacted": "of it until merged",
        "added": "of it until the last add was acknowledged",
    }
    whole = each["builds"]["linked"]
    speed = []
    for name, seconds in sorted(each["builds"].items(), key=lambda item: list(steps).index(item[0]) if item[0] in steps else len(steps)):
        times, rows = spread(seconds), each["given"].get(name, each["rows"])
        share = statistics.median(seconds) / statistics.median(whole)
        speed.append((steps.get(name, name), rows, rows / times["median"], *(times[which] for which in SPREAD), len(seconds), share))
    labels = {"file": "Kinbin, file", "live": "Kinbin, file without free pages"}
    sizes = [(labels.get(name, name), size, size / each["given"].get(name, each["rows"])) for name, size in each["bytes"].items()]
    return (
        table(("building", "rows", "rows/s", *(f"seconds, {which}" for which in SPREAD), "builds", "time / Kinbin"), speed),
        table(("rows and index", "bytes", "a row"), sizes),
    )


def draw(result: dict[str, Any]) -> None:
    """A plot of every data set: recall against queries a second."""
    for name, each in result["sets"].items():
        lines = {
            system: [(line["recall"], each["queries"] / statistics.median(line["seconds"])) for line in curve]
            for system, curve in each["systems"].items()
        }
        curves(lines, f"{name}: {each['title']}, {each['rows']:,} rows", PLOTS / name)


if __name__ == "__main__":
    run("peers", measure, render, draw)
