"""How a run's rows lie to each other, what a search by bands will cost, and the r and L that follow.

Everything is predicted from a sample taken when a run is built: how similar rows are to each other
(a histogram), and how similar the 10th neighbour is. The theory is the certificate's: a row of
similarity s shares Binomial(L, s^r) bands, and verification stops at the level the 10th neighbour allows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kinbin.costs import COSTS
from kinbin.hashing import MAX_ROWS, similarity_needed, suggested_similarity
from kinbin.hashing.certificate import binomial_tail
from kinbin.limits import limit
from kinbin.native.jit import owning, strict
from kinbin.segments.descriptors import FRESH_BANDS
from kinbin.storage.headers import ContrastHeader

__all__ = [
    "BINS", "SAMPLE_K", "Contrast", "Prediction", "aim_of", "choose_bands", "collecting_level", "levels", "postings_cap",
    "predict",
]  # fmt: skip

BINS = 64
"""Of the histogram of similarities, over [0, 1]."""
SAMPLE_K = 10
"""The neighbour whose similarity is sampled."""
DEFAULT_TARGET = 0.9
AIM = 0.6
"""Verification aims above the target by so much of what it leaves out: at C = 0.96 for 0.9. Where all ten
neighbours are about equally near, mean recall is hardly above C; this puts it past 0.98 on every set tried."""
BAND_CHOICES = (128, 200)
"""Bands a run may choose from; more than 128 must save a fifth of the time to be worth their bytes."""
_LISTED = 300.0
"""Rows that a run may be expected to list at first."""
_TABLES: dict[tuple[int, int, float], tuple[NDArray[np.float64], NDArray[np.float64]]] = {}


@dataclass(frozen=True, slots=True)
class Contrast:
    """How a run's rows lie to each other, from sampled rows."""

    histogram: NDArray[np.float64]
    """(q, BINS) expected number of rows of the run by similarity to each of the sampled rows."""
    kth: NDArray[np.float64]
    """(q,) similarity of each sampled row's 10th neighbour."""
    nonzeros: float
    """Mean nonzeros a row."""
    wide: bool = False
    """Whether features are looked up by a hash."""

    def header(self) -> ContrastHeader:
        """What is stored of it."""
        return ContrastHeader(self.histogram.round(1), self.kth.round(5), round(self.nonzeros, 2), self.wide)

    @classmethod
    def of(cls, header: ContrastHeader) -> Contrast:
        """From what is stored."""
        return cls(header.histogram, header.kth, header.nonzeros, header.wide)

    @property
    def nonzeros_ns(self) -> float:
        """Predicted time for the nonzeros of a row that is scored."""
        return (COSTS.wide_nonzero if self.wide else COSTS.nonzero) * self.nonzeros

    def scan_ns(self, rows: int) -> float:
        """Predicted time to score so many rows in sequence."""
        return rows * (COSTS.scan + self.nonzeros_ns)


@owning
def _expect(histogram, kth, r, bands, need, least, cap):  # type: ignore[no-untyped-def]
    """Means over the sampled queries: postings, verified rows, and the share that is not certified (or capped).

    need: similarities at which levels are certified as aimed; least: the one that the target needs.
    """
    queries, bins = histogram.shape
    shared = np.empty(bins)
    for b in range(bins):
        shared[b] = ((b + 0.5) / bins) ** r
    postings = 0.0
    verified = 0.0
    uncertified = 0.0
    stops = np.empty(queries, np.int64)
    for q in range(queries):
        read = 0.0
        for b in range(bins):
            read += histogram[q, b] * bands * shared[b]
        stop = 0
        while stop < bands and need[stop + 1] <= kth[q]:
            stop += 1
        stops[q] = max(stop, 1)
        if kth[q] < least or read > cap:
            uncertified += 1.0
        postings += min(read, cap)
    # Many queries stop at one level: each tail is worked out once.
    tails = np.empty(bands + 2)
    for b in range(bins):
        tails[:] = -1.0
        for q in range(queries):
            if histogram[q, b] > 0.0:
                if tails[stops[q]] < 0.0:
                    tails[stops[q]] = binomial_tail(bands, shared[b], stops[q])
                verified += histogram[q, b] * tails[stops[q]]
    return postings / queries, verified / queries, uncertified / queries


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a query of one run is expected to take."""

    postings: float
    verified: float
    uncertified: float
    """Share of queries that no number of shared bands certifies: in auto mode they are scanned."""
    ns: float
    far_ns: float
    """The same where every row that shares a band has to be verified."""


NO_BANDS = Prediction(0.0, 0.0, 1.0, math.inf, math.inf)
"""Of a run without bands: it is scanned, at any cost."""


def postings_cap(rows: int) -> int:
    """Postings that a query of so many rows may read."""
    return max(int(limit("postings")), int(limit("postings_per_row") * rows))


def aim_of(target: float) -> float:
    """The certificate at which verification stops."""
    return target + AIM * (1.0 - target)


def levels(r: int, bands: int, target: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """need and suggest, (257,), for one run; cached."""
    key = (r, bands, target)
    if key not in _TABLES:
        if len(_TABLES) > 256:
            _TABLES.clear()
        need = np.full(257, np.inf)
        if bands:
            need[: bands + 1] = similarity_needed(r, bands, aim_of(target))
        suggest = np.ones(257)
        if bands:
            suggest[: bands + 1] = [suggested_similarity(c, r, bands) for c in range(bands + 1)]
        _TABLES[key] = need, suggest
    return _TABLES[key]


@strict
def _level_of(histogram, r, bands, wanted):  # type: ignore[no-untyped-def]
    """The lowest level that at most `wanted` rows are expected to reach."""
    bins = len(histogram)
    for c in range(1, min(bands, 255)):
        rows = 0.0
        for b in range(bins):
            if histogram[b] > 0.0:
                rows += histogram[b] * binomial_tail(bands, ((b + 0.5) / bins) ** r, c)
        if rows <= wanted:
            return c
    return min(bands, 255)


def collecting_level(contrast: Contrast, r: int, bands: int) -> int:
    """The level from which rows are listed at first; a query that needs lower ones lists them as it goes."""
    if not bands:
        return 255
    return int(_level_of(contrast.histogram.mean(axis=0), r, bands, _LISTED))


def predict(contrast: Contrast, rows: int, r: int, bands: int, target: float) -> Prediction:
    """Predict a query of a run of so many rows with bands of r hashes."""
    if not bands:
        return NO_BANDS
    need = similarity_needed(r, bands, aim_of(target))
    least = float(similarity_needed(r, bands, target)[1])
    postings, verified, uncertified = _expect(contrast.histogram, contrast.kth, r, bands, need, least, postings_cap(rows))
    score_ns = COSTS.verify + contrast.nonzeros_ns
    counting_ns = bands * COSTS.band + postings * COSTS.posting_of(rows) + COSTS.hash * r * bands * contrast.nonzeros
    ns = counting_ns + verified * score_ns + uncertified * contrast.scan_ns(rows)
    return Prediction(postings, verified, uncertified, ns, counting_ns + min(postings, rows) * score_ns)


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
