"""Edit scripts of strings: the fewest changes that make the item's string of the query's, and what Jaro-Winkler matches.

Strings are arrays of numbers, one a character. The scripts cost what the distances of `kinbin.spaces` are, by their definitions.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kinbin.distances.alignment import MOST_CELLS, MOST_SLOW_CELLS, Alignment, Pair, Values, unaligned

__all__ = ["damerau_script", "indel_script", "jaro_winkler_matches", "levenshtein_script"]

_PREFIX, _WEIGHT, _LEAST = 4, 0.1, 0.7
"""Of Jaro-Winkler, as in `spaces.jaro`."""


def levenshtein_script(query: Values, item: Values, distance: float) -> Alignment:
    """Insertions, deletions and replacements, each 1. distance: what is told of strings too long to be aligned.

    (Wagner and Fischer 1974.) Cost: 80 ns a pair of characters at worst, 4 bytes each.
    """
    return _script(query, item, distance, replaces=True)


def indel_script(query: Values, item: Values, distance: float) -> Alignment:
    """The same without replacements."""
    return _script(query, item, distance, replaces=False)


def _script(query: Values, item: Values, distance: float, *, replaces: bool) -> Alignment:
    if len(query) * len(item) > MOST_CELLS:
        return unaligned(distance, len(query) * len(item), MOST_CELLS)
    table = _table(query, item, 1 if replaces else 2)
    pairs: list[Pair] = []
    i, j = len(query), len(item)
    while i or j:
        here = table[i, j]
        if i and j and query[i - 1] == item[j - 1] and here == table[i - 1, j - 1]:
            i, j = i - 1, j - 1
        elif replaces and i and j and here == table[i - 1, j - 1] + 1:
            i, j = i - 1, j - 1
            pairs.append(Pair("replace", i, j, 1.0))
        elif i and here == table[i - 1, j] + 1:
            i -= 1
            pairs.append(Pair("delete", i, None, 1.0))
        else:
            j -= 1
            pairs.append(Pair("insert", None, j, 1.0))
    return Alignment(pairs[::-1])


def _table(query: Values, item: Values, change: int) -> NDArray[np.int32]:
    """(n + 1, m + 1) distances of all beginnings. change: what a pair costs that differs; 2 is as much as a deletion and an insertion."""
    n, m = len(query), len(item)
    steps = np.arange(m + 1, dtype=np.int32)
    table = np.empty((n + 1, m + 1), np.int32)
    table[0] = steps
    for i in range(1, n + 1):
        above, row = table[i - 1], table[i]
        row[0] = i
        row[1:] = np.minimum(above[1:] + 1, above[:-1] + np.where(item == query[i - 1], 0, change))
        # Insertions: the least of all cells to the left, plus the way from there.
        row[:] = np.minimum.accumulate(row - steps) + steps
    return table


def damerau_script(query: Values, item: Values, distance: float) -> Alignment:
    """Insertions, deletions, replacements and swaps of neighbours, between which others may be inserted or deleted; each 1.

    (Lowrance and Wagner 1975.) Cost: 1.5 µs a pair of characters.
    """
    n, m = len(query), len(item)
    if n * m > MOST_SLOW_CELLS:
        return unaligned(distance, n * m, MOST_SLOW_CELLS)
    table, swaps = _swapping_table(query.tolist(), item.tolist())
    pairs: list[Pair] = []
    i, j = n, m
    while i or j:
        here, swap = table[i][j], swaps.get((i, j))
        if i and j and query[i - 1] == item[j - 1] and here == table[i - 1][j - 1]:
            i, j = i - 1, j - 1
        elif i and j and here == table[i - 1][j - 1] + 1:
            i, j = i - 1, j - 1
            pairs.append(Pair("replace", i, j, 1.0))
        elif swap is not None:
            k, p = swap
            # query[k - 1] and query[i - 1] change places, and what stood between them is deleted or inserted.
            pairs += [Pair("delete", x, None, 1.0) for x in range(i - 2, k - 1, -1)]
            pairs += [Pair("insert", None, y, 1.0) for y in range(j - 2, p - 1, -1)]
            i, j = k - 1, p - 1
            pairs.append(Pair("swap", i, j, 1.0))
        elif i and here == table[i - 1][j] + 1:
            i -= 1
            pairs.append(Pair("delete", i, None, 1.0))
        else:
            j -= 1
            pairs.append(Pair("insert", None, j, 1.0))
    return Alignment(pairs[::-1])


def _swapping_table(query: list[float], item: list[float]) -> tuple[list[list[int]], dict[tuple[int, int], tuple[int, int]]]:
    """Distances of all beginnings; and where a swap alone gives one, the places (from 1 on) where its other characters stand."""
    n, m = len(query), len(item)
    table = [[i + j if i == 0 or j == 0 else 0 for j in range(m + 1)] for i in range(n + 1)]
    swaps: dict[tuple[int, int], tuple[int, int]] = {}
    last: dict[float, int] = {}
    for i in range(1, n + 1):
        place = 0
        row, above = table[i], table[i - 1]
        for j in range(1, m + 1):
            k, p = last.get(item[j - 1], 0), place
            same = query[i - 1] == item[j - 1]
            if same:
                place = j
            least = min(above[j - 1] + (not same), row[j - 1] + 1, above[j] + 1)
            if k and p and (swapped := table[k - 1][p - 1] + (i - k - 1) + 1 + (j - p - 1)) < least:
                least, swaps[i, j] = swapped, (k, p)
            row[j] = least
        last[query[i - 1]] = i
    return table, swaps


def jaro_winkler_matches(query: Values, item: Values, distance: float) -> Alignment:
    """The characters that are matched, each of which makes the distance less, and what order and beginning add or take.

    (Winkler 1990, as in `spaces.jaro`.) Cost: 0.1 µs for each pair of characters in reach.
    """
    n, m = len(query), len(item)
    if n * m > MOST_CELLS:
        return unaligned(distance, n * m, MOST_CELLS)
    matched = _matched(query.tolist(), item.tolist())
    if not matched:
        return Alignment([], (("nothing in common", 1.0),))
    count = len(matched)
    in_order = sorted(at for _, at in matched)
    swapped = sum(query[i] != item[j] for (i, _), j in zip(matched, in_order, strict=True)) // 2
    share = 1.0 / n + 1.0 / m
    jaro = (count * share + (count - swapped) / count) / 3.0
    begins = 0
    while jaro > _LEAST and begins < min(_PREFIX, n, m) and query[begins] == item[begins]:
        begins += 1
    kept = 1.0 - begins * _WEIGHT
    pairs = [Pair("match", i, j, -kept * share / 3.0) for i, j in matched]
    # 1 − (J + w (1 − J)) = 1 − w − (1 − w) J
    order = -kept * (count - swapped) / count / 3.0
    return Alignment(pairs, (("nothing in common", 1.0), ("order", order), ("beginning", -begins * _WEIGHT)))


def _matched(query: list[float], item: list[float]) -> list[tuple[int, int]]:
    """Each character of the query with the first equal one of the item in reach that is not matched yet."""
    reach = max(max(len(query), len(item)) // 2 - 1, 0)
    taken = [False] * len(item)
    matched = []
    for i, one in enumerate(query):
        for j in range(max(0, i - reach), min(len(item), i + reach + 1)):
            if not taken[j] and item[j] == one:
                taken[j] = True
                matched.append((i, j))
                break
    return matched
