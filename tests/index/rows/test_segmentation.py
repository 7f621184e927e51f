"""Texts cut by the rules of Unicode: cuts that were written down by hand, what comes first, and what is refused."""

from __future__ import annotations

import sys
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kinbin
from refusals import refused

FAMILY, THUMB = "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466", "\U0001f44d\U0001f3fd"
GERMANY, FRANCE, LONE = "\U0001f1e9\U0001f1ea", "\U0001f1eb\U0001f1f7", "\U0001f1ee"

WORDS: dict[str, tuple[str, list[str]]] = {
    "the example of the annex": (
        "The quick (\u201cbrown\u201d) fox can\u2019t jump 32.3 feet, right?",
        ["the", "quick", "brown", "fox", "can\u2019t", "jump", "32.3", "feet", "right"],
    ),
    "a dash without spaces": ("ét\u2014well", ["ét", "well"]),
    "apostrophes": ("don't 'quoted' rock'n'roll dogs'", ["don't", "quoted", "rock'n'roll", "dogs"]),
    "numbers": ("3.14 1,000.5 v2.0 9:30 7.", ["3.14", "1,000.5", "v2.0", "9", "30", "7"]),
    "addresses": ("foo@example.com a_b c++ #tag", ["foo", "example.com", "a_b", "c", "tag"]),
    "Hebrew": ('צה"ל ד\' "שלום"', ['צה"ל', "ד'", "שלום"]),
    "Persian with a non-joiner": ("می\u200cخواهم", ["می\u200cخواهم"]),
    "Devanagari": ("नमस\u094dत\u0947\u0964", ["नमस\u094dत\u0947"]),
    "Thai": ("ด\u0e35ว\u0e31น", ["ด\u0e35", "ว\u0e31", "น"]),
    "Han": ("世界\uff0c你好吗", ["世", "界", "你", "好", "吗"]),
    "Katakana and Hiragana": ("カタカナとひら", ["カタカナ", "と", "ひ", "ら"]),
    "Hangul": ("안녕 세계", ["안녕", "세계"]),
    "Hangul in parts": (unicodedata.normalize("NFD", "안녕 세계"), ["안녕", "세계"]),
    "a mark of its own": ("Cafe\u0301 q\u0323\u0307y", ["café", "q\u0323\u0307y"]),
    "flags and emoji": (f"go {GERMANY}{FRANCE} {THUMB} now", ["go", "now"]),
}
CHARACTERS: dict[str, tuple[str, list[str]]] = {
    "flags": (GERMANY + FRANCE + LONE, [GERMANY, FRANCE, LONE]),
    "a family": (f"{FAMILY}!", [FAMILY, "!"]),
    "a colour of skin": (THUMB + THUMB[0], [THUMB, THUMB[0]]),
    "a key": ("1\ufe0f\u20e32", ["1\ufe0f\u20e3", "2"]),
    "combining marks": ("Cafe\u0301 q\u0323\u0307", ["c", "a", "f", "é", " ", "q\u0323\u0307"]),
    "Hangul": (unicodedata.normalize("NFD", "한글"), ["한", "글"]),
    "old Hangul": ("\u1112\u119e\u11ab\u1100", ["\u1112\u119e\u11ab", "\u1100"]),
    "Devanagari": ("क\u094dष\u093fन", ["क\u094dष\u093f", "न"]),
    "Tamil": ("ந\u0bbfன", ["ந\u0bbf", "ன"]),
    "white space": (" a\r\n\tb ", ["a", " ", "b"]),
}
FIRST_ALIKE = [
    # Cut first, each circled digit were a word, and vowel and consonant of Thai one character.
    ("\u2460\u2461", {"words": 1}, {"12": 1}),
    ("ก\u0e33", {"characters": 1}, {"ก\u0e4d": 1, "า": 1}),
    ("\uff21\uff0e\uff22", {"words": 1}, {"a.b": 1}),
]


@pytest.mark.parametrize("label", WORDS)
def test_words_are_cut_as_the_annex_says(label: str) -> None:
    """Words are the segments with a letter or a number, of scripts with and without spaces."""
    text, expected = WORDS[label]
    assert list(kinbin.shingles(text, words=1, segments="unicode")) == expected


@pytest.mark.parametrize("label", CHARACTERS)
def test_characters_are_never_parted(label: str) -> None:
    """Characters are extended grapheme clusters, however many code points they are of."""
    text, expected = CHARACTERS[label]
    assert list(kinbin.shingles(text, characters=1, segments="unicode")) == expected


@pytest.mark.parametrize(("text", "size", "expected"), FIRST_ALIKE)
def test_texts_are_made_alike_before_they_are_cut(text: str, size: dict[str, int], expected: dict[str, int]) -> None:
    """What is cut is the normalised text."""
    assert kinbin.shingles(text, segments="unicode", **size) == expected


def test_runs_are_joined_and_counted() -> None:
    """Words of a run are joined by a space, characters by nothing; runs that come again are counted."""
    assert kinbin.shingles("你好你好你", words=2, segments="unicode") == {"你 好": 2, "好 你": 2}
    assert kinbin.shingles(f"{FAMILY}{GERMANY}a", characters=2, segments="unicode") == {FAMILY + GERMANY: 1, f"{GERMANY}a": 1}


@given(st.text(st.characters(exclude_categories=["Cs"])), st.integers(1, 4))
def test_spaces_are_the_default_and_nothing_is_lost(text: str, length: int) -> None:
    """Without a word about segments code points are cut; cut either way, a run as long as the text is the same one."""
    if not text.split():
        return
    assert kinbin.shingles(text, characters=length) == kinbin.shingles(text, characters=length, segments="spaces")
    assert kinbin.shingles(text, characters=10**6, segments="unicode") == kinbin.shingles(text, characters=10**6)


@pytest.mark.parametrize("segments", ["words", "Unicode", "", None, True, ["unicode"]])
def test_other_words_are_refused(segments: Any) -> None:
    """There are two ways to cut, and no third."""
    with refused("bad_parameter", 'segments is "spaces" or "unicode"', field="segments"):
        kinbin.shingles("a", words=1, segments=segments)
    with refused("bad_parameter", 'segments is "spaces" or "unicode"', field="segments"):
        kinbin.Shingler(words=1, segments=segments)


@pytest.mark.parametrize("size", [{"words": 1}, {"characters": 1}])
def test_texts_without_content_are_refused(size: dict[str, int]) -> None:
    """Flags are no words, a space no character, a lone surrogate neither, in one text and in many."""
    (what,) = (name.removesuffix("s") for name in size)
    empty = f"text has no {what} in it; leave it out, since nothing is similar to it"
    with refused("bad_parameter", empty, field="text"):
        kinbin.shingles(GERMANY if what == "word" else " \n", segments="unicode", **size)
    lone = "text holds a lone surrogate, which is no character"
    with refused("bad_parameter", lone, field="text"):
        kinbin.shingles("a\ud800", segments="unicode", **size)
    with refused("bad_parameter", lone, field="text"):
        kinbin.Shingler(segments="unicode", **size).rows(["a", "a\ud800"])


def test_without_the_package_it_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where unicode-segmentation-rs is missing, only what needs it is refused, with the extra that brings it."""
    monkeypatch.setitem(sys.modules, "unicode_segmentation_rs", None)
    told = 'segments="unicode" cuts texts with unicode-segmentation-rs, which is not installed here: '
    told += "pip install --find-links dist 'kinbin[text]'"
    with refused("bad_parameter", told, field="segments"):
        kinbin.shingles("a", words=1, segments="unicode")
    with refused("bad_parameter", told, field="segments"):
        kinbin.Shingler(words=1, segments="unicode")
    assert kinbin.shingles("你好!", words=1) == {"你好": 1}
    with kinbin.TextDuplicates(tmp_path / "work", shingler=kinbin.Shingler(words=1)) as job:
        job.add(["a", "A!"])
        assert job.finish().kept == 1
