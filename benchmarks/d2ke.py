"""The tables of the D2KE paper on public sets: `python benchmarks/d2ke.py`; `--document` writes docs/d2ke.md from the results.

`--sweep` measures how D2KE's accuracy on splice goes with the length of its random strings.
Every finished cell is a line on the screen and in a file of `--folder`; what was ended goes on where it stopped. Parameters of each method
are searched by cross-validation on the training objects, as in the paper's appendix B; the test objects are asked once.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC, LinearSVC

from common import _commit as commit
from contours import contours
from kinbin import set_threads
from kinbin.features import D2KEFeatures

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "d2ke.json"
DOCUMENT = ROOT / "docs" / "d2ke.md"
METHODS = ("D2KE", "KNN", "DSK_RBF", "DSK_ND", "GDK_LED", "RSM")
PUBLISHED = {
    "splice": (90.17, 79.41, 87.88, 85.89, 85.58, 86.10),
    "mnist-str8": (98.54, 96.58, 97.5, 92.66, 94.62, 97.61),
    "pentip": (99.88, 98.37, 98.02, 70.40, 97.20, 99.88),
}
"""Accuracies of the paper's Tables 1 and 2, in the order of the methods."""
FOLDS = 5
_SEARCHED = 256
"""Random objects of a search; and at most so many training objects: """
_MOST_SEARCHED = 1_000
_COSTS = (1.0, 1e1, 1e2, 1e3)
_KERNEL_COSTS = (0.1, 1.0, 10.0, 100.0)
_LENGTHS = (5, 10, 25, 50)
_SPREAD = (1 / 16, 1 / 4, 1.0, 4.0, 16.0, 64.0)
"""γ times the median distance."""
_FEATURES = 4_096
SWEPT = ("splice", (25, 50, 100))
"""The set and the lengths of `--sweep`; and the grid of γ (times the median distance) and C that each of them gets: """
_SWEPT_GRID = ((1 / 4, 1.0, 4.0), (1e2, 1e3, 1e4, 1e5))

Labels = NDArray[np.int64]
Matrix = NDArray[np.float64]
Places = NDArray[np.int64]


@dataclass(frozen=True)
class Objects:
    """One set: objects, labels, and which of them train."""

    distance: str
    parameters: dict[str, float]
    objects: list[Any]
    labels: Labels
    train: int
    """The first so many."""


@dataclass(frozen=True)
class PublicSet:
    """A row of the tables, and where it comes from."""

    file: str
    about: str
    load: Callable[[dict[str, NDArray[Any]]], Objects]


def _splice(data: dict[str, NDArray[Any]]) -> Objects:
    texts = [line for part in ("train_text", "test_text") for line in bytes(data[part]).decode().split("\n")]
    labels = np.concatenate([data["y_train"], data["y_test"]]).astype(np.int64)
    order = np.random.default_rng(0).permutation(len(texts))
    return Objects("levenshtein", {}, [texts[i] for i in order], labels[order], round(0.7 * len(texts)))


def _digits(data: dict[str, NDArray[Any]]) -> Objects:
    texts = bytes(data["train_text"]).decode().split("\n")[:4_000] + bytes(data["test_text"]).decode().split("\n")[:1_000]
    labels = np.concatenate([data["y_train"][:4_000], data["y_test"][:1_000]]).astype(np.int64)
    return Objects("levenshtein", {}, texts, labels, 4_000)


def _outlines(data: dict[str, NDArray[Any]]) -> Objects:
    """The same digits as sets of points."""
    of = _digits(data)
    return Objects("modified_hausdorff", {}, contours("\n".join(of.objects)), of.labels, of.train)


def _series(data: dict[str, NDArray[Any]]) -> Objects:
    objects = []
    for part in ("train", "test"):
        values, offsets = data[f"{part}_values"], data[f"{part}_offsets"]
        objects += [values[a:b].astype(np.float32) for a, b in pairwise(offsets)]
    return Objects(
        "dtw", {"window": 1.0}, objects, np.concatenate([data["y_train"], data["y_test"]]).astype(np.int64), len(data["y_train"])
    )


SETS: dict[str, PublicSet] = {
    "splice": PublicSet("splice_dna_strings", "3,190 strings of 60, three classes, 70 : 30 at random; UCI", _splice),
    "mnist-str8": PublicSet("mnist_chaincode", "chain codes of 4,000 + 1,000 digits, not the paper's 60,000 + 10,000", _digits),
    "pentip": PublicSet("ts_chartraj100", "100 of the paper's 2,858 pen tips", _series),
    "japanese vowels": PublicSet("ts_japanesevowels", "270 + 370 series of 12 dimensions; not in the paper", _series),
    "gunpoint": PublicSet("ts_gunpoint", "50 + 150 series; not in the paper", _series),
    "digit outlines": PublicSet("mnist_chaincode", "the digits above as point sets in the plane, for the paper's image sets", _outlines),
}
Cell = dict[str, Any]


# ------------------------------------------------------------------------------------------ methods


def _cross_validated(score: Callable[[Places, Places], float], labels: Labels) -> float:
    """The mean of score(places that train, places that are held out)."""
    folds = StratifiedKFold(min(FOLDS, int(np.bincount(labels)[np.unique(labels)].min())), shuffle=True, random_state=0)
    return float(np.mean([score(fit, held) for fit, held in folds.split(labels, labels)]))


def _best(candidates: Iterable[tuple[Any, float]]) -> Any:
    return max(candidates, key=lambda one: one[1])[0]


def _some(of: Objects) -> Places:
    """Training objects for a search."""
    return np.sort(np.random.default_rng(1).permutation(of.train)[:_MOST_SEARCHED])


def _split(of: Objects) -> tuple[Places, Places]:
    return np.arange(of.train), np.arange(of.train, len(of.labels))


def _linear(X: Matrix, labels: Labels, cost: float, fit: Places, held: Places) -> float:
    # LIBLINEAR's default loss; its primal solver ends where the dual one would, also for large C.
    machine = LinearSVC(C=cost, dual=False, tol=1e-3, max_iter=200, random_state=0)
    return float(machine.fit(X[fit], labels[fit]).score(X[held], labels[held]))


def _machine(K: Matrix, labels: Labels, cost: float, fit: Places, held: Places) -> float:
    machine = SVC(kernel="precomputed", C=cost, max_iter=200_000).fit(K[np.ix_(fit, fit)], labels[fit])
    return float(machine.score(K[np.ix_(held, fit)], labels[held]))


def _neighbours(apart: Matrix, labels: Labels, k: int, fit: Places, held: Places) -> float:
    machine = KNeighborsClassifier(k, metric="precomputed").fit(apart[np.ix_(fit, fit)], labels[fit])
    return float(machine.score(apart[np.ix_(held, fit)], labels[held]))


def _features(of: Objects, sampler: str) -> tuple[float, dict[str, Any]]:
    """D2KE or RSM: γ, length and C searched with 256 objects, the answer with up to 4,096."""
    some = _some(of)
    objects, labels = [of.objects[i] for i in some], of.labels[some]

    def made(length: int, count: int) -> D2KEFeatures:
        return D2KEFeatures(
            of.distance, n_features=count, max_length=length, sampler=sampler, parameters=of.parameters or None, gamma=1.0, random_state=0
        )

    def tried() -> Iterator[tuple[Any, float]]:
        for length in _LENGTHS if sampler == "random" else (1,):
            apart = made(length, _SEARCHED).fit(objects).distances(objects)
            for spread, cost in product(_SPREAD, _COSTS):
                gamma = spread / float(np.median(apart))
                yield (length, gamma, cost), _cross_validated(partial(_linear, _scaled(apart, gamma), labels, cost), labels)

    length, gamma, cost = _best(tried())
    X = _scaled(made(length, _FEATURES).fit(of.objects[: of.train]).distances(of.objects), gamma)
    chosen = {"length": length if sampler == "random" else None, "gamma": gamma, "C": cost, "R": X.shape[1]}
    return _linear(X, of.labels, cost, *_split(of)), chosen


def _scaled(apart: Matrix, gamma: float) -> Matrix:
    # D2KE's features but for one factor, which makes rows of length 1 in the mean: otherwise C would have to grow as they shrink.
    scaled: Matrix = np.exp(-gamma * (apart - apart.min()))
    scaled /= np.linalg.norm(scaled, axis=1).mean()
    return scaled


def _pairs(of: Objects) -> Matrix:
    """All distances: those of each object from all, as representatives."""
    everything = D2KEFeatures(
        of.distance, n_features=len(of.objects), sampler="data", gamma=1.0, parameters=of.parameters or None, random_state=0
    )
    return everything.fit(of.objects).distances(of.objects)


def _of_kernel(kernels: dict[float | None, Matrix], of: Objects) -> tuple[float, dict[str, Any]]:
    """The best of some kernel matrices over all objects, and of C."""
    some = _some(of)
    labels, parts = of.labels[some], {name: K[np.ix_(some, some)] for name, K in kernels.items()}
    tried = (
        ((name, cost), _cross_validated(partial(_machine, parts[name], labels, cost), labels))
        for name, cost in product(kernels, _KERNEL_COSTS)
    )
    name, cost = _best(tried)
    return _machine(kernels[name], of.labels, cost, *_split(of)), {"gamma": name, "C": cost}


def _rbf(of: Objects) -> tuple[float, dict[str, Any]]:
    squares = _pairs(of) ** 2
    middle = float(np.median(squares[: of.train, : of.train]))
    return _of_kernel({spread / middle: np.exp(-spread / middle * squares) for spread in (0.25, 1.0, 4.0, 16.0)}, of)


def _negative(of: Objects) -> tuple[float, dict[str, Any]]:
    squares = _pairs(of) ** 2
    return _of_kernel({None: -squares / squares[: of.train, : of.train].mean()}, of)


def _nearest(of: Objects) -> tuple[float, dict[str, Any]]:
    apart, some = _pairs(of), _some(of)
    labels, part = of.labels[some], apart[np.ix_(some, some)]
    tried = ((k, _cross_validated(partial(_neighbours, part, labels, k), labels)) for k in (1, 3, 5, 9, 15) if k < of.train * 3 // 5)
    k = _best(tried)
    return _neighbours(apart, of.labels, k, *_split(of)), {"k": k}


def _embedded(of: Objects) -> tuple[float, dict[str, Any]]:
    """Pseudo-Euclidean coordinates of training and test objects together, as in the paper."""
    squares = _pairs(of) ** 2
    squares -= squares.mean(axis=0)
    values, vectors = np.linalg.eigh(-0.5 * (squares - squares.mean(axis=1, keepdims=True)))
    order = np.argsort(-np.abs(values))[:512]
    coordinates = vectors[:, order] * np.sqrt(np.abs(values[order]))
    coordinates /= np.linalg.norm(coordinates, axis=1).mean()
    some = _some(of)
    labels, part = of.labels[some], coordinates[some]
    tried = (
        ((dims, cost), _cross_validated(partial(_linear, part[:, :dims], labels, cost), labels))
        for dims, cost in product((16, 64, 256, 512), _COSTS)
    )
    dims, cost = _best(tried)
    return _linear(coordinates[:, :dims], of.labels, cost, *_split(of)), {"dims": dims, "C": cost}


_MEASURED: dict[str, Callable[[Objects], tuple[float, dict[str, Any]]]] = {
    "D2KE": lambda of: _features(of, "random"),
    "KNN": _nearest,
    "DSK_RBF": _rbf,
    "DSK_ND": _negative,
    "GDK_LED": _embedded,
    "RSM": lambda of: _features(of, "data"),
}


# --------------------------------------------------------------------------------------------- runs


def measured(name: str, method: str, folder: Path) -> Cell:
    """One method on one set."""
    public = SETS[name]
    of = public.load(dict(np.load(folder / f"{public.file}.npz")))
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        accuracy, chosen = _MEASURED[method](of)
    seconds = round(time.process_time() - started, 1)
    return {"set": name, "method": method, "accuracy": round(100 * accuracy, 2), "seconds": seconds, "chosen": chosen, "by": commit()}


def swept(name: str, length: int, folder: Path) -> Cell:
    """D2KE with random objects up to one length: all of the grid, and the best of it on the test objects."""
    public = SETS[name]
    of = public.load(dict(np.load(folder / f"{public.file}.npz")))
    made = D2KEFeatures(
        of.distance, n_features=_FEATURES, max_length=length, parameters=of.parameters or None, gamma=1.0, random_state=0
    ).fit(of.objects[: of.train])
    apart = made.distances(of.objects)
    middle = float(np.median(apart[: of.train]))
    spreads, costs = _SWEPT_GRID
    found = []
    for spread in spreads:
        X = _scaled(apart, spread / middle)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            found.append([round(100 * _linear(X, of.labels, cost, *_split(of)), 2) for cost in costs])
    accuracy, spread, cost = max((found[i][j], spreads[i], costs[j]) for i, j in np.ndindex(len(spreads), len(costs)))
    chosen = {"length": length, "gamma": spread / middle, "spread": spread, "C": cost, "R": _FEATURES}
    cell = {"set": name, "method": _sweep_name(length), "accuracy": accuracy, "chosen": chosen, "by": commit()}
    return cell | {"grid": {"spread": spreads, "C": costs, "accuracies": found}}


def _sweep_name(length: int) -> str:
    return f"D2KE, length up to {length}"


def _work(sweep: bool) -> list[tuple[str, str, Callable[[Path], Cell]]]:
    """Set, name and measurement of every cell of the tables, or of the sweep."""
    if sweep:
        name, lengths = SWEPT
        return [(name, _sweep_name(length), partial(swept, name, length)) for length in lengths]
    return [(name, method, partial(measured, name, method)) for name, method in product(SETS, METHODS)]


def main() -> int:
    """Measure what is not measured yet, or write the document."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--folder", type=Path, default=ROOT / "reproduced", help="where finished cells are kept (%(default)s)")
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("KINBIN_DATA") or ROOT / "data"))
    parser.add_argument("--only", default="", metavar="TEXT", help="only cells with this text in set/method")
    parser.add_argument("--minutes", type=float, default=26.0, help="begin no more cells after so long (%(default)s)")
    parser.add_argument("--sweep", action="store_true", help="the lengths of random strings on splice, instead of the table's cells")
    parser.add_argument("--document", action="store_true", help="measure nothing; write docs/d2ke.md")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    file = given.folder / "d2ke.jsonl"
    cells = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    if given.document:
        RESULTS.write_text(json.dumps(cells, indent=1) + "\n")
        DOCUMENT.write_text(document(cells))
        return 0
    set_threads(1)
    there = {(cell["set"], cell["method"]) for cell in cells}
    deadline = time.monotonic() + 60 * given.minutes
    for name, method, measure in _work(given.sweep):
        present = (given.data / f"{SETS[name].file}.npz").exists()
        if present and (name, method) not in there and given.only in f"{name}/{method}" and time.monotonic() < deadline:
            cell = measure(given.data)
            with file.open("a") as stream:
                stream.write(json.dumps(cell) + "\n")
            took = f" in {cell['seconds']:6.1f} s" if "seconds" in cell else ""
            print(f"{name:16s} {method:8s} {cell['accuracy']:6.2f} %{took}, {cell['chosen']}", flush=True)
    return 0


def document(cells: list[Cell]) -> str:
    """The page, of finished cells and of nothing else."""
    found = {(cell["set"], cell["method"]): cell for cell in cells}
    lines = ["| set | " + " | ".join(METHODS) + " |", "| --- |" + " ---: |" * len(METHODS)]
    for name in SETS:
        published = PUBLISHED.get(name, (None,) * len(METHODS))
        shown = []
        for method, paper in zip(METHODS, published, strict=True):
            cell = found.get((name, method))
            taken = f" ({cell['seconds']:,.0f} s)" if cell is not None and "seconds" in cell else ""
            ours = "–" if cell is None else f"{cell['accuracy']:.1f}{taken}"
            shown.append(ours + ("" if paper is None else f" / {paper:.1f}"))
        lines.append(f"| {name} | " + " | ".join(shown) + " |")
    whole = {name: [found[name, method] for method in METHODS] for name in SETS if all((name, method) in found for method in METHODS)}
    greatest = {name: max(cell["accuracy"] for cell in row) for name, row in whole.items()}
    best = [f"{name}: {' and '.join(cell['method'] for cell in row if cell['accuracy'] == greatest[name])}" for name, row in whole.items()]
    about = "\n".join(f"| {name} | {public.about} |" for name, public in SETS.items())
    return DOCUMENT_TEXT.format(
        table="\n".join(lines), about=about, best=", ".join(best) or "none is finished", folds=FOLDS, most=f"{_MOST_SEARCHED:,}",
        sweep=_sweep(found),
    )  # fmt: skip


def _sweep(found: dict[tuple[str, str], Cell]) -> str:
    """What the sweep says, of its finished cells."""
    name, lengths = SWEPT
    cells = [found[name, _sweep_name(length)] for length in lengths if (name, _sweep_name(length)) in found]
    if not cells:
        return f"How the length of random objects counts on {name} is not measured yet: `--sweep`."
    grid = cells[0]["grid"]
    beside = f"the paper has {PUBLISHED[name][0]:.1f}"
    if (name, "D2KE") in found:
        beside += f", the search above, of lengths up to {max(_LENGTHS)}, {found[name, 'D2KE']['accuracy']:.1f}"
    return SWEEP_TEXT.format(
        name=name, R=f"{cells[0]['chosen']['R']:,}", beside=beside,
        spreads=", ".join(f"{x:g}" for x in grid["spread"]), costs="; ".join(f"{x:,.0f}" for x in grid["C"]),
        rows="\n".join("| {length} | {0:.1f} | {spread:g} | {C:,.0f} |".format(cell["accuracy"], **cell["chosen"]) for cell in cells),
    )  # fmt: skip


SWEEP_TEXT = """How the length of random objects counts, on {name} (`--sweep`): {R} random strings up to each length, and for each the same
grid, γ of {spreads} over the median distance and C of {costs}. Shown is the best of the grid on the test objects, so
no estimate of what a search would find. Beside it: {beside}.

| length up to | best accuracy | its γ, over the median | its C |
| ---: | ---: | ---: | ---: |
{rows}"""

DOCUMENT_TEXT = """# D2KE, measured again

*D2KE: From Distance to Kernel and Embedding* (2018) makes features from any distance: how far objects are from random ones.
`kinbin.features.D2KEFeatures` computes them. `python benchmarks/d2ke.py` measures this table; `--document` writes the page, and nobody
edits it by hand.

Ours (seconds of one thread, search included; none where other work had the processors too) / what the paper prints, in per cent;
– is not measured yet. Best on the sets whose row is
whole: {best}.

{table}

| set | is |
| --- | --- |
{about}

How: parameters are searched by {folds}-fold cross-validation (the paper: 10) on at most {most} training objects, with 256 features; test
objects are asked once, with up to 4,096 features, as many as there are training objects for RSM. Tried are γ of 1/16 to 64 over the median
distance, lengths of random objects up to 5, 10, 25 and 50, and C of 1 to 1,000 for linear machines (LIBLINEAR's default loss), 0.1 to 100
for kernel machines. DTW has no window. GDK_LED sees the test objects without their labels, as in the paper.

{sweep}

Not there: Auslan, ActRecog, IQ_radio, bit-str4, mnist-str4 and the image sets of SIFT descriptors.
"""

if __name__ == "__main__":
    sys.exit(main())
