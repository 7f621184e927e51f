"""Kernel matrices and feature maps: against NumPy, scikit-learn and datasketch, one thread each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics.pairwise import additive_chi2_kernel, chi2_kernel

import kinbin
from common import SPREAD, Options, Skipped, data_set, interleaved, ratio, run, spread
from kinbin.features import FourierFeatures, GCWSFeatures, NystroemFeatures, ProductFeatures, SignFeatures, pairwise
from report import paragraphs, table

COMPONENTS = 256
WIDTH = 64

Tasks = dict[str, Callable[[], object]]


def measure(options: Options) -> dict[str, Any]:
    """Matrices of random rows, whose values cost all the same; maps of colour histograms."""
    kinbin.set_threads(1)
    count = options.pick(4_000, 300)
    X = np.random.default_rng(0).random((count, WIDTH))
    matrices = {
        "gmm": _times(_gmm(X), options.rounds(3, 2)),
        "chi2": _times(_chi2(X), options.rounds(3, 2)),
    }
    rows = data_set("cifar10_rgbhist512")["X_train"][: options.pick(300, 100)].astype(np.float64)
    maps = _times(_maps(rows), options.rounds(3, 2))
    return {
        "count": count,
        "width": WIDTH,
        "components": COMPONENTS,
        "rows": len(rows),
        "nonzeros": np.count_nonzero(rows) / len(rows),
        "matrices": {kernel: _lines(seconds, count * count * WIDTH / 1e9) for kernel, seconds in matrices.items()},
        "maps": _lines(maps, len(rows) / 1e6),
    }


def _times(tasks: Tasks, rounds: int) -> dict[str, list[float]]:
    return interleaved(tasks, rounds)


def _lines(seconds: dict[str, list[float]], units: float) -> list[dict[str, Any]]:
    """Of each task: its time, also of a unit, and how many times as long it takes as the first one."""
    first = next(iter(seconds.values()))
    return [
        {"title": title, "seconds": spread(each), "a_unit": spread([one / units for one in each]), "ratio": ratio(each, first)}
        for title, each in seconds.items()
    ]


def _gmm(X: NDArray[np.float64]) -> Tasks:
    sums = X.sum(axis=1)

    def loop() -> NDArray[np.float64]:
        return np.array([np.minimum(x, X).sum(axis=1) / np.maximum(x, X).sum(axis=1) for x in X])

    def loop_of_one_sum() -> NDArray[np.float64]:
        out = np.empty((len(X), len(X)))
        for i, x in enumerate(X):
            shared = np.minimum(x, X).sum(axis=1)
            out[i] = shared / (sums[i] + sums - shared)
        return out

    assert np.abs(loop()[:5] - pairwise(X[:5], X, kernel="gmm")).max() < 1e-12
    return {
        "pairwise(X, X)": lambda: pairwise(X, X, kernel="gmm"),
        "pairwise(X), each pair once": lambda: pairwise(X, kernel="gmm"),
        "NumPy, a row at a time: Σ min / Σ max": loop,
        "NumPy, a row at a time: Σ min alone, Σ max from the rows' sums": loop_of_one_sum,
    }


def _chi2(X: NDArray[np.float64]) -> Tasks:
    rows = X / X.sum(axis=1, keepdims=True)
    # additive_chi2_kernel is -Σ (u - v)² / (u + v), which is 2 less twice the kernel.
    assert np.abs(1.0 + 0.5 * additive_chi2_kernel(rows[:5], rows) - pairwise(X[:5], X, kernel="chi2")).max() < 1e-12
    return {
        "pairwise(X, X)": lambda: pairwise(X, X, kernel="chi2"),
        "pairwise(X), each pair once": lambda: pairwise(X, kernel="chi2"),
        "scikit-learn, chi2_kernel(X, X)": lambda: chi2_kernel(rows, rows),
        "scikit-learn, additive_chi2_kernel(X, X)": lambda: additive_chi2_kernel(rows, rows),
    }


def _maps(X: NDArray[np.float64]) -> Tasks:
    """Fitted maps of the same rows; datasketch is given them as it wants them."""
    try:
        from datasketch import WeightedMinHashGenerator
    except ModuleNotFoundError:
        raise Skipped("datasketch is not installed: make bench installs it") from None
    shapes = (X / X.sum(axis=1, keepdims=True)).astype(np.float32)
    generator = WeightedMinHashGenerator(X.shape[1], COMPONENTS, seed=1)
    maps = [
        GCWSFeatures(n_samples=COMPONENTS, random_state=1),
        GCWSFeatures(n_samples=COMPONENTS, sampler="dart", random_state=1),
        SignFeatures(n_samples=COMPONENTS, random_state=1),
        ProductFeatures(n_samples=COMPONENTS, random_state=1),
        FourierFeatures(n_components=COMPONENTS, random_state=1),
        NystroemFeatures(n_components=COMPONENTS, random_state=1),
        NystroemFeatures("chi2", n_components=COMPONENTS, random_state=1),
    ]
    for each in maps:
        each.fit(X)

    def transform(each: Any) -> Callable[[], object]:
        return lambda: each.transform(X)

    titles = (
        "GCWSFeatures",
        'GCWSFeatures, sampler="dart"',
        "SignFeatures",
        "ProductFeatures",
        "FourierFeatures",
        "NystroemFeatures, ngmm",
    )
    tasks: Tasks = {title: transform(each) for title, each in zip((*titles, "NystroemFeatures, chi2"), maps, strict=True)}
    tasks["datasketch, minhash(row)"] = lambda: [generator.minhash(row) for row in shapes]
    tasks["datasketch, minhash_many(rows)"] = lambda: [generator.minhash_many(shapes[i : i + 100]) for i in range(0, len(shapes), 100)]
    return tasks


def render(result: dict[str, Any]) -> str:
    """A table for each kernel, and one for the maps."""
    parts = []
    for kernel, lines in result["matrices"].items():
        heading = f"{kernel}, {result['count']:,} × {result['count']:,} rows of {result['width']}"
        titles = (heading, *(f"seconds, {which}" for which in SPREAD), "ns a pair and feature", "times as long as the first")
        parts.append(table(titles, [_cells(line, "seconds", line["a_unit"]["median"]) for line in lines]))
    heading = f"k = {result['components']}; {result['rows']:,} colour histograms of {result['nonzeros']:.0f} nonzeros"
    titles = (heading, *(f"µs a row, {which}" for which in SPREAD), "times as long as the first")
    parts.append(table(titles, [_cells(line, "a_unit") for line in result["maps"]]))
    return paragraphs(*parts)


def _cells(line: dict[str, Any], times: str, *more: float) -> tuple[object, ...]:
    return (line["title"], *(line[times][which] for which in SPREAD), *more, line["ratio"])


if __name__ == "__main__":
    run("features", measure, render)
