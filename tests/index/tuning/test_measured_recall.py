"""What `recall` measures: by score, in one snapshot, every mode alike."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import bundled
import kinbin
import naive
from kinbin.tuning.measuring import recall_of
from linked import still

K = 5


def all_scores(Q: NDArray[np.float32], X: NDArray[np.float32], kernel: str = "ngmm") -> NDArray[np.float64]:
    """(m, n) exact scores, by the definition."""
    return np.array([naive.dense_scores(kernel, q, X) for q in Q])


@pytest.fixture(scope="module")
def photographs() -> dict[str, NDArray[np.float32]]:
    """Colours of patches."""
    X = bundled.BUNDLED["photographs"]()
    return {"rows": X["X_train"][:2_000], "queries": X["X_test"][:60]}


@pytest.fixture(scope="module")
def linked(tmp_path_factory: pytest.TempPathFactory, photographs: dict[str, NDArray[np.float32]]) -> Iterator[kinbin.Collection]:
    """A linked collection of patches, whose bands are so long that they miss some."""
    with still(), kinbin.open(tmp_path_factory.mktemp("recall")) as database:
        collection = database.create_collection("patches", dim=512, seed=2, rows=7, bands=40)
        collection.add([str(i) for i in range(2_000)], photographs["rows"])
        collection.link()
        yield collection


@pytest.mark.slow
def test_given_queries_are_measured_as_the_twin_does(linked: kinbin.Collection, photographs: dict[str, NDArray[np.float32]]) -> None:
    """Of each mode the mean and the lowest recall are those by the definition, the certificate is the mean of the answers' bounds."""
    told = linked.recall(photographs["queries"], K)
    truth = all_scores(photographs["queries"], photographs["rows"])
    assert (told.queries, told.k, told.sampled) == (60, K, False)
    assert [one.mode for one in told.modes] == ["auto", "bands", "links", "exact"]
    for one in told.modes:
        answers = linked.query_batch(photographs["queries"], k=K, mode=one.mode)
        recalls = [naive.recall(answer.scores, row, K) for answer, row in zip(answers, truth, strict=True)]
        bounds = [answer.recall_lower_bound for answer in answers if answer.recall_lower_bound is not None]
        assert one.recall == pytest.approx(np.mean(recalls))
        assert one.lowest == min(recalls)
        assert one.certificate == (pytest.approx(np.mean(bounds)) if bounds else None)
        assert one.certified == len(bounds) / 60
        assert one.milliseconds > 0.0
    by_mode = {one.mode: one for one in told.modes}
    assert by_mode["exact"].lowest == by_mode["exact"].certificate == 1.0
    assert (by_mode["bands"].recall or 1.0) < 0.95


def test_a_sampled_row_is_left_out_of_its_own_answers(db: kinbin.Database, photographs: dict[str, NDArray[np.float32]]) -> None:
    """Bands always find the row itself; recall is that of the others, as queries by id have it."""
    rows = photographs["rows"][:250]
    collection = db.create_collection("few", dim=512, seed=1, rows=7, bands=15)
    collection.add([str(i) for i in range(250)], rows)
    collection.compact()
    told = collection.recall(250, K, modes=["bands"])
    assert told.sampled
    alone, together = [], []
    for i, row in enumerate(all_scores(rows, rows)):
        alone.append(naive.recall(collection.query_id(str(i), k=K, mode="bands").scores, np.delete(row, i), K))
        together.append(naive.recall(collection.query_id(str(i), k=K, mode="bands", include_self=True).scores, row, K))
    assert told.modes[0].recall == pytest.approx(np.mean(alone))
    assert float(told.modes[0].recall or 1.0) < np.mean(together) - 0.03


def test_every_row_is_asked_once(db: kinbin.Database, photographs: dict[str, NDArray[np.float32]]) -> None:
    """More rows than there are are all of them; one that several items share leaves out one of these, and the others are its neighbours."""
    collection = db.create_collection("few", dim=512, seed=1, rows=4, bands=20)
    collection.add([str(i) for i in range(150)], photographs["rows"][:150])
    collection.add([f"twin {i}" for i in range(10)], photographs["rows"][:10])
    told = collection.recall(1_000, K, modes=["exact"])
    assert told.queries == 150
    assert told.modes[0].recall == told.modes[0].lowest == 1.0


def test_recall_counts_by_score() -> None:
    """Ties at the k-th place count for whoever was found; what has nothing in common with the query is neither hit nor miss."""
    assert recall_of(np.array([0.9, 0.5]), np.array([0.9, 0.5]), 0.0) == 1.0
    assert recall_of(np.array([0.5, 0.5]), np.array([0.9, 0.5]), 0.0) == 1.0
    assert recall_of(np.array([0.5, 0.4]), np.array([0.9, 0.5]), 0.0) == 0.5
    assert recall_of(np.array([0.9]), np.array([0.9, 0.5]), 0.0) == 0.5
    assert recall_of(np.array([0.9, 0.0]), np.array([0.9, 0.0]), 0.0) == 1.0
    assert recall_of(np.array([0.0, 0.0]), np.array([0.9, 0.0]), 0.0) == 0.0
    assert recall_of(np.array([0.0]), np.array([0.0]), 0.0) is None
    assert recall_of(np.array([-1.0, -3.0]), np.array([-1.0, -2.0]), -1e15) == 0.5


def test_collections_without_bands_or_links_are_measured_by_what_they_have(db: kinbin.Database, rng: np.random.Generator) -> None:
    """Strings have no bands: auto and exact scans are measured, and distances count as well as similarities."""
    words = db.create_collection("words", items="strings", distance="levenshtein")
    made = ["".join(chr(97 + c) for c in rng.integers(0, 4, 8)) for _ in range(60)]
    words.add([str(i) for i in range(60)], made)
    told = words.recall(20, 3)
    assert [one.mode for one in told.modes] == ["auto", "exact"]
    assert all(one.recall == 1.0 for one in told.modes)
    assert db.create_collection("none", dim=3).recall(10).queries == 0


def test_what_is_malformed_is_refused(linked: kinbin.Collection) -> None:
    """Numbers out of range, unknown modes, vectors of another length."""
    wrong: dict[str, Any]
    for wrong in ({"queries": 0}, {"queries": 5_001}, {"queries": True}, {"modes": ["fast"]}, {"k": 0}, {"seed": 1.5}):
        with pytest.raises(kinbin.InvalidInput):
            linked.recall(**wrong)
    with pytest.raises(kinbin.InvalidInput, match="dimension"):
        linked.recall(np.ones((2, 3)))


def test_modes_without_means_are_refused(tmp_path: Path, photographs: dict[str, NDArray[np.float32]]) -> None:
    """Links are not measured where there are none, nor bands of objects that are not hashed."""
    with still(), kinbin.open(tmp_path) as database:
        collection = database.create_collection("patches", dim=512)
        collection.add([str(i) for i in range(60)], photographs["queries"])
        with pytest.raises(kinbin.InvalidInput, match="has no links") as refused:
            collection.recall(10, K, modes=["exact", "links"])
        assert (refused.value.problems[0].code, refused.value.problems[0].field) == ("bad_parameter", "modes")
        words = database.create_collection("words", items="strings")
        words.add(["a", "b"], ["kitten", "mitten"])
        with pytest.raises(kinbin.InvalidInput, match="has no bands"):
            words.recall(2, 1, modes=["bands"])
