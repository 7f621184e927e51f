"""What this checkout takes beside commits before it: builds, walks, bands, scans, single calls, adds. Ratios, in turns, on one core.

Which commits: AGAINST, names separated by commas (a file of kernels is compiled for each, once, in the cache folder).
"""

from __future__ import annotations

import json
import math
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from common import ROOT, K, Options, Skipped, run, workspace
from report import paragraphs, table
from vector_sets import SETS

BEFORE = {"bba6b22": "before promises were kept", "51b37bc": "before spaces"}
"""Commits that figures are held against, and what came after them."""
NAMES = ("cifar10_rgbhist512", "mnist", "hog128", "mnist_pca128")
LEAST = 0.97
"""Times before over times now: what may be noise."""
STARTS = 3
"""Processes of each checkout a set, each with a build of its own: where a process's memory lies changes its times by some per cent."""
WALKS = (0.3, 0.5, 0.7, 0.9, 0.95, 0.98)
"""Targets of walks; from them follows what a walk of a given recall takes."""
LEVELS = (0.95, 0.98, 0.99)
"""Recalls at which walks are held against each other."""
HERE = "this checkout"


def _tasks(count: int) -> dict[str, dict[str, Any]]:
    """What is measured: a name, and the request."""
    walks = {f"walks, {target}": {"do": "batch", "mode": "links", "target": target, "count": count} for target in WALKS}
    bands = {f"bands, {target}": {"do": "batch", "mode": "bands", "target": target, "count": count} for target in (0.9, 0.98)}
    single = {
        f"single calls, {mode}, {target}": {"do": "single", "mode": mode, "target": target, "count": count // 2}
        for mode, target in (("links", 0.5), ("links", 0.9), ("bands", 0.9))
    }
    return {
        **walks, **bands,
        "scans": {"do": "batch", "mode": "exact", "target": 0.9, "count": count // 5},
        "batches without options": {"do": "batch", "mode": "auto", "target": 0.9, "count": count},
        **single,
        "single calls without options": {"do": "plain", "count": count // 2},
        "adds of 1": {"do": "add", "size": 1}, "adds of 10": {"do": "add", "size": 10}, "adds of 1,000": {"do": "add", "size": 1_000},
    }  # fmt: skip


def measure(options: Options) -> dict[str, Any]:
    """Each set in turn: build in each checkout, then every task in turns, in several processes of each."""
    commits = [name for name in os.environ.get("AGAINST", ",".join(BEFORE)).split(",") if name]
    sources = {HERE: ROOT} | {commit: _checkout(options, commit) for commit in commits}
    sets = {}
    for name in NAMES:
        with workspace(options) as folder:
            sets[name] = _one_set(options, name, sources, folder)
    return {"sets": sets, "commits": commits}


def _checkout(options: Options, commit: str) -> Path:
    """The files of a commit, kept: its kernels are compiled once."""
    folder = options.cache / "against" / commit
    if not (folder / "index").is_dir():
        folder.mkdir(parents=True)
        archive = subprocess.run(["git", "-C", str(ROOT), "archive", commit, "index"], capture_output=True, check=False)
        if archive.returncode:
            raise Skipped(f"{commit} is not in this clone: {archive.stderr.decode().strip()}")
        subprocess.run(["tar", "xf", "-", "-C", str(folder)], input=archive.stdout, check=True)
    return folder


def _one_set(options: Options, name: str, sources: dict[str, Path], folder: Path) -> dict[str, Any]:
    made = SETS[name](options)
    files = {"rows": str(folder / "rows.npy"), "queries": str(folder / "queries.npy")}
    np.save(files["rows"], made.rows[: options.pick(50_000, 5_000)])
    np.save(files["queries"], made.queries)
    seconds: dict[str, dict[str, list[float]]] = {}
    recalls: dict[str, dict[str, list[float]]] = {}
    truth: list[list[str]] = []
    for start in range(options.pick(STARTS, 1)):
        with _sides(sources, folder / str(start)) as ask:
            for side in sources:
                taken = ask[side]({"do": "build", "name": name, **files})
                seconds.setdefault("build: adds and bands", {}).setdefault(side, []).append(taken["seconds"])
                seconds.setdefault("build: links", {}).setdefault(side, []).append(taken["links"])
            truth = truth or ask[HERE]({"do": "batch", "mode": "exact", "target": 0.9, "count": len(made.queries)})["ids"]
            for task, asked in _tasks(len(made.queries)).items():
                request = asked | ({"name": name} if asked["do"] == "add" else {})
                _in_turns(ask, request, options.rounds(3), seconds.setdefault(task, {}))
                if asked["do"] == "batch":
                    for side in sources:
                        recalls.setdefault(task, {}).setdefault(side, []).append(_recall(ask[side](request)["ids"], truth))
        shutil.rmtree(folder / str(start))
    found = {task: {side: statistics.fmean(each) for side, each in sides.items()} for task, sides in recalls.items()}
    return {"what": made.title, "seconds": seconds, "recalls": found}


def _in_turns(ask: dict[str, Callable[..., Any]], request: dict[str, Any], rounds: int, into: dict[str, list[float]]) -> None:
    """Each checkout once uncounted, then as often as asked; the first one changes."""
    sides = list(ask)
    for turn in range(-1, rounds):
        for place in range(len(sides)):
            side = sides[(place + turn) % len(sides)]
            taken = ask[side](request)["seconds"]
            if turn >= 0:
                into.setdefault(side, []).append(taken)


def _recall(ids: list[list[str]], truth: list[list[str]]) -> float:
    return statistics.fmean(len(set(found) & set(true)) / K for found, true in zip(ids, truth, strict=False))


@contextmanager
def _sides(sources: dict[str, Path], folder: Path) -> Iterator[dict[str, Callable[..., Any]]]:
    """A process for each checkout: functions that ask it."""
    processes = {}
    folder.mkdir()
    try:
        for number, (side, source) in enumerate(sources.items()):
            environment = os.environ | {"PYTHONPATH": str(source / "index")}
            command = [sys.executable, str(ROOT / "benchmarks" / "checkout.py"), str(folder / f"data{number}")]
            process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            processes[side] = process
            if Path(_answer(process)["from"]).parents[2] != source:
                raise RuntimeError(f"{side}: another Kinbin was imported than that of {source}")
        yield {side: lambda request, process=process: _asked(process, request) for side, process in processes.items()}
    finally:
        for process in processes.values():
            process.communicate()


def _asked(process: subprocess.Popen[str], request: dict[str, Any]) -> Any:
    assert process.stdin is not None
    process.stdin.write(json.dumps(request) + "\n")
    process.stdin.flush()
    return _answer(process)


def _answer(process: subprocess.Popen[str]) -> Any:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise RuntimeError(f"the process of {process.args!r} ended")
    return json.loads(line)


# ------------------------------------------------------------------------------------------ tables


def render(result: dict[str, Any]) -> str:
    """A table a commit: times before over times now."""
    parts = []
    for commit in result["commits"]:
        tasks = next(iter(result["sets"].values()))["seconds"]
        lines = [[f"walks of recall {level}", *(_at_recall(one, level, commit) for one in result["sets"].values())] for level in LEVELS]
        lines += [[task, *(_cell(one, task, commit) for one in result["sets"].values())] for task in tasks]
        why = f" ({BEFORE[commit]})" if commit in BEFORE else ""
        parts.append(f"**{commit}**{why}: its time by the time now; above 1 is faster now. In brackets recalls, where they differ.")
        parts.append(table(["", *result["sets"]], lines))
    return paragraphs(*parts)


def _at_recall(one: dict[str, Any], level: float, commit: str) -> str:
    """Times of walks that find as much: on the line between the targets that find less and more. A dash where a side has no such target."""
    taken = []
    for side in (commit, HERE):
        steps = sorted(
            (one["recalls"][task][side], statistics.median(times[side])) for task, times in one["seconds"].items() if "walks" in task
        )
        missed = [-math.log(max(1.0 - recall, 1e-4)) for recall, _ in steps]
        if not steps[0][0] <= level <= steps[-1][0]:
            return "–"
        taken.append(float(np.interp(-math.log(1.0 - level), missed, [seconds for _, seconds in steps])))
    return _told(taken[0] / taken[1])


def _told(value: float) -> str:
    return f"{value:.2f}" if value >= LEAST else f"**{value:.2f}**"


def _cell(one: dict[str, Any], task: str, commit: str) -> str:
    times = one["seconds"][task]
    text = _told(statistics.median(before / now for before, now in zip(times[commit], times[HERE], strict=True)))
    recall = one["recalls"].get(task)
    if recall is None or abs(recall[commit] - recall[HERE]) < 0.0005:
        return text
    return f"{text} ({recall[commit]:.3f}, {recall[HERE]:.3f})"


if __name__ == "__main__":
    run("against", measure, render)
