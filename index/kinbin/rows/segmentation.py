"""Texts cut by the rules of Unicode: words and characters as Unicode Standard Annex 29 has them, without a dictionary.

The rules and their tables are those of the package unicode-segmentation-rs, an extra that is imported when it is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kinbin.errors import InvalidInput, install

__all__ = ["DISTRIBUTION", "SPACES", "UNICODE", "check_segments", "encodable", "unicode_characters", "unicode_words"]

SPACES, UNICODE = "spaces", "unicode"
"""How texts are cut: at white space and between code points, or where the annex says."""
DISTRIBUTION = "unicode-segmentation-rs"


def check_segments(segments: object) -> None:
    """Refuse what is no way to cut texts, and the way that this machine has no package for.

    Raises:
        InvalidInput: code "bad_parameter", field "segments".
    """
    if not isinstance(segments, str) or segments not in (SPACES, UNICODE):
        raise InvalidInput.of("bad_parameter", f'segments is "{SPACES}" or "{UNICODE}"', field="segments")
    if segments == UNICODE:
        _library()


def encodable(text: str) -> str:
    """The text.

    Raises:
        InvalidInput: code "bad_parameter", field "text": it holds a lone surrogate, which is no character.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidInput.of("bad_parameter", "text holds a lone surrogate, which is no character", field="text") from None
    return text


def unicode_words(text: str) -> Sequence[str]:
    """The segments between word boundaries (section 4) that hold a letter or a number: a character that is Alphabetic or Numeric.

    None holds white space. Cost: 10 ns a character of ASCII, 20 of other Latin text, 110 of Han.

    Raises:
        InvalidInput: a lone surrogate; the package is not installed.
    """
    words: Sequence[str] = _library().unicode_words(encodable(text))
    return words


def unicode_characters(text: str) -> Sequence[str]:
    """The extended grapheme clusters (section 3); joined, they are the text. Cost: 30 ns a character of Latin text, 100 of Han.

    Raises:
        InvalidInput: a lone surrogate; the package is not installed.
    """
    clusters: Sequence[str] = _library().graphemes(encodable(text), True)
    return clusters


def _library() -> Any:
    try:
        import unicode_segmentation_rs as library
    except ImportError:
        told = f'segments="{UNICODE}" cuts texts with {DISTRIBUTION}, which is not installed here: {install("text")}'
        raise InvalidInput.of("bad_parameter", told, field="segments") from None
    return library
