"""Looks for pairs of rows that break a bound of a kernel: `python benchmarks/bounds.py`, 10⁸ of them unless told otherwise.

Most are drawn from families that come near bounds, an eighth are pairs that are changed step by step towards one, a fortieth are rows
of real sets, with their nearest and with others: what scikit-learn brings, and what `KINBIN_DATA` has. Prints a line for each kernel:
pairs looked at, pairs that break a bound by more than rounding, and how near the nearest came.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import scipy.sparse

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))

import bundled
import extremes
from common import Options, Skipped
from extremes import Gaps, Matrix
from kinbin.spaces.registry import space_of
from kinbin.spaces.space import Space
from vector_sets import SETS

CHUNK = 50_000
FEATURES = 12
REAL_CHUNK = 10_000
CLIMBERS, STEPS = 2_000, 150
DATA = ("mnist", "cifar10_rgbhist512", "mnist_pca128")
BUNDLED = ("photographs", "digits", "photograph contrasts")


def real_sets() -> dict[str, Matrix]:
    """Rows by name."""
    options = Options(False, None, Path(tempfile.gettempdir()), Path(tempfile.gettempdir()), None)
    found = {name: bundled.BUNDLED[name]()["X_train"] for name in BUNDLED}
    for name in DATA:
        try:
            rows = SETS[name](options).rows
        except Skipped as skipped:
            print(f"{name}: {skipped}", file=sys.stderr)
            continue
        found[name] = rows.toarray() if scipy.sparse.issparse(rows) else rows
    return found


def drawn(name: str, pairs: int, rng: np.random.Generator, sets: dict[str, Matrix]) -> Iterator[Gaps]:
    """Gaps of so many pairs, or a few more."""
    space, score = space_of(name), extremes.SCORES[name]
    looked = 0
    while looked < pairs * 17 // 20:
        for family in extremes.families(space):
            yield extremes.gaps(space, score, *family(rng, CHUNK, FEATURES))
            looked += CHUNK
    for _ in range(-(-pairs // 8 // (CLIMBERS * STEPS))):
        yield from extremes.climbing(space, score, rng, CLIMBERS, STEPS)
    looked = 0
    while looked < pairs // 40:
        for rows in sets.values():
            yield extremes.gaps(space, score, *extremes.real(_allowed(space, rows), rng, REAL_CHUNK))
            looked += REAL_CHUNK


def _allowed(space: Space, rows: Matrix) -> Matrix:
    """Signs are split off where a kernel takes none."""
    return rows if space.signed or rows.min() >= 0 else np.concatenate([np.maximum(rows, 0), np.maximum(-rows, 0)], axis=1)


def look(name: str, pairs: int, seed: int, sets: dict[str, Matrix]) -> tuple[int, int, float, float]:
    """(pairs, pairs that break a bound, the least gap of the probability of a collision, the least gap of the score)."""
    looked = broken = 0
    nearest = np.ones(2)
    for gaps in drawn(name, pairs, np.random.default_rng(seed), sets):
        looked += len(gaps.least)
        broken += int((np.min(gaps, axis=0) < -extremes.ERRORS[name]).sum())
        nearest = np.minimum(nearest, [gaps.least.min(), gaps.best.min()])
    return looked, broken, float(nearest[0]), float(nearest[1])


def main() -> int:
    """1 if a bound was broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=10**8, help="of all kernels together")
    parser.add_argument("--kernels", default=",".join(extremes.SCORES))
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    sets = real_sets()
    print("real sets:", ", ".join(sets))
    print("| kernel | pairs | broken | least gap of collisions | least gap of the score | seconds |\n|---|---|---|---|---|---|")
    failed = 0
    names = asked.kernels.split(",")
    for name in names:
        start = time.perf_counter()
        looked, broken, collision, score = look(name, asked.pairs // len(names), asked.seed, sets)
        print(f"| `{name}` | {looked:,} | {broken} | {collision:.1e} | {score:.1e} | {time.perf_counter() - start:.0f} |", flush=True)
        failed += broken
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
