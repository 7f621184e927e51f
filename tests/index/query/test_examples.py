"""Queries by positive and negative examples, and many queries with options of their own, against the definition."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import kinbin
import naive
from kinbin.query import examples
from refusals import refused

N, DIM = 900, 10
X: NDArray[np.float32] = (np.random.default_rng(8).gamma(0.4, 1, (N, DIM)) + 0.001).astype(np.float32)
X[6::7] = X[5:-1:7][: len(X[6::7])]
IDS = [f"{i:03}" for i in range(N)]


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kinbin.Collection]:
    """Items of which some share a vector, in a run and fresh."""
    with kinbin.open(tmp_path_factory.mktemp("examples")) as db:
        made = db.create_collection("c", dim=DIM, seed=3)
        made.add(IDS[:700], X[:700], [{"n": i % 3} for i in range(700)])
        made.compact()
        made.add(IDS[700:], X[700:], [{"n": i % 3} for i in range(700, N)])
        yield made


def truth(positive: Any, negative: Any = ()) -> NDArray[np.float64]:
    """(N,) the scores of all items, by definition."""
    near: NDArray[np.float64] = np.mean([naive.dense_scores("ngmm", np.asarray(x, np.float64), X) for x in positive], axis=0)
    far = [naive.dense_scores("ngmm", np.asarray(x, np.float64), X) for x in negative]
    return near if not far else near - np.asarray(np.mean(far, axis=0))


def check(answer: kinbin.Answer, scores: NDArray[np.float64], gone: Any, k: int) -> None:
    """The answer is the k best of the scores, but for some ids."""
    left = np.array([i for i in range(N) if IDS[i] not in gone])
    np.testing.assert_allclose(answer.scores, np.sort(scores[left])[::-1][:k], atol=naive.SCORE_ERROR)
    np.testing.assert_allclose(answer.scores, scores[[int(one) for one in answer.ids]], atol=naive.SCORE_ERROR)
    assert not set(answer.ids) & set(gone)


@pytest.mark.parametrize("mode", ["auto", "exact"])
def test_scores_are_the_stated_rule(mode: str, collection: kinbin.Collection) -> None:
    """The score is the mean kernel with the positive examples less that with the negative ones, of ids and of vectors, and complete."""
    cases: list[tuple[list[Any], list[Any]]] = [
        (["003", X[40]], ["005"]),
        ([X[1], X[2], "100"], []),
        (["701"], [X[3], "800", "006"]),
        (["701"], []),
    ]
    for positive, negative in cases:
        rows = [[X[int(one)] if isinstance(one, str) else one for one in given] for given in (positive, negative)]
        own = {one for one in (*positive, *negative) if isinstance(one, str)}
        answer = collection.query_examples(positive, negative, k=12, mode=mode)
        check(answer, truth(*rows), own, 12)
        assert answer.recall_lower_bound == 1.0
        kept = collection.query_examples(positive, negative, k=12, mode=mode, include_self=True, exclude=["100"])
        check(kept, truth(*rows), {"100"}, 12)


def test_one_positive_example_is_a_plain_query(collection: kinbin.Collection) -> None:
    """A single positive example is answered by the search that a query is, with its bound."""
    one, other = collection.query_examples([X[4]], mode="bands"), collection.query(X[4], mode="bands")
    assert (one.ids, one.scores.tolist(), one.recall_lower_bound) == (other.ids, other.scores.tolist(), other.recall_lower_bound)


@pytest.mark.parametrize("negative", [[], ["005", "300"]], ids=["positive", "both"])
def test_candidates_are_scored_exactly(negative: list[str], collection: kinbin.Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where not all rows are scored, scores are exact all the same, and an answer is complete if it says so."""
    monkeypatch.setattr(examples, "_SCAN_NS", 0.0)
    monkeypatch.setattr(examples, "_DEPTH", 4)
    monkeypatch.setattr(examples, "_LEAST_DEPTH", 30)
    scores = truth([X[10], X[450]], [X[int(one)] for one in negative])
    for k in (1, 4, 7):
        answer = collection.query_examples(["010", "450"], negative, k=k, include_self=True)
        np.testing.assert_allclose(answer.scores, scores[[int(one) for one in answer.ids]], atol=naive.SCORE_ERROR)
        assert answer.steps[-1] == "score candidates"
        if answer.recall_lower_bound is None:
            assert answer.no_bound == "candidates of several examples give no bound; certify scores every row"
        else:
            check(answer, scores, set(), k)
    certified = collection.query_examples(["010", "450"], negative, certify=True, include_self=True)
    assert (certified.recall_lower_bound, certified.steps) == (1.0, ("score all rows",))
    check(certified, scores, set(), 10)


def test_a_proof_is_one(collection: kinbin.Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whenever candidates are said to be complete, no other row scores more: over many examples, some of them alike."""
    monkeypatch.setattr(examples, "_SCAN_NS", 0.0)
    monkeypatch.setattr(examples, "_DEPTH", 2)
    monkeypatch.setattr(examples, "_LEAST_DEPTH", 8)
    proved, missed = 0, 0
    for i in range(40):
        for positive, negative in (([X[i], X[i] * 0.9 + X[i + 1] * 0.1], []), ([X[i], X[i + 100]], []), ([X[i]], [X[i + 100]])):
            answer = collection.query_examples(positive, negative, k=2, mode="auto")
            scores = truth(positive, negative)
            if answer.recall_lower_bound == 1.0:
                proved += 1
                check(answer, scores, set(), 2)
            else:
                missed += bool(answer.scores[-1] < np.sort(scores)[-2] - naive.SCORE_ERROR)
    assert proved > 5
    assert missed, "otherwise anything would have passed"


def test_filters_and_least_scores_hold(collection: kinbin.Collection) -> None:
    """A filter lets through what it matches, also of items that share a vector; min_score is one of the result, which may be negative."""
    scores = truth([X[5], X[40]], [X[9]])
    answer = collection.query_examples(["005", "040"], ["009"], k=300, filter={"n": 1}, min_score=-0.2)
    expected = [i for i in range(N) if i % 3 == 1 and scores[i] >= -0.2 and IDS[i] not in {"005", "040", "009"}]
    assert sorted(answer.ids) == [IDS[i] for i in expected][:300]
    assert (answer.scores >= -0.2).all()


@pytest.mark.parametrize(
    ("negative", "least", "told"),
    [
        ([], 1.1, "min_score is a number from 0 to 1 for ngmm, not 1.1"),
        ([], -0.1, "min_score is a number from 0 to 1 for ngmm, not -0.1"),
        (["009"], 1.1, "min_score is a number from -1 to 1 for ngmm, not 1.1"), (["009"], -1.0, None), ([], 1.0, None),
    ],
)  # fmt: skip
def test_a_least_score_that_no_mean_can_have_is_refused(
    negative: list[str], least: float, told: str | None, collection: kinbin.Collection
) -> None:
    """A mean lies where scores do, and a mean less another one within the difference of these."""
    if told is None:
        collection.query_examples(["005", "040"], negative, min_score=least)
    else:
        with refused("bad_parameter", told, position=0, field="min_score"):
            collection.query_examples(["005", "040"], negative, min_score=least)


def test_distances_are_taken_for_what_they_are(db: kinbin.Database) -> None:
    """Of strings the least mean distance is the nearest; objects stand under their key, ids as they are."""
    words = db.create_collection("w", items="strings", distance="levenshtein")
    words.add(list("abcd"), ["kitten", "sitting", "mitten", "knitting"])
    answer = words.query_examples([{"string": "kitten"}, "c"], ["b"], include_self=True)
    assert answer.distances is not None
    assert dict(zip(answer.ids, answer.distances.tolist(), strict=True)) == {"a": 0.5 - 3, "c": 0.5 - 3, "d": 3.5 - 2, "b": 3.0}
    assert answer.ids == ["a", "c", "d", "b"]
    assert words.query_examples(["a", "c"], max_distance=2).ids == []
    assert words.query_examples(["a", "c"], max_distance=3.5).ids == ["b", "d"]
    with refused("bad_parameter", 'an example is an id, or {"string": …}', position=0, field="positive/0"):
        words.query_examples([7.5])


def test_each_query_has_its_own_options(collection: kinbin.Collection) -> None:
    """Many queries are answered as each is alone, whatever they are about."""
    options = kinbin.QueryOptions
    queries = [
        kinbin.Query(X[3], options=options(k=3, mode="exact", include=["payload"])),
        kinbin.Query(id="004", options=options(k=5, filter={"n": 2}, exclude=["008"])),
        kinbin.Query(positive=["005"], negative=[X[9]], options=options(min_score=0.1)),
    ]
    first, second, third = collection.query_each(queries)
    alone = collection.query(X[3], k=3, mode="exact", include=["payload"])
    assert (first.ids, [hit.payload for hit in first]) == (alone.ids, [hit.payload for hit in alone])
    assert second.ids == collection.query_id("004", k=5, filter={"n": 2}, exclude=["008"]).ids
    assert third.ids == collection.query_examples(["005"], [X[9]], min_score=0.1).ids
    assert collection.query_each([]) == []


ONE = "a query has just one of x, id and positive"
LISTED = "positive is a list of examples: ids, or vectors"
BAD: dict[str, tuple[Any, str, str, int | None, str | None]] = {
    "no query": ([7], "bad_parameter", "queries are a list of Query with QueryOptions, not int", 0, "queries"),
    "no list": (7, "bad_parameter", "queries are a list of Query, not int", None, "queries"),
    "nothing": ([kinbin.Query()], "bad_parameter", ONE, 0, None),
    "two things": ([kinbin.Query(X[0], id="001")], "bad_parameter", ONE, 0, None),
    "an unknown id": (
        [kinbin.Query(X[0]), kinbin.Query(id="no")], "unknown_id", "no item of this collection has the id of the query", 1, "id",
    ),
    "an unknown example": (
        [kinbin.Query(positive=["001", "no"])], "unknown_id", "no item of this collection has the id of this example", 0, "positive/1",
    ),
    "an unknown negative one": (
        [kinbin.Query(positive=[X[0]], negative=["no"])], "unknown_id", "no item of this collection has the id of this example", 0,
        "negative/0",
    ),
    "no positive example": ([kinbin.Query(positive=[])], "bad_parameter", "positive has at least one example", 0, "positive"),
    "an example for many": ([kinbin.Query(positive="001")], "bad_parameter", LISTED, 0, "positive"),
    "options of another kind": (
        [kinbin.Query(X[0], options={"k": 3})],  # type: ignore[arg-type]
        "bad_parameter", "queries are a list of Query with QueryOptions, not Query", 0, "queries",
    ),
}  # fmt: skip


@pytest.mark.parametrize("label", BAD)
def test_bad_queries_are_refused(label: str, collection: kinbin.Collection) -> None:
    """Each is refused with its code, text, position and field, and nothing is answered."""
    given, code, text, position, field = BAD[label]
    with refused(code, text, position=position, field=field):
        collection.query_each(given)


def test_limits_of_examples_are_told(collection: kinbin.Collection) -> None:
    """More examples than are taken name their limit, and so do more queries; a malformed example tells its place."""
    with refused("over_limit", "positive and negative: at most 100 examples", position=0, field="positive", limit="examples"):
        collection.query_examples([X[0]] * 60, [X[1]] * 41)
    with refused("over_limit", "queries: at most 10000", field="queries", limit="batch_queries"):
        collection.query_each(kinbin.Query(id="001") for _ in range(10_001))
    with pytest.raises(kinbin.InvalidInput) as found:
        collection.query_examples([X[0], [1.0, float("nan")]])
    assert found.value.problems[0].field == "positive/1"
