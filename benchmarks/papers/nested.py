"""Nested histograms on photographs: error of one-versus-all SVMs over (λ, ε), as figures 4 and 5 of the paper show it.

(Kernels through nested histograms, section 4.) The paper takes 12 families of 100 photographs each of the Corel set, 800 to learn from and
400 to test, three times at random, C = 100, 1/λ from 2^-12 to 2^2, ε from 0 to 1, depths D from 1 to 3 (grids of 4, 16 and 64 patches
below the whole) and five distances. Corel is not to be had: here are as many photographs of CIFAR-10, of ten families, 32 × 32 pixels.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import SVC

from kinbin.features import NestedHistogramKernel
from kinbin.spaces.pyramid import Pyramid
from report import table as markdown

__all__ = [
    "BASES",
    "DEPTHS",
    "FILE",
    "SET",
    "Grid",
    "errors",
    "grid_of",
    "kernel_of",
    "kernels_of_nodes",
    "measure",
    "psi_of_all",
    "table",
    "write",
    "written",
]

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "papers.md"
RESULT = ROOT / "benchmarks" / "results" / "nested.json"
SET = "cifar10_rgb_small"
FILE = "nested.jsonl"
BASES = ("h1", "h2", "tv", "chi2", "jd")
"""In the order of figure 5."""
DEPTHS = (1, 2, 3)
SPLITS, COST = 3, 100.0
PER_CLASS, LEARNED = 120, 80
Grid = tuple[tuple[float, ...], tuple[float, ...]]
"""log2 of 1/λ, and ε."""
SHORT: Grid = ((-6.0, -4.0, -2.0, 0.0, 2.0), (0.0, 0.2, 0.5, 0.8, 1.0))
WHOLE: Grid = (tuple(float(x) for x in range(-12, 3)), tuple(x / 10 for x in range(11)))


def grid_of(full: bool) -> Grid:
    """What is tried: the paper's grid, or some λ and ε of it."""
    return WHOLE if full else SHORT


@numba.njit(nogil=True)
def _psi(indptr, features, shares, base, out):  # type: ignore[no-untyped-def]
    """out (n, n, nodes): ψ of every node of every pair. shares: of the picture, by features node · 512 + colour."""
    n, nodes = out.shape[0], out.shape[2]
    dense, alone = np.zeros(nodes * 512), np.zeros(nodes)
    for i in range(n):
        alone[:] = 0.0
        for x in range(indptr[i], indptr[i + 1]):
            dense[features[x]] = shares[x]
            alone[features[x] // 512] += _one(base, shares[x], 0.0)
        for j in range(i, n):
            out[i, j] = alone
            for x in range(indptr[j], indptr[j + 1]):
                u = dense[features[x]]
                out[i, j, features[x] // 512] += _one(base, u, shares[x]) - _one(base, u, 0.0)
            out[j, i] = out[i, j]
        for x in range(indptr[i], indptr[i + 1]):
            dense[features[x]] = 0.0


@numba.njit(nogil=True)
def _one(base, u, v):  # type: ignore[no-untyped-def]
    """What two shares add to ψ: H1, H2, TV, χ², JD (section 3.3)."""
    if u + v == 0.0:
        return 0.0
    if base == 0:
        return abs(np.sqrt(u) - np.sqrt(v))
    if base == 1:
        return (np.sqrt(u) - np.sqrt(v)) ** 2
    if base == 2:
        return abs(u - v)
    if base == 3:
        return (u - v) ** 2 / (u + v)
    half = 0.0
    if u > 0.0:
        half += 0.5 * u * np.log(2.0 * u / (u + v))
    if v > 0.0:
        half += 0.5 * v * np.log(2.0 * v / (u + v))
    return half


def psi_of_all(images: NDArray[np.uint8], base: str) -> tuple[NDArray[np.float32], list[list[int]]]:
    """(n, n, nodes) ψ of the nodes of grids of 1, 4, 16 and 64 patches, and the nodes of each level, children in groups of four.

    Cost: 4 to 20 ns a pair and colour of a node.
    """
    # Of the rows that a collection stores, only which colour of which node occurs how often is used here.
    pyramid = Pyramid(4, (0, 0, 0, 0))
    rows = NestedHistogramKernel(4, base=base, output="rows").fit_transform(list(images))
    node, colour = np.divmod(rows.indices, 514)
    kept = (colour < 512) & (node < pyramid.nodes)
    level, parent, _ = pyramid.places
    counts = rows.data.astype(np.float64)
    owner = np.repeat(np.arange(len(images)), np.diff(rows.indptr))
    totals = np.zeros((len(images), pyramid.nodes))
    np.add.at(totals, (owner[kept], node[kept]), counts[kept])
    # Each level sums to the picture, whatever it weighs in the row.
    whole = np.array([totals[:, level == depth].sum(axis=1) for depth in range(4)]).T
    shares = counts[kept] / whole[owner[kept], level[node[kept]]]
    indptr = np.zeros(len(images) + 1, np.int64)
    np.cumsum(np.bincount(owner[kept], minlength=len(images)), out=indptr[1:])
    out = np.zeros((len(images), len(images), pyramid.nodes), np.float32)
    _psi(indptr, node[kept] * 512 + colour[kept], shares, BASES.index(base), out)
    order: list[list[int]] = [[pyramid.nodes - 1]]
    for _ in range(3):
        order.append([child for one in order[-1] for child in np.flatnonzero(parent == one).tolist()])
    return out, order


def kernels_of_nodes(psi: NDArray[np.float32], order: list[list[int]], width: float) -> list[NDArray[np.float32]]:
    """(nodes of level, n, n) exp(−ψ / λ), level by level."""
    return [np.exp(np.moveaxis(psi[:, :, level], 2, 0) * np.float32(-1.0 / width)) for level in order]


def kernel_of(own: list[NDArray[np.float32]], depth: int, share: float) -> NDArray[np.float64]:
    """(n, n) the kernel of proposition 2."""
    mixed: Any = own[depth]
    for level in range(depth - 1, -1, -1):
        product = mixed[0::4] * mixed[1::4] * mixed[2::4] * mixed[3::4]
        mixed = np.float32(1.0 - share) * own[level] + np.float32(share) * product
    return np.asarray(mixed[0], np.float64)


def _splits(labels: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Balanced halves to learn from and to test, by three seeds."""
    for seed in range(SPLITS):
        rng = np.random.default_rng(seed)
        shuffled = [rng.permutation(np.flatnonzero(labels == one)) for one in np.unique(labels)]
        yield np.concatenate([one[:LEARNED] for one in shuffled]), np.concatenate([one[LEARNED:] for one in shuffled])


def _error(kernel: NDArray[np.float64], labels: NDArray[np.int64]) -> float:
    """Mean error in percent over the splits."""
    wrong = []
    for learned, tested in _splits(labels):
        machine = OneVsRestClassifier(SVC(C=COST, kernel="precomputed", cache_size=50))
        machine.fit(kernel[np.ix_(learned, learned)], labels[learned])
        wrong.append(float((machine.predict(kernel[np.ix_(tested, learned)]) != labels[tested]).mean()))
    return 100.0 * float(np.mean(wrong))


def _photographs(data: Path) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """120 photographs of each family, drawn once."""
    with np.load(data / f"{SET}.npz") as held:
        images, labels = held["X_train"].reshape(-1, 32, 32, 3), held["y_train"].astype(np.int64)
    rng = np.random.default_rng(0)
    chosen = np.concatenate([rng.permutation(np.flatnonzero(labels == one))[:PER_CLASS] for one in np.unique(labels)])
    return images[chosen], labels[chosen]


def measure(data: Path, folder: Path, grid: Grid, minutes: float, told: Callable[[str], None]) -> bool:
    """Measure what is not in the folder yet, until the time is over; whether all is there."""
    deadline = time.monotonic() + 60.0 * minutes
    folder.mkdir(parents=True, exist_ok=True)
    have = errors(folder)
    _leave_whole_lines(folder / FILE)
    images, labels = _photographs(data)
    for base in BASES:
        cells = [(depth, rate, share) for rate in grid[0] for depth in DEPTHS for share in grid[1]]
        missing = [cell for cell in cells if (base, *cell) not in have]
        if not missing:
            continue
        psi, order = psi_of_all(images, base)
        own, at = [], None
        for depth, rate, share in missing:
            if time.monotonic() > deadline:
                return False
            if rate != at:
                own, at = kernels_of_nodes(psi, order, 2.0**-rate), rate
            found = _error(kernel_of(own, depth, share), labels)
            with (folder / FILE).open("a") as file:
                file.write(json.dumps({"base": base, "depth": depth, "log2_rate": rate, "epsilon": share, "error": found}) + "\n")
            told(f"nested/{base}/D={depth}/1 over lambda=2^{rate:g}/epsilon={share:g}: error {found:.2f} %")
    return True


def _leave_whole_lines(file: Path) -> None:
    """Take away what a killed run left of its last line."""
    if file.exists():
        text = file.read_text()
        file.write_text(text[: text.rfind("\n") + 1])


def errors(folder: Path) -> dict[tuple[str, int, float, float], float]:
    """Errors in percent by (base, depth, log2 of 1/λ, ε): what was measured so far."""
    if not (folder / FILE).exists():
        return {}
    # What a killed run left of a line is none.
    lines = [json.loads(line) for line in (folder / FILE).read_text().splitlines(keepends=True) if line.endswith("\n")]
    return {(one["base"], one["depth"], one["log2_rate"], one["epsilon"]): one["error"] for one in lines}


def saved() -> dict[tuple[str, int, float, float], float]:
    """What the document was written from, as `errors` returns it."""
    lines = json.loads(RESULT.read_text(encoding="utf-8")) if RESULT.exists() else []
    return {(base, depth, rate, share): error for base, depth, rate, share, error in lines}


def write(folder: Path) -> bool:
    """Save what a folder has, with what was saved before and it has not, and write its part of docs/papers.md; whether it has anything."""
    found = errors(folder)
    if not found:
        return False
    found = saved() | found
    lines = [json.dumps([*cell, round(error, 3)]) for cell, error in sorted(found.items())]
    RESULT.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")
    DOCUMENT.write_text(written(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
    return True


def written(document: str) -> str:
    """A document with the table of what was saved between its markers."""
    found = saved()
    begin, end = "<!-- nested histograms -->", "<!-- end of nested histograms -->"
    before, _, rest = document.partition(begin)
    return f"{before}{begin}\n\n{_text(found)}\n\n{end}{rest.partition(end)[2]}"


def _text(found: dict[tuple[str, int, float, float], float]) -> str:
    titles = ("ψ", "D", "error at ε = 0", "at ε = 1", "least in between", "at 1/λ, ε", "% of inner cells below both ends of their λ")
    lines = table(found)
    better = sum(float(line[4]) < min(float(line[2]), float(line[3])) for line in lines)
    rates, shares = (sorted({cell[place] for cell in found}) for place in (2, 3))
    grid = f"1/λ: {', '.join(f'2^{rate:g}' for rate in rates)}; ε: {', '.join(f'{share:g}' for share in shares)}"
    told = f"Averaging (0 < ε < 1) is better than both ends in {better} of {len(lines)} (ψ, D)."
    return "\n\n".join([told, markdown(titles, lines), f"{grid}. Errors in percent, means of {SPLITS} splits."])


def table(found: dict[tuple[str, int, float, float], float]) -> list[tuple[str, ...]]:
    """For each base and depth: the least error at ε = 0, at ε = 1, and in between with the (1/λ, ε) that has it."""
    lines: list[tuple[str, ...]] = []
    for base in BASES:
        for depth in DEPTHS:
            cells = {cell[2:]: error for cell, error in found.items() if cell[:2] == (base, depth)}
            ends = [min((error for (_, share), error in cells.items() if share == end), default=None) for end in (0.0, 1.0)]
            inner = {cell: error for cell, error in cells.items() if 0.0 < cell[1] < 1.0}
            if None in ends or not inner:
                continue
            rate, share = min(inner, key=lambda cell: inner[cell])
            best = inner[rate, share]
            wins = sum(error < min(cells.get((one, 0.0), 100.0), cells.get((one, 1.0), 100.0)) for (one, _), error in inner.items())
            lines.append((
                base, str(depth), f"{ends[0]:.1f}", f"{ends[1]:.1f}", f"{best:.1f}", f"2^{rate:g}, {share:g}",
                f"{100.0 * wins / len(inner):.0f}",
            ))  # fmt: skip
    return lines
