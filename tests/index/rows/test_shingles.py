"""Shingles: which runs a text has, which texts are made alike first, and what cannot be shingled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kinbin
from refusals import refused

WORDS: dict[str, tuple[str, int, dict[str, int]]] = {
    "a sentence": ("The quick brown fox", 2, {"the quick": 1, "quick brown": 1, "brown fox": 1}),
    "runs that repeat": ("a b a b a", 2, {"a b": 2, "b a": 2}),
    "single words": ("to be or not to be", 1, {"to": 2, "be": 2, "or": 1, "not": 1}),
    "just as many": ("one two three", 3, {"one two three": 1}),
    "fewer": ("one two", 3, {"one two": 1}),
    "punctuation": ("«Fox», (quick)! — don't; c++ …", 1, {"fox": 1, "quick": 1, "don't": 1, "c++": 1}),
    "white space": ("\n a\t\u3000b \r\n", 2, {"a b": 1}),
    "full width and ligatures": ("\uff26\uff2f\uff38 \ufb01sh", 1, {"fox": 1, "fish": 1}),
    "accents apart": ("Cafe\u0301", 1, {"caf\u00e9": 1}),
    "a sharp s": ("STRASSE Straße", 1, {"strasse": 2}),
    "marks that belong to letters": ("हिन्दी", 1, {"हिन्दी": 1}),
    "emoji": ("🦊 🦊", 1, {"🦊": 2}),
}
CHARACTERS: dict[str, tuple[str, int, dict[str, int]]] = {
    "a word": ("banana", 2, {"ba": 1, "an": 2, "na": 2}),
    "white space": (" a\n\n b ", 2, {"a ": 1, " b": 1}),
    "punctuation": ("a.b", 2, {"a.": 1, ".b": 1}),
    "just as many": ("abc", 3, {"abc": 1}),
    "fewer": ("Ab", 5, {"ab": 1}),
    "no spaces": ("日本語", 2, {"日本": 1, "本語": 1}),
}


@pytest.mark.parametrize("label", WORDS)
def test_runs_of_words(label: str) -> None:
    """Runs of words, made alike and without the punctuation around them, are counted."""
    text, length, expected = WORDS[label]
    assert kinbin.shingles(text, words=length) == expected


@pytest.mark.parametrize("label", CHARACTERS)
def test_runs_of_characters(label: str) -> None:
    """Runs of characters are counted, white space being one space."""
    text, length, expected = CHARACTERS[label]
    assert kinbin.shingles(text, characters=length) == expected


@given(st.text(), st.integers(1, 9))
def test_shingles_are_tokens(text: str, length: int) -> None:
    """Whatever the text, there are as many shingles as windows, each no longer than asked for, and all of them can be added."""
    try:
        found = kinbin.shingles(text, characters=length)
    except kinbin.InvalidInput:
        assert not text.split()
        return
    plain = " ".join(found) if len(found) == 1 else None
    assert all(len(shingle) == length for shingle in found) or (plain is not None and len(plain) < length)
    assert all(kinbin.token_feature(shingle) >= 0 for shingle in found)


def test_texts_are_found_by_their_shingles(db: kinbin.Database) -> None:
    """As counts or as sets, shingles are added and queried as they come; equal texts score 1."""
    collection = db.create_collection("texts", kernel="minmax")
    texts = {"fox": "The quick brown fox jumps.", "dog": "A lazy dog sleeps all day."}
    collection.add(list(texts), [kinbin.shingles(text, words=2) for text in texts.values()])
    answer = collection.query(kinbin.shingles("the QUICK brown fox", words=2), k=1)
    assert answer.ids == ["fox"]
    np.testing.assert_allclose(answer.scores, [3 / 4])
    assert collection.query(set(kinbin.shingles(texts["dog"], words=2)), k=1).scores.tolist() == [1.0]


EMPTY = "text has no {} in it; leave it out, since nothing is similar to it"
EITHER = "shingles takes either words or characters, as words=3 or characters=5"
BAD: list[tuple[Any, dict[str, Any], str, str]] = [
    ("", {"words": 3}, EMPTY.format("word"), "text"),
    (" \n", {"words": 3}, EMPTY.format("word"), "text"),
    ("!? …", {"words": 3}, EMPTY.format("word"), "text"),
    ("", {"characters": 3}, EMPTY.format("character"), "text"),
    (" \t", {"characters": 3}, EMPTY.format("character"), "text"),
    (None, {"words": 3}, "text is a string, this is NoneType", "text"),
    (b"a", {"words": 3}, "text is a string, this is bytes", "text"),
    (["a"], {"words": 3}, "text is a string, this is list", "text"),
    ("a\ud800", {"words": 3}, "text holds a lone surrogate, which is no character", "text"),
    ("a", {}, EITHER, "words"),
    ("a", {"words": 3, "characters": 5}, EITHER, "words"),
    *[
        ("a", {name: value}, f"{name} is a whole number from 1 on", name)
        for name in ("words", "characters")
        for value in (0, -1, True, 2.0, "3")
    ],
]


@pytest.mark.parametrize(("text", "options", "detail", "place"), BAD, ids=lambda x: repr(x)[:20])
def test_what_cannot_be_shingled_is_refused(text: Any, options: dict[str, Any], detail: str, place: str) -> None:
    """Texts without content, what is no text, and lengths that are none are refused with what to do."""
    with refused("bad_parameter", detail, field=place):
        kinbin.shingles(text, **options)
