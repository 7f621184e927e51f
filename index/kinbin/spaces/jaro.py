"""The Jaro-Winkler distance of strings: 1 less their similarity by characters that are about in the same places, and by how they begin.

(Winkler 1990, "String comparator metrics and enhanced decision rules in the Fellegi-Sunter model of record linkage".)
"""

# mypy: disable-error-code="no-untyped-def,assignment"
from __future__ import annotations

import numpy as np

from kinbin.distances.scripts import jaro_winkler_matches
from kinbin.items.qgrams import GRAMS
from kinbin.native.jit import inline, strict
from kinbin.native.memory import f32_array, item, u8_array, u64_array
from kinbin.rows.lookup import work_at
from kinbin.rows.rows import Rows
from kinbin.spaces.ordered import distance_of, distance_score
from kinbin.spaces.patterns import text_at
from kinbin.spaces.space import Code, Objects, Space

__all__ = ["JARO_WINKLER"]

U64 = np.uint64
_LONGEST = 16_384
"""Characters of a stored string (limit "string_length")."""
_PREFIX, _WEIGHT, _LEAST = 4, 0.1, 0.7
"""So many characters at the beginning count, each so much of what is left, where strings are so similar without."""


@strict
def _prepare(values, m, looked_up):
    """Where the query is, and its length."""
    head = u64_array(work_at(looked_up), 2)
    head[0], head[1] = U64(values), U64(m)
    return 0.0


def _room(rows: Rows) -> int:
    """Marks of the characters of both strings."""
    return 2 + rows.most_nonzeros // 8 + _LONGEST // 8 + 2


@inline
def _jaro(query, m, text, n, marks):
    """Mean of the shares of characters that are matched, in either string, and of these that are in order."""
    mine, theirs = u8_array(marks, m), u8_array(marks + U64((m + 7) // 8 * 8), n)
    mine[:], theirs[:] = np.uint8(0), np.uint8(0)
    reach = max(max(m, n) // 2 - 1, 0)
    matched = 0
    for i in range(m):
        for j in range(max(0, i - reach), min(n, i + reach + 1)):
            if theirs[j] == 0 and item(text, j) == query[i]:
                mine[i], theirs[j] = np.uint8(1), np.uint8(1)
                matched += 1
                break
    if matched == 0:
        return 0.0
    swapped, j = 0, 0
    for i in range(m):
        if mine[i] != 0:
            while theirs[j] == 0:
                j += 1
            swapped += np.int64(item(text, j) != query[i])
            j += 1
    return (matched / m + matched / n + (matched - swapped // 2) / matched) / 3.0


@strict
def _score(row, nnz, looked_up):
    """The score that stands for the distance of a stored row and the query. Cost: 1 ns for each pair of characters in reach."""
    work = work_at(looked_up)
    head = u64_array(work, 2)
    m = np.int64(head[1])
    if nnz > _LONGEST:
        return np.nan
    query, text = f32_array(head[0], m), text_at(row, nnz)
    similarity = _jaro(query, m, text, nnz, work + U64(16))
    if similarity > _LEAST:
        begins = 0
        while begins < min(_PREFIX, m, nnz) and query[begins] == item(text, begins):
            begins += 1
        similarity += begins * _WEIGHT * (1.0 - similarity)
    return distance_score(max(1.0 - similarity, 0.0))


def _row_ns(characters: float) -> float:
    """Measured."""
    return 30.0 + 0.6 * characters * characters


JARO_WINKLER = Space(
    "jaro_winkler", "Jaro-Winkler distance", "1 − Jaro-Winkler similarity, four characters at the beginning weigh 0.1 each", shapes=False,
    signed=True, code=Code(_score, objects=Objects(_prepare, _room, _row_ns)), printed=distance_of, score_of=distance_score.py_func,
    ascending=True, printed_range=(0.0, 1.0), embeddings=(GRAMS,), aligned=jaro_winkler_matches,
)  # fmt: skip
