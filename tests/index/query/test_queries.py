"""Queries: the answers of every mode against the slow twin's full ranking, and what each option does to them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import kinbin
import naive
from background import no_background
from kinbin import Answer, AnswerBatch
from kinbin.native.records import Record
from kinbin.query.found import Found
from kinbin.query.search import _Call
from kinbin.rows.rows import Rows
from mechanisms import MECHANISMS

pytestmark = pytest.mark.usefixtures("quiet")

Matrix = NDArray[np.float32]
DIM = 24
SHAPES = {"dense": DIM, "sparse": None}


def histograms(n: int, seed: int = 0) -> Matrix:
    """Clustered histograms of whole numbers with many zeros: near neighbours, far ones, and ties."""
    rng = np.random.default_rng(seed)
    centres = rng.gamma(0.3, 20, (40, DIM))
    X = rng.poisson(centres[rng.integers(0, 40, n)] * rng.uniform(0.5, 2, (n, 1)))
    X[:, 0] += X.sum(axis=1) == 0
    return X.astype(np.float32)


class Stocked:
    """A collection with 2,200 items: a large run, a small one and a journal, some replaced and some deleted."""

    def __init__(self, db: kinbin.Database, name: str, kernel: str, dim: int | None) -> None:
        self.kernel = kernel
        self.collection = db.create_collection(name, kernel=kernel, dim=dim, seed=11)
        X = histograms(2_200)
        if kinbin.KERNELS[kernel].signed:
            X[::3] *= np.where(np.arange(DIM) % 5 == 0, -1, 1)
        ids = [f"{i:04}" for i in range(len(X))]
        self.collection.add(ids[:1_500], X[:1_500])
        self.collection.compact()
        self.collection.add(ids[1_500:2_000], X[1_500:2_000])
        X[:20] = X[2_000:2_020]
        self.collection.add(ids[:20], X[:20])
        gone = range(30, 1_900, 17)
        self.collection.delete([ids[i] for i in gone])
        self.collection.add(ids[2_000:], X[2_000:])
        self.vectors = {identifier: x for i, (identifier, x) in enumerate(zip(ids, X, strict=True)) if i not in gone}

    def truth(self, q: Matrix) -> dict[str, float]:
        """The score of every item."""
        return dict(zip(self.vectors, naive.dense_scores(self.kernel, q, np.stack(list(self.vectors.values()))).tolist(), strict=True))

    def queries(self, m: int) -> Matrix:
        """Vectors of the same kind, some of them stored ones."""
        Q = histograms(m, seed=1)
        Q[::4] = list(self.vectors.values())[: len(Q[::4])]
        return Q


@pytest.fixture(scope="module")
def stocked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str, str], Stocked]]:
    """The collection of a kernel and a shape, made when it is first asked for."""
    made: dict[tuple[str, str], Stocked] = {}
    with no_background(), kinbin.open(tmp_path_factory.mktemp("queries")) as db:

        def get(kernel: str, shape: str = "dense") -> Stocked:
            if (kernel, shape) not in made:
                made[kernel, shape] = Stocked(db, f"{kernel}-{shape}", kernel, SHAPES[shape])
            return made[kernel, shape]

        yield get


Get = Callable[..., Stocked]
CASES = [(kernel, shape) for kernel in MECHANISMS for shape in SHAPES]


@pytest.mark.parametrize(("kernel", "shape"), CASES)
def test_exact_answers_are_the_full_ranking(kernel: str, shape: str, stocked: Get) -> None:
    """An exact query for everything gives every item once with the twin's score, best first; for k, the first k of it."""
    stock = stocked(kernel, shape)
    for q in stock.queries(6):
        truth = stock.truth(q)
        for k in (1, 10, 1_000):
            answer = stock.collection.query(q, k=k, mode="exact")
            naive.assert_answers(answer.ids, answer.scores, truth, k)
            assert (answer.mode, answer.recall_lower_bound, answer.no_bound, answer.truncated) == ("exact", 1.0, None, [])
            assert answer.verified == answer.candidates == stock.collection.stats()["rows"]


@pytest.mark.slow
@pytest.mark.parametrize(("kernel", "shape"), CASES)
@pytest.mark.parametrize("target", [0.5, 0.9, 1.0])
def test_band_answers_are_true(target: float, kernel: str, shape: str, stocked: Get) -> None:
    """Answers of the bands hold each id once with its true score, best first, and never a deleted or replaced vector."""
    stock = stocked(kernel, shape)
    for q in stock.queries(12):
        truth = stock.truth(q)
        answer = stock.collection.query(q, k=10, target_recall=target, mode="bands")
        assert answer.mode == "bands"
        assert set(answer.ids) <= truth.keys()
        assert len(set(answer.ids)) == len(answer.ids) <= 10
        assert all(abs(score - truth[identifier]) <= naive.SCORE_ERROR for identifier, score in zip(answer.ids, answer.scores, strict=True))
        assert (np.diff(answer.scores) <= 0).all()
        assert answer.verified <= answer.candidates <= stock.collection.stats()["rows"] + stock.collection.stats()["dead_rows"]
        assert (answer.recall_lower_bound is None) == (answer.no_bound is not None)


@pytest.mark.parametrize(("kernel", "shape"), CASES)
def test_full_target_is_an_exact_answer(kernel: str, shape: str, stocked: Get) -> None:
    """At target_recall=1 auto mode gives the twin's ranking, and the bands verify every row that shares a band."""
    stock = stocked(kernel, shape)
    for q in stock.queries(6):
        answer = stock.collection.query(q, k=20, target_recall=1.0)
        naive.assert_answers(answer.ids, answer.scores, stock.truth(q), 20)
        assert answer.recall_lower_bound == 1.0
        lesser = stock.collection.query(q, k=20, target_recall=0.5, mode="bands")
        full = stock.collection.query(q, k=20, target_recall=1.0, mode="bands")
        assert full.verified >= lesser.verified
        assert all(a >= b for a, b in zip(full.scores, lesser.scores, strict=False))


def assert_equal(a: Answer, b: Answer) -> None:
    """Two answers are the same, bit for bit."""
    assert a.ids == b.ids
    np.testing.assert_array_equal(a.scores, b.scores)
    rest = ("recall_lower_bound", "no_bound", "verified", "candidates", "truncated", "mode")
    assert [getattr(a, name) for name in rest] == [getattr(b, name) for name in rest]


@pytest.mark.parametrize("mode", ["auto", "bands", "exact"])
@pytest.mark.parametrize(("kernel", "shape"), [("ngmm", "dense"), ("gint", "sparse"), ("minmax", "dense")])
def test_a_batch_answers_as_single_queries_do(kernel: str, shape: str, mode: str, stocked: Get) -> None:
    """Each answer of a batch is that of its query alone: ids, scores, bound, counts, path."""
    stock = stocked(kernel, shape)
    Q = stock.queries(25)
    for options in ({}, {"k": 3, "min_score": 0.5}, {"target_recall": 0.5}):
        batch = stock.collection.query_batch(Q, mode=mode, **options)  # type: ignore[arg-type]
        for q, answer in zip(Q, batch, strict=True):
            assert_equal(answer, stock.collection.query(q, mode=mode, **options))  # type: ignore[arg-type]


def test_the_arrays_of_a_batch(db: kinbin.Database) -> None:
    """A batch's arrays have their documented shapes and padding, and indexing and iteration give them as answers."""
    collection = db.create_collection("c", dim=3)
    collection.add(["a", "b"], [[1, 2, 3], [3, 2, 1]])
    batch = collection.query_batch([[1, 2, 3], [0, 0, 1]], k=4)
    assert isinstance(batch, AnswerBatch)
    assert batch.ids.shape == batch.scores.shape == (2, 4)
    assert batch.ids.dtype == object
    assert batch.scores.dtype == np.float64
    assert (batch.recall_lower_bounds.shape, batch.verified.shape, batch.candidates.shape) == ((2,), (2,), (2,))
    assert batch.ids[0].tolist() == ["a", "b", None, None]
    assert np.isnan(batch.scores[:, 2:]).all()
    assert (batch.mode, batch.modes, batch.no_bounds, batch.truncated) == ("exact", ["exact"] * 2, [None, None], [[], []])
    assert len(batch) == 2
    assert [answer.ids for answer in batch] == [["a", "b"], ["a", "b"]]
    assert_equal(batch[1], list(batch)[1])
    assert_equal(batch[-1], batch[1])
    assert len(batch[0]) == 2
    with pytest.raises(IndexError):
        batch[2]


@pytest.mark.parametrize("mode", ["auto", "bands", "exact"])
def test_no_queries_have_no_answers(mode: str, stocked: Get) -> None:
    """An empty batch is answered by an empty one."""
    empty: list[Any] = [[], np.zeros((0, DIM))]
    for nothing in empty:
        batch = stocked("ngmm").collection.query_batch(nothing, k=7, mode=mode)
        assert (len(batch), batch.ids.shape, batch.scores.shape, list(batch)) == (0, (0, 7), (0, 7), [])


@pytest.mark.parametrize("mode", ["auto", "bands", "exact"])
@pytest.mark.parametrize(("kernel", "shape"), [("ngmm", "dense"), ("gmm", "sparse")])
def test_query_by_id_is_query_by_vector(kernel: str, shape: str, mode: str, stocked: Get) -> None:
    """A query by an item's id is the query by its vector, with every option; the item is first."""
    stock = stocked(kernel, shape)
    for identifier in ("0003", "0100", "1777", "2100"):
        if identifier not in stock.vectors:
            continue
        for options in ({}, {"k": 5, "min_score": 0.3, "target_recall": 0.7}):
            answer = stock.collection.query_id(identifier, mode=mode, include_self=True, **options)  # type: ignore[arg-type]
            assert_equal(answer, stock.collection.query(stock.vectors[identifier], mode=mode, **options))  # type: ignore[arg-type]
            assert identifier in answer.ids
            assert answer.scores[0] == 1.0


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["auto", "bands", "exact"])
@pytest.mark.parametrize(("kernel", "shape"), CASES)
def test_min_score_leaves_out_what_is_below(kernel: str, shape: str, mode: str, stocked: Get) -> None:
    """Just the answers of at least min_score remain, its own value included; fewer than k then need no reason."""
    stock = stocked(kernel, shape)
    for q in stock.queries(16):
        full = stock.collection.query(q, k=30, mode="exact")
        for place in range(0, 30, 3):
            least = float(full.scores[place])
            answer = stock.collection.query(q, k=30, min_score=least, mode=mode, target_recall=1.0)
            assert (answer.scores >= least).all()
            if mode != "bands":
                assert answer.ids == [identifier for identifier, score in zip(full.ids, full.scores, strict=True) if score >= least]
            assert answer.recall_lower_bound is not None
            assert answer.no_bound is None


def test_min_score_one_finds_duplicates(stocked: Get) -> None:
    """min_score=1 gives the items with the query's own vector, for every kernel and in every mode."""
    for kernel, shape in CASES:
        stock = stocked(kernel, shape)
        for identifier in list(stock.vectors)[:40]:
            for mode in ("auto", "bands", "exact"):
                assert identifier in stock.collection.query_id(identifier, k=50, min_score=1.0, mode=mode, include_self=True).ids


def test_nothing_reaches_a_high_min_score(stocked: Get) -> None:
    """When no item is near enough the answer is empty, and certain of it."""
    q = np.zeros(DIM, np.float32)
    q[-1] = 1
    for mode in ("auto", "bands", "exact"):
        answer = stocked("ngmm").collection.query(q, min_score=0.99, mode=mode)
        assert (answer.ids, answer.scores.tolist()) == ([], [])
        assert answer.recall_lower_bound is not None
        assert answer.recall_lower_bound == (1.0 if answer.mode == "exact" else pytest.approx(0.96))


@pytest.mark.parametrize("mode", ["auto", "bands", "exact"])
def test_an_empty_collection_has_no_answers(mode: str, db: kinbin.Database) -> None:
    """Queries of a collection without items, or with none any more, are answered by nothing."""
    collection = db.create_collection("c", dim=3)
    for _ in range(3):
        answer = collection.query([1, 2, 3], mode=mode)
        assert (answer.ids, answer.scores.tolist(), answer.verified, answer.truncated) == ([], [], 0, [])
        assert answer.no_bound == ("fewer than k items were found" if mode == "bands" else None)
        collection.add(["a"], [[1, 2, 3]])
        collection.compact()
        collection.delete(["a"])


def test_more_are_asked_for_than_there_are(db: kinbin.Database) -> None:
    """k beyond the number of items gives all of them; the bands give those they found, and say why they state no bound."""
    collection = db.create_collection("c", dim=3, seed=1)  # with some seeds, keys of strangers agree by chance
    collection.add(["a", "b", "c"], [[1, 0, 0], [1, 1, 0], [0, 0, 1]])
    for mode in ("auto", "exact"):
        answer = collection.query([1, 0, 0], k=1_000, mode=mode)
        assert answer.ids == ["a", "b", "c"]
        assert answer.scores.tolist() == pytest.approx([1, 1 / 3, 0], abs=1e-6)
        assert (answer.recall_lower_bound, answer.no_bound) == (1.0, None)
    answer = collection.query([1, 0, 0], k=1_000, mode="bands")
    assert answer.ids == ["a", "b"]
    assert (answer.recall_lower_bound, answer.no_bound) == (None, "fewer than k items were found")


def test_small_collections_are_scanned(db: kinbin.Database) -> None:
    """Auto mode scans up to 1,000 rows and says so."""
    collection = db.create_collection("c", dim=DIM)
    collection.add([str(i) for i in range(1_000)], histograms(1_000))
    answer = collection.query(histograms(1)[0])
    assert (answer.mode, answer.recall_lower_bound) == ("exact", 1.0)


@pytest.mark.parametrize(("kernel", "shape"), CASES)
def test_auto_certifies_or_scans(kernel: str, shape: str, stocked: Get) -> None:
    """Every answer of auto mode has a bound of at least the target, k items, and no truncation, whichever path gave it."""
    stock = stocked(kernel, shape)
    for target in (0.5, 0.9, 0.99):
        batch = stock.collection.query_batch(stock.queries(40), k=10, target_recall=target)
        assert (batch.recall_lower_bounds >= target).all()
        assert all(identifier is not None for identifier in batch.ids.ravel())
        assert batch.no_bounds == [None] * 40
        assert batch.truncated == [[]] * 40
        assert set(batch.modes) <= {"bands", "exact"}
        assert batch.mode in {"bands", "exact", "mixed"}


def test_queries_do_not_change_what_follows(stocked: Get) -> None:
    """The same query has the same answer, bit for bit, whatever was asked between: work space is left clean."""
    stock = stocked("ngmm")
    Q = stock.queries(10)
    first = [stock.collection.query(q, mode=mode) for q in Q for mode in ("bands", "exact")]
    stock.collection.query_batch(np.ones((50, DIM)), k=1_000, mode="bands", target_recall=1.0)
    stock.collection.query(Q[0], filter={"none": 1}, mode="bands")
    for before, after in zip(first, [stock.collection.query(q, mode=mode) for q in Q for mode in ("bands", "exact")], strict=True):
        assert_equal(before, after)


def test_ties_go_to_the_older_row(db: kinbin.Database) -> None:
    """Of rows with equal scores, the ones that were added first are answered first, in runs, over runs, and in the journal."""
    collection = db.create_collection("c", kernel="minmax", dim=40, seed=1)
    X = np.eye(40)
    X[:, 0] = 1.0
    names = [f"{(7 * i) % 40:02}" for i in range(40)]
    for start, stop in ((0, 15), (15, 30)):
        collection.add(names[start:stop], X[start:stop])
        with no_background(seal_rows=1):
            assert collection._upkeep.step()
    collection.add(names[30:], X[30:])
    for _ in range(2):
        for k in (1, 4, 17, 33):
            assert collection.query(np.eye(40)[0], k=k + 1, mode="exact").ids == names[: k + 1]
            assert collection.query(np.eye(40)[0] + X[0], k=k, mode="bands", target_recall=1.0).ids[0] == names[0]
        collection.compact()


@pytest.mark.parametrize("shape", SHAPES)
def test_the_seed_decides_the_answers_of_the_bands(shape: str, db: kinbin.Database) -> None:
    """Collections with one seed answer alike, bit for bit; with another seed they look at other candidates."""
    X = histograms(3_000)
    answers: list[Any] = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        collection = db.create_collection(name, dim=SHAPES[shape], seed=seed)
        collection.add([str(i) for i in range(3_000)], X)
        collection.compact()
        answers.append(collection.query_batch(X[:50], mode="bands"))
    for a, b in zip(answers[0], answers[1], strict=True):
        assert_equal(a, b)
    assert (answers[0].candidates != answers[2].candidates).any()


@pytest.mark.parametrize("mode", ["auto", "bands", "exact"])
def test_a_cancelled_search_ends_between_slices(mode: str, db: kinbin.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once the event is set no further slice of a batch is begun, and the search raises; unset it changes no answer."""
    monkeypatch.setattr("kinbin.query.search._SLICE_NS", 0.0)
    monkeypatch.setattr("kinbin.query.search._LEAST_UNSCANNED", 16)
    rng = np.random.default_rng(3)
    collection = db.create_collection("c", dim=8, seed=1)
    collection.add([str(i) for i in range(1_500)], rng.random((1_500, 8)))
    Q = rng.random((40, 8))
    cancel = threading.Event()
    ran: list[int] = []
    run = _Call.run

    def counted(call: _Call, queries: Rows, asked: Record, found: Found) -> None:
        ran.append(len(queries))
        if len(ran) == 2:
            cancel.set()
        run(call, queries, asked, found)

    whole = collection.query_batch(Q, mode=mode)
    monkeypatch.setattr(_Call, "run", counted)
    with pytest.raises(kinbin.SearchCancelled):
        collection.query_batch(Q, mode=mode, cancel=cancel)
    assert ran == [16, 16]
    with pytest.raises(kinbin.SearchCancelled):
        collection.query(Q[0], mode=mode, cancel=cancel)
    sliced = collection.query_batch(Q, mode=mode, cancel=threading.Event())
    assert ran == [16, 16, 16, 16, 8]
    assert sliced.ids.tolist() == whole.ids.tolist()
    np.testing.assert_array_equal(sliced.scores, whole.scores)
    with pytest.raises(kinbin.InvalidInput, match=r"cancel is a threading\.Event"):
        collection.query(Q[0], cancel=True)  # type: ignore[arg-type]


def test_every_thread_of_a_batch_looks_at_the_event(db: kinbin.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """An event that the calling thread looks at (`cancelled_by`) ends the parts of other threads as well."""
    monkeypatch.setattr("kinbin.query.search._SLICE_NS", 0.0)
    monkeypatch.setattr("kinbin.query.search._LEAST_UNSCANNED", 16)
    rng = np.random.default_rng(3)
    collection = db.create_collection("c", dim=8, seed=1)
    collection.add([str(i) for i in range(1_500)], rng.random((1_500, 8)))
    cancel, ran = threading.Event(), []
    run = _Call.run

    def counted(call: _Call, queries: Rows, asked: Record, found: Found) -> None:
        ran.append(len(queries))
        cancel.set()
        run(call, queries, asked, found)

    monkeypatch.setattr(_Call, "run", counted)
    threads = kinbin.query.threads.threads_set()
    kinbin.set_threads(2)
    try:
        with pytest.raises(kinbin.SearchCancelled), kinbin.cancelled_by(cancel):
            collection.query_batch(rng.random((400, 8)), mode="exact")
    finally:
        kinbin.set_threads(threads)
    # One in each thread, and none behind it.
    assert len(ran) <= 2


def test_slices_are_as_large_as_they_take_time(db: kinbin.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that can be cancelled is cut by what its queries take, whatever a scan was expected to take."""
    rng = np.random.default_rng(3)
    collection = db.create_collection("c", dim=8, seed=1)
    collection.add([str(i) for i in range(300)], rng.random((300, 8)))
    ran: list[int] = []
    run = _Call.run

    def slowly(call: _Call, queries: Rows, asked: Record, found: Found) -> None:
        ran.append(len(queries))
        time.sleep(0.01 * len(queries))
        run(call, queries, asked, found)

    monkeypatch.setattr(_Call, "run", slowly)
    Q = rng.random((60, 8))
    collection.query_batch(Q, mode="bands", cancel=threading.Event())
    assert sum(ran) == 60
    assert ran[0] == 16
    assert max(ran) <= 20, "0.2 s of them"
    ran.clear()
    collection.query_batch(Q, mode="bands")
    assert ran == [60], "nobody waits"


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["auto", "links", "bands", "exact"])
@pytest.mark.parametrize("count", [1, 15, 16, 17, 80, 200, 700])
def test_an_event_that_is_never_set_changes_no_answer(mode: str, count: int, db: kinbin.Database) -> None:
    """However slices grow, each query is answered once, in its place."""
    rng = np.random.default_rng(3)
    collection = db.create_collection("c", dim=8, seed=1)
    collection.add([str(i) for i in range(600)], rng.random((600, 8)))
    collection.link()
    Q = rng.random((count, 8))
    expected = collection.query_batch(Q, k=3, mode=mode)
    watched = collection.query_batch(Q, k=3, mode=mode, cancel=threading.Event())
    assert len(watched) == count
    for a, b in zip(expected, watched, strict=True):
        assert_equal(a, b)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["auto", "links", "bands", "exact"])
@pytest.mark.parametrize("linked", [False, True])
def test_an_event_that_is_set_before_is_heard(mode: str, linked: bool, db: kinbin.Database) -> None:
    """No search begins, of one query or of a batch of one or more, by its own event or the thread's."""
    rng = np.random.default_rng(3)
    collection = db.create_collection("c", dim=16, seed=1)
    X = rng.gamma(0.4, 1.0, (40, 16))[rng.integers(40, size=1_500)] * rng.gamma(4.0, 0.25, (1_500, 16)) + 1e-3
    collection.add([str(i) for i in range(1_500)], X)
    if linked:
        collection.link()
    elif mode == "links":
        pytest.skip("there are none")
    collection.query(X[0], mode=mode)
    event = threading.Event()
    event.set()
    for ask in (lambda **more: collection.query(X[0], mode=mode, **more), lambda **more: collection.query_batch(X[:1], mode=mode, **more)):
        with pytest.raises(kinbin.SearchCancelled):
            ask(cancel=event)
        with kinbin.cancelled_by(event), pytest.raises(kinbin.SearchCancelled):
            ask()
