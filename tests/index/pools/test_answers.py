"""Answers by pools: exact distances, calibrated recall, every object in every state, and no pool where one would promise too much."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinbin
import kinbin.pools.index
import kinbin.pools.pools
from kinbin.storage.format import decode_json, encode_json
from naive_strings import distances, levenshtein, some_strings
from pooled import pools_at_once

N = 400
LETTERS = "abcdefghijklmnopqrst"


def test_the_log_names_the_collection_of_a_pool(db: kinbin.Database, texts: list[str], caplog: pytest.LogCaptureFixture) -> None:
    """Links of what objects are embedded as lie below their collection, and are told by its name."""
    with caplog.at_level(logging.INFO, "kinbin.upkeep"):
        collection_of(db, texts)
    linked = [record.getMessage() for record in caplog.records if ": linked " in record.getMessage()]
    assert linked
    assert all(line.startswith("words/pools/1: linked ") for line in linked)


def collection_of(db: kinbin.Database, texts: list[str]) -> kinbin.Collection:
    """Linked strings; each one's payload has its place."""
    collection = db.create_collection("words", items="strings", seed=1)
    collection.add([str(i) for i in range(len(texts))], texts, [{"place": i} for i in range(len(texts))])
    collection.link()
    return collection


@pytest.fixture(scope="module")
def texts() -> list[str]:
    """Strings, many of them near others."""
    return some_strings(np.random.default_rng(5), N, 20, LETTERS)


@pytest.fixture(scope="module")
def shared(texts: list[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[kinbin.Collection]:
    """A collection that several tests read."""
    with pools_at_once(), kinbin.open(tmp_path_factory.mktemp("pools")) as database:
        yield collection_of(database, texts)


@pytest.fixture
def own(texts: list[str], db: kinbin.Database, pools: None) -> kinbin.Collection:
    """A collection of the test's own."""
    return collection_of(db, texts)


def changed(rng: np.random.Generator, texts: list[str], count: int) -> list[str]:
    """Strings near stored ones that are not stored."""
    return [texts[i][:3] + "!" + texts[i][3:] for i in rng.integers(0, len(texts), count)]


def told(collection: kinbin.Collection) -> dict[str, Any]:
    """What stats tell of pools."""
    found: dict[str, Any] = collection.stats()["pools"]
    return found


def test_pools_find_what_was_calibrated(shared: kinbin.Collection, rng: np.random.Generator, texts: list[str]) -> None:
    """Distances are exact, recall is what calibration says, nothing is claimed of a bound, and one query is answered as a batch is."""
    collection = shared
    stats = told(collection)
    assert (stats["covered"], stats["uncovered"], stats["built_for"]) == (N, 0, N)
    assert stats["embedding"] in stats["tried"]
    assert set(stats["settings"]) == {"grams": {"grams"}, "linear landmarks": {"landmarks", "greatest_distance"}}[stats["embedding"]]
    assert stats["pool"] == next(
        pool for pool, recall in zip(stats["calibration"]["pools"], stats["calibration"]["recall"]["10"], strict=True) if recall >= 0.92
    )
    queries = changed(rng, texts, 60)
    found = collection.query_batch(queries, k=10)
    exact = collection.query_batch(queries, k=10, mode="exact")
    assert found.distances is not None
    assert exact.distances is not None
    assert (found.distances <= exact.distances[:, -1:]).mean() >= 0.9
    walked = [i for i, mode in enumerate(found.modes) if mode == "pool"]
    assert len(walked) >= 50
    for i in walked:
        assert found.no_bounds[i] == "calibrated"
        assert np.isnan(found.recall_lower_bounds[i])
        assert found.verified[i] < N
        assert found.steps[i] == ("score a pool of covered rows",)
        assert found.distances[i].tolist() == [levenshtein(queries[i], texts[int(one)]) for one in found.ids[i]]
    for i in range(20):
        alone = collection.query(queries[i], k=10)
        assert (alone.ids, alone.scores.tolist(), alone.mode) == (found.ids[i].tolist(), found.scores[i].tolist(), found.modes[i])
        assert (alone.recall_lower_bound, alone.no_bound) == ((None, "calibrated") if alone.mode == "pool" else (1.0, None))


def test_a_higher_target_takes_a_deeper_pool(shared: kinbin.Collection, rng: np.random.Generator, texts: list[str]) -> None:
    """Pools grow with the target; where none serves, everything is scored, unless links are asked for."""
    collection = shared
    query = changed(rng, texts, 1)[0]
    verified = [collection.query(query, k=10, target_recall=target).verified for target in (0.3, 0.9, 0.98)]
    assert verified == sorted(verified)
    assert verified[0] < verified[-1]
    assert collection.query(query, k=10, target_recall=1.0).mode == "exact"
    assert collection.query(query, k=200).mode == "exact"
    assert collection.query(query, k=10, target_recall=1.0, mode="links").mode == "pool"


@pytest.mark.parametrize("options", [{"mode": "exact"}, {"certify": True}, {"max_distance": 3.0}], ids=str)
def test_who_asks_for_certainty_gets_it(
    shared: kinbin.Collection, rng: np.random.Generator, texts: list[str], options: dict[str, Any]
) -> None:
    """Exact answers, bounds and ranges are complete: no pool is taken."""
    collection = shared
    for query in changed(rng, texts, 3):
        answer = collection.query(query, k=20, **options)
        true = np.sort(distances(query, texts))[:20]
        assert answer.scores.tolist() == true[true <= options.get("max_distance", 100)].tolist()
        assert (answer.mode, answer.recall_lower_bound) == ("exact", 1.0)


def test_what_came_since_is_scored(own: kinbin.Collection, rng: np.random.Generator, texts: list[str]) -> None:
    """Objects added, replaced and deleted after the index was built are answered, or not, at once; so they are when sealed, and covered."""
    collection = own
    collection.add(["new", "7"], ["brand new string", "another new string"])
    collection.delete(["11"])
    for stage in ("fresh", "sealed", "covered"):
        if stage == "sealed":
            collection.compact()
        if stage == "covered":
            collection.link()
        stats = told(collection)
        assert stats["uncovered"] == (0 if stage == "covered" else 2)
        found = collection.query("brand new strings", k=3, target_recall=0.5)
        assert (found.ids[0], found.scores[0]) == ("new", 1.0)
        assert collection.query("another new string", k=1, target_recall=0.5).ids == ["7"]
        for gone in ("7", "11"):
            assert gone not in collection.query(texts[int(gone)], k=20, target_recall=0.5, mode="links").ids
        steps = ("score a pool of covered rows",) + (() if stage == "covered" else ("scan other rows",))
        assert collection.query(texts[20], k=3, mode="links").steps == steps
    assert collection.check().ok


def test_filters_deepen_pools(shared: kinbin.Collection, rng: np.random.Generator, texts: list[str]) -> None:
    """Under a filter only what passes is answered, with the recall that is wanted; one that lets little through is answered by a scan."""
    collection = shared
    queries = changed(rng, texts, 30)
    for limit in (N // 2, N // 4, 20):
        wanted = {"place": {"$lt": limit}}
        found = collection.query_batch(queries, k=5, filter=wanted)
        exact = collection.query_batch(queries, k=5, filter=wanted, mode="exact")
        assert all(int(one) < limit for one in found.ids.reshape(-1))
        assert (found.scores <= exact.scores[:, -1:]).mean() >= 0.9
        if limit == 20:
            # One in twenty: those that pass are scored.
            assert set(found.modes) == {"exact"}


@pytest.mark.parametrize("mode", ["auto", "links", "exact"])
def test_a_filter_that_nothing_passes_has_no_answers(shared: kinbin.Collection, texts: list[str], mode: str) -> None:
    """In any mode."""
    assert shared.query(texts[0], filter={"place": -1}, mode=mode).ids == []
    assert shared.query_batch(texts[:2], filter={"place": -1}, mode=mode).ids.tolist() == [[None] * 10] * 2


def test_queries_unlike_all_are_scanned(shared: kinbin.Collection, texts: list[str]) -> None:
    """A query farther from its neighbours than every calibrated one is answered completely, and told."""
    collection = shared
    strange = "0123456789" * 6
    answer = collection.query(strange, k=10)
    assert answer.out_of_distribution
    assert (answer.mode, answer.recall_lower_bound) == ("exact", 1.0)
    assert answer.scores.tolist() == np.sort(distances(strange, texts))[:10].tolist()
    walked = collection.query(strange, k=10, mode="links")
    assert (walked.mode, walked.out_of_distribution) == ("pool", True)


def test_the_index_is_built_anew_when_objects_have_doubled(
    pools: None, db: kinbin.Database, rng: np.random.Generator, texts: list[str]
) -> None:
    """Some more objects extend the index, and twice as many make a new one; the old one's files go."""
    collection = collection_of(db, texts[:150])
    folder = db.path / "collections" / "words" / "pools"
    assert sorted(one.name for one in folder.iterdir()) == ["1", "current"]
    before = told(collection)
    collection.add([str(i) for i in range(150, 250)], texts[150:250])
    collection.link()
    assert told(collection)["built_for"] == 150
    assert (told(collection)["covered"], told(collection)["tried"]) == (250, before["tried"])
    collection.add([str(i) for i in range(250, N)], texts[250:])
    collection.link()
    assert (told(collection)["built_for"], told(collection)["uncovered"]) == (N, 0)
    assert sorted(one.name for one in folder.iterdir()) == ["2", "current"]


def test_due_work_is_known(pools: None, db: kinbin.Database, texts: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """In the background an index is built from so many objects on, extended for enough new ones, and else left alone."""
    monkeypatch.setattr(kinbin.pools.pools, "LEAST_OBJECTS", 200)
    collection = db.create_collection("words", items="strings", seed=1)
    index: Any = collection._pools
    collection.add([str(i) for i in range(199)], texts[:199])
    assert index._step(quiet=True)
    assert collection.stats()["pools"] is None
    collection.add(["199"], [texts[199]])
    assert index._step(quiet=True)
    assert told(collection)["covered"] == 200
    collection.add([str(i) for i in range(200, 240)], texts[200:240])
    assert index._step(quiet=True)
    assert told(collection)["uncovered"] == 40
    collection.add([str(i) for i in range(240, 270)], texts[240:270])
    assert index._step(quiet=True)
    assert told(collection)["uncovered"] == 0


def damage(folder: Path, how: str) -> None:
    """Harm the files of an index."""
    current = folder / "current"
    data = bytearray(current.read_bytes())
    if how == "gone":
        current.unlink()
    elif how == "cut":
        current.write_bytes(data[:50])
    elif how == "flipped":
        data[60] ^= 4
        current.write_bytes(data)
    elif how == "another version":
        current.write_bytes(encode_json(decode_json(bytes(data), "") | {"version": 99}))
    else:
        (generation,) = [one for one in folder.iterdir() if one.is_dir()]
        generation.rename(folder / "moved")


@pytest.mark.slow
def test_a_damaged_index_is_done_without_and_made_again(pools: None, tmp_path: Path, texts: list[str]) -> None:
    """Whatever becomes of the index's files, queries are answered, completely if without it; `link` makes it again."""
    some = texts[:150]
    with kinbin.open(tmp_path) as db:
        collection_of(db, some)
    for how in ("gone", "cut", "flipped", "another version", "moved"):
        damage(tmp_path / "collections" / "words" / "pools", how)
        with kinbin.open(tmp_path) as db:
            collection = db.collection("words")
            answer = collection.query(some[5], k=10)
            assert (answer.mode, answer.ids[0]) == ("exact", "5"), how
            assert answer.scores.tolist() == np.sort(distances(some[5], some))[:10].tolist()
            collection.link()
            assert told(collection)["covered"] == 150
            assert collection.query(some[5], k=10, mode="links").mode == "pool"


def test_there_are_no_bands(shared: kinbin.Collection, texts: list[str]) -> None:
    """Who asks for bands is told that objects have none, rather than answered by something else."""
    for call in (lambda: shared.query(texts[0], mode="bands"), lambda: shared.query_batch(texts[:2], mode="bands")):
        with pytest.raises(kinbin.InvalidInput, match="levenshtein has no bands") as caught:
            call()
        assert caught.value.problems[0].field == "mode"


def test_scans_and_pools_are_timed_for_few(shared: kinbin.Collection) -> None:
    """Stats tell what was measured for one neighbour and for ten."""
    told = shared.stats()["pools"]["calibration"]
    assert told["fewer"].keys() == {"1", "10"}
    for one in told["fewer"].values():
        assert len(one["us"]) == len(told["pools"])
        assert min(*one["us"], one["scan_us"]) > 0.0
