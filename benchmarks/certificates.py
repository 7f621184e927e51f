"""Compares bounds with recalls, by tenths of the bound: `python benchmarks/certificates.py`, every kernel and sampler that has a bound.

Four sets, 30 seeds each, several numbers of bands and targets, so that bounds of every tenth occur. A bound is a probability over
seeds: in each tenth the mean recall has to be at least the mean bound, but for three standard errors (of the means of the seeds, whose
answers share their random numbers). Prints a line for each kernel and set; ends with 1 if a mean recall falls short.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))

import kinbin
from common import Options, Skipped
from kinbin.spaces.registry import space_of
from vector_sets import SETS

DATA = ("mnist", "cifar10_rgbhist512", "mnist_pca128", "news20_counts")
RANKINGS = ("ngmm", "gmm", "chi2", "js", "hellinger", "cosine", "mm_acos", "mm_acos_chi2", "gmm*acos")
"""A kernel of each order of neighbours."""
ROWS, SEALED, QUERIES, NEIGHBOURS = 2_500, 2_000, 100, 10
BANDS = (8, 40, 128)
TARGETS = (0.2, 0.5, 0.8, 0.95)
LEAST = 200
"""Answers in a tenth that is judged."""
TIED = 1e-12

Tenths = NDArray[np.float64]
"""(10, 3) of one seed: answers, the sum of their bounds, the sum of their recalls."""


def collections(database: kinbin.Database, options: dict[str, Any], rows: Any) -> Iterator[kinbin.Collection]:
    """One collection after the other, of each number of bands: some rows in a run, some in the journal."""
    ids = [str(i) for i in range(rows.shape[0])]
    for bands in BANDS:
        collection = database.create_collection("c", bands=bands, **options)
        collection.add(ids[:SEALED], rows[:SEALED])
        collection.compact()
        collection.add(ids[SEALED:], rows[SEALED:])
        yield collection
        database.drop_collection("c")


def tenths_of(collection: kinbin.Collection, queries: Any) -> Tenths:
    """Bounds and recalls of one collection."""
    out = np.zeros((10, 3))
    exact = collection.query_batch(queries, k=NEIGHBOURS, mode="exact")
    kth = np.array([scores[-1] for scores in exact.scores])
    for target in TARGETS:
        batch = collection.query_batch(queries, k=NEIGHBOURS, mode="bands", target_recall=target)
        for bound, scores, least in zip(batch.recall_lower_bounds, batch.scores, kth, strict=True):
            if np.isnan(bound):
                continue
            recall = float((np.asarray(scores) >= least - TIED).sum()) / NEIGHBOURS
            out[min(int(bound * 10), 9)] += 1.0, bound, min(recall, 1.0)
    return out


def judge(seeds: NDArray[np.float64]) -> tuple[list[float], list[int]]:
    """(least of recall less bound, and of the same in standard errors; tenths that were judged, and that fall short). seeds: (s, 10, 3)."""
    worst, errors, judged, short = np.inf, np.inf, 0, 0
    for tenth in range(10):
        counts, bounds, recalls = seeds[:, tenth].T
        total = counts.sum()
        if total < LEAST or (counts > 0).sum() < 10:
            continue
        difference = (recalls - bounds).sum() / total
        error = float((recalls - bounds - difference * counts).std(ddof=1) * np.sqrt(len(counts)) / total)
        judged += 1
        short += int(difference < -3.0 * error)
        worst, errors = min(worst, difference), min(errors, difference / max(error, 1e-12))
    return [worst, errors], [judged, short]


def accepted(kernel: str, rows: Any) -> bool:
    """Whether a kernel takes these rows."""
    lowest = rows.data.min() if scipy.sparse.issparse(rows) else rows.min()
    return bool(space_of(kernel).signed or lowest >= 0)


def main() -> int:
    """1 if a bound is above the recall."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=30)
    parser.add_argument("--sets", default=",".join(DATA))
    parser.add_argument("--kernels", default=",".join(RANKINGS))
    parser.add_argument("--samplers", default="", help="those that are looked at; all if left out")
    asked = parser.parse_args()
    options = Options(False, None, Path(tempfile.gettempdir()), Path(tempfile.gettempdir()), None)
    kinbin.set_threads(1)
    print("| set | kernel | hashed by | answers | tenths | least recall − bound | in errors | short |\n|---|---|---|---|---|---|---|---|")
    failed = 0
    for name in asked.sets.split(","):
        try:
            data = SETS[name](options)
        except Skipped as skipped:
            print(f"{name}: {skipped}", file=sys.stderr)
            continue
        rows, queries = data.rows[:ROWS], data.queries[:QUERIES]
        for kernel in asked.kernels.split(","):
            if accepted(kernel, rows):
                failed += measure(name, kernel, (rows, queries), asked.seeds, asked.samplers)
    return int(failed > 0)


def measure(name: str, kernel: str, data: tuple[Any, Any], seeds: int, only: str) -> int:
    """Print the lines of one kernel on one set, rows and queries. Returns how many tenths fall short. only: samplers, or "" for all."""
    failed, (rows, queries) = 0, data
    dim = None if scipy.sparse.issparse(rows) else rows.shape[1]
    for sampler in space_of(kernel).samplers:
        if only and sampler not in only.split(","):
            continue
        drawn = np.zeros((seeds, 10, 3))
        for seed in range(seeds):
            with tempfile.TemporaryDirectory() as folder, kinbin.open(folder) as database:
                asked = {"kernel": kernel, "dim": dim, "seed": seed, "sampler": sampler}
                for collection in collections(database, asked, rows):
                    drawn[seed] += tenths_of(collection, queries)
        (worst, errors), (judged, short) = judge(drawn)
        count = int(drawn[:, :, 0].sum())
        print(f"| {name} | `{kernel}` | `{sampler}` | {count:,} | {judged} | {worst:+.4f} | {errors:+.1f} | {short} |", flush=True)
        failed += short
    return failed


if __name__ == "__main__":
    sys.exit(main())
