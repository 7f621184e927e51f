"""What answers by links promise: exact scores, nothing that is gone, everything that is new at once, filters that never run dry."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import kinbin
import kinbin.query.search
import naive
from kinbin.codes.coder import Coder
from kinbin.codes.nodes import GRAPH
from kinbin.links.search import grown_pool, search_links
from kinbin.links.widths import MOST_WIDTH, CalibrationTable, Width
from kinbin.native.records import Record
from kinbin.rows.topk import NOTHING
from kinbin.spaces.registry import kernel_named
from linked import KINDS, cases, code_layout, link_sets, names, still
from linked_pairs import ASKED, ROWS, SHARES, Pair, as_pairs, grow

pytestmark = pytest.mark.slow

CASES = cases("dense", "sparse", "signed", "signed sparse", "few words")


@pytest.fixture(autouse=True)
def _still() -> Iterator[None]:
    with still():
        yield


# ------------------------------------------------------------------------------------------ equivalence


@pytest.mark.parametrize("k", [1, 10, 100])
@pytest.mark.parametrize("asked", ["all", "half", "a tenth", "two in a hundred", "from a score on"])
@pytest.mark.parametrize(("kernel", "kind"), CASES)
def test_a_scan_by_codes_is_a_scan(kernel: str, kind: str, asked: str, k: int, pairs: Callable[[str, str], Pair]) -> None:
    """Exact answers are the same ids with the same scores in the same order whether codes spare rows or not: dead, sealed and fresh."""
    pair = pairs(kernel, kind)
    options: dict[str, Any] = {"k": k, "mode": "exact"}
    if asked in SHARES:
        options["filter"] = SHARES[asked][0]
    elif asked != "all":
        options["min_score"] = float(np.median(pair.plain.query_batch(pair.Q, k=20, mode="exact").scores[:, -1]))
    plain, linked = (collection.query_batch(pair.Q, **options) for collection in (pair.plain, pair.linked))
    assert as_pairs(linked) == as_pairs(plain)
    assert linked.mode == "exact"
    assert (linked.recall_lower_bounds == 1.0).all()
    # Projections of many sparse features lose too much to spare many rows.
    if asked == "all" and k == 10 and (code_layout(kernel, kind) != "units" or KINDS[kind].layout == "bytes"):
        assert linked.verified.mean() < 0.75 * plain.verified.mean(), "codes spared too few rows to prove anything"


@pytest.mark.parametrize("kernel", ["gmm", "minmax", "ngmm", "gmm*acos"])
def test_parts_of_a_query_are_not_too_far(
    kernel: str, db: kinbin.Database, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that hold a part of a query are as similar as shapes so far apart allow, whatever their norms: a scan by codes finds them."""
    walked = kinbin.query.search._Run.call_walk

    def finds_nothing(self: Any, asked: Record, part: Any, *others: Any) -> bool:
        sound = walked(self, asked, part, *others)
        part.answers.scores[:] = NOTHING
        return sound

    monkeypatch.setattr(kinbin.query.search._Run, "call_walk", finds_nothing)
    queries = rng.gamma(0.5, size=(20, 64)).astype(np.float32) + np.float32(1e-3)
    parts = np.repeat(queries, 30, axis=0)
    parts *= rng.random(parts.shape) < rng.uniform(0.3, 1.0, (len(parts), 1))
    parts[:, 0] = queries[0, 0]
    rows = np.concatenate([parts, rng.gamma(0.5, size=(2_400, 64)).astype(np.float32)])[rng.permutation(3_000)]
    collection = db.create_collection("parts", kernel=kernel, dim=64)
    collection.add(names(range(len(rows))), rows)
    collection.compact()
    plain = collection.query_batch(queries, k=20, mode="exact")
    collection.link()
    linked = collection.query_batch(queries, k=20, mode="exact")
    assert as_pairs(linked) == as_pairs(plain)
    assert linked.verified.mean() < 0.9 * plain.verified.mean(), "codes spared too few rows to prove anything"


@pytest.mark.parametrize("k", [1, 10, 40])
@pytest.mark.parametrize("asked", ["all", "half", "from a score on"])
@pytest.mark.parametrize(("kernel", "kind"), CASES)
def test_what_a_walk_does_not_score_is_too_far(
    kernel: str, kind: str, asked: str, k: int, pairs: Callable[[str, str], Pair], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A walk answers what it would if all of its pool were scored, as it is where codes may be wrong by anything."""
    # What is walked on for is told by codes where they prove it: those that may be wrong by anything prove nothing.
    monkeypatch.setattr(CalibrationTable, "far_for", lambda *_: 0.0)
    # Pools that hold rows to be spared, whatever calibration finds enough.
    monkeypatch.setattr(CalibrationTable, "width_for", lambda *_: Width(max(48, 2 * k), True))
    pair = pairs(kernel, kind)
    options: dict[str, Any] = {"k": k, "mode": "links", "target_recall": 0.949}
    if asked in SHARES:
        options["filter"] = SHARES[asked][0]
    elif asked != "all":
        options["min_score"] = float(np.median(pair.plain.query_batch(pair.Q, k=20, mode="exact").scores[:, -1]))
    some = pair.linked.query_batch(pair.Q, **options)

    def of_any_error(space: Record, segments: Record, links: Record, *others: Any) -> int:
        errors = np.full(int(links["nodes"][0]), 1e6, np.float32)
        coarse = links.copy()
        GRAPH.fill(coarse, errors=errors)
        return int(search_links(space, segments, coarse, *others))

    monkeypatch.setattr(kinbin.query.search, "search_links", of_any_error)
    everything = pair.linked.query_batch(pair.Q, **options)
    assert as_pairs(some) == as_pairs(everything)
    np.testing.assert_array_equal(some.candidates, everything.candidates)
    assert (some.verified <= everything.verified).all()
    if asked == "all" and k < 40:
        rest = pair.linked.stats()["links"]["unlinked_rows"]
        spared = (everything.verified - some.verified).sum() / (everything.verified - rest).sum()
        assert spared > 0.1, "codes spared too few rows to prove anything"


@pytest.mark.parametrize("mode", ["links", "auto"])
@pytest.mark.parametrize(("kernel", "kind"), CASES)
def test_scores_are_exact(kernel: str, kind: str, mode: str, pairs: Callable[[str, str], Pair]) -> None:
    """Every score of an answer is the kernel's value, best first, no id comes twice, and nothing that was deleted comes at all."""
    pair = pairs(kernel, kind)
    for answer, row in zip(pair.linked.query_batch(pair.Q, k=50, mode=mode), pair.scores, strict=True):
        assert len(set(answer.ids)) == len(answer.ids) == 50
        assert np.abs(answer.scores - row[[int(one) for one in answer.ids]]).max() <= naive.SCORE_ERROR
        assert (np.diff(answer.scores) <= 0).all()
        assert pair.there[[int(one) for one in answer.ids]].all()


@pytest.mark.parametrize("certify", [False, True])
@pytest.mark.parametrize("mode", ["links", "auto", "exact"])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_one_query_is_a_batch_of_one(kind: str, mode: str, certify: bool, pairs: Callable[[str, str], Pair]) -> None:
    """`query` gives what `query_batch` gives for that query, in every member of the answer."""
    pair = pairs("ngmm", kind)
    batch = pair.linked.query_batch(pair.Q, k=7, mode=mode, certify=certify)
    for i, of_batch in enumerate(batch):
        x = kinbin.Sparse(pair.Q[[i]].indices, pair.Q[[i]].data) if sp.issparse(pair.Q) else pair.Q[i]
        alone = pair.linked.query(x, k=7, mode=mode, certify=certify)
        np.testing.assert_array_equal(alone.scores, of_batch.scores)
        for member in ("ids", "recall_lower_bound", "no_bound", "verified", "candidates", "truncated", "mode"):
            assert getattr(alone, member) == getattr(of_batch, member), member


def on_a_grid(*_: Any) -> Coder:
    """A coder of 64 features, a byte for each, whose step is 1/2048."""
    return Coder(64, False, np.arange(64, dtype=np.uint16), 1 / 2_048, 0.0, 1.0)


@pytest.mark.parametrize("mode", ["links", "exact"])
@pytest.mark.parametrize("kernel", ["ngmm", "gmm"])
def test_the_error_of_a_query_counts_as_well(kernel: str, mode: str, db: kinbin.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """The nearest row is found though its code is exact, and farther from the query's code than that of another row."""
    monkeypatch.setattr("kinbin.upkeep.drafts.choose_coder", on_a_grid)
    signs = np.tile([1.0, -1.0], 32)
    flat = np.full(64, 32.0)
    # Rounded away from the flat row: 64 steps instead of 32.6. The other is 14 steps from the query's code, and 45 from the query.
    query, other = flat + 0.51 * signs, flat + signs
    other[[0, 1]] += [7.0, -7.0]
    far = np.eye(64)[:20] * 1_984 + 1.0
    collection = db.create_collection("c", kernel=kernel, dim=64)
    collection.add(["flat", "other", *names(range(20))], np.concatenate([[flat, other], far]))
    collection.link()
    answer = collection.query(query, k=1, mode=mode)
    assert (answer.ids, answer.mode) == (["flat"], mode)


# ---------------------------------------------------------------------------------- what is new, what is gone


@pytest.fixture(scope="module")
def linked_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed database of 1,200 linked rows, to be copied."""
    folder = tmp_path_factory.mktemp("linked") / "data"
    with still(), kinbin.open(folder) as database:
        collection = database.create_collection("c", dim=KINDS["dense"].dim, seed=5)
        collection.add(names(range(1_200)), KINDS["dense"].rows(1_200, seed=8))
        collection.link()
    return folder


@pytest.fixture
def linked(linked_files: Path, tmp_path: Path) -> Iterator[kinbin.Collection]:
    """1,200 linked rows."""
    shutil.copytree(linked_files, tmp_path / "linked")
    with kinbin.open(tmp_path / "linked") as database:
        yield database.collection("c")


NEW: dict[str, Callable[[kinbin.Collection], Any]] = {
    "fresh": lambda collection: None,
    "merged": kinbin.Collection.compact,
    "linked": kinbin.Collection.link,
}


@pytest.mark.parametrize("state", NEW)
@pytest.mark.parametrize("mode", ["links", "auto"])
def test_new_items_are_found_at_once(linked: kinbin.Collection, mode: str, state: str) -> None:
    """Items added after linking are each their own nearest, in the journal, merged into one run with linked rows, and linked."""
    X = KINDS["dense"].rows(700, seed=10)
    linked.add([f"new {i}" for i in range(700)], X)
    NEW[state](linked)
    assert linked.stats()["links"]["unlinked_rows"] == (0 if state == "linked" else 700)
    answers = linked.query_batch(X, k=3, mode=mode)
    assert [answer.ids[0] for answer in answers] == [f"new {i}" for i in range(700)]
    assert (answers.scores[:, 0] == 1.0).all()


def test_a_sealed_run_beside_linked_ones_is_searched(db: kinbin.Database) -> None:
    """Rows sealed into runs of their own since the linking are found among those that are linked and those that are fresh."""
    collection = db.create_collection("c", dim=KINDS["dense"].dim, seed=5)
    X = KINDS["dense"].rows(2_400, seed=8)
    with still(), pytest.MonkeyPatch.context() as patch:
        patch.setattr("kinbin.upkeep.sealing.SEAL_ROWS", 600)
        collection.add(names(range(900)), X[:900])
        collection.link()
        for start in (900, 1_600):
            collection.add(names(range(start, start + 700)), X[start : start + 700])
            assert collection._upkeep.step()
        collection.add(names(range(2_300, 2_400)), X[2_300:])
    stats = collection.stats()
    assert (len(stats["runs"]), stats["fresh_rows"], stats["links"]["unlinked_rows"]) == (3, 100, 1_500)
    for mode in ("links", "auto"):
        answers = collection.query_batch(X, k=2, mode=mode)
        found = [str(i) == answer.ids[0] for i, answer in enumerate(answers)]
        assert all(found[2_300:]), "all fresh rows share all keys with themselves"
        assert all(found[900:2_300]), "and all sealed ones their bands"
        assert np.mean(found[:900]) > 0.99


AFTERWARDS: tuple[Callable[[kinbin.Collection], Any], ...] = (kinbin.Collection.count, kinbin.Collection.compact, kinbin.Collection.link)


@pytest.mark.parametrize("mode", ["links", "auto", "exact"])
def test_deleted_items_never_come_back(linked: kinbin.Collection, mode: str) -> None:
    """An item that was deleted is in no answer, when it is just gone, after a merge, after linking; its neighbours stay."""
    X = KINDS["dense"].rows(1_200, seed=8)
    gone = list(range(0, 1_200, 4))
    linked.delete(names(gone))
    for step in AFTERWARDS:
        step(linked)
        for answer in linked.query_batch(X[gone], k=20, mode=mode):
            assert len(answer.ids) == 20
            assert not any(int(one) % 4 == 0 for one in answer.ids)


@pytest.mark.parametrize("mode", ["links", "auto", "exact"])
def test_an_update_is_found_by_its_new_vector(linked: kinbin.Collection, mode: str) -> None:
    """An item whose vector was replaced is the nearest to the new vector, and not to the old one any more."""
    old, new = KINDS["dense"].rows(1_200, seed=8)[:200], KINDS["dense"].rows(200, seed=11)
    linked.add(names(range(200)), new, mode="update")
    for step in AFTERWARDS:
        step(linked)
        assert [answer.ids[0] for answer in linked.query_batch(new, k=1, mode=mode)] == names(range(200))
        assert (linked.query_batch(old, k=1, mode=mode).scores[:, 0] < 1.0).all()


def test_an_item_that_is_put_back_is_found(linked: kinbin.Collection) -> None:
    """An item that is deleted and added again with the same vector, which was linked, is found at once."""
    X = KINDS["dense"].rows(1_200, seed=8)[:50]
    linked.delete(names(range(50)))
    linked.add(names(range(50)), X)
    for mode in ("links", "auto", "exact"):
        assert [answer.ids[0] for answer in linked.query_batch(X, k=1, mode=mode)] == names(range(50))


def test_items_of_one_vector_are_all_answered(linked: kinbin.Collection) -> None:
    """Items that share a linked vector come all, and just those that a filter lets through."""
    x = KINDS["dense"].rows(1_200, seed=8)[7]
    linked.add(["a", "b"], np.stack([x, x]), [{"side": 1}, {"side": 2}])
    linked.link()
    assert set(linked.query(x, k=3, mode="links").ids) == {"7", "a", "b"}
    assert linked.query(x, k=1, mode="links", filter={"side": 2}).ids == ["b"]


@pytest.mark.parametrize("rows", [0, 1, 2, 3])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_few_rows(db: kinbin.Database, kind: str, rows: int) -> None:
    """A collection of no row, one or a few is linked like any other, and again when all of its rows are gone."""
    collection = db.create_collection("c", dim=KINDS[kind].dim)
    X = KINDS[kind].rows(3, seed=1)
    if rows:
        collection.add(names(range(rows)), X[:rows])
    collection.link()
    for mode in ("links", "auto", "exact"):
        assert sorted(collection.query_batch(X[:1], k=5, mode=mode)[0].ids) == names(range(rows))
    collection.delete(names(range(rows)))
    collection.link()
    assert collection.query_batch(X[:1], mode="links")[0].ids == []
    collection.add(["again"], X[:1])
    collection.link()
    assert collection.query_batch(X[:1], mode="links")[0].ids == ["again"]


@pytest.mark.parametrize("others", [0, 1_500], ids=["alone", "among others"])
def test_rows_that_are_nearly_the_same_are_found(db: kinbin.Database, others: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Vectors that differ by less than a step of a code, hundreds of them, are each found by their own vector."""
    monkeypatch.setattr("kinbin.query.plan.LinkPlan.walk_ns", lambda *_: 0.0)
    rng = np.random.default_rng(0)
    same = np.ones((400, 64), np.float32) + rng.random((400, 64)).astype(np.float32) * np.float32(1e-3)
    collection = db.create_collection("c", dim=64, seed=1)
    collection.add(names(range(400)), same)
    collection.add([f"other {i}" for i in range(others)], rng.gamma(0.3, size=(others, 64)).astype(np.float32) + np.float32(1e-4))
    collection.link()
    for mode, k in itertools.product(("auto", "links"), (1, 40, 400)):
        answers = collection.query_batch(same[:100], k=k, mode=mode)
        assert np.mean([str(i) in answer.ids for i, answer in enumerate(answers)]) > 0.95, f"{mode}, k = {k}"


# ----------------------------------------------------------------------------------------------- figures


def test_stats_tell_of_packed_codes(pairs: Callable[[str, str], Pair]) -> None:
    """Of sparse rows of many features they say that codes are packed, and how many bytes one takes: 4 a nonzero, and its head."""
    links = pairs("ngmm", "sparse").linked.stats()["links"]
    assert links["code_layout"] == "packed"
    assert 8 + 4 * 30 < links["code_bytes"] < 24 + 4 * 45


def test_stats_tell_of_links(db: kinbin.Database) -> None:
    """stats() counts linked rows and the others, and shows recall that rises with the width of a walk."""
    collection = db.create_collection("c", dim=KINDS["dense"].dim, seed=5)
    assert collection.stats()["links"] is None
    X = KINDS["dense"].rows(1_300, seed=8)
    collection.add(names(range(1_200)), X[:1_200])
    assert collection.stats()["links"] is None
    collection.link()
    links = collection.stats()["links"]
    assert (links["rows"], links["unlinked_rows"]) == (1_200, 0)
    assert links["code_layout"] == "bytes"
    assert links["code_bytes"] % 64 == 0
    assert 0.5 < links["code_recall"] <= 1.0
    assert 2 < links["links_per_row"] <= 64
    pools = [step["pool"] for step in links["calibration"]]
    assert pools == sorted(set(pools))
    assert links["pool"] in pools
    for k in (1, 10, 100):
        recalls = [step[f"recall@{k}"] for step in links["calibration"]]
        assert recalls[-1] >= recalls[0]
        assert min(np.diff(recalls), default=0.0) >= -0.005, "a wider walk finds more"
        assert recalls[-1] > 0.95
    collection.add(names(range(1_200, 1_300)), X[1_200:])
    collection.delete(names(range(100)))
    links = collection.stats()["links"]
    assert (links["rows"], links["unlinked_rows"]) == (1_200, 100), "dead rows are passed through until they are merged away"
    collection.compact()
    links = collection.stats()["links"]
    assert (links["rows"], links["unlinked_rows"]) == (1_100, 100)
    collection.link()
    links = collection.stats()["links"]
    assert (links["rows"], links["unlinked_rows"]) == (1_200, 0)


def test_a_higher_target_takes_a_wider_walk(pairs: Callable[[str, str], Pair], monkeypatch: pytest.MonkeyPatch) -> None:
    """More rows are looked at for a higher target and for more neighbours, never fewer (queries that are walked for on aside)."""
    monkeypatch.setattr(CalibrationTable, "far_for", lambda *_: 0.0)
    new = 1e-7  # targets that nobody asked for before: widths are kept, with what was far then
    pair = pairs("gmm", "dense")
    for k in (1, 10, 60, 100, 400):
        looked = [
            float(pair.linked.query_batch(pair.Q, k=k, mode="links", target_recall=target + new).candidates.mean())
            for target in (0.3, 0.6, 0.8, 0.9, 0.95, 0.99)
        ]
        assert looked == sorted(looked), f"k = {k}"
    by_k = [float(pair.linked.query_batch(pair.Q, k=k, mode="links", target_recall=0.9 + new).candidates.mean()) for k in (10, 100, 400)]
    assert by_k == sorted(by_k)


@pytest.mark.parametrize(("kernel", "kind"), cases("dense", "sparse", "signed", "signed sparse", "few words", most=1))
def test_only_queries_far_from_their_neighbours_are_walked_for_on(
    kernel: str, kind: str, db: kinbin.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query whose last answer is at least as similar as what is called far meets the nodes it would meet anyway; others meet more."""
    collection = db.create_collection("c", kernel=kernel, dim=KINDS[kind].dim, seed=5)
    X = KINDS[kind].rows(740, seed=8)
    collection.add(names(range(700)), X[:700])
    collection.link()
    monkeypatch.setattr(CalibrationTable, "hard_for", lambda *_: 0.0)

    def ask(far: float) -> kinbin.AnswerBatch:
        monkeypatch.setattr(CalibrationTable, "far_for", lambda *_: far)
        # A target that nobody asked for before: widths are kept.
        return collection.query_batch(X[700:], mode="links", target_recall=0.3 + 1e-6 * far)

    narrow = ask(0.0)
    last = np.array([kernel_named(kernel).score_of(score) for score in narrow.scores[:, -1].tolist()])
    met = [narrow.candidates]
    for far in np.quantile(last, [0.3, 0.7]):
        wide = ask(float(far))
        np.testing.assert_array_equal(wide.candidates[last >= far], narrow.candidates[last >= far])
        assert (wide.candidates >= narrow.candidates).all()
        # Of a graph of few words now and then all that a few more nodes lead to was met before.
        assert (wide.candidates > narrow.candidates)[last < far - 1e-6].mean() > 0.9
        assert (wide.scores[:, -1] >= narrow.scores[:, -1]).all()
        met.append(wide.candidates)
    assert met[0].mean() < met[1].mean() < met[2].mean(), "the farther, the wider"


def test_a_pool_grows_with_the_distance_of_a_query() -> None:
    """A pool is as calibrated from `hard` on, has its second width down to `far`, and is the wider the less similar below, up to a bound.

    Where walks do not grow, what is found far keeps the first width.
    """
    width = Width(20, True, 0.5, 1.9, 12)
    pools = [width.pool_at(similarity) for similarity in (1.0, 0.5, 0.4999, 0.4, 0.3, 0.2, 0.1, 0.0, -1.0)]
    assert pools[:3] == [20, 20, 20 + int(12 * 0.9)]
    assert pools == sorted(pools)
    assert pools[4] == 20 + int(12 * (1.9 * (0.5 / 0.3) ** 3 - 1))
    assert pools[-1] == 20 + int(12 * (1.9 * 16 - 1))
    assert Width(4_000, True, 0.5, 2.0, 24).pool_at(0.01) == MOST_WIDTH
    assert Width(30, False).pool_at(0.0) == 30
    two = Width(20, True, 0.5, 1.9, 12, hard=0.6, wide=50)
    assert [two.pool_at(similarity) for similarity in (0.6, 0.5999, 0.5, 0.4999)] == [20, 50, 50, 50 + int(12 * 0.9)]
    assert [int(grown_pool.py_func(two.beam.view(np.recarray)[0], score)) for score in (0.6, 0.5999, 0.5, 0.4999, 0.0)] == [
        20,
        50,
        50,
        20,
        20,
    ]
    assert Width(20, True, 0.5, 1.9, 12, hard=0.4, wide=10).pool_at(0.5) == 20


def test_more_neighbours_than_were_calibrated(pairs: Callable[[str, str], Pair]) -> None:
    """Asked for more neighbours than the calibration knows, or than there are, a walk still finds nearly all of them."""
    pair = pairs("ngmm", "dense")
    scores = np.where(pair.there, pair.scores, -1.0)
    for k in (150, 400, 1_000):
        answers = pair.linked.query_batch(pair.Q, k=k, mode="links")
        assert all(len(answer) == k for answer in answers)
        assert np.mean([naive.recall(answer.scores, row, k) for answer, row in zip(answers, scores, strict=True)]) >= 0.9


def test_linking_tells_how_far_it_is(db: kinbin.Database) -> None:
    """link(progress) tells of rows linked, up to all of them; where all are linked already it leaves the link set as it is."""
    collection = db.create_collection("c", dim=KINDS["dense"].dim, seed=5)
    collection.add(names(range(2_500)), KINDS["dense"].rows(2_500, seed=8))
    told: list[tuple[int, int]] = []
    collection.link(lambda done, total: told.append((done, total)))
    assert told[0] == (0, 2_500)
    assert told[-1] == (2_500, 2_500)
    assert told == sorted(told)
    before = link_sets(collection)
    told.clear()
    collection.link(lambda done, total: told.append((done, total)))
    assert link_sets(collection) == before
    assert told == []


def test_links_are_found_again(tmp_path: Path) -> None:
    """A database opened anew answers by links, rows of every fate, as the one before it."""
    X, Q = KINDS["dense"].rows(ROWS, seed=8), KINDS["dense"].rows(ASKED, seed=9)
    with kinbin.open(tmp_path) as db:
        collection = db.create_collection("c", dim=KINDS["dense"].dim, seed=5)
        grow(collection, X, link=True)
        before = as_pairs(collection.query_batch(Q, mode="links"))
        stats = collection.stats()["links"]
    with kinbin.open(tmp_path) as db:
        collection = db.collection("c")
        assert as_pairs(collection.query_batch(Q, mode="links")) == before
        assert collection.stats()["links"] == stats


def test_a_scan_after_a_walk_counts_each_row_once(db: kinbin.Database) -> None:
    """What a walk scored before the scan is scored again, and is one row: never are more scored than there are candidates."""
    collection = db.create_collection("few", dim=3)
    collection.add(list("abcd"), [[5, 1, 0], [4, 1, 1], [0, 1, 6], [0, 2, 5]])
    collection.link()
    one = collection.query([1, 2, 3], mode="exact")
    many = collection.query_batch([[1, 2, 3], [3, 2, 1]], mode="exact")
    assert 0 < one.verified <= one.candidates == 4
    assert (many.verified <= many.candidates).all()
