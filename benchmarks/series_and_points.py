"""Series under warping, point sets under the Hausdorff distances: recall and time against exact scans, and agreement with other libraries.

Contours of digits (`mnist_chaincode`), 12,000 stored and some held out: whole as series of 16 to 130 steps in the plane, and at most 40 of
their points as sets. Databases are kept in `--cache`, so that a second run measures only.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import directed_hausdorff

import kinbin
import report
from common import K, Options, data_set, ids_of, latencies, run
from contours import contours, thinned
from kinbin.distances.dtw import dtw_to
from kinbin.distances.hausdorff import hausdorff_to
from kinbin.distances.ragged import Ragged, ragged

Points = NDArray[np.float32]
WINDOW = 0.1
SETTINGS: dict[str, dict[str, Any]] = {
    "dtw": {"items": "series", "distance": "dtw", "parameters": {"window": WINDOW}, "dim": 2},
    "hausdorff": {"items": "points", "distance": "hausdorff", "dim": 2},
    "modified_hausdorff": {"items": "points", "distance": "modified_hausdorff", "dim": 2},
}
TARGETS = (0.9, 0.95)
AIM, AIMED_AT = 100, 0.95
"""Point sets are to be found so many times faster than by the scan, at this recall. It was set beside a compiled loop over all pairs of
points (`_looped`)."""
_BATCH = _MOST = 1_000


def measure(options: Options) -> dict[str, Any]:
    """Every distance."""
    data = data_set("mnist_chaincode")
    stored = contours(_first(data["train_text"], options.pick(12_000, 2_400)))
    queries = contours(_first(data["test_text"], options.pick(300, 30)))
    out: dict[str, Any] = {"stored": len(stored), "queries": len(queries), "agreement": _agreement(stored)}
    for distance in SETTINGS:
        made, asked = (stored, queries) if distance == "dtw" else ([thinned(x) for x in stored], [thinned(x) for x in queries])
        out[distance] = _measured(distance, made, asked, options)
    return out


def _first(text: NDArray[Any], count: int) -> str:
    return "\n".join(bytes(text).decode().split("\n")[:count])


def _measured(distance: str, stored: list[Points], queries: list[Points], options: Options) -> dict[str, Any]:
    kinbin.set_threads(1)
    out: dict[str, Any] = {"adds": _adding(distance, stored, options.folder)}
    folder = options.cache / f"contours-{len(stored)}"
    with kinbin.open(folder) as database:
        if distance not in database.collections():
            collection = database.create_collection(distance, **SETTINGS[distance])
            for first in range(0, len(stored), _BATCH):
                collection.add(ids_of(first, min(first + _BATCH, len(stored))), stored[first : first + _BATCH])
            started = time.perf_counter()
            collection.link()
            out["build_seconds"] = time.perf_counter() - started
        collection = database.collection(distance)
        exact = [collection.query(query, K, mode="exact").scores[-1] for query in queries]
        for target in TARGETS:
            answers = [collection.query(query, K, target_recall=target) for query in queries]
            found = [np.mean(answer.scores <= far * (1 + 1e-9)) for answer, far in zip(answers, exact, strict=True)]
            out[f"recall {target}"] = float(np.mean(found))
        laid = ragged(stored)
        tasks: dict[str, Callable[[int], Any]] = {"plain": lambda i: _all(distance, queries[i], laid)}
        if distance != "dtw":
            tasks |= {"loop": lambda i: _looped(queries[i], laid.values, laid.offsets, distance == "modified_hausdorff")}
        tasks |= {"exact": lambda i: collection.query(queries[i], K, mode="exact")}
        for target in TARGETS:
            tasks[f"auto {target}"] = lambda i, target=target: collection.query(queries[i], K, target_recall=target)  # type: ignore[misc]
        out["limit"] = limit = float(np.median(exact))
        tasks["within"] = lambda i: collection.query(queries[i], _MOST, max_distance=limit)
        count = options.pick(200, 20)
        out["us"] = latencies(tasks, count, loop=count // 20)
        ask = {str(target): partial(collection.query_batch, queries, K, target_recall=target) for target in TARGETS}
        out["batch_us"] = {target: _batch_us(one, len(queries)) for target, one in ask.items()}
        within = [collection.query(query, _MOST, max_distance=limit) for query in queries]
        out["within"] = {"found": float(np.mean([len(one) for one in within])), "scored": float(np.mean([one.verified for one in within]))}
        out["path"] = {str(target): collection.query(queries[0], K, target_recall=target).mode for target in TARGETS}
        out["stats"] = {key: collection.stats()["pools"][key] for key in ("embedding", "tried", "pool")}
    out["us"]["peer"] = {"p50": _peer_scan(distance, stored, queries[:1])}
    return out


def _batch_us(ask: Callable[[], Any], queries: int) -> float:
    """Microseconds of a query in a batch of so many, the median of five."""
    taken = []
    for _ in range(6):
        started = time.perf_counter()
        ask()
        taken.append(time.perf_counter() - started)
    return float(np.median(taken[1:]) / queries * 1e6)


def _all(distance: str, query: Points, stored: Ragged) -> NDArray[np.float64]:
    """All distances by our code, none of them cut off."""
    if distance == "dtw":
        return dtw_to(query, stored, WINDOW)
    return hausdorff_to(query, stored, modified=distance == "modified_hausdorff")


@numba.njit(fastmath=True)
def _looped(query: Points, points: Points, starts: NDArray[np.int64], modified: bool) -> NDArray[np.float64]:
    """All distances by loops over all pairs of points, as anybody would write them first."""
    out = np.empty(len(starts) - 1)
    nearest = np.empty(len(query), np.float32)
    for j in range(len(out)):
        nearest[:] = np.inf
        total = farthest = 0.0
        for t in range(starts[j], starts[j + 1]):
            best = np.float32(np.inf)
            for i in range(len(query)):
                square = np.float32(0.0)
                for k in range(query.shape[1]):
                    square += (query[i, k] - points[t, k]) ** 2
                best = min(best, square)
                nearest[i] = min(nearest[i], square)
            total += np.sqrt(best)
            farthest = max(farthest, float(best))
        if modified:
            out[j] = max(total / (starts[j + 1] - starts[j]), np.sqrt(nearest).mean())
        else:
            out[j] = np.sqrt(max(farthest, nearest.max()))
    return out


def _adding(distance: str, stored: list[Points], folder: Path) -> float:
    """Objects a second that are durably added, in batches of 1,000."""
    import tempfile

    with tempfile.TemporaryDirectory(dir=folder) as place, kinbin.open(place) as database:
        collection = database.create_collection("c", **SETTINGS[distance])
        collection.add(["warm"], stored[:1])
        some = stored[: 5 * _BATCH]
        started = time.perf_counter()
        for first in range(0, len(some), _BATCH):
            collection.add(ids_of(first, min(first + _BATCH, len(some))), some[first : first + _BATCH])
        return len(some) / (time.perf_counter() - started)


def _warping() -> Callable[..., float] | None:
    """dtaidistance's distance of series of several dimensions; None where it is not installed."""
    try:
        found: Callable[..., float] = import_module("dtaidistance.dtw_ndim").distance_fast
    except ImportError:
        return None
    return found


def _peer_scan(distance: str, stored: list[Points], queries: list[Points]) -> float | None:
    """Microseconds of a scan by another library, all distances of a query: dtaidistance, or SciPy."""
    peer = _warping()
    if distance == "modified_hausdorff" or (distance == "dtw" and peer is None):
        return None
    wide = [np.ascontiguousarray(one, np.float64) for one in stored]
    times = []
    for query in queries:
        asked = np.ascontiguousarray(query, np.float64)
        started = time.perf_counter()
        for one in wide:
            if distance == "dtw" and peer is not None:
                peer(asked, one, window=int(WINDOW * max(len(asked), len(one))) + 1)
            else:
                max(directed_hausdorff(asked, one)[0], directed_hausdorff(one, asked)[0])
        times.append(time.perf_counter() - started)
    return float(np.median(times) * 1e6)


def _agreement(stored: list[Points]) -> dict[str, float | None]:
    """The greatest relative difference from SciPy and from dtaidistance, over all pairs of 60 contours.

    Bands of unequal lengths mean something else in dtaidistance: those are compared without a window, equal ones with it.
    """
    some = stored[:60]
    equal = [one[np.linspace(0, len(one) - 1, 50).astype(np.int64)] for one in some]
    peer = _warping()

    def greatest(ours: Callable[..., NDArray[np.float64]], theirs: Callable[[Any, Any], float], objects: list[Points]) -> float:
        wide = [np.ascontiguousarray(one, np.float64) for one in objects]
        expected = np.array([[theirs(x, y) for y in wide] for x in wide])
        found = np.stack([ours(x, ragged(objects)) for x in objects])
        return float((np.abs(found - expected) / np.maximum(expected, 1e-300)).max())

    return {
        "SciPy, hausdorff": greatest(hausdorff_to, lambda x, y: max(directed_hausdorff(x, y)[0], directed_hausdorff(y, x)[0]), some),
        "dtaidistance, no window": None if peer is None else greatest(dtw_to, peer, some),
        "dtaidistance, window": None
        if peer is None
        else greatest(lambda x, others: dtw_to(x, others, WINDOW), lambda x, y: peer(x, y, window=6), equal),
    }


HEADER = (
    "searched", "rows by", "recall@10", "µs a query, median", "mean", "of a batch", "exact scan / this", "all distances / this",
    "library / this",
)  # fmt: skip
OWN, LOOPS, BATCHES = "Kinbin's exact scan", "all distances by loops", "all distances by loops / a query of a batch"
PEERS = {"dtw": "dtaidistance", "hausdorff": "SciPy"}


def _line(name: str, embedding: str, recall: float, key: str, of: dict[str, Any]) -> list[Any]:
    us = of["us"]
    took = us[key]["mean"]
    scans = us["exact"]["mean"], us["plain"]["mean"], us["peer"]["p50"]
    batch = of["batch_us"].get(key.removeprefix("auto "))
    return [name, embedding, recall, us[key]["p50"], took, batch, *(scan and scan / took for scan in scans)]


def _range(distance: str, of: dict[str, Any]) -> list[Any]:
    """The line of all that is within a distance."""
    took, every = of["us"]["within"]["p50"], of["us"]["plain"]["p50"]
    return [f"{distance}, within {report.figure(of['limit'])}", of["within"]["found"], of["within"]["scored"], took, every / took]


def _aim(data: dict[str, Any]) -> str:
    """Whether point sets are found as fast as they are to be, against each scan."""
    sets = [distance for distance in SETTINGS if distance != "dtw"]
    took = {distance: data[distance]["us"][f"auto {AIMED_AT}"]["mean"] for distance in sets}
    batches = {distance: data[distance]["batch_us"][str(AIMED_AT)] for distance in sets}
    scans = {
        BATCHES: [data[distance]["us"]["loop"]["mean"] / batches[distance] for distance in sets],
        OWN: [data[distance]["us"]["exact"]["mean"] / took[distance] for distance in sets],
        LOOPS: [data[distance]["us"]["loop"]["mean"] / took[distance] for distance in sets],
        "all distances, no cutoff": [data[distance]["us"]["plain"]["mean"] / took[distance] for distance in sets],
        "SciPy's, in a Python loop": [(us := data[distance]["us"]["peer"]["p50"]) and us / took[distance] for distance in sets],
    }

    def met(ratios: list[float | None]) -> str:
        return "met" if all(ratio >= AIM for ratio in ratios if ratio is not None) else "not met"

    loops, now = (" and ".join(f"{data[distance]['us'][key]['mean'] / 1_000:.1f}" for distance in sets) for key in ("loop", "exact"))
    recalls = " and ".join(report.figure(data[distance][f"recall {AIMED_AT}"]) for distance in sets)
    text = (
        f"The aim for point sets is {AIM} times the scan at recall {AIMED_AT} (here {recalls}). It was set beside a compiled loop over all "
        f"pairs of points, which takes {loops} ms here: **against that it is {met(scans[BATCHES])} by queries of a batch, "
        f"{met(scans[LOOPS])} by one query at a time; against our own exact scan {met(scans[OWN])}**, which has become faster itself "
        f"since then, by breaking off early and by sketches: {now} ms."
    )
    rows = [[name, *ratios, met(ratios)] for name, ratios in scans.items()]
    return report.paragraphs(text, report.table(["scan / search", *sets, f"{AIM} times"], rows))


def render(data: dict[str, Any]) -> str:
    """Markdown tables, and what they say of the aim."""
    rows: list[list[Any]] = []
    for distance in SETTINGS:
        of = data[distance]
        walked = {target: of["path"][str(target)] == "pool" for target in TARGETS}
        found = [
            (f"target {target}", of["stats"]["embedding"] if walked[target] else "scanned", of[f"recall {target}"], f"auto {target}")
            for target in TARGETS
        ]
        found += [("exact scan", "", 1.0, "exact"), ("all distances, no cutoff", "", 1.0, "plain")]
        rows += [_line(f"{distance}, {name}", embedding, recall, key, of) for name, embedding, recall, key in found]
        library = of["us"]["peer"]["p50"]
        if library is not None:
            rows.append([f"{distance}, all by {PEERS[distance]}", "", 1.0, library, library, None, None, None, 1.0])
    adds = [[distance, data[distance]["adds"]] for distance in SETTINGS]
    ranges = [_range(distance, data[distance]) for distance in SETTINGS]
    agreement = [[name, value] for name, value in data["agreement"].items()]
    return report.paragraphs(
        report.table(HEADER, rows), _aim(data),
        report.table(["all within a distance (complete)", "found", "scored", "µs a query, median", "all distances / this"], ranges),
        report.table(["durable adds", "objects a second"], adds),
        report.table(["against", "greatest relative difference"], agreement),
    )  # fmt: skip


if __name__ == "__main__":
    run("series_and_points", measure, render)
