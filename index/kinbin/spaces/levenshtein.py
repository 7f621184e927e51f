"""The Levenshtein distance of strings: the least number of characters inserted, deleted or replaced that makes one of the other."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

import numpy as np

from kinbin.distances.scripts import levenshtein_script
from kinbin.embeddings.landmarks import LINEAR
from kinbin.items.qgrams import GRAMS
from kinbin.native.jit import inline, strict
from kinbin.native.memory import item, u64_array
from kinbin.rows.lookup import cutoff_at
from kinbin.spaces.ordered import distance_score, farthest_for, whole_distance_of
from kinbin.spaces.patterns import LAID_OUT, pattern_of, patterns_at, text_at
from kinbin.spaces.space import Code, Space

__all__ = ["LEVENSHTEIN"]

U64 = np.uint64
_ONE, _ALL = U64(1), U64(0xFFFFFFFFFFFFFFFF)


@inline
def _one_word(patterns, text, n, limit):
    """The distance of a query of at most 64 characters; beyond `limit`, any number that is. Cost: 4 to 5 ns a character.

    Each word holds a column of differences between neighbours of the table of distances (Myers 1999, figure 6).
    """
    rising, falling = _ALL, U64(0)
    distance = patterns.length
    last = U64(patterns.length - 1)
    for t in range(n):
        same = item(patterns.bits, pattern_of(patterns, item(text, t)))
        vertical = same | falling
        horizontal = (((same & rising) + rising) ^ rising) | same
        up = falling | ~(horizontal | rising)
        down = rising & horizontal
        distance += np.int64((up >> last) & _ONE) - np.int64((down >> last) & _ONE)
        # Each character that is left takes 1 off at most.
        if distance - (n - 1 - t) > limit:
            return limit + 1
        up = (up << _ONE) | _ONE
        rising = (down << _ONE) | ~(vertical | up)
        falling = up & vertical
    return distance


@inline
def _many_words(patterns, text, n, limit):
    """The same of longer queries, word by word; the horizontal differences are handed on (Hyyrö 2003, section 4)."""
    words = patterns.words
    state = u64_array(patterns.state, 2 * words)
    for k in range(words):
        state[2 * k], state[2 * k + 1] = _ALL, U64(0)
    distance = patterns.length
    last = U64((patterns.length - 1) % 64)
    for t in range(n):
        place = pattern_of(patterns, item(text, t))
        up_in, down_in = _ONE, U64(0)
        for k in range(words):
            same = item(patterns.bits, place + k)
            rising, falling = state[2 * k], state[2 * k + 1]
            vertical = same | falling
            same |= down_in
            horizontal = (((same & rising) + rising) ^ rising) | same
            up = falling | ~(horizontal | rising)
            down = rising & horizontal
            if k == words - 1:
                distance += np.int64((up >> last) & _ONE) - np.int64((down >> last) & _ONE)
            up_out, down_out = up >> U64(63), down >> U64(63)
            up = (up << _ONE) | up_in
            down = (down << _ONE) | down_in
            up_in, down_in = up_out, down_out
            state[2 * k] = down | ~(vertical | up)
            state[2 * k + 1] = up & vertical
        if distance - (n - 1 - t) > limit:
            return limit + 1
    return distance


@strict
def _score(row, nnz, looked_up):
    """The score that stands for the distance of a stored row and the query; 0 if it is less than what is looked for."""
    patterns = patterns_at(looked_up)
    text = text_at(row, nnz)
    limit = np.int64(min(farthest_for(cutoff_at(looked_up)), 1e9))
    if abs(nnz - patterns.length) > limit:
        return 0.0
    distance = _one_word(patterns, text, nnz, limit) if patterns.words == 1 else _many_words(patterns, text, nnz, limit)
    return distance_score(np.float64(distance)) if distance <= limit else 0.0


LEVENSHTEIN = Space(
    "levenshtein", "Levenshtein distance", "the least number of insertions, deletions and replacements", shapes=False, signed=True,
    code=Code(_score, objects=LAID_OUT), printed=whole_distance_of, score_of=distance_score.py_func,
    ascending=True, printed_range=(0.0, math.inf), embeddings=(GRAMS, LINEAR), aligned=levenshtein_script,
)  # fmt: skip
