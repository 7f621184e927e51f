"""The Damerau-Levenshtein distance of strings: as Levenshtein's, and two neighbours that change places count once.

It is a metric: what lies between two characters that changed places may be edited as well. (Where that is forbidden, "optimal string
alignment", it is none.)
"""

# mypy: disable-error-code="no-untyped-def,assignment"
from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from kinbin.distances.scripts import damerau_script
from kinbin.embeddings.landmarks import LINEAR
from kinbin.items.qgrams import GRAMS
from kinbin.native.jit import inline, strict
from kinbin.native.memory import f32_array, i64_array, item, u64_at
from kinbin.rows.lookup import cutoff_at, work_at
from kinbin.rows.rows import Rows
from kinbin.spaces.ordered import distance_score, farthest_for, whole_distance_of
from kinbin.spaces.patterns import LAID_OUT, SKETCHED, pattern_of, patterns_at, patterns_end, text_at
from kinbin.spaces.space import Code, Objects, Space

__all__ = ["DAMERAU"]

U64 = np.uint64
_prepare_patterns = LAID_OUT.prepare


@inline
def _beyond(looked_up):
    """Where the room begins that patterns leave, and how many characters and patterns the query has."""
    work = work_at(looked_up)
    patterns = patterns_at(looked_up)
    count = np.int64(u64_at(work + U64(16)))
    return patterns_end(patterns, count), patterns.length, count


@strict
def _prepare(values, m, looked_up):
    """The patterns, and behind them the pattern of each character."""
    _prepare_patterns(values, m, looked_up)
    patterns = patterns_at(looked_up)
    place, _, _ = _beyond(looked_up)
    query, text = i64_array(place, m), f32_array(values, m)
    for t in range(m):
        query[t] = pattern_of(patterns, text[t])
    return 0.0


def _room(rows: Rows) -> int:
    """Besides the patterns: the query's, the last place of each, and three rows of the table of distances."""
    return LAID_OUT.room(rows) + 6 * rows.most_nonzeros + 64


@inline
def _distance(patterns, looked_up, text, n):
    """By rows of the table of distances of beginnings (Zhao and Sahni 2020, "String correction using the Damerau-Levenshtein distance").

    The outer loop is the stored row's. Cost: 1 to 2 ns for each pair of characters.
    """
    place, m, count = _beyond(looked_up)
    query = i64_array(place, m)
    last = i64_array(place + U64(8 * m), count)
    place += U64(8 * (m + count))
    far = max(m, n) + 1
    # Each begins one place before the table's first column.
    now, above = i64_array(place, m + 2), i64_array(place + U64(8 * (m + 2)), m + 2)
    corner = i64_array(place + U64(16 * (m + 2)), m + 2)
    last[:], above[:], corner[:] = -1, far, far
    now[0] = far
    for j in range(m + 1):
        now[j + 1] = j
    for i in range(1, n + 1):
        now, above = above, now
        letter = pattern_of(patterns, item(text, i - 1))
        last_column, before, changed = np.int64(-1), now[1], far
        now[1] = i
        for j in range(1, m + 1):
            same = query[j - 1] == letter
            least = min(above[j] + (0 if same else 1), now[j] + 1, above[j + 1] + 1)
            if same:
                last_column, corner[j + 1], changed = j, above[j - 1], before
            else:
                row = last[query[j - 1] // patterns.words]
                if j - last_column == 1:
                    least = min(least, corner[j + 1] + i - row)
                elif i - row == 1:
                    least = min(least, changed + j - last_column)
            before = now[j + 1]
            now[j + 1] = least
        last[letter // patterns.words] = i
    return now[m + 1]


@strict
def _score(row, nnz, looked_up):
    """The score that stands for the distance of a stored row and the query; 0 if it is less than what is looked for."""
    patterns = patterns_at(looked_up)
    limit = np.int64(min(farthest_for(cutoff_at(looked_up)), 1e9))
    if abs(nnz - patterns.length) > limit:
        return 0.0
    distance = _distance(patterns, looked_up, text_at(row, nnz), nnz)
    return distance_score(np.float64(distance)) if distance <= limit else 0.0


@strict
def _sketch_reach(_frame, score):
    """Two neighbours that change places take three pairs of characters away, and put three in their place."""
    return 6.0 * np.floor(farthest_for(score))


def _row_ns(characters: float) -> float:
    """Measured."""
    return 20.0 + 1.5 * characters * characters


_OBJECTS = Objects(_prepare, _room, _row_ns, replace(SKETCHED, reach=_sketch_reach))
DAMERAU = Space(
    "damerau", "Damerau-Levenshtein distance", "the least number of insertions, deletions, replacements and swaps of neighbours",
    shapes=False, signed=True, code=Code(_score, objects=_OBJECTS), printed=whole_distance_of, score_of=distance_score.py_func,
    ascending=True, printed_range=(0.0, math.inf), embeddings=(GRAMS, LINEAR), aligned=damerau_script,
)  # fmt: skip
