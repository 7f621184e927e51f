"""The bands that sampled rows share with their neighbours: both are hashed as the collection hashes its rows.

The law says how often hashes agree of a pair of some similarity. What they do on the rows at hand is a little more (a hash that keeps
the feature alone agrees by chance, too: by 0.3 / nonzeros at the most), and that to the power of r is more than the recall that is to be
told apart. So near pairs are hashed; the law, corrected by what these pairs show, is left for the many that are far.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import thread_time_ns

import numpy as np
from numpy.typing import NDArray

from kinbin.hashing import Sampler, band_keys
from kinbin.segments.source import read_records
from kinbin.tuning.sampling import FINE_BINS, Drawn

__all__ = ["Hashed"]

_AT_ONCE = 1 << 22
"""Codes of neighbours that are in memory at a time."""
_BINS = 32
"""Of probabilities, in which the pairs that were hashed correct the law."""
_TIMED, _TIMES = 64, 3
"""Rows that are hashed to see what that takes, and how often."""


class Hashed:
    """Shared bands of sampled rows and their neighbours, for any of the layouts that it was made for."""

    def __init__(
        self, drawn: Drawn, sampler: Sampler, wide: bool, layouts: Iterable[tuple[int, int, int]], check: Callable[[], None]
    ) -> None:
        """layouts: (r, bands, bits of a key that a search compares) of each. check: called now and then, may raise.

        Cost: hashing q times m rows with the most of both, 5 to 50 µs each.
        """
        self._drawn, self._sampler = drawn, sampler
        self._times: dict[tuple[int, int], float] = {}
        wanted = sorted(set(layouts))
        self._shared = {one: np.zeros(drawn.scores.shape, np.uint8) for one in wanted}
        most_r, most = max(r for r, _, _ in wanted), max(bands for _, bands, _ in wanted)
        agreed = np.zeros(drawn.scores.shape)
        step = max(1, _AT_ONCE // (most_r * most * max(1, drawn.scores.shape[1])))
        for start in range(0, len(drawn), step):
            check()
            here = slice(start, min(start + step, len(drawn)))
            there = drawn.addresses[here] != 0
            query, _ = np.nonzero(there)
            codes = sampler.codes(drawn.rows.slice(here.start, here.stop), most_r, most)
            near = sampler.codes(read_records(drawn.addresses[here][there], drawn.rooms[here][there], wide), most_r, most)
            agreed[here][there] = (near[:, 0] == codes[query, 0]).mean(axis=1)
            for r, bands, bits in wanted:
                slots, of_near = (band_keys(some, r, bands) >> np.uint32(32 - bits) for some in (codes, near))
                self._shared[r, bands, bits][here][there] = (slots[query] == of_near).sum(axis=1)
        self.agree = _corrected(drawn, agreed)
        """(FINE_BINS,) how probable it is that hashes agree, by the middle of the bin in which the law has it."""

    def shared(self, r: int, bands: int, bits: int) -> NDArray[np.uint8]:
        """(q, m) how many bands of r hashes, of so many, each sampled row shares with its neighbours: as far as a search can tell."""
        return self._shared[r, bands, bits]

    def ns(self, r: int, bands: int) -> float:
        """What hashing one of the rows takes, measured here."""
        if (r, bands) not in self._times:
            rows = self._drawn.rows.slice(0, min(len(self._drawn), _TIMED))
            times = []
            for _ in range(_TIMES):
                began = thread_time_ns()
                band_keys(self._sampler.codes(rows, r, bands), r, bands)
                times.append(thread_time_ns() - began)
            self._times[r, bands] = min(times) / max(1, len(rows))
        return self._times[r, bands]


def _corrected(drawn: Drawn, agreed: NDArray[np.float64]) -> NDArray[np.float64]:
    """(FINE_BINS,) probabilities of the law, corrected by the share of hashes that agreed of the hashed pairs (q, m)."""
    law = drawn.collide[drawn.addresses != 0]
    more = agreed[drawn.addresses != 0] - law
    places = np.minimum((law * _BINS).astype(np.int64), _BINS - 1)
    counts = np.bincount(places, minlength=_BINS)
    means = np.bincount(places, more, _BINS)[counts > 0] / counts[counts > 0]
    centres = np.bincount(places, law, _BINS)[counts > 0] / counts[counts > 0]
    middles = (np.arange(FINE_BINS) + 0.5) / FINE_BINS
    corrected: NDArray[np.float64] = np.clip(middles + np.interp(middles, np.r_[0.0, centres, 1.0], np.r_[0.0, means, 0.0]), 0.0, 1.0)
    return corrected
