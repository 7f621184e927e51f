"""The bands that sampled rows share with their neighbours: both are hashed as the collection hashes its rows.

The law says how often hashes agree of a pair of some similarity. What they do on the rows at hand is more (a hash that keeps the feature
alone agrees by chance, too: by about 0.4 / nonzeros, and always where there is one feature), and that to the power of r is more than the
recall that is to be told apart. So near pairs are hashed; the law, corrected by what these pairs show, is left for the many that are
far.

Nor does the law say how many of those share bands in one draw of hashes: it is right of the mean of all draws. Where a word is in most
rows, a band whose hashes all draw it is shared by most pairs, and another by none. So far pairs are hashed, too: some rows wherever they
lie (`sampling.Others`), and what the law says of all is corrected by what it says of these, and by what they show.
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator"
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from time import thread_time_ns

import numpy as np
from numpy.typing import NDArray

from kinbin.hashing import Sampler, band_keys
from kinbin.native.jit import strict
from kinbin.rows.rows import Rows
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

        Cost: hashing the sampled rows, each of their neighbours and the others once, with the most of both, 5 to 50 µs each;
        comparing q times m pairs and h times s others, 10 to 50 ns a pair and layout. Memory: 16 MB of codes, and a byte a pair and layout.
        """
        self._drawn, self._sampler = drawn, sampler
        self._times: dict[tuple[int, int], float] = {}
        wanted = sorted(set(layouts))
        self._shared = {one: np.zeros(drawn.scores.shape, np.uint8) for one in wanted}
        sizes = max(r for r, _, _ in wanted), max(bands for _, bands, _ in wanted)
        agreed = np.zeros(drawn.scores.shape)
        mine = sampler.codes(drawn.rows, *sizes)
        for rows, pairs in _neighbours(drawn, wide, max(1, _AT_ONCE // (sizes[0] * sizes[1]))):
            check()
            codes = sampler.codes(rows, *sizes)
            places = pairs[0], pairs[1]
            agreed[places] = _counted(mine[:, 0], codes[:, 0], pairs, sizes[1]) / sizes[1]
            for one in wanted:
                slots = [_slots(some, one) for some in (mine, codes)]
                self._shared[one][places] = _counted(slots[0], slots[1], pairs, one[1])
        self.agree = _corrected(drawn, agreed)
        """(FINE_BINS,) how probable it is that hashes agree, by the middle of the bin in which the law has it."""
        check()
        others, far = sampler.codes(drawn.others.rows, *sizes), drawn.others.far
        self._far = {one: _all_shared(mine[: len(far)], others, one) for one in wanted}

    def shared(self, r: int, bands: int, bits: int) -> NDArray[np.uint8]:
        """(q, m) how many bands of r hashes, of so many, each sampled row shares with its neighbours: as far as a search can tell."""
        return self._shared[r, bands, bits]

    def far(self, r: int, bands: int, bits: int) -> NDArray[np.uint8]:
        """(h, s) the same of the rows that lie anywhere (`sampling.Others`)."""
        return self._far[r, bands, bits]

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


def _slots(codes: NDArray[np.uint32], layout: tuple[int, int, int]) -> NDArray[np.uint32]:
    """(n, bands) what a search compares of each band's key."""
    r, bands, bits = layout
    return band_keys(codes, r, bands) >> np.uint32(32 - bits)


def _all_shared(mine: NDArray[np.uint32], others: NDArray[np.uint32], layout: tuple[int, int, int]) -> NDArray[np.uint8]:
    """(h, s) how many bands rows of these codes share with each of the others."""
    shape = len(mine), len(others)
    of_mine, of_others = (place.reshape(-1) for place in np.indices(shape))
    return _counted(_slots(mine, layout), _slots(others, layout), (of_mine, of_mine, of_others), layout[1]).reshape(shape)


Pairs = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]
"""(p,) each: of a pair the sampled row, the place of the neighbour in its list, and the neighbour's place among the rows at hand."""


def _neighbours(drawn: Drawn, wide: bool, at_once: int) -> Iterator[tuple[Rows, Pairs]]:
    """All neighbours, each once, some at a time; with the pairs that they are in. Rows lie near many others, so lists share them."""
    query, place = np.nonzero(drawn.addresses)
    addresses, first, near = np.unique(drawn.addresses[query, place], return_index=True, return_inverse=True)
    rooms = drawn.rooms[query[first], place[first]]
    order = np.argsort(near, kind="stable")
    query, place, near = query[order], place[order], near[order]
    for start in range(0, len(addresses), at_once):
        stop = min(start + at_once, len(addresses))
        here = slice(*np.searchsorted(near, [start, stop]).tolist())
        yield read_records(addresses[start:stop], rooms[start:stop], wide), (query[here], place[here], near[here] - start)


def _counted(mine: NDArray[np.uint32], theirs: NDArray[np.uint32], pairs: Pairs, bands: int) -> NDArray[np.uint8]:
    """(p,) in how many of these places, 255 at most, the sampled row and the neighbour of each pair have the same."""
    out = np.empty(len(pairs[0]), np.uint8)
    _count(np.ascontiguousarray(mine[:, :bands]), np.ascontiguousarray(theirs[:, :bands]), pairs[0], pairs[2], out)
    return out


@strict
def _count(mine, theirs, rows, others, out):
    """Write to out (p,) how many entries of mine[rows[i]] and theirs[others[i]] are the same, of 255 at most."""
    for i in range(len(out)):
        one, other = mine[rows[i]], theirs[others[i]]
        same = np.uint32(0)
        for j in range(len(one)):
            same += np.uint32(one[j] == other[j])
        out[i] = np.uint8(same)


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
