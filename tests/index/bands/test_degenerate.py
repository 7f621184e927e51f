"""Data on which hashing does not help: answers are right, time is bounded, and what was cut short is said.

The numbers of rows are such that the postings limit is passed where all rows fall into one bucket.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

import kinbin
import naive
from background import no_background
from kinbin.limits import LIMITS
from processor_time import at_most

Matrix = NDArray[np.float32]

COUNT = 6_000
DIM = 32
MOST_SECONDS = 2.0
"""For one query, on a slow and busy machine; it takes some milliseconds."""


def identical() -> Matrix:
    """One vector."""
    return np.tile(np.arange(1, DIM + 1, dtype=np.float32), (COUNT, 1))


def near_constant() -> Matrix:
    """1 ± 0.001: all distinct, all alike."""
    return (1 + np.random.default_rng(1).uniform(-1e-3, 1e-3, (COUNT, DIM))).astype(np.float32)


def multiples() -> Matrix:
    """One direction in many lengths: distinct rows that a normalised kernel cannot tell apart."""
    return np.outer(np.linspace(1, 2, COUNT), np.arange(1, DIM + 1)).astype(np.float32)


def one_hot() -> Matrix:
    """One nonzero each, in many sizes."""
    X = np.zeros((COUNT, DIM), np.float32)
    X[np.arange(COUNT), np.arange(COUNT) % DIM] = np.linspace(1, 2, COUNT)
    return X


def one_hot_identical() -> Matrix:
    """32 distinct vectors."""
    X: Matrix = np.eye(DIM, dtype=np.float32)[np.arange(COUNT) % DIM]
    return X


def clusters() -> Matrix:
    """20 tight clusters."""
    rng = np.random.default_rng(2)
    centres = rng.gamma(0.5, size=(20, DIM)) + 0.01
    return (centres[rng.integers(0, 20, COUNT)] * rng.uniform(0.999, 1.001, (COUNT, DIM))).astype(np.float32)


@dataclass(frozen=True)
class Kind:
    """Data, how many distinct rows it has, and whether one bucket holds so many rows that the cap is hit."""

    make: Callable[[], Matrix]
    rows: int
    capped: bool


KINDS = {
    "identical": Kind(identical, 1, capped=False),
    "near-constant": Kind(near_constant, COUNT, capped=True),
    "multiples": Kind(multiples, COUNT, capped=True),
    "one-hot": Kind(one_hot, COUNT, capped=False),
    "one-hot, identical": Kind(one_hot_identical, DIM, capped=False),
    "20 tight clusters": Kind(clusters, COUNT, capped=False),
}


@dataclass
class Filled:
    """A collection of one kind, in a run, and its data."""

    collection: kinbin.Collection
    X: Matrix
    kind: Kind

    def truth(self, q: Matrix) -> dict[str, float]:
        """Scores by id."""
        return dict(zip(map(str, range(COUNT)), naive.dense_scores("ngmm", q, self.X).tolist(), strict=True))


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Filled]]:
    """The collection of a kind, made when it is first asked for."""
    made: dict[str, Filled] = {}
    kinbin.warm_up()  # so that no query below is timed while it is compiled
    with no_background(), kinbin.open(tmp_path_factory.mktemp("degenerate")) as db:

        def get(name: str) -> Filled:
            if name not in made:
                kind = KINDS[name]
                X = kind.make()
                collection = db.create_collection(f"c{len(made)}", dim=DIM, seed=6)
                for _ in range(2):
                    collection.add([str(i) for i in range(COUNT)], X)
                    collection.compact()
                made[name] = Filled(collection, X, kind)
            return made[name]

        yield get


def queries(data: Filled) -> list[Matrix]:
    """A stored vector, one like it, and one that is different."""
    other = np.zeros(DIM, np.float32)
    other[3] = 1
    return [data.X[0], data.X[777] * 1.0005, other]


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("mode", ["exact", "auto"])
def test_answers_are_right(name: str, mode: str, filled: Callable[[str], Filled]) -> None:
    """Scans are the ranking; auto mode states at least its target, its scores are true, and k items come."""
    data = filled(name)
    assert data.collection.stats()["rows"] == data.kind.rows
    for q in queries(data):
        with at_most(MOST_SECONDS):
            answer = data.collection.query(q, k=20, mode=mode, target_recall=0.9)
        truth = data.truth(q)
        assert (len(answer), answer.truncated) == (20, [])
        assert answer.recall_lower_bound is not None
        assert answer.recall_lower_bound >= 0.9
        assert all(abs(score - truth[identifier]) <= naive.SCORE_ERROR for identifier, score in zip(answer.ids, answer.scores, strict=True))
        if answer.mode == "exact":
            naive.assert_answers(answer.ids, answer.scores, truth, 20)


@pytest.mark.parametrize("name", KINDS)
def test_the_bands_are_bounded_and_say_when_they_were_cut_short(name: str, filled: Callable[[str], Filled]) -> None:
    """Bands read no more postings than the limit; if that cut them short they say so and state no bound; what they give is true."""
    data = filled(name)
    cut = []
    for q in queries(data):
        with at_most(MOST_SECONDS):
            answer = data.collection.query(q, k=20, mode="bands")
        truth = data.truth(q)
        assert all(abs(score - truth[identifier]) <= naive.SCORE_ERROR for identifier, score in zip(answer.ids, answer.scores, strict=True))
        assert answer.truncated in ([], ["postings"])
        if answer.truncated:
            assert (answer.recall_lower_bound, answer.no_bound) == (None, "a cap was hit: see truncated")
        cut.append(bool(answer.truncated))
    assert any(cut) == data.kind.capped
    if data.kind.capped:
        (run,) = data.collection.stats()["runs"]
        assert run["rows"] * run["bands"] > LIMITS["postings"].value


def test_identical_vectors_cost_one_candidate(filled: Callable[[str], Filled]) -> None:
    """6,000 items with one vector are one row, one candidate, and all of them answers."""
    data = filled("identical")
    for mode in ("bands", "exact"):
        answer = data.collection.query(data.X[0], k=1_000, mode=mode)
        assert (answer.candidates, answer.verified) == (1, 1)
        assert len(set(answer.ids)) == 1_000
        assert (answer.scores == 1.0).all()


def test_a_crowd_in_one_bucket_does_not_hide_the_nearest(filled: Callable[[str], Filled]) -> None:
    """Where the cap is hit, auto mode scans and finds the very vector that was asked for among thousands that are nearly it."""
    data = filled("near-constant")
    for i in (0, 1_234, COUNT - 1):
        answer = data.collection.query(data.X[i], k=1)
        assert (answer.ids, answer.mode) == ([str(i)], "exact")


def test_single_items_of_degenerate_data_can_be_deleted(db: kinbin.Database) -> None:
    """Of many items with one vector, deleting all but one leaves that one."""
    collection = db.create_collection("c", dim=DIM)
    X = identical()[:1_000]
    collection.add([str(i) for i in range(1_000)], X)
    collection.compact()
    collection.delete([str(i) for i in range(1_000) if i != 321])
    for mode in ("auto", "bands", "exact"):
        assert collection.query(X[0], k=5, mode=mode).ids == ["321"]
    assert collection.check().ok
