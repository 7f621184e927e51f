"""The cells of the papers' tables and figures, those of most worth first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from papers.published import BEST_GAMMA, PAPERS
from papers.sets import SETS

__all__ = ["BITS", "COMPARED", "FIGURES_4_TO_7", "FIGURE_2", "NYSTROEM", "SAMPLES", "Cell", "cells"]


@dataclass(frozen=True)
class Cell:
    """One figure: a method on one split of one set, at all C."""

    paper: str
    set: str
    method: str
    """A column of the paper's table, or with k a name of `features.LINEARISATIONS`."""
    repetition: int = 0
    k: int = 0
    """Samples; 0 for a kernel SVM."""
    bits: int = 0
    gamma: float | None = None

    @property
    def key(self) -> str:
        """What the results know it by."""
        numbers = [f"k={self.k}"] * bool(self.k) + [f"b={self.bits}"] * bool(self.bits)
        numbers += [] if self.gamma is None else [f"gamma={self.gamma:g}"]
        return " ".join([f"{self.paper}/{self.set}/{self.method}", *numbers, f"r{self.repetition}"])


SAMPLES: Final = {"gint": (64, 128, 256, 1024), "comparison": (64, 128, 256, 1024), "nystroem": (32, 64, 128, 256, 512, 1024)}
BITS: Final = (8, 4, 2)
LARGE: Final = ("Magic", "SkinSeg10k", "Letter", "Letter15k", "MNIST10k")
"""Their kernel machines take minutes."""
TINY: Final = 2500
"""Sets of fewer rows that are split at random are split ten times: one split says little."""
FIGURE_2: Final = ("Vowel", "Wholesale", "Vertebral", "Splice", "ImageSeg", "Shuttle500", "SpamBase", "PageBlocks", "Satimage", "Optdigits")
FIGURES_4_TO_7: Final = {
    "gcws-gmm": 8,
    "rff": 0,
    "folded-rff": 0,
    "signs-gaussian": 0,
    "signs-cauchy": 0,
    "gcws-acos": 8,
    "gcws-acos_chi2": 8,
}
"""The linearisations of the comparison study, and bits of a sample. (Its Figures 9 and 10 show the last two.)"""
COMPARED: Final = ("Vowel", "Splice", "Segment", "Satimage", "Spam", "Optdigits", "Letter4k", "Phoneme")
NYSTROEM: Final = {"gcws-gmm": 8, "nys-gmm": 0, "nys-rbf": 0, "rff": 0}
_GAMMAS: Final = (0.1, 1.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0)
_FEW_GAMMAS: Final = (5.0, 50.0, 500.0)
_REPETITIONS, _ALL_REPETITIONS = 3, 10


def _is_tiny(paper: str, name: str) -> bool:
    public = SETS[paper][name]
    return public.varies and sum(public.size) < TINY


def _gammas(paper: str, name: str, method: str, every: bool) -> tuple[float | None, ...]:
    """What is tried: around what the paper prints, or a grid. Not `every` one of a large set."""
    if method not in ("rbf", "frbf"):
        return (None,)
    if paper == "gint":
        return _GAMMAS if every else _FEW_GAMMAS
    best = BEST_GAMMA[name][method == "frbf"]
    return (best, best / 2, best * 2) if every else (best,)


def _table(paper: str, name: str, repetition: int, every: bool) -> Iterator[Cell]:
    for method in PAPERS[paper].methods:
        for gamma in _gammas(paper, name, method, every):
            yield Cell(paper, name, method, repetition, gamma=gamma)


def _tables(repetition: int, large: bool = False, tiny: bool | None = None) -> Iterator[Cell]:
    """Tables of the sets that are large or not, and tiny or not unless both are asked for."""
    for paper, described in PAPERS.items():
        for name in described.rows:
            asked = (name in LARGE) == large and tiny in (None, _is_tiny(paper, name))
            if asked and (repetition == 0 or SETS[paper][name].varies):
                yield from _table(paper, name, repetition, every=name not in LARGE)


def _figure_2(repetition: int, tiny: bool | None = None) -> Iterator[Cell]:
    for name in FIGURE_2:
        if tiny is not None and _is_tiny("gint", name) != tiny:
            continue
        for method in ("gcws-ngmm", "gcws-gmm"):
            for k in SAMPLES["gint"]:
                for bits in BITS:
                    yield Cell("gint", name, method, repetition, k, bits)


def _curves(paper: str, names: Iterable[str], methods: dict[str, int], samples: Iterable[int], repetition: int) -> Iterator[Cell]:
    for name in names:
        rbf, folded = BEST_GAMMA[name]
        gammas = {"rff": rbf, "folded-rff": folded, "nys-rbf": rbf}
        for k in samples:
            for method, bits in methods.items():
                yield Cell(paper, name, method, repetition, k, bits, gammas.get(method))


def _figures_4_to_7(repetition: int, samples: Iterable[int] = SAMPLES["comparison"]) -> Iterator[Cell]:
    return _curves("comparison", COMPARED, FIGURES_4_TO_7, samples, repetition)


def _nystroem(names: Iterable[str], repetition: int) -> Iterator[Cell]:
    return _curves("nystroem", names, NYSTROEM, SAMPLES["nystroem"], repetition)


def cells(full: bool) -> Iterator[Cell]:
    """Every cell, in order of worth: tables, then figures, then repetitions and what takes long.

    `full` adds repetitions up to ten, 4,096 samples, and linearisations of large sets.
    """
    for repetition in range(_REPETITIONS):
        yield from _tables(repetition)
    for repetition in range(_REPETITIONS, _ALL_REPETITIONS):
        yield from _tables(repetition, tiny=True)
    yield from _figure_2(0)
    for repetition in range(_REPETITIONS, _ALL_REPETITIONS):
        yield from _figure_2(repetition, tiny=True)
    for repetition in range(_REPETITIONS):
        yield from _nystroem(["SVMGuide3"], repetition)
    yield from _figures_4_to_7(0)
    yield from _nystroem(["Letter15k"], 0)
    yield from _tables(0, large=True)
    for repetition in range(1, _REPETITIONS):
        yield from _figure_2(repetition)
    for repetition in range(1, _REPETITIONS):
        yield from _figures_4_to_7(repetition)
    if full:
        yield from _rest()


def _rest() -> Iterator[Cell]:
    usual = set(cells(full=False))
    for paper, described in PAPERS.items():
        for name in described.rows:
            if name in LARGE:
                yield from (cell for cell in _table(paper, name, 0, every=True) if cell not in usual)
    for repetition in range(_REPETITIONS):
        yield from _figures_4_to_7(repetition, [4096])
        yield from _curves("comparison", ["Letter", "MNIST10k"], FIGURES_4_TO_7, SAMPLES["comparison"], repetition)
    for repetition in range(1, _ALL_REPETITIONS):
        yield from _nystroem(["Letter15k"], repetition)
    for repetition in range(_REPETITIONS, _ALL_REPETITIONS):
        yield from _nystroem(["SVMGuide3"], repetition)
        yield from _tables(repetition, tiny=False)
        yield from _figure_2(repetition, tiny=False)
        yield from _figures_4_to_7(repetition)
