"""Rows made of strings are what their definitions say, and sketches are never farther apart than distances allow."""

from __future__ import annotations

from collections import Counter

import hypothesis
import hypothesis.strategies as st
import numpy as np

from kinbin.embeddings.anchors import ANCHORS
from kinbin.embeddings.landmarks import LANDMARKS, LINEAR, RANDOM_SETS
from kinbin.embeddings.parts import PARTS_OF_TIME
from kinbin.items.embedding import Sample
from kinbin.items.kind import Form
from kinbin.items.qgrams import GRAMS, gram_rows
from kinbin.items.strings import STRINGS
from kinbin.pools.measured import Measured
from kinbin.rows.rows import Rows
from kinbin.spaces.levenshtein import LEVENSHTEIN
from kinbin.spaces.patterns import _sketch
from naive_strings import AWKWARD, distances, levenshtein, some_strings

TEXTS = st.lists(st.text("ab\x00é日😀", min_size=1, max_size=40), min_size=1, max_size=6)


def strings(texts: list[str]) -> Rows:
    """The rows of strings."""
    return STRINGS.rows(texts, Form())


def grams(text: str, q: int, part: int) -> Counter[object]:
    """Counts of q-grams with marks at both ends, and of the part that each begins in."""
    marked = ["|"] * (q - 1) + list(text) + ["|"] * (q - 1)
    return Counter((tuple(marked[t : t + q]), (t + 1) // part if part else None) for t in range(len(marked) - q + 1))


@hypothesis.given(TEXTS)
def test_rows_of_grams_hold_their_counts(texts: list[str]) -> None:
    """The counts of a row are those of the grams, and two rows share just the features of the grams that the strings share."""
    sorts = [(1, 0), (2, 0), (3, 0), (2, 8), (3, 8)]
    for q, part in sorts:
        starts, features, counts = gram_rows(strings(texts).indptr, strings(texts).values, np.array([q]), np.array([part]))
        known: dict[object, int] = {}
        for i, text in enumerate(texts):
            row = dict(zip(features[starts[i] : starts[i + 1]].tolist(), counts[starts[i] : starts[i + 1]].tolist(), strict=True))
            true = grams(text, q, part)
            assert list(row) == sorted(row)
            assert sorted(row.values()) == sorted(true.values())
            if len(set(true.values())) == 1 and len(true) > 1:
                continue
            for gram, count in true.items():
                if list(true.values()).count(count) == 1:
                    (feature,) = [one for one, other in row.items() if other == count]
                    assert known.setdefault(gram, feature) == feature


@hypothesis.given(TEXTS)
def test_all_sorts_of_grams_stand_in_one_row(texts: list[str]) -> None:
    """A row of several sorts is theirs together, ascending, with the sum of the counts for its norm."""
    rows = GRAMS.embedder({"grams": [[1, 0], [2, 0], [2, 8]]}, Form(), Measured(LEVENSHTEIN, False).distances).rows(strings(texts))
    for i, text in enumerate(texts):
        features, values = rows.row(i)
        assert (np.diff(features.astype(np.int64)) > 0).all()
        together = sum((grams(text, q, part) for q, part in ((1, 0), (2, 0), (2, 8))), Counter())
        assert sorted(values.tolist()) == sorted(together.values())
        assert rows.norms[i] == sum(together.values())


def test_landmarks_are_distances(rng: np.random.Generator) -> None:
    """The rows of landmarks are the greatest distances that were seen, less the distances; the same from settings as they were stored."""
    texts = some_strings(rng, 300, 7, "abc")
    objects = strings(texts)
    measure = Measured(LEVENSHTEIN, False).distances
    settings = LINEAR.choose(Sample(objects, Form(), measure, np.random.default_rng(1)))
    assert settings is not None
    embedder = LINEAR.embedder(settings, Form(), measure)
    rows = embedder.rows(objects.slice(0, 20))
    order = np.random.default_rng(1).permutation(300)
    landmarks = [texts[i] for i in order[:128]]
    top = np.array([distances(one, [texts[i] for i in order[128:]]).max() for one in landmarks])
    expected = np.maximum(top - np.array([distances(text, landmarks) for text in texts[:20]]), 0.01)
    np.testing.assert_allclose(rows.values.reshape(20, 128), expected, rtol=1e-6)
    assert LINEAR.choose(Sample(objects.slice(0, 200), Form(), measure, rng)) is None
    falling = LANDMARKS.choose(Sample(objects, Form(), measure, np.random.default_rng(1)))
    assert falling is not None
    shapes = LANDMARKS.embedder(falling, Form(), measure).rows(objects.slice(0, 20)).values.reshape(20, 128)
    np.testing.assert_allclose(shapes.max(axis=1), 1.0)
    assert (shapes > 0).all()


def test_settings_are_told_without_what_fills_pages() -> None:
    """What rows are made by is told in few numbers: γ is what distances are multiplied by, and stored objects are counted."""
    assert GRAMS.told({"grams": [[1, 0], [2, 8]]}) == {"grams": [[1, 0], [2, 8]]}
    assert LANDMARKS.told({"sizes": [3, 2], "values": "AAAA", "median": 8.0}) == {"landmarks": 2, "gamma": 0.5}
    assert LINEAR.told({"sizes": [3, 2], "values": "AAAA", "scale": [4.0, 9.0]}) == {"landmarks": 2, "greatest_distance": 9.0}
    anchors = {"low": [0.0, 1.0], "high": [2.0, 3.0], "median": 4.0}
    assert ANCHORS.told(anchors) == {"anchors": 256, "gamma": 0.25, "low": [0.0, 1.0], "high": [2.0, 3.0]}
    random = {"median": 2.0, "centre": [0.0] * 4, "radius": 3.0, "seed": 7, "count": 512}
    assert RANDOM_SETS.told(random) == {"random_sets": 512, "gamma": 2.0, "centre": [0.0] * 4, "radius": 3.0}
    assert PARTS_OF_TIME.told({"low": [0.0], "high": [1.0]}) == {"parts": 16, "low": [0.0], "high": [1.0]}


def sketch(text: str) -> np.ndarray:
    """As scans make it."""
    out = np.full(64, 7, np.uint8)
    values = strings([text]).values
    _sketch(np.uint64(values.ctypes.data), len(values), np.uint64(0), np.uint64(out.ctypes.data))
    return out.astype(np.int64)


@hypothesis.given(st.text("ab日", min_size=1, max_size=30), st.text("ab日", min_size=1, max_size=30))
def test_sketches_are_bounded_by_the_distance(left: str, right: str) -> None:
    """Sketches of two strings are at most four times their distance apart; each counts one more pair than there are characters."""
    assert np.abs(sketch(left) - sketch(right)).sum() <= 4 * levenshtein(left, right)
    assert sketch(left).sum() == len(left) + 1


def test_sketches_of_awkward_strings() -> None:
    """The bound holds where counts end at 255 and where characters are many."""
    texts = [*AWKWARD, "a" * 700, "a" * 650 + "b" * 50]
    for left in texts:
        for right in texts:
            apart = np.abs(sketch(left) - sketch(right)).sum()
            assert apart <= 4 * max(len(left), len(right))
            assert left != right or apart == 0
            if apart > 4 * abs(len(left) - len(right)):
                assert apart <= 4 * levenshtein(left, right)
