"""Hashing rows: GCWS and dart sampling against datasketch's weighted MinHash, 256 hashes each."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

import kinbin
from common import SPREAD, Options, Skipped, data_set, interleaved, run, spread
from kinbin.hashing import make_sampler
from kinbin.rows.canonical import canonical_rows
from report import figure, paragraphs, table
from truth import Exact
from vector_sets import word_counts

HASHES = 256
HEIGHT = 2
"""Sketches that the hashes are taken from; a sketch has at most 256."""
PAIRS = 2_000
DATASKETCH_ROWS = 100
"""Rows of a call of minhash_many, which makes arrays of nonzeros × hashes."""


@dataclass(frozen=True, slots=True)
class Hasher:
    """A way to hash a matrix."""

    title: str
    prepare_seconds: float
    """Before the first row: parameters of the features of these rows."""
    hash_rows: Callable[[], NDArray[Any]]
    """(n, 256, …) hashes."""


def measure(options: Options) -> dict[str, Any]:
    """Both data sets."""
    rows = options.pick(1_000, 100)
    kinbin.warm_up()
    histograms = data_set("cifar10_rgbhist512")["X_train"][:rows]
    sets = {"colour histograms (cifar10_rgbhist512)": histograms, "word counts (news20_counts)": word_counts("train")[:rows]}
    return {"hashes": HASHES, "sets": [_measure(name, matrix, options) for name, matrix in sets.items()]}


def _measure(name: str, matrix: Any, options: Options) -> dict[str, Any]:
    """Times of one data set, and how well the hashes estimate the kernel."""
    hashers = {"gcws": _kinbin("gcws", matrix), "dart": _kinbin("dart", matrix), "datasketch": _datasketch(matrix)}
    seconds = interleaved({key: hasher.hash_rows for key, hasher in hashers.items()}, options.rounds(5, 2))
    exact = Exact(matrix)
    pairs = np.random.default_rng(0).integers(0, len(exact), (PAIRS, 2))
    scores = _pair_scores(exact, pairs)
    return {
        "name": name,
        "rows": len(exact),
        "nonzeros": len(exact.features) / len(exact),
        "hashers": [
            {
                "title": hasher.title,
                "prepare_ms": 1e3 * hasher.prepare_seconds,
                "us_a_row": spread([1e6 * second / len(exact) for second in seconds[key]]),
                "datasketch_ratio": statistics.median(d / k for d, k in zip(seconds["datasketch"], seconds[key], strict=True)),
                "error": _mean_error(hasher.hash_rows(), pairs, scores),
            }
            for key, hasher in hashers.items()
        ],
    }


def _kinbin(name: str, matrix: Any) -> Hasher:
    """From a matrix as a user has it: validating is part of it, and so is normalising."""
    width = matrix.shape[1]
    sampler = make_sampler(name, seed=0, normalise=True, dim=width)

    def hash_rows() -> NDArray[Any]:
        rows = canonical_rows(matrix, dim=width, signed=True)
        return sampler.codes(rows, HEIGHT, HASHES // HEIGHT).reshape(len(rows), HASHES)

    return Hasher(f"Kinbin {name}", _first_less_second(hash_rows), hash_rows)


def _first_less_second(task: Callable[[], object]) -> float:
    """Seconds by which the first call is longer: it makes the parameters."""
    seconds = []
    for _ in range(2):
        started = time.perf_counter()
        task()
        seconds.append(time.perf_counter() - started)
    return max(0.0, seconds[0] - seconds[1])


def _datasketch(matrix: Any) -> Hasher:
    """Rows are given normalised and as CSR, so that it estimates the same kernel and need not convert."""
    try:
        from datasketch import WeightedMinHashGenerator
    except ModuleNotFoundError:
        raise Skipped("datasketch is not installed: make bench installs it") from None
    rows = scipy.sparse.csr_matrix(matrix, dtype=np.float64)
    rows = scipy.sparse.csr_matrix(scipy.sparse.diags(1.0 / np.asarray(rows.sum(axis=1)).ravel()) @ rows, dtype=np.float32)
    started = time.perf_counter()
    generator = WeightedMinHashGenerator(rows.shape[1], HASHES, seed=1)
    prepared = time.perf_counter() - started

    def hash_rows() -> NDArray[Any]:
        parts = [generator.minhash_many(rows[i : i + DATASKETCH_ROWS]) for i in range(0, rows.shape[0], DATASKETCH_ROWS)]
        return np.array([sketch.hashvalues for part in parts for sketch in part])

    return Hasher("datasketch minhash_many", prepared, hash_rows)


def _pair_scores(rows: Exact, pairs: NDArray[np.int64]) -> NDArray[np.float64]:
    """The exact kernel of pairs of rows."""
    out = np.empty(len(pairs))
    weights = np.zeros(rows.width)
    for i, (a, b) in enumerate(pairs):
        features, own = rows.row(a)
        weights[features] = own
        out[i] = rows.some_scores(weights, np.array([b]))[0]
        weights[features] = 0.0
    return out


def _mean_error(hashes: NDArray[Any], pairs: NDArray[np.int64], scores: NDArray[np.float64]) -> float:
    """Mean of |share of equal hashes - kernel| over the pairs."""
    equal = hashes[pairs[:, 0]] == hashes[pairs[:, 1]]
    if equal.ndim == 3:
        equal = equal.all(axis=2)
    return float(np.abs(equal.mean(axis=1) - scores).mean())


def render(result: dict[str, Any]) -> str:
    """A table for each data set."""
    titles = ("preparing, ms", *(f"µs a row, {which}" for which in SPREAD), "datasketch's time / its own", "error of the estimate")
    parts = []
    for each in result["sets"]:
        lines = [
            (line["title"], line["prepare_ms"], *(line["us_a_row"][which] for which in SPREAD), line["datasketch_ratio"], line["error"])
            for line in each["hashers"]
        ]
        heading = f"{each['name']}, {each['rows']:,} rows, {figure(each['nonzeros'])} nonzeros a row"
        parts.append(table((f"{heading}; {result['hashes']} hashes", *titles), lines))
    return paragraphs(*parts)


if __name__ == "__main__":
    run("hashing", measure, render)
