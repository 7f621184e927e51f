"""Choosing codes for some rows: how many bytes, which features share one, and what a step of a byte stands for.

Chosen by measured error: of the widths that a row's features can be folded into, the smallest whose nearest
codes hold the true nearest rows of a sample.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinbin.links._codekernel import LANES, MOST_BYTES, SLOTS, encode, merge_buckets, slot_weights
from kinbin.vectors.rows import Rows

__all__ = ["Coder", "choose_coder", "slots_for"]

WIDTHS = (64, 128, 192, 256, 384, 512, 768, MOST_BYTES)
"""Bytes a code may have."""
ENOUGH = 0.99
"""The quality (`Coder.recall`) at which a code is not made wider."""
_MERGED_SLOTS = 1024
"""Rarer slots beyond so many are pooled at random before slots are merged by what they lose."""
_PAIRS = 768
_UNSEEN = 32
"""One bucket in so many is kept for features that a sample does not show."""
_SAMPLE_ROWS = 8_192
_SAMPLE_CELLS = 1 << 23
"""Rows times slots of the sample."""
_SAMPLE_QUERIES = 48
_NEAREST = 10
_CLIPS = 5


@dataclass(frozen=True, slots=True, eq=False)
class Coder:
    """How rows become codes."""

    width: int
    """Bytes a code."""
    hashed: bool
    """Whether features are hashed into slots first."""
    buckets: NDArray[np.uint16]
    """(slots,) the byte of each slot."""
    step: float
    """What one unit of a byte stands for, of a row that sums to 1."""
    offset: float
    """The byte that stands for nothing: 0, or 128 where values are signed."""
    recall: float
    """Of sampled rows, the share of the 100 nearest that are among the 120 nearest codes: the measured quality of the code."""

    def encode(self, rows: Rows) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
        """Codes (n, width) and errors (n,) of n rows."""
        codes = np.empty((len(rows), self.width), np.uint8)
        errors = np.empty(len(rows), np.float32)
        encode(rows.indptr, rows.features, rows.values, rows.norms, self.hashed, self.buckets, self.step, self.offset, codes, errors)
        return codes, errors

    def to_header(self) -> dict[str, Any]:
        """All but the buckets, as JSON."""
        return {"width": self.width, "hashed": self.hashed, "step": self.step, "offset": self.offset, "recall": round(self.recall, 4)}

    @classmethod
    def from_header(cls, data: dict[str, Any], buckets: NDArray[np.uint16]) -> Coder:
        """From JSON and the buckets."""
        return cls(data["width"], data["hashed"], buckets, data["step"], data["offset"], data["recall"])


def slots_for(dim: int | None) -> tuple[bool, int]:
    """Whether features of rows of this dimension are hashed into slots, and how many slots there are."""
    return (True, SLOTS) if dim is None or dim > SLOTS else (False, dim)


def choose_coder(rows: Rows, dim: int | None, neighbourhoods: tuple[Rows, int] | None = None) -> Coder:
    """Codes for rows like these (a sample of what is to be encoded; some thousands are enough).

    neighbourhoods: rows in groups of so many: a row, and its nearest of *all* rows in order. Codes are judged by them; without
    them by the nearest rows of the sample, which are farther apart, and so easier to tell, than among many rows.
    Cost: about half a second; 2 s for sparse rows of many features.
    """
    hashed, count = slots_for(dim)
    weights = np.zeros((min(len(rows), _SAMPLE_ROWS, _SAMPLE_CELLS // count), count), np.float32)
    sample = rows.slice(0, len(weights))
    slot_weights(sample.indptr, sample.features, sample.values, sample.norms, True, hashed, weights)
    rng = np.random.default_rng(len(rows))
    truth: _Sample | _Groups
    if neighbourhoods is None:
        truth = _Sample(weights, rng)
    else:
        near, size = neighbourhoods
        judged = np.zeros((len(near), count), np.float32)
        slot_weights(near.indptr, near.features, near.values, near.norms, True, hashed, judged)
        truth = _Groups(judged, size)
    best: tuple[float, NDArray[np.uint16], int, float, float] | None = None
    for width, buckets in _foldings(weights, rng):
        folded = _fold(truth.weights, buckets, width)
        found, step, offset = max((truth.recall(_round(folded, *scale)), *scale) for scale in _scales(_fold(weights, buckets, width)))
        if best is None or found > best[0] + 0.002:
            best = found, buckets, width, step, offset
        if found >= ENOUGH:
            break
    assert best is not None
    found, buckets, width, step, offset = best
    return Coder(width, hashed, buckets, step, offset, found)


def _foldings(weights: NDArray[np.float32], rng: np.random.Generator) -> list[tuple[int, NDArray[np.uint16]]]:
    """(width, bucket of each slot) for every width that saves something, ascending."""
    count = weights.shape[1]
    whole = -(-count // LANES) * LANES
    widths = [width for width in WIDTHS if width < count]
    pooled = _pool_rare(weights, rng)
    out: list[tuple[int, NDArray[np.uint16]]] = []
    if widths:
        pools = int(pooled.max()) + 1
        some = _fold(weights[: 4 * _PAIRS], pooled, pools)
        left, right = rng.integers(0, len(some), (2, _PAIRS))
        differences = some[left] - some[right]
        seen = np.flatnonzero(differences.any(axis=0))
        # What the sample's pairs do not show may come: it has some buckets of its own, or it would blur the others.
        spare = {width: min(pools - len(seen), max(1, width // _UNSEEN)) for width in widths}
        merged = [width for width in widths if width - spare[width] < len(seen)]
        table = np.empty((len(merged), len(seen)), np.uint16)
        merge_buckets(np.ascontiguousarray(differences[:, seen].T), np.array([w - spare[w] for w in merged[::-1]], np.int64), table)
        for width in widths:
            buckets = width - 1 - rng.permutation(pools) % max(1, spare[width])
            buckets[seen] = table[merged[::-1].index(width)] if width in merged else np.arange(len(seen))
            out.append((width, buckets.astype(np.uint16)[pooled]))
    if whole <= WIDTHS[-1]:
        out.append((whole, np.arange(count, dtype=np.uint16)))
    return out


def _pool_rare(weights: NDArray[np.float32], rng: np.random.Generator) -> NDArray[np.uint16]:
    """Slots pooled into at most _MERGED_SLOTS: the heavier half have one each, the others share the rest at random."""
    count = weights.shape[1]
    if count <= _MERGED_SLOTS:
        return np.arange(count, dtype=np.uint16)
    half = _MERGED_SLOTS // 2
    pool = np.empty(count, np.uint16)
    order = np.argsort(-np.abs(weights).sum(axis=0), kind="stable")
    pool[order[:half]] = np.arange(half)
    pool[order[half:]] = half + rng.permutation(count - half) % (_MERGED_SLOTS - half)
    return pool


def _fold(weights: NDArray[np.float32], buckets: NDArray[np.uint16], width: int) -> NDArray[np.float32]:
    """(n, width) sums of the slots of each bucket."""
    order = np.argsort(buckets, kind="stable")
    ranked = buckets[order]
    starts = np.flatnonzero(np.append(True, ranked[1:] != ranked[:-1]))
    out = np.zeros((len(weights), width), np.float32)
    out[:, ranked[starts]] = np.add.reduceat(weights[:, order], starts, axis=1)
    return out


def _scales(folded: NDArray[np.float32]) -> list[tuple[float, float]]:
    """(step, offset) to choose from: a larger step rounds more, a smaller one cuts more of the largest values off."""
    signed = bool(folded.min() < 0)
    levels, offset = (127, 128.0) if signed else (255, 0.0)
    most = float(np.abs(folded).max()) or 1.0
    return [(most / levels * 0.5 ** (i / 2), offset) for i in range(_CLIPS)]


def _round(folded: NDArray[np.float32], step: float, offset: float) -> NDArray[np.float32]:
    """The codes, as float32."""
    codes: NDArray[np.float32] = np.clip(np.rint(folded / np.float32(step)) + np.float32(offset), 0, 255)
    return codes


class _Groups:
    """Rows with their nearest of all rows, to judge codes by."""

    def __init__(self, weights: NDArray[np.float32], size: int) -> None:
        self.weights = weights
        self._size = size

    def recall(self, codes: NDArray[np.float32]) -> float:
        """Share of the nearer half of each group among as many nearest codes, and a fifth more.

        Not of the ten nearest: stored rows often have a few near doubles, which any code finds. A query has none; its neighbours
        are a crowd like the one behind the doubles.
        """
        codes = codes.reshape(len(codes) // self._size, self._size, -1)
        nearest = self._size // 2
        if not nearest:
            return 1.0
        distance = np.abs(codes[:, 1:] - codes[:, :1]).sum(axis=2)
        worst = np.sort(distance, axis=1)[:, min(nearest + nearest // 5, self._size - 1) - 1 :][:, :1]
        return float((distance[:, :nearest] <= worst).mean())


class _Sample:
    """The ten nearest rows of some sampled rows, to judge codes by."""

    def __init__(self, weights: NDArray[np.float32], rng: np.random.Generator) -> None:
        self.weights = weights
        self._picks = rng.permutation(len(weights))[:_SAMPLE_QUERIES]
        self._nearest = [self._closest(weights, pick, _NEAREST) for pick in self._picks]

    @staticmethod
    def _closest(rows: NDArray[np.float32], pick: int, k: int) -> NDArray[np.int64]:
        distance = np.abs(rows - rows[pick]).sum(axis=1)
        distance[pick] = np.inf
        k = min(k, len(rows) - 1)
        return np.argpartition(distance, k - 1)[:k] if k else np.empty(0, np.int64)

    def recall(self, codes: NDArray[np.float32]) -> float:
        """Share of the nearest rows that are among twice as many nearest codes."""
        shares = [
            np.isin(truth, self._closest(codes, pick, 2 * _NEAREST)).mean()
            for pick, truth in zip(self._picks, self._nearest, strict=True)
            if len(truth)
        ]
        return float(np.mean(shares)) if shares else 1.0
