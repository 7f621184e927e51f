"""Links of kernels that are functions of a cosine: walks over projections, scans pruned by them, and what becomes of directions."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import kinbin
import naive
from kinbin.codes.coder import choose_coder
from kinbin.storage.format import Part
from linked import names, still, true_scores
from mechanisms import MECHANISMS

pytestmark = pytest.mark.slow

K, DIM = 10, 120
KERNELS = [name for name, space in kinbin.KERNELS.items() if space.geometry != "L1 of shapes"]
STANDING = [name for name in KERNELS if name in MECHANISMS]
"""Those of them that stand for the others, whose prints are functions of the same scores."""
Rows = NDArray[np.float32]


@pytest.fixture(autouse=True)
def _still() -> Iterator[None]:
    with still():
        yield


def rows_of(kernel: str, n: int, seed: int, directions: slice = slice(0, 90)) -> Rows:
    """Rows around 25 centres, in some of the directions only; with both signs where the kernel takes them."""
    rng, centres = np.random.default_rng(seed), np.random.default_rng(1).normal(size=(25, DIM))
    X = centres[rng.integers(0, 25, n)] + 0.6 * rng.normal(size=(n, DIM))
    kept = np.zeros(DIM)
    kept[directions] = 1.0
    X = (X if kinbin.KERNELS[kernel].signed else np.abs(X)) * kept
    return np.asarray(X * rng.lognormal(0.0, 0.5, (n, 1)), np.float32)


def linked(db: kinbin.Database, kernel: str, X: Rows, name: str = "c", seed: int = 5) -> kinbin.Collection:
    """A linked collection of rows."""
    collection = db.create_collection(name, kernel=kernel, dim=DIM, seed=seed)
    collection.add(names(range(len(X))), X)
    collection.link()
    return collection


def recall_of(answers: kinbin.AnswerBatch, truth: NDArray[np.float64]) -> float:
    """Of all answers, in the mean; their scores must be right."""
    for answer, row in zip(answers, truth, strict=True):
        assert np.abs(answer.scores - row[[int(one) for one in answer.ids]]).max() <= naive.SCORE_ERROR
    return float(np.mean([naive.recall(answer.scores, row, K) for answer, row in zip(answers, truth, strict=True)]))


def stored_parts(collection: Any) -> dict[bytes, bytes]:
    """Parts of the one link set."""
    with collection._store.read() as reader:
        (number,) = reader.link_sets()
        return {part: bytes(reader.run_part(number, part)) for part in (Part.DIRECTIONS, Part.CODES, Part.LINKS, Part.ERRORS)}


@pytest.mark.parametrize("kernel", KERNELS)
def test_answers(kernel: str, db: kinbin.Database) -> None:
    """An exact scan of linked rows is the full scan, and scores few of them; walks find what they should, by scores that are right."""
    X, Q = rows_of(kernel, 2_500, 1), rows_of(kernel, 60, 2)
    plain = db.create_collection("plain", kernel=kernel, dim=DIM, seed=5)
    plain.add(names(range(len(X))), X)
    collection, truth = linked(db, kernel, X), true_scores(kernel, X, Q)
    assert collection.stats()["links"]["code_layout"] == "units"
    exact, full = (one.query_batch(Q, k=K, mode="exact") for one in (collection, plain))
    np.testing.assert_array_equal(exact.ids, full.ids)
    np.testing.assert_array_equal(exact.scores, full.scores)
    assert recall_of(exact, truth) == 1.0
    assert exact.verified.mean() < 0.5 * len(X)
    for target in (0.7, 0.9):
        walked = collection.query_batch(Q, k=K, mode="links", target_recall=target)
        assert recall_of(walked, truth) >= target
        assert walked.mode == "links"
        assert walked.verified.mean() < 0.2 * len(X)


@pytest.mark.parametrize("kernel", STANDING)
def test_turned_and_scaled_queries(kernel: str, db: kinbin.Database) -> None:
    """A query that is a multiple of a row finds it first, with score 1; one in directions that no row has is answered as completely."""
    X = rows_of(kernel, 1_500, 1)
    collection = linked(db, kernel, X)
    answers = collection.query_batch(1e6 * X[:40], k=1, mode="links")
    assert np.mean(answers.ids[:, 0] == names(range(40))) >= 0.97
    Q = rows_of(kernel, 20, 3, slice(60, DIM))
    assert recall_of(collection.query_batch(Q, k=K, mode="exact"), true_scores(kernel, X, Q)) == 1.0
    elsewhere = np.zeros((1, DIM), np.float32)
    elsewhere[0, 100:] = 1.0
    for mode in ("exact", "links", "auto"):
        answer = collection.query_batch(elsewhere, k=K, mode=mode)[0]
        assert len(answer.ids) == K
        np.testing.assert_allclose(answer.scores, true_scores(kernel, X, elsewhere)[0][[int(one) for one in answer.ids]], atol=1e-6)


@pytest.mark.parametrize("kernel", STANDING)
def test_linking_more_keeps_the_directions(kernel: str, db: kinbin.Database) -> None:
    """New rows like the old, deletes and merges: the directions stay as they are, and all that is there is found."""
    X, Q = rows_of(kernel, 2_000, 1), rows_of(kernel, 40, 2)
    collection = linked(db, kernel, X[:1_400])
    before = stored_parts(collection)
    collection.delete(names(range(0, 300, 3)))
    collection.add(names(range(1_400, 2_000)), X[1_400:])
    collection.compact()
    collection.link()
    after = stored_parts(collection)
    assert after[Part.DIRECTIONS] == before[Part.DIRECTIONS]
    assert after[Part.CODES] != before[Part.CODES]
    truth = true_scores(kernel, X, Q)
    truth[:, 0:300:3] = -9.0
    assert recall_of(collection.query_batch(Q, k=K, mode="links"), truth) >= 0.9
    assert recall_of(collection.query_batch(Q, k=K, mode="exact"), truth) == 1.0
    assert collection.check().ok


@pytest.mark.parametrize("kernel", STANDING)
def test_drifted_rows_get_new_directions(kernel: str, db: kinbin.Database, caplog: pytest.LogCaptureFixture) -> None:
    """Rows in directions that the old ones have nothing of: scans stay exact at once, and the next link() chooses directions anew."""
    X = np.concatenate([rows_of(kernel, 1_300, 1, slice(0, 60)), rows_of(kernel, 500, 2, slice(60, DIM))])
    Q = np.concatenate([rows_of(kernel, 20, 3, slice(0, 60)), rows_of(kernel, 20, 4, slice(60, DIM))])
    truth = true_scores(kernel, X, Q)
    collection = linked(db, kernel, X[:1_300])
    before = stored_parts(collection)
    collection.add(names(range(1_300, 1_800)), X[1_300:])
    assert recall_of(collection.query_batch(Q, k=K, mode="exact"), truth) == 1.0
    with caplog.at_level(logging.INFO, "kinbin.upkeep"):
        collection.link()
    assert "chosen anew" in caplog.text
    assert stored_parts(collection)[Part.DIRECTIONS] != before[Part.DIRECTIONS]
    assert collection.stats()["links"]["rows"] == 1_800
    assert recall_of(collection.query_batch(Q, k=K, mode="exact"), truth) == 1.0
    assert recall_of(collection.query_batch(Q, k=K, mode="links"), truth) >= 0.9


def test_directions_are_those_of_the_seed(db: kinbin.Database) -> None:
    """The same rows and seed are linked alike to the last byte; another seed has other directions and codes."""
    X = rows_of("cosine", 900, 1)
    one, same, other = (stored_parts(linked(db, "cosine", X, name, seed)) for name, seed in (("a", 5), ("b", 5), ("c", 6)))
    assert one == same
    assert one[Part.DIRECTIONS] != other[Part.DIRECTIONS]
    assert one[Part.CODES] != other[Part.CODES]


@pytest.mark.parametrize("kernel", STANDING)
def test_links_are_found_again(kernel: str, tmp_path: Path) -> None:
    """Closed and opened again, a collection answers as before."""
    X, Q = rows_of(kernel, 900, 1), rows_of(kernel, 30, 2)
    with kinbin.open(tmp_path / "db") as database:
        collection = linked(database, kernel, X)
        before = {mode: collection.query_batch(Q, k=K, mode=mode) for mode in ("links", "exact")}
    with kinbin.open(tmp_path / "db") as database:
        for mode, answers in before.items():
            again = database.collection("c").query_batch(Q, k=K, mode=mode)
            np.testing.assert_array_equal(again.ids, answers.ids)
            np.testing.assert_array_equal(again.scores, answers.scores)
            np.testing.assert_array_equal(again.verified, answers.verified)


@pytest.mark.recall
@pytest.mark.parametrize(("kernel", "name"), [("cosine", "mnist"), ("hellinger", "cifar10_rgbhist512")])
def test_recall_on_real_rows(kernel: str, name: str, tmp_path: Path, data_set: Callable[[str], dict[str, NDArray[Any]]]) -> None:
    """Of 6,000 real rows the ten nearest are found with recall 0.95 by default, and codes spare nine rows in ten of an exact scan."""
    data = data_set(name)
    X, Q = (data[part][:count].astype(np.float32) for part, count in (("X_train", 6_000), ("X_test", 50)))
    with kinbin.open(tmp_path / "db") as database:
        collection = database.create_collection("c", kernel=kernel, dim=X.shape[1], seed=1)
        collection.add(names(range(len(X))), X)
        collection.link()
        truth = true_scores(kernel, X, Q)
        assert recall_of(collection.query_batch(Q, k=K), truth) >= 0.95
        assert recall_of(collection.query_batch(Q, k=K, mode="links"), truth) >= 0.95
        exact = collection.query_batch(Q, k=K, mode="exact")
        assert recall_of(exact, truth) == 1.0
        assert exact.verified.mean() < 0.1 * len(X)


def test_codes_of_another_geometry_are_not_used(db: kinbin.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link set whose codes bound another distance than the kernel asks for is done without, told, and made anew by linking.

    Versions before this one made such sets of `js`. Used, they would let exact answers leave rows out.
    """
    X, Q = rows_of("js", 1_500, 1), rows_of("js", 40, 2)
    with monkeypatch.context() as patch:
        patch.setattr("kinbin.upkeep.drafts.choose_unit_coder", lambda rows, dim, near, nodes, **_: choose_coder(rows, dim, near, nodes))
        collection = linked(db, "js", X)
    truth = true_scores("js", X, Q)
    assert collection.stats()["links"] is None
    assert recall_of(collection.query_batch(Q, k=K, mode="exact"), truth) == 1.0
    (problem,) = collection.check().problems
    assert "link set" in problem
    assert "version" in problem
    with pytest.raises(kinbin.CorruptData, match="links"):
        collection.snapshot(Path(db.path) / "copy.kinbin")
    collection.link()
    assert collection.stats()["links"]["code_layout"] == "units"
    assert collection.check().ok
    assert recall_of(collection.query_batch(Q, k=K, mode="exact"), truth) == 1.0
    collection.snapshot(Path(db.path) / "copy.kinbin")
