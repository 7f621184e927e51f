"""Duplicates of a collection against all pairs, scored by definition."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import kinbin
import naive
from kinbin.duplicates import search, stream
from kinbin.duplicates.buckets import all_pairs
from kinbin.duplicates.planning import ALL_PAIRS, Plan, bands_for, missed

Found = dict[tuple[str, str], float]
ROWS = 400
SCORES = (0.5, 0.65, 0.8, 0.9, 0.95)


def near_copies(rng: np.random.Generator, X: NDArray[Any], noise: float) -> NDArray[np.float32]:
    """The rows, and as many that differ from them by less and less."""
    strength = np.linspace(0.0, noise, len(X))[:, None]
    copies = X * np.exp(strength * rng.normal(size=X.shape))
    return np.concatenate([X, copies]).astype(np.float32)


def dense(rng: np.random.Generator) -> NDArray[np.float32]:
    """Histograms of few large values."""
    return near_copies(rng, rng.gamma(0.4, size=(ROWS, 32)) + 1e-3, 1.2)


def sets(rng: np.random.Generator) -> NDArray[np.float32]:
    """Sets of features, and copies that lost or won some."""
    X = (rng.random((ROWS, 300)) < 0.1).astype(np.float32)
    X[:, 0] = 1.0
    flips = rng.random((ROWS, 300)) < np.linspace(0.0, 0.08, ROWS)[:, None]
    copies = np.where(flips, 1.0 - X, X)
    copies[:, 0] = 1.0
    return np.concatenate([X, copies]).astype(np.float32)


def signed(rng: np.random.Generator) -> NDArray[np.float32]:
    """Vectors with values of both signs."""
    return near_copies(rng, rng.normal(size=(ROWS, 24)), 1.2)


SETS: dict[str, tuple[Callable[[np.random.Generator], NDArray[np.float32]], str]] = {
    "dense": (dense, "ngmm"),
    "sets": (sets, "minmax"),
    "signed": (signed, "gmm"),
    "shapes": (dense, "chi2"),
    "angles": (signed, "cosine"),
}


def filled(db: kinbin.Database, name: str, kernel: str, X: NDArray[np.float32], seed: int = 1) -> kinbin.Collection:
    """A collection of the rows of X, half of them in a run."""
    collection = db.create_collection(name, kernel=kernel, dim=X.shape[1], seed=seed)
    ids = [f"{i:05}" for i in range(len(X))]
    half = len(X) // 2
    collection.add(ids[:half], X[:half])
    collection.compact()
    collection.add(ids[half:], X[half:])
    return collection


def scored(kernel: str, X: NDArray[np.float32]) -> NDArray[np.float64]:
    """(n, n) scores by definition."""
    return np.array([naive.dense_scores(kernel, row, X) for row in X])


def found_by(collection: kinbin.Collection, *given: Any, **options: Any) -> Found:
    """Pairs and their scores; each is told once."""
    listed = list(collection.duplicates(*given, **options))
    told = {(pair.a, pair.b): pair.score for pair in listed}
    assert len(told) == len(listed)
    return told


@pytest.mark.slow
@pytest.mark.usefixtures("quiet")
@pytest.mark.recall
@pytest.mark.parametrize("made", SETS)
def test_pairs_are_found_as_often_as_stated(db: kinbin.Database, rng: np.random.Generator, made: str) -> None:
    """At every score the share of pairs that are found is the stated probability at least, and none is wrong, over seeds of the hashes."""
    build, kernel = SETS[made]
    X = build(rng)
    truth = scored(kernel, X)
    seeds = 4
    collections = [filled(db, f"c{seed}", kernel, X, seed) for seed in range(seeds)]
    for least in SCORES:
        first, second = np.nonzero(np.triu(truth >= least + 1e-6, 1))
        wanted = {(f"{a:05}", f"{b:05}") for a, b in zip(first.tolist(), second.tolist(), strict=True)}
        missing = 0
        for collection in collections:
            answer = collection.duplicates(least, miss=0.2)
            found = {(pair.a, pair.b): pair.score for pair in answer}
            assert answer.complete
            assert answer.miss_probability is not None
            assert answer.miss_probability <= 0.2
            for (a, b), score in found.items():
                assert score >= least
                assert score == pytest.approx(truth[int(a), int(b)], abs=2e-6)
            missing += len(wanted - found.keys())
        # Pairs of the very score are missed as stated, and so four deviations of such are allowed for.
        total = seeds * len(wanted)
        assert missing <= 0.2 * total + 4 * np.sqrt(0.16 * total)


@pytest.mark.usefixtures("quiet")
def test_the_least_similar_pairs_are_missed_no_more_than_stated(db: kinbin.Database, rng: np.random.Generator) -> None:
    """Pairs that score just the limit are found with the stated probability, whatever number of hashes makes a key."""
    base = np.zeros((300, 600), np.float32)
    for row in base:
        row[rng.choice(600, 40, replace=False)] = 1.0
    other = base.copy()
    for row in other:
        row[rng.choice(np.flatnonzero(row), 8, replace=False)] = 0.0
    X = np.concatenate([base, other])
    share = {}
    for plan in (Plan(3, 1, 3, 0.0), Plan(8, 2, 20, 0.0), Plan(6, 4, 40, 0.0)):
        found = 0
        for seed in range(4):
            collection = filled(db, f"c{seed}-{plan.hashes}", "minmax", X, seed)
            with collection._reading() as (_, view):
                source = stream._living(view, None)
                join = search.Join(source, collection._space, collection._wide, plan, 0.8)
                with join.hashed(collection._sampler.codes, None) as keys:
                    for a, b, _ in join.pairs(keys):
                        found += int((b - a == 300).sum())
        share[plan.hashes] = found / 1_200
        stated = 1.0 - missed(0.8, plan.hashes, plan.bands)
        assert share[plan.hashes] >= stated - 4 * np.sqrt(stated * (1 - stated) / 1_200)
    assert min(share.values()) < 0.95, "nothing would be missed anyway"


@pytest.mark.usefixtures("quiet")
def test_clusters_are_what_the_pairs_connect(db: kinbin.Database, rng: np.random.Generator) -> None:
    """Clusters are the connected components of all pairs, with the least score that joins them at the limit or above."""
    X = dense(rng)
    X[5] = X[6] = X[7]
    collection = filled(db, "c", "ngmm", X)
    pairs = found_by(collection, 0.9, miss=0)
    above = dict.fromkeys(range(len(X)))
    parent = {f"{i:05}": f"{i:05}" for i in above}

    def top(key: str) -> str:
        while parent[key] != key:
            key = parent[key]
        return key

    for a, b in pairs:
        parent[top(b)] = top(a)
    components: dict[str, set[str]] = {}
    for key in parent:
        components.setdefault(top(key), set()).add(key)
    wanted = sorted(tuple(sorted(ids)) for ids in components.values() if len(ids) > 1)
    clusters = list(collection.duplicates(0.9, "clusters", miss=0))
    assert sorted(cluster.ids for cluster in clusters) == wanted
    assert all(cluster.keep == cluster.ids[0] and 0.9 <= cluster.least <= 1.0 for cluster in clusters)
    by_bands = {key: cluster.keep for cluster in collection.duplicates(0.9, "clusters", miss=1e-9) for key in cluster.ids}
    assert by_bands == {key: cluster.keep for cluster in clusters for key in cluster.ids}


@pytest.mark.usefixtures("quiet")
def test_passes_tell_every_pair_once(db: kinbin.Database, rng: np.random.Generator) -> None:
    """With room for the buckets of one band at a time, and keys in a file, the pairs and clusters are the same."""
    collection = filled(db, "c", "ngmm", dense(rng))
    with collection._reading() as (_, view):
        source = stream._living(view, None)

        def told(budget: search.Budget) -> tuple[list[tuple[int, int]], list[int]]:
            plan = Plan(2, 1, 12, 0.0)
            join = search.Join(source, collection._space, collection._wide, plan, 0.8, budget=budget)
            with join.hashed(collection._sampler.codes, collection._store.path) as keys:
                pairs = [(a, b) for one in join.pairs(keys) for a, b in zip(one[0].tolist(), one[1].tolist(), strict=True)]
                parents = np.arange(len(source), dtype=np.uint32)
                for _ in join.clusters(keys, parents):
                    pass
            return sorted(pairs), stream._roots(parents).tolist()

        one, many = told(search.Budget()), told(search.Budget(places=1, keys=0))
        assert one == many
        assert len(set(one[0])) == len(one[0]) > 100


@pytest.mark.usefixtures("quiet")
def test_what_is_not_there_is_not_told(db: kinbin.Database, rng: np.random.Generator) -> None:
    """Deleted, replaced and filtered items are in no pair; an answer keeps to the moment at which it began."""
    X = sets(rng)
    collection = filled(db, "c", "minmax", X)
    collection.add([f"{i:05}" for i in range(len(X))], X, [{"even": i % 2 == 0} for i in range(len(X))])
    everything = found_by(collection, 0.8, miss=0)
    collection.delete([f"{i:05}" for i in range(100)])
    collection.add(["00100"], np.eye(1, 300, 299, dtype=np.float32))
    left = {pair: score for pair, score in everything.items() if pair[0] > "00100"}
    assert found_by(collection, 0.8, miss=0) == left
    even = {pair: score for pair, score in left.items() if int(pair[0]) % 2 == 0 and int(pair[1]) % 2 == 0}
    assert even
    assert found_by(collection, 0.8, miss=0, filter={"even": True}) == even
    assert {key for one in collection.duplicates(0.8, "clusters", miss=0, filter={"even": True}) for key in one.ids} == {
        key for pair in even for key in pair
    }
    collection.add(["same", "also", "other"], np.tile(np.eye(1, 300, 298, dtype=np.float32), (3, 1)), [{"new": x} for x in (1, 1, 2)])
    assert found_by(collection, 0.8, filter={"new": 1}) == {("also", "same"): 1.0}
    assert found_by(collection, 0.8, filter={"new": 2}) == {}
    collection.delete(["same", "also", "other"])
    answer = collection.duplicates(0.8, miss=0)
    first = next(answer)
    collection.delete([f"{i:05}" for i in range(len(X))])
    assert {(pair.a, pair.b) for pair in [first, *answer]} == left.keys()


@pytest.mark.usefixtures("quiet")
def test_the_same_thousands_of_times_takes_no_longer(db: kinbin.Database, rng: np.random.Generator) -> None:
    """Items of the same vector are one row; rows that hardly differ are scored about once in a search for clusters."""
    collection = db.create_collection("c", kernel="ngmm", dim=64, seed=1)
    base = rng.gamma(0.5, size=64) + 0.01
    collection.add([f"same{i:05}" for i in range(3_000)], np.tile(base, (3_000, 1)))
    assert collection.duplicates(0.9).compared == 0
    pairs = list(answer := collection.duplicates(0.9))
    assert [(pair.a, pair.b, pair.score) for pair in pairs] == [("same00000", f"same{i:05}", 1.0) for i in range(1, 3_000)]
    assert answer.compared == 0
    # Told apart by their scale alone, or by a little.
    collection.add([f"like{i:05}" for i in range(3_000)], base * (1.0 + 0.001 * rng.random((3_000, 64))))
    answer = collection.duplicates(0.9, "clusters")
    (cluster,) = answer
    assert len(cluster.ids) == 6_000
    assert cluster.keep == "like00000"
    assert answer.compared < 20_000
    with collection._reading() as (_, view):
        source = stream._living(view, None)
        buckets = all_pairs(len(source))
        join = search.Join(source, collection._space, collection._wide, ALL_PAIRS, 0.9)
        for _ in join._joined(buckets, np.arange(len(source), dtype=np.uint32)):
            pass
        assert buckets.merged.all(), "each row would look at all others again"


@pytest.mark.usefixtures("quiet")
@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("kernel", "parameters", "least"),
    [("acos", {}, 1e-3), ("acos", {}, 1e-12), ("rbf", {"gamma": 20.0}, 1e-10), ("exp_chi2", {"gamma": 50.0}, 1e-20), ("ngmm", {}, 1e-300)],
)
def test_scores_near_zero_are_limits_as_others(
    db: kinbin.Database, rng: np.random.Generator, kernel: str, parameters: dict[str, float], least: float
) -> None:
    """Where a printed score turns into very small ones, its limit is found at once, and the pairs are those that queries find."""
    X = np.abs(rng.normal(size=(40, 6))).astype(np.float32)
    X[20:, 3:], X[:20, :3] = 0.0, 0.0
    X[0], X[1] = [1, 0, 0, 0, 0, 0], [1e-3, 1, 0, 0, 0, 0]
    collection = db.create_collection("c", kernel=kernel, parameters=parameters, dim=6)
    ids = [f"{i:02}" for i in range(len(X))]
    collection.add(ids, X)
    found = {(pair.a, pair.b): pair.score for pair in collection.duplicates(least, miss=0)}
    answers = collection.query_batch(X, k=len(X), mode="exact", min_score=least)
    told = zip(ids, answers, strict=True)
    pairs = ((one, other, score) for one, answer in told for other, score in zip(answer.ids, answer.scores, strict=True))
    wanted = {(one, other): score for one, other, score in pairs if one < other}
    assert found.keys() == wanted.keys()
    assert [found[pair] for pair in wanted] == pytest.approx(list(wanted.values()), rel=1e-12)


def test_objects_are_compared_pair_by_pair(db: kinbin.Database) -> None:
    """Where no hash tells how near two items are all pairs are compared, and nothing is missed; there is a limit to how many."""
    collection = db.create_collection("words", items="strings", distance="levenshtein")
    collection.add(list("abcd"), ["kitten", "sitten", "sitting", "unlike"])
    answer = collection.duplicates(max_distance=2)
    assert sorted((pair.a, pair.b, pair.score) for pair in answer) == [("a", "b", 1.0), ("b", "c", 2.0)]
    assert answer.miss_probability == 0.0
    with pytest.raises(kinbin.InvalidInput, match="use max_distance, not min_score"):
        collection.duplicates(0.5)


def test_more_rows_than_can_be_compared_are_refused(db: kinbin.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many rows without hashes an answer is refused, unless all pairs are asked for."""
    monkeypatch.setattr("kinbin.duplicates.planning._MOST_COMPARED", 3)
    collection = db.create_collection("words", items="strings", distance="levenshtein")
    collection.add(list("abcd"), ["kitten", "sitten", "sitting", "unlike"])
    with pytest.raises(kinbin.InvalidInput, match="not all pairs are compared"):
        next(collection.duplicates(max_distance=2))
    assert len(list(collection.duplicates(max_distance=2, miss=0))) == 2


def test_bad_parameters_are_refused_at_once(db: kinbin.Database) -> None:
    """What is malformed is told before anything is read."""
    collection = db.create_collection("c", kernel="ngmm", dim=2)
    refused: list[tuple[dict[str, Any], str]] = [
        ({}, "give min_score"),
        ({"min_score": 1.5}, "from 0 to 1"),
        ({"max_distance": 1.0}, "use min_score"),
        ({"min_score": 0.5, "as_": "groups"}, "pairs"),
        ({"min_score": 0.5, "miss": 1.0}, "miss is 0, or a probability"),
        ({"min_score": 0.5, "miss": "little"}, "miss is 0, or a probability"),
        ({"min_score": 0.5, "filter": {"$no": 1}}, "no"),
        ({"min_score": 0.5, "cancel": 1}, "threading.Event"),
    ]
    for given, text in refused:
        with pytest.raises(kinbin.InvalidInput, match=text):
            collection.duplicates(**given)
    assert list(collection.duplicates(0.5)) == []
    assert list(collection.duplicates(0.5, "clusters")) == []


@pytest.mark.usefixtures("quiet")
def test_a_search_is_cancelled_and_closed(db: kinbin.Database, rng: np.random.Generator) -> None:
    """Once cancel is set the search ends with SearchCancelled; an answer that is closed holds no snapshot."""
    collection = filled(db, "c", "ngmm", dense(rng))
    cancel = threading.Event()
    told: list[str] = []

    def stop(stage: str, done: int, rows: int) -> None:
        assert 0 < done <= rows == 2 * ROWS - 1, "the first copy is the same row"
        told.append(stage)
        if stage == "comparing":
            cancel.set()

    with pytest.raises(kinbin.SearchCancelled):
        list(collection.duplicates(0.7, cancel=cancel, progress=stop))
    assert told == ["hashing", "comparing"]
    with collection.duplicates(0.7) as answer:
        next(answer)
        assert not answer.complete
    assert list(answer) == []


def test_a_database_closes_answers_that_nobody_read_to_the_end(tmp_path: Path, rng: np.random.Generator) -> None:
    """Closing waits for no reader who stopped early; the answer is at its end then."""
    with kinbin.open(tmp_path) as database:
        collection = database.create_collection("c", dim=4)
        collection.add([str(n) for n in range(200)], rng.random((200, 4)))
        found = collection.duplicates(0.5)
        next(found)
    # One that waited would hang, and the time limit of tests would end it.
    assert next(found, None) is None
    assert not found.complete


def test_bands_keep_the_promise_with_the_fewest() -> None:
    """The number of bands is the least that misses no more than asked."""
    for p in (5e-324, 2e-308, 1e-40, 0.1, 0.5, 0.9, 1.0):
        for hashes in (1, 4, 8, 16):
            for miss in (0.2, 0.01, 1e-6):
                bands = bands_for(p, hashes, miss)
                if bands is None:
                    assert (1.0 - p**hashes) ** 256 > miss
                    continue
                assert (1.0 - p**hashes) ** bands <= miss * (1 + 1e-9)
                assert bands == 1 or (1.0 - p**hashes) ** (bands - 1) > miss * (1 - 1e-9)
