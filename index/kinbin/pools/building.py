"""Building a pool index: which embedding, its rows, their links, and how deep pools have to be."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from kinbin.bands.build import Cancelled
from kinbin.collection import Collection
from kinbin.errors import CorruptData
from kinbin.items.embedding import Embedder, Embedding, Sample, Settings
from kinbin.items.vectors import is_wide
from kinbin.pools.index import CALIBRATED_K, POOLS, Calibration
from kinbin.pools.measured import Measured
from kinbin.pools.search import PoolSearch
from kinbin.pools.side import Side
from kinbin.query.plan import plan_query
from kinbin.query.route import Wanted
from kinbin.query.view import View
from kinbin.rows.rows import Rows
from kinbin.segments.source import Source, gather, read_records
from kinbin.spaces.registry import space_of
from kinbin.storage.transactions import Reader

__all__ = ["Chosen", "calibrate", "choose", "embed"]

_SAMPLE = 2_000
_JUDGES = 200
"""Objects of the sample, each of whose nearest are looked for among the others."""
_JUDGED_K, _JUDGED_POOLS = 10, (20, 50, 100)
_BETTER = 0.02
"""A later embedding has to find so much more than those before it: these are cheaper."""
_CHUNK = 16_384
"""Objects whose rows are made at a time, and become a run."""
_QUERIES, _SLICE, _TIMED = 250, 16, 48
_MOST_SECONDS = 30.0
"""Of exact scans: where they take longer, fewer objects are asked for."""
_SATISFIED = 0.999

Chosen = tuple[Embedding, Settings, dict[str, float]]


def sample_of(collection: Collection) -> Sample:
    """Up to 2,000 living objects, the same for the same objects."""
    with collection._reading() as (_, view):
        source = gather(view.runs, view.fresh)
        rng = np.random.default_rng([collection._seed, len(source)])
        picks = np.sort(rng.permutation(len(source))[:_SAMPLE])
        objects = read_records(source.addresses[picks], source.rooms[picks], collection._wide)
    return Sample(objects, collection._form, Measured(collection._space, collection._wide).distances, rng)


def choose(collection: Collection, check: Callable[[], None]) -> Chosen | None:
    """The embedding whose rows order a sample most nearly as the distance does, its settings, and what each one found.

    None: no embedding is for such objects. Cost: 400,000 distances, and as many scores of rows, where there is more than one.
    """
    sample = sample_of(collection)
    trials: list[tuple[Embedding, Settings, float]] = []
    truth: NDArray[np.float64] | None = None
    for embedding in collection._space.embeddings:
        check()
        settings = embedding.choose(sample)
        if settings is None:
            continue
        if len(collection._space.embeddings) == 1 or len(sample.objects) == 1:
            # Nothing to choose from, or nothing near that could be found.
            return embedding, settings, {}
        if truth is None:
            truth = _own_left_out(sample.measure(sample.objects.slice(0, min(_JUDGES, len(sample.objects))), sample.objects))
        embedder = embedding.embedder(settings, sample.form, sample.measure)
        trials.append((embedding, settings, _recall_on(sample, embedding, embedder, truth)))
    if not trials:
        return None
    best = trials[0]
    for trial in trials[1:]:
        if trial[2] > best[2] + _BETTER:
            best = trial
    return best[0], best[1], {one.name: round(recall, 3) for one, _, recall in trials}


def _own_left_out(distances: NDArray[np.float64]) -> NDArray[np.float64]:
    """Distances of the first objects to all, in which none is near itself."""
    own = np.arange(len(distances))
    distances[own, own] = np.inf
    return distances


def _recall_on(sample: Sample, embedding: Embedding, embedder: Embedder, truth: NDArray[np.float64]) -> float:
    """The mean share of the nearest that are among the nearest rows, over pools of several sizes."""
    rows = embedder.rows(sample.objects)
    scores = -_own_left_out(-Measured(space_of(embedding.kernel), is_wide(embedder.dim)).scores(rows.slice(0, len(truth)), rows))
    k = min(_JUDGED_K, truth.shape[1] - 1)
    kth = np.partition(truth, k - 1, axis=1)[:, k - 1 : k]
    order = np.argsort(-scores, axis=1, kind="stable")
    near = np.take_along_axis(truth, order, axis=1) <= kth
    return float(np.mean([np.minimum(near[:, :pool].sum(axis=1), k).mean() / k for pool in _JUDGED_POOLS]))


def embed(collection: Collection, side: Side, embedder: Embedder, stop: threading.Event) -> int:
    """Make rows of all objects that have none. Returns how many were made.

    Raises:
        Cancelled: stop was set.
    """
    made, after = 0, side.horizon()
    while True:
        with collection._reading() as (_, view):
            source = gather(view.runs, view.fresh)
            first = int(np.searchsorted(source.row_numbers, np.uint64(after + 1), side="left"))
            part = slice(first, first + _CHUNK)
            numbers = source.row_numbers[part]
            if not len(numbers):
                return made
            objects = read_records(source.addresses[part], source.rooms[part], collection._wide)
        if stop.is_set():
            raise Cancelled
        side.append(numbers, embedder.rows(objects), stop)
        made, after = made + len(numbers), int(numbers[-1])


def calibrate(collection: Collection, search: PoolSearch, check: Callable[[], None]) -> Calibration:
    """What pools find of the true neighbours of some stored objects, each without itself. Cost: 250 scans, and 7 times 250 pools."""
    with collection._reading() as (reader, view):
        source = gather(view.runs, view.fresh)
        picks = np.sort(np.random.default_rng([collection._seed, len(source)]).permutation(len(source))[:_QUERIES])
        picks = picks[search.covers(view, source.row_numbers[picks])]
        sampled = Source(source.row_numbers[picks], source.addresses[picks], source.rooms[picks])
        objects = read_records(sampled.addresses, sampled.rooms, collection._wide)
        k = min(CALIBRATED_K[-1], len(source) - 1)
        if not len(picks) or k < 1:
            return Calibration(len(source), 0, [], {}, {}, [], 0.0)
        truth, scan_ns = _truth(collection, (reader, view), objects, k, check)
        objects, numbers = objects.slice(0, len(truth)), sampled.row_numbers[: len(truth)]
        recall, ns, far = _recalls(search, view, objects, numbers, truth, check)
        fewer = {}
        for k in (one for one in CALIBRATED_K[:-1] if str(one) in recall):
            check()
            some, own = objects.slice(0, min(len(objects), _TIMED)), numbers[:_TIMED]
            scan_of_few = _mean_ns(len(own), partial(_scanned, collection, (reader, view), some, k))
            took = [_mean_ns(len(own), partial(search.search, view, some, k, pool, None, own)) for pool in POOLS[: len(ns)]]
            fewer[str(k)] = [round(scan_of_few / len(source), 2), *took]
    return Calibration(len(source), len(truth), list(POOLS[: len(ns)]), recall, far, ns, round(scan_ns / len(source), 2), fewer)


def _mean_ns(queries: int, ask: Callable[[], object]) -> float:
    """What a query takes in the mean."""
    began = time.thread_time()
    ask()
    return round((time.thread_time() - began) / queries * 1e9)


def _scanned(collection: Collection, at: tuple[Reader, View], objects: Rows, k: int) -> NDArray[np.float64]:
    """(m, k) scores of the nearest of objects, each without itself: its own row is first, and equal objects are one row."""
    plan = plan_query(at[1], collection._space, 0.9)
    try:
        found = collection._searcher.search(at, plan, objects, Wanted(k + 1, 0.0, 0.9, "exact"), None)
    except CorruptData:
        collection._space.raise_failure()
        raise
    return found.answers.scores[:, 1:].copy()


def _truth(
    collection: Collection, at: tuple[Reader, View], objects: Rows, k: int, check: Callable[[], None]
) -> tuple[NDArray[np.float64], float]:
    """(m, k) scores of the nearest of objects, each without itself; and the time of a scan in ns."""
    found, began = [], time.thread_time()
    for start in range(0, len(objects), _SLICE):
        check()
        found.append(_scanned(collection, at, _part(objects, start), k))
        if time.thread_time() - began > _MOST_SECONDS and start:
            break
    truth = np.concatenate(found)
    return truth, (time.thread_time() - began) / len(truth) * 1e9


def _recalls(
    search: PoolSearch, view: View, objects: Rows, numbers: NDArray[np.uint64], truth: NDArray[np.float64], check: Callable[[], None]
) -> tuple[dict[str, list[float]], list[float], dict[str, float]]:
    """By k, the recall of each pool; the time of a query in ns; by k, the least score of a k-th neighbour."""
    ks = [k for k in CALIBRATED_K if k <= truth.shape[1]]
    recall: dict[str, list[float]] = {str(k): [] for k in ks}
    ns: list[float] = []
    # What is compiled, or read from disk, at first is not of a pool.
    search.search(view, _part(objects, 0), ks[-1], POOLS[0], None)
    for pool in POOLS:
        check()
        began = time.thread_time()
        scores = [
            found.answers.scores
            for start in range(0, len(objects), _SLICE)
            if (found := search.search(view, _part(objects, start), ks[-1], pool, None, numbers[start : start + _SLICE])) is not None
        ]
        ns.append(round((time.thread_time() - began) / len(objects) * 1e9))
        for k in ks:
            hits = (np.concatenate(scores)[:, :k] >= truth[:, k - 1 : k]).sum(axis=1)
            recall[str(k)].append(round(float(hits.mean()) / k, 4))
        if all(one[-1] >= _SATISFIED for one in recall.values()):
            break
    return recall, ns, {str(k): float(truth[:, k - 1].min()) for k in ks}


def _part(objects: Rows, start: int) -> Rows:
    return objects.slice(start, min(start + _SLICE, len(objects)))
