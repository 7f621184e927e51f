"""The sets of shingles of many texts: those of `rows.shingles`, as rows whose values are 1.

Texts of ASCII alone, which most are, are normalised, cut and hashed in machine code; others are normalised in Python first. What is cut by
the rules of Unicode is normalised and cut first, whatever it holds, and hashed part by part. A shingle is a 63-bit hash of its words or
characters, so that two different ones are taken for one with probability 1e-19.
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator"
from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np

from kinbin.errors import InvalidInput
from kinbin.hashing.arithmetic import GAMMA, mix64
from kinbin.native.jit import inline, owning
from kinbin.parameters import whole
from kinbin.rows.rows import Rows
from kinbin.rows.segmentation import DISTRIBUTION, SPACES, UNICODE, check_segments
from kinbin.rows.shingles import parts_of

__all__ = ["Shingler"]

_SPACE, _PUNCTUATION = 1, 2
_KINDS = np.zeros(128, np.uint8)
"""Of ASCII: white space as `str.split` sees it, and punctuation (Unicode category P)."""
for _code in range(128):
    _KINDS[_code] = _SPACE if chr(_code).isspace() else _PUNCTUATION if unicodedata.category(chr(_code))[0] == "P" else 0
_MOST = 1_000_000
_BREAK = "\n"
"""Between parts that were cut before: in none of them, since white space is a space in normalised text, and a word holds none."""
_BREAKS = np.zeros(128, np.uint8)
_BREAKS[ord(_BREAK)] = _SPACE
_UPPER_A, _UPPER_Z, _LOWER = np.uint32(65), np.uint32(90), np.uint32(32)


@dataclass(frozen=True, slots=True)
class Shingler:
    """Runs of so many words, or of so many characters, of texts: see `kinbin.shingles`, which specifies them."""

    words: int | None = None
    characters: int | None = None
    segments: str = SPACES

    def __post_init__(self) -> None:
        if (self.words is None) == (self.characters is None):
            raise InvalidInput.of("bad_parameter", "shingles are of words or of characters, as words=3 or characters=5", field="words")
        name, value = ("words", self.words) if self.words is not None else ("characters", self.characters)
        if not 1 <= whole(name, value) <= _MOST:
            raise InvalidInput.of("bad_parameter", f"{name} is a whole number from 1 to {_MOST:,}", field=name)
        check_segments(self.segments)

    @property
    def told(self) -> dict[str, Any]:
        """What makes other shingles of the same texts, as plain data: the version of the package, too, where it cuts them."""
        cut = {} if self.segments == SPACES else {"segments": f"{self.segments}, {DISTRIBUTION} {version(DISTRIBUTION)}"}
        return {"words": self.words, "characters": self.characters, **cut}

    def rows(self, texts: Sequence[str]) -> Rows:
        """The sets of distinct shingles, in order. A text without a word (or with white space only) is a row without a feature.

        Cost: 8 ns a character of ASCII texts, 300 ns of others; by the rules of Unicode 20 ns a character of words of ASCII, 80 of
        characters, 300 of Han. Memory: 20 bytes a character, 40 where parts of one character are cut by these rules.

        Raises:
            InvalidInput: a text holds a lone surrogate, and is to be cut by the rules of Unicode.
        """
        plain = np.fromiter((text.isascii() and not self._cuts_first for text in texts), np.bool_, len(texts))
        listed = [text if ascii_ else self._normalised(text) for text, ascii_ in zip(texts, plain.tolist(), strict=True)]
        bounds = np.zeros(len(texts) + 1, np.int64)
        np.cumsum(np.fromiter(map(len, listed), np.int64, len(texts)), out=bounds[1:])
        points = np.frombuffer("".join(listed).encode("utf-32-le", "surrogatepass"), np.uint32)
        indptr = np.zeros(len(texts) + 1, np.int64)
        features = np.empty(len(points) + 1, np.uint64)
        work = np.empty(int(np.diff(bounds).max(initial=0)) + 1, np.uint64)
        length = self.words or self.characters
        parted, kinds = self.words is not None or self._cuts_first, _BREAKS if self._cuts_first else _KINDS
        _shingle((points, bounds), length, parted, kinds, work, indptr, features)
        count = int(indptr[-1])
        return Rows(indptr, features[:count].copy(), np.ones(count, np.float32), np.diff(indptr).astype(np.float64))

    @property
    def _cuts_first(self) -> bool:
        return self.segments == UNICODE

    def _normalised(self, text: str) -> str:
        parts = parts_of(text, by_words=self.words is not None, segments=self.segments)
        return parts if isinstance(parts, str) else (_BREAK if self._cuts_first else " ").join(parts)


@inline
def _kind(kinds, point):
    return kinds[point] if point < np.uint32(128) else np.uint8(0)


@inline
def _small(point):
    return point | _LOWER if _UPPER_A <= point <= _UPPER_Z else point


@inline
def _mixed(state, point):
    """The state of a hash with one more character."""
    state = (state ^ np.uint64(point)) * GAMMA
    return state ^ (state >> np.uint64(29))


@inline
def _words_of(points, kinds, work):
    """Hashes of the words of a text, in order. Returns how many."""
    count = 0
    i = 0
    n = len(points)
    while i < n:
        while i < n and _kind(kinds, points[i]) == _SPACE:
            i += 1
        start = i
        while i < n and _kind(kinds, points[i]) != _SPACE:
            i += 1
        stop = i
        while start < stop and _kind(kinds, points[start]) == _PUNCTUATION:
            start += 1
        while stop > start and _kind(kinds, points[stop - 1]) == _PUNCTUATION:
            stop -= 1
        if start < stop:
            state = GAMMA
            for x in range(start, stop):
                state = _mixed(state, _small(points[x]))
            work[count] = mix64(state)
            count += 1
    return count


@inline
def _characters_of(points, kinds, work):
    """The characters of a text, white space being one space. Returns how many."""
    count = 0
    waiting = False
    for point in points:
        if _kind(kinds, point) == _SPACE:
            waiting = count > 0
            continue
        if waiting:
            work[count] = np.uint64(32)
            count += 1
            waiting = False
        work[count] = np.uint64(_small(point))
        count += 1
    return count


@owning
def _shingle(texts, length, by_words, kinds, work, indptr, features):
    """Write the distinct shingles of each text, ascending. texts: code points, and where each text begins. kinds: what parts them.

    work: as many as the longest text has, and one; features: as many as all have. In normalised texts the only white space is a space.
    """
    points, bounds = texts
    place = 0
    for i in range(len(bounds) - 1):
        text = points[bounds[i] : bounds[i + 1]]
        count = _words_of(text, kinds, work) if by_words else _characters_of(text, kinds, work)
        first = place
        for start in range(max(min(count, 1), count - length + 1)):
            state = GAMMA
            for x in range(start, min(start + length, count)):
                state = mix64(state ^ work[x]) if by_words else _mixed(state, work[x])
            features[place] = mix64(state) >> np.uint64(1)
            place += 1
        found = features[first:place]
        found.sort()
        kept = min(1, place - first)
        for x in range(1, place - first):
            if found[x] != found[kept - 1]:
                found[kept] = found[x]
                kept += 1
        place = first + kept
        indptr[i + 1] = place
