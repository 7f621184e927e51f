"""Answers of collections with several fields, against scores by definition."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import kinbin
from fielded import FIELDS, combined, filled, ids, made, parts, some, vectors
from linked import still
from naive import SCORE_ERROR

N = 250
WAYS: tuple[tuple[dict[str, float] | None, tuple[str, ...], str], ...] = (
    (None, ("colour", "words", "texture"), "sum"),
    ({"colour": 0.7, "words": 0.3}, ("colour", "words"), "sum"),
    ({"colour": 3.0, "words": 0.0, "texture": 0.5}, ("colour", "words", "texture"), "sum"),
    (None, ("texture",), "sum"),
    (None, ("colour", "words", "texture"), "product"),
    (None, ("words", "texture"), "product"),
)


@pytest.fixture(name="X")
def vectors_of_items(rng: np.random.Generator) -> dict[str, NDArray[np.float64]]:
    """Vectors of all items."""
    return vectors(rng, N)


def _agrees(answer: kinbin.Answer, of: dict[str, NDArray[np.float64]], total: NDArray[np.float64], k: int) -> None:
    """The scores and parts of an answer are those of its items, and the k best of all."""
    places = [int(one[1:]) for one in answer.ids]
    assert len(set(places)) == len(places)
    np.testing.assert_allclose(answer.scores, total[places], atol=3 * SCORE_ERROR)
    np.testing.assert_allclose(answer.scores, np.sort(total)[::-1][:k], atol=3 * SCORE_ERROR)
    assert answer.parts is not None
    assert list(answer.parts) == list(of)
    for name, scores in answer.parts.items():
        np.testing.assert_allclose(scores, of[name][places], atol=SCORE_ERROR)


States = tuple[dict[str, Any], dict[str, kinbin.FieldsCollection]]
STATES: dict[str, Callable[[kinbin.FieldsCollection], Any]] = {
    "fresh": lambda _: None,
    "in runs": kinbin.FieldsCollection.compact,
    "linked": kinbin.FieldsCollection.link,
}


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory) -> Iterator[States]:
    """The same items in collections of every state, for tests that only read."""
    X, made = vectors(np.random.default_rng(2), N), {}
    with still(), ExitStack() as opened:
        for state, bring_about in STATES.items():
            made[state] = filled(opened.enter_context(kinbin.open(tmp_path_factory.mktemp("answers"))), X)
            bring_about(made[state])
        made["linked"].add(ids(1, N), some(vectors(np.random.default_rng(1), 1), slice(None)), [{"i": N}])
        yield X, made


@pytest.mark.parametrize("mode", ["auto", "exact"])
@pytest.mark.parametrize(("weights", "fields", "combine"), WAYS)
def test_complete_answers_are_the_best_by_definition(
    states: States, weights: dict[str, float] | None, fields: tuple[str, ...], combine: str, mode: str
) -> None:
    """A few items are all scored: the k best of them come, with the exact score of every field, alone and in a batch, fresh and in runs."""
    X, made = states
    for state in ("fresh", "in runs"):
        c = made[state]
        queries = {name: X[name][:3] for name in fields}
        batch = c.query_batch(queries, weights, combine, k=7, mode=mode)
        for i in range(3):
            q = some(queries, i)
            of = parts(q, X)
            answer = c.query(q, weights, combine, k=7, mode=mode)
            _agrees(answer, of, combined(of, weights, combine), 7)
            assert batch[i].ids == answer.ids
            assert answer.recall_lower_bound == 1.0


@pytest.mark.parametrize("mode", ["bands", "links"])
@pytest.mark.parametrize(("weights", "fields", "combine"), WAYS)
def test_scores_are_exact_on_every_path(
    states: States, weights: dict[str, float] | None, fields: tuple[str, ...], combine: str, mode: str
) -> None:
    """Whatever was found, its scores are those of the definition, best first, and most of the best are found."""
    X, c = states[0], states[1]["linked"]
    found = 0.0
    for i in range(20):
        q = {name: X[name][i] for name in fields}
        of = parts(q, X)
        total = combined(of, weights, combine)
        answer = c.query(q, weights, combine, k=10, mode=mode)
        places = [int(one[1:]) for one in answer.ids]
        old = [x for x, place in enumerate(places) if place < N]
        np.testing.assert_allclose(answer.scores[old], total[[places[x] for x in old]], atol=3 * SCORE_ERROR)
        assert (np.diff(answer.scores) <= 0.0).all()
        assert answer.mode in ("bands", "links")
        found += sum(score >= np.sort(total)[-10] - 1e-6 for score in answer.scores) / 200
    assert found > 0.8, found


def test_ties_go_to_the_item_that_was_written_first(db: kinbin.Database, quiet: None, X: dict[str, Any]) -> None:
    """Items of the same vectors come in the order in which they were written, and one that was written anew comes last."""
    same = {name: np.repeat(part[:1], 6, axis=0) for name, part in X.items()}
    c = filled(db, same)
    assert c.query(some(X, 0), k=4).ids == ids(4)
    c.add(ids(1), some(X, [1]))
    c.add(ids(1), some(X, [0]))
    assert c.query(some(X, 0), k=6).ids == [*ids(5, 1), *ids(1)]
    assert c.query(some(X, 0), k=9).no_bound is None


def test_filters_and_least_scores(db: kinbin.Database, quiet: None, X: dict[str, Any]) -> None:
    """Only matching items come, of them the best; min_score cuts the combined score; more than there are is no error."""
    c = filled(db, X)
    total = combined(parts(some(X, 3), X), None, "sum")
    for mode in ("auto", "exact", "bands"):
        answer = c.query(some(X, 3), k=5, filter={"i": {"$lt": 40}}, mode=mode)
        assert all(int(one[1:]) < 40 for one in answer.ids)
        np.testing.assert_allclose(answer.scores, np.sort(total[:40])[::-1][:5], atol=1e-5)
    least = float(np.sort(total)[-4]) - 1e-5
    assert len(c.query(some(X, 3), k=50, min_score=least)) == 4
    assert len(c.query(some(X, 3), k=50, filter={"i": {"$lt": 7}})) == 7
    assert len(c.query(some(X, 3), filter={"i": -1})) == 0
    assert c.count({"i": {"$lt": 7}}) == 7


def test_what_is_included_is_what_was_stored(db: kinbin.Database, quiet: None, X: dict[str, Any]) -> None:
    """Hits tell parts, vectors of all fields and payloads; get gives back every vector as float32."""
    c = filled(db, X)
    hit = next(iter(c.query_id("i0009", k=1, include_self=True, include=["vector", "payload"])))
    assert hit.id == "i0009"
    assert hit.payload == {"i": 9}
    assert hit.parts == pytest.approx(dict.fromkeys(FIELDS, 1.0), abs=1e-6)
    assert hit.vectors is not None
    np.testing.assert_array_equal(hit.vectors["texture"], X["texture"][9].astype(np.float32))
    (item, nothing) = c.get(["i0009", "nobody"])
    assert nothing is None
    assert item is not None
    assert item.vectors is not None
    words = item.vectors["words"]
    assert isinstance(words, kinbin.Sparse)
    np.testing.assert_array_equal(np.array(words.values), X["words"][9][X["words"][9] > 0].astype(np.float32))
    page = c.scroll(limit=2)
    assert [one.id for one in page.items] == ids(2)
    assert [one.id for one in c.scroll(page.next, limit=2).items] == ids(2, 2)


def test_a_stored_item_is_a_query(db: kinbin.Database, quiet: None, X: dict[str, Any]) -> None:
    """query_id answers as its vectors do, over all fields, those that weights name, or those that are listed."""
    c = filled(db, X)
    assert c.query_id("i0004", include_self=True).ids == c.query(some(X, 4)).ids
    few = {"colour": 0.5, "words": 2.0}
    assert c.query_id("i0004", few, include_self=True).ids == c.query({name: X[name][4] for name in few}, few).ids
    assert c.query_id("i0004", fields=["texture"], include_self=True).ids == c.query({"texture": X["texture"][4]}).ids
    with pytest.raises(kinbin.InvalidInput, match="no item"):
        c.query_id("nobody")


REFUSED: tuple[tuple[dict[str, Any], str], ...] = (
    ({"vectors": {}}, "at least one of colour, words, texture"),
    ({"vectors": {"colours": 1}}, "did you mean 'colour'"),
    ({"weights": {"colour": 1}}, "weights lack words"),
    ({"weights": {"colour": 1, "words": -1}}, "'words' is not a number from 0"),
    ({"weights": {"colour": 0, "words": 0}}, "above 0"),
    ({"weights": {"colour": 1, "words": 1, "texture": 1}}, "texture has a weight, and no vector"),
    ({"weights": [1, 2]}, "mapping of field to number"),
    ({"weights": {"colour": 1, "words": float("nan")}}, "not a number"),
    ({"weights": {"colour": 1, "words": 1}, "combine": "product"}, "a product has no weights"),
    ({"combine": "mean"}, "combine is one of sum, product"),
    ({"options": kinbin.QueryOptions(max_distance=1.0)}, "use min_score"),
    ({"mode": "fast"}, "mode"),
)


@pytest.mark.parametrize(("change", "says"), REFUSED)
def test_what_cannot_be_asked_is_refused(db: kinbin.Database, X: dict[str, Any], change: dict[str, Any], says: str) -> None:
    """A query that is malformed is refused with what is wrong and what is possible."""
    c = filled(db, some(X, slice(0, 5)))
    asked = {"vectors": {name: X[name][0] for name in ("colour", "words")}} | change
    with pytest.raises(kinbin.InvalidInput, match=says):
        c.query(**asked)


def test_malformed_vectors_name_their_field(db: kinbin.Database, X: dict[str, Any]) -> None:
    """Vectors that a kernel cannot take, batches of different lengths and missing fields are refused by name; nothing is written."""
    c = filled(db, some(X, slice(0, 5)))
    with pytest.raises(kinbin.InvalidInput, match="field 'colour'"):
        c.query({"colour": -X["colour"][0]})
    with pytest.raises(kinbin.InvalidInput, match="2 for colour, 3 for words"):
        c.query_batch({"colour": X["colour"][:2], "words": X["words"][:3]})
    with pytest.raises(kinbin.InvalidInput, match="vectors lack texture"):
        c.add(["a"], {"colour": X["colour"][:1], "words": X["words"][:1]})
    with pytest.raises(kinbin.InvalidInput, match="field 'words'"):
        c.add(["a"], some(X, slice(0, 1)) | {"words": np.zeros((1, 5))})
    with pytest.raises(kinbin.InvalidInput, match="1 vectors came with 2 ids"):
        c.add(["a", "b"], some(X, slice(0, 2)) | {"texture": X["texture"][:1]})
    assert c.count() == 5


def test_a_cancelled_search_ends(db: kinbin.Database, X: dict[str, Any]) -> None:
    """An event that is set ends the search."""
    c = filled(db, some(X, slice(0, 5)))
    cancel = threading.Event()
    cancel.set()
    with pytest.raises(kinbin.SearchCancelled):
        c.query(some(X, 0), cancel=cancel)


def test_an_empty_collection_answers_nothing(db: kinbin.Database, X: dict[str, Any]) -> None:
    """Nothing is found where nothing is stored, in every mode."""
    c = made(db)
    for mode in ("auto", "exact", "bands", "links"):
        assert len(c.query(some(X, 0), mode=mode)) == 0
    assert c.check().ok
