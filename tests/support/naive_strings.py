"""Distances of strings from their definitions: slow, plain, and nothing of Kinbin is imported."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import NDArray

AWKWARD = (
    "a", "b", "aa", "ab", "ba", "\x00", "\x00a", " ", "abc", "abcd", "日本語", "日本", "😀", "a😀b", "\U0010ffff", "é", "e\u0301",
    "a" * 63, "a" * 64, "a" * 65, "ab" * 32, "ba" * 32, "a" * 127, "a" * 128, "a" * 129, "ab" * 100, "xyz" * 70, "日本語" * 50,
    "".join(map(chr, range(0x4E00, 0x4E00 + 300))), "".join(map(chr, range(32, 127))), "".join(map(chr, range(126, 31, -1))),
)  # fmt: skip
"""Ends of words and blocks, characters on both sides of the table of small ones, many different ones."""


@cache
def levenshtein(left: str, right: str) -> int:
    """By the table of distances of beginnings, row by row."""
    above = list(range(len(right) + 1))
    for i, one in enumerate(left, 1):
        row = [i]
        for j, other in enumerate(right, 1):
            row.append(min(above[j] + 1, row[-1] + 1, above[j - 1] + (one != other)))
        above = row
    return above[-1]


@cache
def damerau(left: str, right: str) -> int:
    """Edits and swaps of neighbours, what lies between these edited as well: by the whole table (Lowrance and Wagner 1975)."""
    far = len(left) + len(right)
    table = {(-1, -1): far}
    for i in range(len(left) + 1):
        table[i, -1], table[i, 0] = far, i
    for j in range(len(right) + 1):
        table[-1, j], table[0, j] = far, j
    last: dict[str, int] = {}
    for i, one in enumerate(left, 1):
        column = 0
        for j, other in enumerate(right, 1):
            row, before = last.get(other, 0), column
            if one == other:
                column = j
            table[i, j] = min(
                table[i - 1, j - 1] + (one != other), table[i, j - 1] + 1, table[i - 1, j] + 1,
                table[row - 1, before - 1] + (i - row - 1) + 1 + (j - before - 1),
            )  # fmt: skip
        last[one] = i
    return table[len(left), len(right)]


@cache
def indel(left: str, right: str) -> int:
    """Insertions and deletions, by the table of distances of beginnings."""
    above = list(range(len(right) + 1))
    for i, one in enumerate(left, 1):
        row = [i]
        for j, other in enumerate(right, 1):
            row.append(above[j - 1] if one == other else min(above[j], row[-1]) + 1)
        above = row
    return above[-1]


@cache
def jaro_winkler(left: str, right: str) -> float:
    """1 less the similarity (Winkler 1990)."""
    reach = max(max(len(left), len(right)) // 2 - 1, 0)
    taken: set[int] = set()
    mine = []
    for i, one in enumerate(left):
        for j in range(max(0, i - reach), min(len(right), i + reach + 1)):
            if j not in taken and right[j] == one:
                taken.add(j)
                mine.append(one)
                break
    if not mine:
        return 1.0
    theirs = [right[j] for j in sorted(taken)]
    swapped = sum(one != other for one, other in zip(mine, theirs, strict=True)) // 2
    similar = (len(mine) / len(left) + len(mine) / len(right) + (len(mine) - swapped) / len(mine)) / 3
    if similar > 0.7:
        begins = 0
        for one, other in zip(left[:4], right[:4], strict=False):
            if one != other:
                break
            begins += 1
        similar += 0.1 * begins * (1 - similar)
    return 1.0 - similar


DISTANCES: dict[str, Callable[[str, str], float]] = {
    "levenshtein": levenshtein, "damerau": damerau, "indel": indel, "jaro_winkler": jaro_winkler,
}  # fmt: skip


def distances(query: str, stored: list[str]) -> NDArray[np.float64]:
    """Of one string to all others."""
    return np.array([levenshtein(query, one) for one in stored], np.float64)


def some_strings(rng: np.random.Generator, count: int, longest: int = 24, letters: str = "abcdé日😀") -> list[str]:
    """Different strings, many of them near others."""
    found: dict[str, None] = {}
    while len(found) < count:
        if found and rng.random() < 0.7:
            text = list(list(found)[rng.integers(len(found))])
            for _ in range(int(rng.integers(1, 4))):
                text.insert(int(rng.integers(len(text) + 1)), letters[rng.integers(len(letters))])
                if len(text) > longest:
                    text.pop(int(rng.integers(len(text))))
        else:
            text = [letters[i] for i in rng.integers(0, len(letters), rng.integers(1, longest + 1))]
        found["".join(text)] = None
    return list(found)
