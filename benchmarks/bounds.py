"""Looks for pairs of rows that break a bound of a kernel: `python benchmarks/bounds.py`, 10⁸ of them unless told otherwise.

Prints a line for each kernel: pairs looked at, pairs that break a bound by more than 1e-9, and how near the nearest came.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))

import extremes
from kinbin.spaces.registry import space_of

CHUNK = 50_000
FEATURES = 12
ERROR = 1e-9


def look(name: str, pairs: int, seed: int) -> tuple[int, int, float, float]:
    """(pairs, pairs that break a bound, the least gap of the similarity, the least gap of the score)."""
    rng, space, score = np.random.default_rng(seed), space_of(name), extremes.SCORES[name]
    looked = broken = 0
    nearest = np.ones(2)
    while looked < pairs:
        for family in extremes.FAMILIES:
            u, v = map(extremes.shaped, family(rng, CHUNK, FEATURES))
            gaps = extremes.gaps(space, score, u, v)
            looked += CHUNK
            broken += int(((gaps.least < -ERROR) | (gaps.farthest < -ERROR) | (gaps.best < -ERROR)).sum())
            nearest = np.minimum(nearest, [gaps.least.min(), gaps.best.min()])
    return looked, broken, float(nearest[0]), float(nearest[1])


def main() -> int:
    """1 if a bound was broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=10**8, help="of all kernels together")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    print("| kernel | pairs | broken | least gap of J | least gap of the score | seconds |\n|---|---|---|---|---|---|")
    failed = 0
    for name in extremes.SCORES:
        start = time.perf_counter()
        looked, broken, similarity, score = look(name, asked.pairs // len(extremes.SCORES), asked.seed)
        print(f"| `{name}` | {looked:,} | {broken} | {similarity:.1e} | {score:.1e} | {time.perf_counter() - start:.0f} |", flush=True)
        failed += broken
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
