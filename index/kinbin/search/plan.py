"""What a query will cost, and what follows: r and L of a run, the level to collect at, bands or scan.

Everything is predicted from a sample taken when a run is built: how similar rows are to each other
(a histogram), and how similar the 10th neighbour is. The theory is the certificate's: a row of
similarity s shares Binomial(L, s^r) bands, and verification stops at the level the 10th neighbour allows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinbin.hashing import MAX_ROWS, similarity_needed, suggested_similarity
from kinbin.hashing.certificate import binomial_tail
from kinbin.kernels._jit import strict
from kinbin.search._bandkernel import FRESH_BANDS
from kinbin.search._rundata import FIELDS
from kinbin.search.view import View

__all__ = ["BINS", "SAMPLE_K", "SMALL", "Contrast", "Plan", "choose_bands", "plan_query", "predict"]

BINS = 64
"""Of the histogram of similarities, over [0, 1]."""
SAMPLE_K = 10
"""The neighbour whose similarity is sampled."""
SMALL = 1_000
"""Collections of at most so many live rows are scanned: it takes some 20 µs."""
DEFAULT_TARGET = 0.9
BAND_CHOICES = (128, 200)
"""Bands a run may choose from; more than 128 must save a fifth of the time to be worth their bytes."""

# Nanoseconds on the machine of docs/benchmarks.md; only their ratios matter.
_BAND_NS = 30.0
_POSTING_NS = 1.1
_VERIFY_NS = 55.0
_SCAN_NS = 8.0
_NONZERO_NS = 0.4
_HASH_NS = 0.25


@dataclass(frozen=True, slots=True)
class Contrast:
    """How a run's rows lie to each other, from sampled rows."""

    histogram: NDArray[np.float64]
    """(BINS,) expected number of rows of the run by similarity to a row."""
    kth: NDArray[np.float64]
    """(q,) similarity of each sampled row's 10th neighbour, ascending."""
    nonzeros: float
    """Mean nonzeros a row."""

    def to_header(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "histogram": [round(float(x), 3) for x in self.histogram],
            "kth": [round(float(x), 5) for x in self.kth],
            "nonzeros": round(self.nonzeros, 2),
        }

    @classmethod
    def from_header(cls, data: dict[str, Any]) -> Contrast:
        """From JSON."""
        return cls(np.array(data["histogram"], np.float64), np.array(data["kth"], np.float64), float(data["nonzeros"]))

    def scan_ns(self, rows: int) -> float:
        """Predicted time to score so many rows in sequence."""
        return rows * (_SCAN_NS + _NONZERO_NS * self.nonzeros)


@strict
def _expect(histogram, kth, r, bands, need):  # type: ignore[no-untyped-def]
    """Expected postings, verified rows, and the share of queries that no level certifies."""
    bins = len(histogram)
    postings = 0.0
    for b in range(bins):
        postings += histogram[b] * bands * ((b + 0.5) / bins) ** r
    verified = 0.0
    uncertified = 0.0
    for q in range(len(kth)):
        stop = 0
        while stop < bands and need[stop + 1] <= kth[q]:
            stop += 1
        if stop == 0:
            uncertified += 1.0
            stop = 1
        for b in range(bins):
            if histogram[b] > 0.0:
                verified += histogram[b] * binomial_tail(bands, ((b + 0.5) / bins) ** r, stop)
    return postings, verified / len(kth), uncertified / len(kth)


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a query of one run is expected to take."""

    postings: float
    verified: float
    uncertified: float
    """Share of queries that no number of shared bands certifies: in auto mode they are scanned."""
    ns: float


def predict(contrast: Contrast, rows: int, r: int, bands: int, target: float) -> Prediction:
    """Predict a query of a run of so many rows with bands of r hashes."""
    need = similarity_needed(r, bands, target)
    postings, verified, uncertified = _expect(contrast.histogram, contrast.kth, r, bands, need)
    ns = bands * _BAND_NS + postings * _POSTING_NS + verified * (_VERIFY_NS + _NONZERO_NS * contrast.nonzeros)
    ns += uncertified * contrast.scan_ns(rows)
    ns += _HASH_NS * r * bands * contrast.nonzeros
    return Prediction(postings, verified, uncertified, ns)


def choose_bands(contrast: Contrast, rows: int, *, r: int | None, bands: int | None) -> tuple[int, int]:
    """(r, L) for a run: the cheapest at the default target; what the user fixed stays fixed."""
    best: tuple[float, int, int] | None = None
    for width in (bands,) if bands is not None else BAND_CHOICES:
        for height in (r,) if r is not None else range(1, MAX_ROWS + 1):
            cost = predict(contrast, rows, height, width, DEFAULT_TARGET).ns
            if width > FRESH_BANDS and bands is None:
                cost *= 1.25
            if best is None or cost < best[0]:
                best = cost, height, width
    assert best is not None
    return best[1], best[2]


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """How a view is searched for one target."""

    descriptors: NDArray[np.uint64]
    need: NDArray[np.float64]
    suggest: NDArray[np.float64]
    layouts: list[tuple[int, int]]
    """The (r, L) whose keys a query needs, in the order of their columns."""
    bands_ns: float
    scan_ns: float
    predictions: list[Prediction] = field(default_factory=list)

    @property
    def prefers_scan(self) -> bool:
        """Whether a scan is expected to be faster than the bands: few rows, or low contrast."""
        live = int(self.descriptors[:, FIELDS["live"]].sum())
        return live <= SMALL or self.scan_ns <= self.bands_ns


_TABLES: dict[tuple[int, int, float], tuple[NDArray[np.float64], NDArray[np.float64]]] = {}


def _levels(r: int, bands: int, target: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """need and suggest, (257,), for one run; cached."""
    key = (r, bands, target)
    if key not in _TABLES:
        if len(_TABLES) > 256:
            _TABLES.clear()
        need = np.full(257, np.inf)
        need[: bands + 1] = similarity_needed(r, bands, target)
        suggest = np.ones(257)
        suggest[: bands + 1] = [suggested_similarity(c, r, bands) for c in range(bands + 1)]
        _TABLES[key] = need, suggest
    return _TABLES[key]


def _collecting_level(need: NDArray[np.float64], kth: Iterable[float]) -> int:
    """The level at which nine queries in ten are certified: rows below it are rarely looked at."""
    values = np.asarray(kth if isinstance(kth, np.ndarray) else list(kth))
    low = float(np.quantile(values, 0.1)) if len(values) else 0.0
    return max(1, int(np.searchsorted(need[1:], low, side="right")))


def plan_query(view: View, target: float) -> Plan:
    """Plan the queries of one view for one target recall. Cost: some 100 µs; kept by the caller."""
    descriptors = view.descriptors.copy()
    need = np.empty((len(descriptors), 257))
    suggest = np.empty((len(descriptors), 257))
    layouts: list[tuple[int, int]] = []
    predictions: list[Prediction] = []
    bands_ns, scan_ns = 0.0, 0.0
    contrasts = [Contrast.from_header(run.header["contrast"]) for run in view.runs]
    for i, (run, contrast) in enumerate(zip(view.runs, contrasts, strict=True)):
        r, bands = int(run.header["r"]), int(run.header["bands"])
        need[i], suggest[i] = _levels(r, bands, target)
        if (r, bands) not in layouts:
            layouts.append((r, bands))
        columns = sum(width for _, width in layouts[: layouts.index((r, bands))])
        descriptors[i, FIELDS["keys"]] = columns
        descriptors[i, FIELDS["collect"]] = min(_collecting_level(need[i], contrast.kth), 255)
        prediction = predict(contrast, run.rows, r, bands, target)
        predictions.append(prediction)
        bands_ns += prediction.ns
        scan_ns += contrast.scan_ns(run.live)
    need[-1], suggest[-1] = _levels(1, FRESH_BANDS, target)
    largest = max(zip(view.runs, contrasts, strict=True), key=lambda pair: pair[0].rows, default=None)
    if largest is not None:
        descriptors[-1, FIELDS["collect"]] = _collecting_level(need[-1], largest[1].kth)
    bands_ns += view.fresh.rows * 4.0
    scan_ns += view.fresh.live * 25.0
    return Plan(descriptors, need, suggest, layouts, bands_ns, scan_ns if math.isfinite(scan_ns) else 0.0, predictions)
