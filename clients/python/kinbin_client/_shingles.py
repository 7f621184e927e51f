"""Texts as bags of shingles: the same function as the library's, which the client does without."""

from __future__ import annotations

import importlib
import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import Any

from kinbin_client.errors import InvalidArgument, install

__all__ = ["shingles"]


def shingles(text: str, *, words: int | None = None, characters: int | None = None, segments: str = "spaces") -> dict[str, int]:
    """The runs of so many words, or of so many characters, of a text with their counts: a vector of tokens, to add or query by.

    Exactly one of `words` and `characters` is given. First the text is made alike where it reads alike: Unicode NFKC and
    case folding (full-width letters, ligatures and capitals become plain small letters). A word is what stands between white
    space, without the punctuation around it ("fox." is "fox", "don't" and "c++" stay); words are joined by one space.
    Characters are code points, white space counts as one space, and punctuation stays. A text of fewer words or characters
    than asked for is one shingle. `set(shingles(...))` leaves the counts out.

    segments: "unicode" cuts where Unicode Standard Annex 29 says. A word is then a segment with a letter or a number in it ("ét—well" is
    two, "3.14" and "don't" one, "c++" is "c"; of Han, Hiragana and Thai, which no dictionary cuts, each character is one), and a character
    is an extended grapheme cluster: an emoji, a flag or a letter with its marks is never cut. It takes the extra `text`.

    Raises:
        InvalidArgument: the text is empty, too, if it has no word (or only white space) in it.

    Usage: `collection.add(["a"], [kinbin_client.shingles("The quick brown fox", words=2)])`
    """
    length = _length(words, characters)
    library = _library(segments)
    if not isinstance(text, str):
        raise InvalidArgument(f"text is a string, this is {type(text).__name__}", code="bad_parameter")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidArgument("text holds a lone surrogate, which is no character", code="bad_parameter") from None
    parts = _parts(_alike(text), words is not None, library)
    if not parts:
        what = "character" if words is None else "word"
        raise InvalidArgument(f"text has no {what} in it; leave it out, since nothing is similar to it", code="bad_parameter")
    # A part of a string is a run of code points as it is.
    run = str if isinstance(parts, str) else ("" if words is None else " ").join
    return dict(Counter(run(parts[start : start + length]) for start in range(max(1, len(parts) - length + 1))))


def _length(words: object, characters: object) -> int:
    if (words is None) == (characters is None):
        raise InvalidArgument("shingles takes either words or characters, as words=3 or characters=5", code="bad_parameter")
    name, value = ("characters", characters) if words is None else ("words", words)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InvalidArgument(f"{name} is a whole number from 1 on", code="bad_parameter")
    return value


def _library(segments: object) -> Any:
    """What cuts texts by the rules of Unicode; None: they are cut at white space."""
    if not isinstance(segments, str) or segments not in ("spaces", "unicode"):
        raise InvalidArgument('segments is "spaces" or "unicode"', code="bad_parameter")
    if segments == "spaces":
        return None
    try:
        return importlib.import_module("unicode_segmentation_rs")
    except ImportError:
        package = f"unicode-segmentation-rs, which is not installed here: {install('text')}"
        raise InvalidArgument(f'segments="unicode" cuts texts with {package}', code="bad_parameter") from None


def _parts(alike: str, by_words: bool, library: Any) -> Sequence[str]:
    """The words, or the characters, of a text that was made alike. Characters that are code points are a string."""
    if by_words and library is None:
        return [word for word in map(_bare, alike.split()) if word]
    plain = alike if by_words else " ".join(alike.split())
    if library is None:
        return plain
    cut: Sequence[str] = library.unicode_words(plain) if by_words else library.graphemes(plain, True)
    return cut


def _alike(text: str) -> str:
    """NFKC and case folding; folding can undo the normal form, so that is made again."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())


def _bare(word: str) -> str:
    """A word without the punctuation around it."""
    start, stop = 0, len(word)
    while start < stop and unicodedata.category(word[start])[0] == "P":
        start += 1
    while stop > start and unicodedata.category(word[stop - 1])[0] == "P":
        stop -= 1
    return word[start:stop]
