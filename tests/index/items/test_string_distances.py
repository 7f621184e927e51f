"""Every distance of strings is that of its definition, whatever was scored before, and ranges miss nothing."""

from __future__ import annotations

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

import kinbin
from kinbin.items.kind import Form
from kinbin.items.strings import STRINGS
from kinbin.pools.measured import Measured
from kinbin.spaces.registry import OBJECT_KERNELS
from naive_strings import AWKWARD, DISTANCES, some_strings

NAMES = list(STRINGS.kernels)


def measured(name: str, queries: list[str], stored: list[str]) -> np.ndarray:
    """(m, n) distances as the space's code computes them."""
    return Measured(OBJECT_KERNELS[name], False).distances(STRINGS.rows(queries, Form()), STRINGS.rows(stored, Form()))


@pytest.mark.parametrize("name", NAMES)
def test_awkward_strings(name: str) -> None:
    """Pairs of awkward strings have the distance of the definition."""
    stored = [one for one in AWKWARD if len(one) < 140]
    expected = [[DISTANCES[name](one, other) for other in stored] for one in stored[::3]]
    np.testing.assert_allclose(measured(name, stored[::3], stored), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
@hypothesis.given(texts=st.lists(st.text("abc\x00日", min_size=1, max_size=40), min_size=2, max_size=5))
def test_any_strings(name: str, texts: list[str]) -> None:
    """Any strings have the distances of the definition."""
    expected = [[DISTANCES[name](one, other) for other in texts] for one in texts]
    np.testing.assert_allclose(measured(name, texts, texts), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_long_strings_of_few_characters(name: str) -> None:
    """The room of a long query is enough, though it has few different characters; the next query is not disturbed."""
    long, short = "ab" * 400, "ba"
    found = measured(name, [long, short, long], [long, short])
    assert (found[0, 0], found[1, 1]) == (0.0, 0.0)
    assert found[0].tolist() == found[2].tolist()
    assert found[1, 1] == DISTANCES[name](short, short)
    assert found[0, 1] == pytest.approx(DISTANCES[name](long, short))


@pytest.mark.parametrize("name", NAMES)
def test_ranges_are_complete(name: str, db: kinbin.Database, rng: np.random.Generator, quiet: None) -> None:
    """Sealed, where sketches spare most strings, all within a distance are answered, and the nearest are."""
    texts = some_strings(rng, 150, 12, "abc")
    collection = db.create_collection("words", items="strings", distance=name)
    collection.add([str(i) for i in range(150)], texts)
    collection.compact()
    for query in (texts[3], texts[50][1:] + "b", "cab" * 4):
        true = np.sort([DISTANCES[name](query, one) for one in texts])
        np.testing.assert_allclose(collection.query(query, k=9).scores, true[:9], atol=1e-12)
        for limit in np.unique(true)[:4]:
            answer = collection.query(query, k=150, max_distance=float(limit) + 1e-9)
            np.testing.assert_allclose(answer.scores, true[true <= limit + 1e-9], atol=1e-12)
            assert answer.recall_lower_bound == 1.0
    if name != "jaro_winkler":
        assert collection.query(texts[3], k=150, max_distance=1.0).verified < 150


def test_swaps_of_neighbours_count_once() -> None:
    """What lies between swapped characters may be edited: so it is a metric, which the simpler alignment is not."""
    assert measured("damerau", ["ca"], ["abc", "ac"]).tolist() == [[2.0, 1.0]]
    assert measured("levenshtein", ["ca"], ["abc", "ac"]).tolist() == [[3.0, 2.0]]


def test_ranges_of_strings_about_as_long_as_sizes_tell(db: kinbin.Database, quiet: None) -> None:
    """Lengths are told up to 255: ranges miss no string that is about so long, or longer, nor a short one."""
    lengths = [*range(1, 8), *range(246, 266), *range(396, 404)]
    collection = db.create_collection("words", items="strings")
    collection.add([str(length) for length in lengths], ["ab" * (length // 2) + "c" * (length % 2) for length in lengths])
    collection.compact()
    for length in lengths:
        query = "ab" * (length // 2) + "c" * (length % 2)
        for limit in (0, 1, 3, 9):
            found = collection.query(query, k=50, max_distance=limit)
            assert {int(one) for one in found.ids} >= {one for one in lengths if abs(one - length) <= limit and (one - length) % 2 == 0}
            assert all(abs(int(one) - length) <= limit for one in found.ids)
