"""What an explanation says besides terms: bands, the S-curve, the walk, names, several fields; and what it refuses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import fielded
import kinbin
import naive_strings
from kinbin.hashing import band_keys
from linked import still

Histograms = NDArray[np.float32]


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Nothing happens in the background, and links are calibrated quickly."""
    with still():
        yield


def made(db: kinbin.Database, X: Histograms, kernel: str = "ngmm", **options: Any) -> kinbin.Collection:
    """A collection of these rows, sealed."""
    collection = db.create_collection("c", kernel=kernel, dim=X.shape[1], seed=3, **options)
    collection.add([str(i) for i in range(len(X))], X)
    collection.compact()
    return collection


def test_shared_bands_are_those_of_the_run(db: kinbin.Database, histograms: Histograms) -> None:
    """Shared bands are the equal keys of both rows at the run's own hashes and bands; fresh rows have 128 bands of one hash."""
    X = histograms[:1_000]
    collection = made(db, X, rows=2, bands=64)
    collection.add(["fresh"], X[5:6] + 1)
    rows = collection._rows(X[[1, 7]])
    keys = band_keys(collection._sampler.codes(rows, 2, 64), 2, 64)
    told = collection.explain(X[1], id="7").bands
    assert told is not None
    assert (told.rows, told.bands, told.shared) == (2, 64, int((keys[0] == keys[1]).sum()))
    fresh = collection.explain(X[5], id="fresh").bands
    assert fresh is not None
    assert (fresh.rows, fresh.bands) == (1, 128)
    assert fresh.shared > 32
    same = collection.explain(X[1], id="1").bands
    assert same is not None
    assert (same.shared, same.collision, same.p_found) == (64, 1.0, 1.0)


@pytest.mark.recall
@pytest.mark.parametrize("kernel", ["chi2", "cosine", "mm_acos"])
def test_what_is_found_is_as_probable_as_told(kernel: str, db: kinbin.Database, histograms: Histograms) -> None:
    """Over 20 seeds as many pairs share a band as `p_found` says, and as many bands as expected, but for 3.5 standard errors."""
    shares = np.linspace(0.2, 0.98, 14, dtype=np.float32)[:, None]
    X = histograms[1]
    items = shares * X + (1 - shares) * histograms[2:16]
    found, bands = [], []
    for seed in range(20):
        collection = db.create_collection(f"c{seed}", kernel=kernel, dim=512, seed=seed, rows=2, bands=4)
        collection.add([str(i) for i in range(14)], items)
        collection.compact()
        told = [collection.explain(X, id=str(i)).bands for i in range(14)]
        found.append([(one.shared > 0) - one.p_found for one in told if one is not None])
        bands.append([one.shared - 4 * one.collision**2 for one in told if one is not None])
        db.drop_collection(f"c{seed}")
    for off in (found, bands):
        means = np.array(off).mean(axis=1)
        assert means.shape == (20,)
        assert abs(means.mean()) < 3.5 * means.std() / np.sqrt(20)
        assert means.std() < 0.5


@pytest.mark.parametrize("kernel", ["ngmm", "gint", "chi2", "cosine", "rbf", "frbf", "mm_acos"])
def test_the_curve_is_a_lower_bound(kernel: str, db: kinbin.Database, histograms: Histograms) -> None:
    """The S-curve rises with what is printed, ends at 1, and at a pair's score is no more than the pair's own probability."""
    collection = made(db, histograms[:300], kernel)
    for i in range(1, 60, 7):
        told = collection.explain(histograms[0], id=str(i), s_curve=True)
        assert told.bands is not None
        assert told.bands.s_curve is not None
        scores, found = np.array(told.bands.s_curve).T
        assert (np.diff(scores) > 0).all()
        assert (np.diff(found) >= 0).all()
        assert found[-1] == pytest.approx(1.0, abs=1e-3)
        assert found[scores <= told.score].max(initial=0.0) <= told.bands.p_found + 1e-6
    assert collection.explain(histograms[0], id="1").bands.s_curve is None  # type: ignore[union-attr]  # it is there above


def test_the_walk_tells_the_place(db: kinbin.Database, histograms: Histograms) -> None:
    """The rank is the item's place in an answer of mode "links"; an item beyond its k has none, and without links there is no walk."""
    X = histograms[:2_000]
    collection = made(db, X)
    assert collection.explain(X[0], id="1").walk is None
    collection.link()
    answer = collection.query(X[0] + 0.5, k=10, mode="links")
    for place, identifier in enumerate(answer.ids, 1):
        walk = collection.explain(X[0] + 0.5, id=identifier).walk
        assert walk is not None
        assert (walk.rank, walk.k) == (place, 10)
        assert walk.width is not None
        assert walk.width >= 10
    far = collection.query(X[0] + 0.5, k=500, mode="exact").ids[-1]
    walk = collection.explain(X[0] + 0.5, id=far).walk
    assert walk is not None
    assert walk.rank is None
    assert collection.explain(X[0] + 0.5, id=answer.ids[3], k=3).walk.rank is None  # type: ignore[union-attr]  # it is linked


def test_the_walk_of_a_stored_item_leaves_it_out(db: kinbin.Database, histograms: Histograms) -> None:
    """The rank of query_id is the place in the answer of a query by that item, which does not hold it, but those that are equal to it."""
    X = histograms[:2_000].copy()
    X[1_000] = X[1]
    collection = made(db, X)
    collection.link()
    for asked in ("0", "1", "1000"):
        for place, identifier in enumerate(collection.query_id(asked, k=10, mode="links").ids, 1):
            walk = collection.explain(query_id=asked, id=identifier).walk
            assert walk is not None
            assert (walk.rank, walk.k) == (place, 10)
    fourth = collection.query_id("0", k=4, mode="exact").ids[-1]
    assert fourth not in collection.query_id("0", k=3, mode="links").ids
    assert collection.explain(query_id="0", id=fourth, k=3).walk.rank is None  # type: ignore[union-attr]  # it is linked
    for asked, identifier in (("0", "0"), ("1", "1000"), ("1000", "1")):
        assert collection.explain(query_id=asked, id=identifier).walk.rank == 1  # type: ignore[union-attr]  # as above


@pytest.mark.slow
def test_a_pool_tells_the_place(db: kinbin.Database, rng: np.random.Generator) -> None:
    """Of linked objects the rank is the place in an answer of the pool, whose width is its own."""
    words = naive_strings.some_strings(rng, 2_200)
    collection = db.create_collection("c", items="strings")
    collection.add([str(i) for i in range(len(words))], words)
    assert collection.explain("abcde", id="1").walk is None
    collection.link()
    answer = collection.query("abcde", k=10, mode="links")
    assert answer.mode == "pool"
    for place, identifier in enumerate(answer.ids, 1):
        walk = collection.explain("abcde", id=identifier).walk
        assert walk is not None
        assert (walk.rank, walk.k, walk.width) == (place, 10, None)


def test_a_stored_item_is_compared(db: kinbin.Database, histograms: Histograms) -> None:
    """`query_id` explains as the stored vector does."""
    collection = made(db, histograms[:50])
    by_id, by_vector = collection.explain(query_id="3", id="8"), collection.explain(histograms[3], id="8")
    assert by_id == by_vector


def test_tokens_have_names(db: kinbin.Database) -> None:
    """Tokens of the query name their features; those that the item alone has are named by a list of tokens, or by feature."""
    collection = db.create_collection("c", kernel="minmax")
    collection.add(["a"], [{"red": 3, "apple": 1, "pie": 2}])
    (factor,) = collection.explain({"red": 2, "apple": 2}, id="a").factors
    assert [(term.name, term.min, term.max) for term in factor.terms] == [("red", 2, 3), ("apple", 1, 2), (None, 0, 2)]
    assert [term.part for term in factor.terms] == pytest.approx([2 / 7, 1 / 7, 0])
    for names in (["pie"], {kinbin.token_feature("pie"): "pie"}, {str(kinbin.token_feature("pie")): "pie"}):
        (factor,) = collection.explain(kinbin.Tokens({"red": 2}), id="a", feature_names=names).factors  # type: ignore[arg-type]  # as JSON has it
        assert {term.name for term in factor.terms} == {"red", "pie", None}
    assert {term.name for term in collection.explain(["red", "apple"], id="a").factors[0].terms} == {"red", "apple", None}


def test_features_have_names_by_place(db: kinbin.Database) -> None:
    """Where vectors have a length, a list names features from 0 on."""
    collection = db.create_collection("c", kernel="chi2", dim=3)
    collection.add(["a"], [[1, 2, 3]])
    (factor,) = collection.explain([1, 2, 0], id="a", feature_names=["red", "green", "blue"]).factors
    assert [(term.feature, term.name) for term in factor.terms] == [(1, "green"), (0, "red"), (2, "blue")]


def test_one_field_of_several(db: kinbin.Database, rng: np.random.Generator) -> None:
    """Of several fields one is told, and its score is what `parts` of an answer say of it."""
    X = fielded.vectors(rng, 60)
    collection = fielded.filled(db, X)
    query = {name: of[3] for name, of in X.items()}
    answer = collection.query(query, k=5)
    assert answer.parts is not None
    for name, scores in answer.parts.items():
        for identifier, score in zip(answer.ids, scores.tolist(), strict=True):
            told = collection.explain(query[name], id=identifier, field=name)
            assert told.score == pytest.approx(score, abs=1e-12)
            assert told.id == identifier
            assert told == collection.explain(query_id=answer.ids[0], id=identifier, field=name)
    with pytest.raises(kinbin.InvalidInput, match="field is one of"):
        collection.explain(query_id=answer.ids[0], id="1", field="smell")


REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "neither": ({"id": "1"}, "bad_parameter", "a query or a query_id"),
    "both": ({"query": [1, 2, 3], "query_id": "1", "id": "1"}, "bad_parameter", "a query or a query_id"),
    "no such item": ({"query_id": "1", "id": "x"}, "unknown_id", "the id that was given"),
    "no such query": ({"query_id": "x", "id": "1"}, "unknown_id", "the query_id that was given"),
    "bad id": ({"query_id": "1", "id": ""}, "bad_id", "id"),
    "bad vector": ({"query": [1, 2], "id": "1"}, "dimension_mismatch", "dimension 3"),
    "limit": ({"query_id": "1", "id": "1", "limit": 0}, "bad_parameter", "limit"),
    "over limit": ({"query_id": "1", "id": "1", "limit": 1_001}, "over_limit", "limit: at most 1000"),
    "over k": ({"query_id": "1", "id": "1", "k": 1_001}, "over_limit", "k: at most 1000"),
    "curve": ({"query_id": "1", "id": "1", "s_curve": 1}, "bad_parameter", "s_curve is true or false"),
    "names": ({"query_id": "1", "id": "1", "feature_names": "red"}, "bad_parameter", "feature_names are a list"),
    "name": ({"query_id": "1", "id": "1", "feature_names": [1]}, "bad_parameter", "feature_names are strings"),
    "feature": ({"query_id": "1", "id": "1", "feature_names": {"red": "x"}}, "bad_parameter", "feature ids"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case: str, db: kinbin.Database) -> None:
    """What is malformed, or not there, is refused by name."""
    collection = db.create_collection("c", dim=3)
    collection.add(["1"], [[1, 2, 3]])
    given, code, text = REFUSED[case]
    with pytest.raises(kinbin.InvalidInput, match=text) as refused:
        collection.explain(**given)
    assert refused.value.problems[0].code == code
