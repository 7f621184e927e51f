"""Recall of links: kernel × kind of vector × what became of the collection × how it is asked, each with a floor.

Counted by score with a tolerance, so that ties are fair; truth is the slow twin's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

import kinbin
import kinbin.query.plan
import naive
from kinbin.links.widths import CalibrationTable, Width
from linked import KINDS, cases, names, still, true_scores

pytestmark = [pytest.mark.recall, pytest.mark.slow]

K = 10
TARGET = 0.9
BUILT, INSERTED, ASKED = 1_700, 500, 60
STAGES = ("built", "after inserts", "after deletes", "reopened", "linked again")
MODES = ("bands", "links", "auto", "auto, walks for nothing")
FLOORS = {"bands": 0.965, "links": 0.97, "auto": 0.965, "auto, walks for nothing": 0.97}
"""For target 0.9, a little below the least of all cells."""
CASES = cases("dense", "sparse", "signed", most=1)


@dataclass
class Measurement:
    """What one way of asking gave at one stage."""

    recalls: list[float] = field(default_factory=list)
    modes: list[str] = field(default_factory=list)
    far: list[bool] = field(default_factory=list)
    verified: list[int] = field(default_factory=list)
    rows: int = 0
    unlinked: int = 0


Matrix = dict[tuple[str, str], Measurement]


class Life:
    """A collection that is built and linked, grows, shrinks, is reopened and linked again, and is measured at each stage."""

    def __init__(self, folder: Path, kernel: str, kind: str) -> None:
        self.folder = folder
        self.X = KINDS[kind].rows(BUILT + INSERTED, seed=2)
        self.Q = KINDS[kind].rows(ASKED, seed=3)
        self.scores = true_scores(kernel, self.X, self.Q)
        self.there = np.zeros(BUILT + INSERTED, bool)
        self.found: Matrix = {}
        self.db = kinbin.open(folder)
        self.collection = self.db.create_collection("c", kernel=kernel, dim=KINDS[kind].dim, seed=17)

    def add(self, start: int, stop: int) -> None:
        """Rows start … stop-1."""
        self.collection.add(names(range(start, stop)), self.X[start:stop])
        self.there[start:stop] = True

    def live(self) -> Matrix:
        """All stages."""
        self.add(0, BUILT)
        self.collection.link()
        self.measure("built")
        self.add(BUILT, BUILT + INSERTED)
        self.measure("after inserts")
        gone = np.random.default_rng(4).permutation(len(self.there))[: int(0.3 * len(self.there))]
        self.collection.delete(names(gone))
        self.there[gone] = False
        self.measure("after deletes")
        self.db.close()
        self.db = kinbin.open(self.folder)
        self.collection = self.db.collection("c")
        self.measure("reopened")
        self.collection.link()
        self.measure("linked again")
        self.db.close()
        return self.found

    def ask(self, mode: str) -> kinbin.AnswerBatch:
        """All queries. So small a collection is often searched by bands in auto mode: once it is told that walks take no time."""
        with pytest.MonkeyPatch.context() as patch:
            target = TARGET
            if mode == MODES[3]:
                patch.setattr(kinbin.query.plan.LinkPlan, "walk_ns", lambda *_: 0.0)
                # Routes are kept: for the same target the one that was chosen before would be taken.
                target += 1e-9
            return self.collection.query_batch(self.Q, k=K, target_recall=target, mode=mode.partition(",")[0])

    def measure(self, stage: str) -> None:
        """Ask everything in every mode."""
        scores = np.where(self.there, self.scores, -1.0)
        stats = self.collection.stats()
        for mode in MODES:
            out = self.found[stage, mode] = Measurement(rows=stats["rows"], unlinked=stats["links"]["unlinked_rows"])
            for answer, row in zip(self.ask(mode), scores, strict=True):
                for identifier, score in zip(answer.ids, answer.scores, strict=True):
                    assert abs(score - row[int(identifier)]) <= naive.SCORE_ERROR
                out.recalls.append(naive.recall(answer.scores, row, K))
                out.modes.append(answer.mode)
                out.far.append(answer.out_of_distribution)
                out.verified.append(answer.verified)


@pytest.fixture(scope="module")
def lives(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str, str], Matrix]]:
    """All measurements of a kernel on a kind of vectors, made when they are first asked for."""
    known: dict[tuple[str, str], Matrix] = {}

    def get(kernel: str, kind: str) -> Matrix:
        if (kernel, kind) not in known:
            known[kernel, kind] = Life(tmp_path_factory.mktemp("links"), kernel, kind).live()
        return known[kernel, kind]

    with still():
        yield get


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize(("kernel", "kind"), CASES)
def test_recall(kernel: str, kind: str, stage: str, mode: str, lives: Callable[[str, str], Matrix]) -> None:
    """Every way of asking finds its floor's share of the ten nearest, whatever became of the collection since it was linked."""
    found = lives(kernel, kind)[stage, mode]
    assert np.mean(found.recalls) >= FLOORS[mode]


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize(("kernel", "kind"), CASES)
def test_the_links_are_walked(kernel: str, kind: str, stage: str, lives: Callable[[str, str], Matrix]) -> None:
    """Mode links answers by a walk that scores a small part of the linked rows: its recall is the graph's, not a scan's."""
    found = lives(kernel, kind)[stage, "links"]
    assert set(found.modes) == {"links"}
    assert found.unlinked == {"built": 0, "linked again": 0}.get(stage, INSERTED)
    assert np.median(found.verified) < 0.1 * found.rows + found.unlinked


@pytest.mark.parametrize(("kernel", "kind"), CASES)
def test_auto_walks_the_links(kernel: str, kind: str, lives: Callable[[str, str], Matrix]) -> None:
    """Where all rows are linked auto mode answers by walks too, if they are thought to be fastest, but for queries that it finds far."""
    for stage in ("built", "linked again"):
        found = lives(kernel, kind)[stage, MODES[3]]
        walked = [mode == "links" for mode in found.modes]
        assert np.mean(walked) >= 0.8
        assert all(walks != far for walks, far in zip(walked, found.far, strict=True))


# ------------------------------------------------------------------------------------- deletes and inserts


def recall_of_walks(collection: kinbin.Collection, Q: Any, scores: NDArray[np.float64]) -> list[float]:
    """Mean recall of the ten nearest by walks of three widths, whatever the calibration says."""
    out = []
    met = [0.0]
    for pool in (24, 48, 96):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(CalibrationTable, "width_for", lambda *_, pool=pool: Width(pool, True))
            patch.setattr(CalibrationTable, "far_for", lambda *_: 0.0)
            # A target of its own for each width: plans are kept.
            answers = collection.query_batch(Q, k=K, target_recall=TARGET + 1e-4 * pool, mode="links")
        assert answers.mode == "links"
        met.append(float(answers.candidates.mean()))
        assert answers.verified.max() <= pool
        assert met[-1] > 1.2 * met[-2], "the width is not in effect"
        out.append(float(np.mean([naive.recall(answer.scores, row, K) for answer, row in zip(answers, scores, strict=True)])))
    return out


def churned_and_fresh(db: kinbin.Database, kernel: str, dim: int | None, X: Any, Q: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Recall, by width, of links that outlived 30 % deletes and as many inserts, and of those built of the same rows at once."""
    n = X.shape[0]
    rng = np.random.default_rng(5)
    late = np.sort(rng.permutation(n)[: int(0.3 * n)])
    early = np.setdiff1d(np.arange(n), late)
    doomed = KINDS["sparse"].rows(len(late), seed=6) if sp.issparse(X) else X[late][:, ::-1]
    churned = db.create_collection("churned", kernel=kernel, dim=dim, seed=1)
    # What is deleted lies among the rows that stay, and was linked with them.
    churned.add(names(early), X[early])
    churned.add([f"doomed {i}" for i in range(len(late) // 2)], doomed[: len(late) // 2])
    again = early[rng.permutation(len(early))[: len(late) - len(late) // 2]]
    churned.link()
    before = churned.stats()["links"]["rows"]
    churned.delete([f"doomed {i}" for i in range(len(late) // 2)] + names(again))
    churned.add(names(np.concatenate([late, again])), X[np.concatenate([late, again])])
    churned.link()
    fresh = db.create_collection("fresh", kernel=kernel, dim=dim, seed=1)
    fresh.add(names(range(n)), X)
    fresh.link()
    for collection in (churned, fresh):
        links = collection.stats()["links"]
        assert (links["rows"], links["unlinked_rows"]) == (n, 0)
    assert before >= len(early)
    scores = true_scores(kernel, X, Q)
    return np.array(recall_of_walks(churned, Q, scores)), np.array(recall_of_walks(fresh, Q, scores))


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_links_outlive_deletes_and_inserts(kind: str, db: kinbin.Database) -> None:
    """Links of which a third were taken out, and others put in, give walks the recall of links built anew, within one in a hundred."""
    with still():
        churned, fresh = churned_and_fresh(db, "ngmm", KINDS[kind].dim, KINDS[kind].rows(3_000, seed=2), KINDS[kind].rows(100, seed=3))
    assert (churned >= fresh - 0.01).all(), (churned, fresh)
    assert fresh[-1] >= 0.97


@pytest.mark.parametrize("name", ["photographs", "cifar10_rgbhist512"])
def test_links_of_real_rows_outlive_deletes_and_inserts(
    name: str, db: kinbin.Database, data_set: Callable[[str], dict[str, NDArray[Any]]]
) -> None:
    """The same on 5,000 colour histograms of photographs."""
    data = data_set(name)
    X, Q = data["X_train"][:5_000].astype(np.float32), data["X_test"][:100].astype(np.float32)
    with still():
        churned, fresh = churned_and_fresh(db, "ngmm", 512, X, Q)
    assert (churned >= fresh - 0.01).all(), (churned, fresh)
    assert fresh[-1] >= 0.97


def crowds(count: int, size: int, seed: int) -> NDArray[np.float32]:
    """(count · size, 24) rows: crowds of near doubles that follow each other, as patches of one image do."""
    rng = np.random.default_rng(seed)
    centres = np.repeat(rng.gamma(1.0, size=(count, 24)) + 0.05, size, axis=0)
    return (centres * rng.gamma(400.0, 1 / 400, centres.shape)).astype(np.float32)


def recall_of_strangers(folder: Path, rows: NDArray[np.float32], queries: NDArray[np.float32]) -> tuple[float, list[float]]:
    """Recall of walks for queries that are of no stored crowd, and the calibrated recall of the smallest to the widest pool."""
    with kinbin.open(folder / "db") as db:
        collection = db.create_collection("c", dim=rows.shape[1], seed=1)
        collection.add(names(range(len(rows))), rows)
        collection.link()
        answers = collection.query_batch(queries, k=K, target_recall=TARGET, mode="links")
        reached = [line["recall@10"] for line in collection.stats()["links"]["calibration"]]
    scores = true_scores("ngmm", rows, queries)
    kth = np.sort(scores, axis=1)[:, -K]
    return float((np.sort(answers.scores, axis=1)[:, -K:] >= kth[:, None] - 1e-6).mean()), reached


def test_near_doubles_that_came_together_do_not_make_calibration_easy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Queries that are of no stored crowd are found as well as the pool that was calibrated on rows of crowds promises."""
    monkeypatch.setattr(CalibrationTable, "far_for", lambda *_: 0.0)
    recall, reached = recall_of_strangers(tmp_path, crowds(200, 40, seed=5), crowds(200, 1, seed=6))
    assert reached[0] < 0.98, "the smallest pool is enough: this shows nothing"
    assert recall >= 0.96


def test_queries_that_are_like_no_stored_row_are_walked_for_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where near doubles came in far apart calibration is easy, but queries farther from their neighbours than those get a wider pool."""
    rows, queries = crowds(200, 40, seed=5), crowds(200, 1, seed=6)
    np.random.default_rng(7).shuffle(rows)
    recall, _ = recall_of_strangers(tmp_path / "wider", rows, queries)
    monkeypatch.setattr(CalibrationTable, "far_for", lambda *_: 0.0)
    narrow, _ = recall_of_strangers(tmp_path / "as calibrated", rows, queries)
    assert narrow < TARGET, "calibration is not easy: this shows nothing"
    assert recall >= TARGET + 0.02
