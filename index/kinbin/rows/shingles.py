"""Texts as bags of shingles: runs of neighbouring words or characters, whose share in common is how alike two texts are."""

from __future__ import annotations

import unicodedata
from collections import Counter

from kinbin.errors import InvalidInput

__all__ = ["normalised_words", "shingles"]


def shingles(text: str, *, words: int | None = None, characters: int | None = None) -> dict[str, int]:
    """The runs of so many words, or of so many characters, of a text with their counts: a vector of tokens, to add or query by.

    Exactly one of `words` and `characters` is given. First the text is made alike where it reads alike: Unicode NFKC and
    case folding (full-width letters, ligatures and capitals become plain small letters). A word is what stands between white
    space, without the punctuation around it ("fox." is "fox", "don't" and "c++" stay); words are joined by one space.
    Characters are code points, white space counts as one space, and punctuation stays. A text of fewer words or characters
    than asked for is one shingle. `set(shingles(...))` leaves the counts out.

    Raises:
        InvalidInput: code "bad_parameter"; the text is empty, too, if it has no word (or only white space) in it.

    Usage: `collection.add(["a"], [kinbin.shingles("The quick brown fox", words=2)])`
    """
    length = _length(words, characters)
    if not isinstance(text, str):
        raise InvalidInput.of("bad_parameter", f"text is a string, this is {type(text).__name__}", field="text")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidInput.of("bad_parameter", "text holds a lone surrogate, which is no character", field="text") from None
    parts = normalised_words(text, bare=words is not None)
    if not parts:
        what = "character" if words is None else "word"
        raise InvalidInput.of("bad_parameter", f"text has no {what} in it; leave it out, since nothing is similar to it", field="text")
    if words is None:
        plain = " ".join(parts)
        return dict(Counter(plain[start : start + length] for start in range(max(1, len(plain) - length + 1))))
    return dict(Counter(" ".join(parts[start : start + length]) for start in range(max(1, len(parts) - length + 1))))


def normalised_words(text: str, *, bare: bool) -> list[str]:
    """What stands between white space in a text that was made alike where it reads alike. bare: without the punctuation around it."""
    parts = _alike(text).split()
    return [word for word in map(_bare, parts) if word] if bare else parts


def _length(words: object, characters: object) -> int:
    if (words is None) == (characters is None):
        raise InvalidInput.of("bad_parameter", "shingles takes either words or characters, as words=3 or characters=5", field="words")
    name, value = ("characters", characters) if words is None else ("words", words)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InvalidInput.of("bad_parameter", f"{name} is a whole number from 1 on", field=name)
    return value


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
