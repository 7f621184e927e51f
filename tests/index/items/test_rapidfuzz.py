"""Exact answers about strings are rapidfuzz's, an implementation that shares nothing with ours or with our twins."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import kinbin
from naive_strings import AWKWARD, some_strings

theirs = pytest.importorskip("rapidfuzz.distance", reason="rapidfuzz is not installed")

THEIRS: dict[str, Callable[[str, str], float]] = {
    "levenshtein": theirs.Levenshtein.distance,
    # Edits between swapped characters are allowed: `OSA` is the other one, which is no metric.
    "damerau": theirs.DamerauLevenshtein.distance,
    "indel": theirs.Indel.distance,
    "jaro_winkler": theirs.JaroWinkler.distance,
}
WITHIN = {name: 1e-6 if name == "jaro_winkler" else 0.0 for name in THEIRS}
"""How far answers may be from theirs: counts are equal."""

FAR = ["a" + "b" * between + "c" for between in (62, 63, 64, 126, 127, 128, 200)]
"""Two characters with words of 64 between that match nothing: against "ca", what one match carries has to reach the other."""


def adversarial(rng: np.random.Generator) -> list[str]:
    """Swaps, repeats, reversed and shifted ones, ends of words of 64 characters, characters of one to four bytes, long ones."""
    random = [
        "".join(rng.choice(list(letters), size)) for letters in ("ab", "acgt", "aé日😀\x00\u0301") for size in (5, 63, 64, 65, 200, 700)
    ]
    harmed = []
    for text in random:
        places = list(text)
        for i in rng.integers(0, len(places) - 1, max(2, len(places) // 20)):
            places[i], places[i + 1] = places[i + 1], places[i]
        harmed += ["".join(places), text[::-1], text[3:] + text[:3], text[: len(text) // 2], "日" + text, text + "\x00"]
    swaps = ["ca", "abc", "ac", "abcdef", "badcfe", "bcadfe", "martha", "marhta", "dwayne", "duane", "dixon", "dicksonx"]
    return list(dict.fromkeys([*AWKWARD, *swaps, "aabb" * 40, "abab" * 40, *FAR, *random, *harmed, "ab" * 1_000 + "c", "c" + "ba" * 1_000]))


def answered(db: kinbin.Database, name: str, stored: list[str], queries: list[str]) -> np.ndarray:
    """(m, n) distances as exact queries answer them, sealed rows and journal together."""
    collection = db.create_collection(name, items="strings", distance=name)
    ids = [str(i) for i in range(len(stored))]
    sealed = len(stored) * 3 // 4
    collection.add(ids[:sealed], stored[:sealed])
    collection.compact()
    collection.add(ids[sealed:], stored[sealed:])
    found = np.full((len(queries), len(stored)), np.nan)
    for row, query in zip(found, queries, strict=True):
        answer = collection.query(query, k=len(stored), mode="exact")
        assert (np.diff(answer.scores) >= 0).all()
        row[[int(one) for one in answer.ids]] = answer.scores
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", THEIRS)
def test_exact_answers_are_those_of_rapidfuzz(name: str, db: kinbin.Database, rng: np.random.Generator, quiet: None) -> None:
    """Every distance of an exact answer, of random and of adversarial strings, is rapidfuzz's: equal, or to 1e-6 where it is a fraction."""
    stored = adversarial(rng) + [f"{text}~" for text in some_strings(rng, 150)]
    # Not stored themselves, and every kind among them.
    queries = [*FAR, *stored[::6], *(f"x{text}" for text in stored[::9]), *some_strings(rng, 20, 80, "acgt")]
    expected = np.array([[THEIRS[name](query, one) for one in stored] for query in queries])
    np.testing.assert_allclose(answered(db, name, stored, queries), expected, rtol=0, atol=WITHIN[name])


@pytest.mark.parametrize("name", THEIRS)
def test_the_nearest_are_those_of_rapidfuzz(name: str, db: kinbin.Database, rng: np.random.Generator, quiet: None) -> None:
    """Few nearest, where distances are cut off at the k-th best, have rapidfuzz's distances, as have all within one."""
    stored = [f"{text}~" for text in some_strings(rng, 400, 90, "acgté日")]
    collection = db.create_collection("words", items="strings", distance=name)
    collection.add([str(i) for i in range(len(stored))], stored)
    collection.compact()
    for query in (*stored[:8], *some_strings(rng, 8, 90, "acgté日")):
        true = np.sort([THEIRS[name](query, one) for one in stored])
        np.testing.assert_allclose(collection.query(query, k=7, mode="exact").scores, true[:7], rtol=0, atol=WITHIN[name])
        limit = float(true[20])
        within = collection.query(query, k=len(stored), mode="exact", max_distance=limit + 1e-6).scores
        np.testing.assert_allclose(within, true[true <= limit + 1e-6], rtol=0, atol=WITHIN[name])
