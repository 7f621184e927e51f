"""Texts as bags of shingles: runs of neighbouring words or characters, whose share in common is how alike two texts are."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Sequence

from kinbin.errors import InvalidInput
from kinbin.rows.segmentation import SPACES, UNICODE, check_segments, encodable, unicode_characters, unicode_words

__all__ = ["parts_of", "shingles"]


def shingles(text: str, *, words: int | None = None, characters: int | None = None, segments: str = SPACES) -> dict[str, int]:
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
        InvalidInput: code "bad_parameter"; the text is empty, too, if it has no word (or only white space) in it.

    Usage: `collection.add(["a"], [kinbin.shingles("The quick brown fox", words=2)])`
    """
    length = _length(words, characters)
    check_segments(segments)
    if not isinstance(text, str):
        raise InvalidInput.of("bad_parameter", f"text is a string, this is {type(text).__name__}", field="text")
    parts = parts_of(encodable(text), by_words=words is not None, segments=segments)
    if not parts:
        what = "character" if words is None else "word"
        raise InvalidInput.of("bad_parameter", f"text has no {what} in it; leave it out, since nothing is similar to it", field="text")
    # A part of a string is a run of code points as it is.
    run = str if isinstance(parts, str) else ("" if words is None else " ").join
    return dict(Counter(run(parts[start : start + length]) for start in range(max(1, len(parts) - length + 1))))


def parts_of(text: str, *, by_words: bool, segments: str) -> Sequence[str]:
    """The words, or the characters, of a text that was made alike where it reads alike. Characters that are code points are a string."""
    alike = _alike(text)
    if by_words:
        return unicode_words(alike) if segments == UNICODE else [word for word in map(_bare, alike.split()) if word]
    plain = " ".join(alike.split())
    return unicode_characters(plain) if segments == UNICODE else plain


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
