"""The distance of strings by insertions and deletions alone: both lengths less twice that of the longest common subsequence."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from kinbin.distances.scripts import indel_script
from kinbin.embeddings.landmarks import LINEAR
from kinbin.items.qgrams import GRAMS
from kinbin.native.jit import inline, strict
from kinbin.native.memory import item, set_bits, u64_array
from kinbin.rows.lookup import cutoff_at
from kinbin.spaces.ordered import distance_score, farthest_for, whole_distance_of
from kinbin.spaces.patterns import LAID_OUT, SKETCHED, pattern_of, patterns_at, text_at
from kinbin.spaces.space import Code, Space

__all__ = ["INDEL"]

U64 = np.uint64
_ALL = U64(0xFFFFFFFFFFFFFFFF)


@inline
def _common(patterns, text, n):
    """The length of the longest common subsequence, a bit for each character of the query that is not in it.

    (Hyyrö 2004, "Bit-parallel LCS-length computation revisited", section 3.) Cost: 1 ns a character and word.
    """
    words = patterns.words
    state = u64_array(patterns.state, words)
    state[:] = _ALL
    for t in range(n):
        place = pattern_of(patterns, item(text, t))
        carry = U64(0)
        for k in range(words):
            left, same = state[k], item(patterns.bits, place + k)
            taken = left & same
            total = left + taken
            over = U64(total < left)
            total += carry
            carry = over | U64(total < carry)
            state[k] = total | (left & ~same)
    common = 0
    for k in range(words):
        unused = patterns.length - 64 * k
        mask = _ALL if unused >= 64 else (U64(1) << U64(unused)) - U64(1)
        common += set_bits(~state[k] & mask)
    return common


@strict
def _score(row, nnz, looked_up):
    """The score that stands for the distance of a stored row and the query; 0 if it is less than what is looked for."""
    patterns = patterns_at(looked_up)
    limit = np.int64(min(farthest_for(cutoff_at(looked_up)), 1e9))
    if abs(nnz - patterns.length) > limit:
        return 0.0
    distance = patterns.length + nnz - 2 * _common(patterns, text_at(row, nnz), nnz)
    return distance_score(np.float64(distance)) if distance <= limit else 0.0


@strict
def _sketch_reach(_frame, score):
    """An insertion takes one pair of characters away and puts two in its place; a deletion the other way round."""
    return 3.0 * np.floor(farthest_for(score))


INDEL = Space(
    "indel", "Indel distance", "the least number of insertions and deletions", shapes=False, signed=True,
    code=Code(_score, objects=replace(LAID_OUT, sketch=replace(SKETCHED, reach=_sketch_reach))), printed=whole_distance_of,
    score_of=distance_score.py_func, ascending=True, printed_range=(0.0, math.inf), embeddings=(GRAMS, LINEAR), aligned=indel_script,
)  # fmt: skip
