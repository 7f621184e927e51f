"""Strings as counts of their q-grams: q characters in a row, with marks at both ends, some of them with the part of the string they lie in.

Each edit changes at most q of the q-grams of a string (Ukkonen 1992, "Approximate string-matching with q-grams and maximal matches"),
so near strings share most of theirs. A gram with its place tells where; strings over few letters are alike without.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kinbin.items.embedding import Embedding, Measure, Sample, Settings
from kinbin.items.kind import Form
from kinbin.native.jit import owning
from kinbin.rows.rows import Rows

__all__ = ["GRAMS", "gram_rows"]

U64 = np.uint64
_MIX, _STEP = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)
_MARK = U64(0xFFFFFFFF)
"""What stands before the first character and behind the last."""
_SHORT = 12.0
"""Strings of no more characters in the median have few grams: where these lie says little more."""
_PART = 8
"""Characters of a part of a string."""


@owning
def gram_rows(indptr, values, lengths, parts):
    """Counts of q-grams: (row starts, features, counts) as canonical rows have them. Cost: some 25 ns a gram.

    values: of the rows of strings. lengths (s,): q of each sort of grams; parts (s,): the characters of the parts whose number
    counts as well, 0: none does. Features are 63-bit hashes: two grams that share one only make two strings a little more alike.
    """
    n = len(indptr) - 1
    most = np.int64(0)
    for s in range(len(lengths)):
        most += indptr[n] + n * (lengths[s] - 1)
    features, counts = np.empty(most, np.uint64), np.empty(most, np.float32)
    starts = np.zeros(n + 1, np.int64)
    kept = np.int64(0)
    for i in range(n):
        first, past = indptr[i], indptr[i + 1]
        begun = kept
        for s in range(len(lengths)):
            q, part = lengths[s], parts[s]
            for t in range(first - q + 1, past):
                key = U64(q) * _STEP
                for x in range(t, t + q):
                    letter = U64(np.int64(values[x])) if first <= x < past else _MARK
                    key = (key ^ letter) * _MIX
                    key ^= key >> U64(29)
                if part > 0:
                    key = (key ^ U64(1 + (t - first + q) // part)) * _STEP
                    key ^= key >> U64(31)
                features[kept] = (key * _MIX) >> U64(1)
                kept += 1
        features[begun:kept].sort()
        last = begun - 1
        for x in range(begun, kept):
            if last >= begun and features[x] == features[last]:
                counts[last] += np.float32(1.0)
            else:
                last += 1
                features[last], counts[last] = features[x], np.float32(1.0)
        kept = last + 1
        starts[i + 1] = kept
    return starts, features[:kept].copy(), counts[:kept].copy()


@dataclass(frozen=True, slots=True, eq=False)
class _Grams:
    """Sorts of grams: their lengths, and those of the parts of a string."""

    lengths: NDArray[np.int64]
    parts: NDArray[np.int64]
    dim: int | None = None

    def rows(self, objects: Rows) -> Rows:
        """Counts of grams."""
        starts, features, counts = gram_rows(objects.indptr, objects.values, self.lengths, self.parts)
        return Rows(starts, features, counts, np.add.reduceat(counts.astype(np.float64), starts[:-1]) if len(objects) else np.empty(0))


def _choose(sample: Sample) -> Settings:
    """All grams of up to three characters; of longer strings the same with their parts besides."""
    plain = [[1, 0], [2, 0], [3, 0]]
    if float(np.median(np.diff(sample.objects.indptr))) <= _SHORT:
        return {"grams": plain}
    return {"grams": plain + [[q, _PART] for q, _ in plain]}


def _embedder(settings: Settings, _form: Form, _measure: Measure) -> _Grams:
    sorts = np.array(settings["grams"], np.int64).reshape(-1, 2)
    return _Grams(sorts[:, 0].copy(), sorts[:, 1].copy())


GRAMS = Embedding("grams", "minmax", _choose, _embedder)
