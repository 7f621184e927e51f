"""The route of a query: chosen in one place, told by answers and statistics, and taken as told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import kinbin
import kinbin.query.plan
from kinbin.query.plan import plan_query
from kinbin.query.route import Wanted, route_for, scores_matches
from linked import still

ROWS = 2_300


def grown(db: kinbin.Database) -> kinbin.Collection:
    """Rows in clusters, some of them linked, some fresh."""
    rng = np.random.default_rng(1)
    centres = rng.random((50, 40)) ** 6
    X = centres[rng.integers(0, 50, ROWS)] * rng.lognormal(0, 0.3, (ROWS, 40))
    made = db.create_collection("c", dim=40, seed=1)
    made.add([str(i) for i in range(2_000)], X[:2_000])
    made.link()
    made.add([str(i) for i in range(2_000, 2_300)], X[2_000:2_300])
    return made


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Such a collection, for tests that only read."""
    with still(), kinbin.open(tmp_path_factory.mktemp("route")) as database:
        yield grown(database)


@pytest.mark.parametrize(
    ("options", "steps"),
    [
        ({"mode": "exact"}, ["scan all rows"]),
        ({"mode": "bands"}, ["search all rows by bands"]),
        ({"mode": "links"}, ["walk linked rows", "scan other rows"]),
        ({"mode": "links", "certify": True}, ["walk linked rows", "search all rows by bands"]),
    ],
    ids=["exact", "bands", "links", "certified links"],
)
def test_answers_tell_their_steps(options: dict[str, Any], steps: list[str], collection: Any, rng: np.random.Generator) -> None:
    """An answer's steps are those of its mode, alone and in a batch."""
    x = rng.random(40) ** 6
    assert list(collection.query(x, **options).steps) == steps
    assert [list(told) for told in collection.query_batch([x, x], **options).steps] == [steps, steps]


def test_queries_of_a_batch_tell_their_own_steps(collection: Any, rng: np.random.Generator) -> None:
    """In auto mode a query that a walk finds far takes a step more than others, and says why; what is told alone is told in a batch."""
    usual = collection.get([str(i) for i in range(20)])
    Q = np.array([item.vector for item in usual] + [np.eye(40)[i] for i in range(5)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kinbin.query.plan.LinkPlan, "walk_ns", lambda *_: 0.0)
        patch.setattr(kinbin.query.plan.Plan, "prefers_scan", False)
        batch = collection.query_batch(Q, target_recall=0.9 + 1e-6)
        alone = [collection.query(q, target_recall=0.9 + 1e-6) for q in Q]
    assert batch.steps == [answer.steps for answer in alone]
    assert all(steps[0] == "walk linked rows" for steps in batch.steps)
    far = [any(step.endswith("far") for step in steps) for steps in batch.steps]
    assert far == batch.out_of_distribution.tolist()
    assert not all(far[:20])
    assert all(far[20:])


def test_statistics_tell_the_usual_route(collection: Any) -> None:
    """The route of a query without options, with the time that each step is expected to take."""
    route = collection.stats()["route"]
    assert route
    assert all(set(step) == {"step", "expected_us"} and step["expected_us"] >= 0.0 for step in route)
    assert next(step["step"] for step in route) in {"scan all rows", "walk linked rows", "search all rows by bands"}


def test_a_certificate_is_had_in_the_cheaper_way(collection: Any, rng: np.random.Generator) -> None:
    """In auto mode certify scans where that is expected to take less time than bands, and asks the bands where it is not."""
    x = rng.random(40) ** 6
    told = {}
    for name, ns in (("cheap", 0.0), ("dear", 1e12)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(kinbin.query.plan.LinkPlan, "walk_ns", lambda *_: -1e12)
            patch.setattr(kinbin.query.plan, "_scan_codes_ns", lambda *_, ns=ns: ns)
            patch.setattr("kinbin.bands.contrast.Contrast.scan_ns", lambda *_, ns=ns: ns)
            answer = collection.query(x, target_recall=0.8 + ns * 1e-20 + 1e-7, certify=True)
        told[name] = answer.steps
        assert answer.recall_lower_bound is not None
        assert answer.recall_lower_bound >= 0.8
    assert "scan all rows" in told["cheap"]
    assert "search all rows by bands" in told["dear"]


def test_what_a_filter_lets_through_is_scored_where_that_is_fastest(db: kinbin.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """In auto mode few rows are scored, and more where that is expected to be faster than the way that would be taken else."""
    with still():
        collection: Any = grown(db)
    with collection._reading() as (_, view):
        plan = plan_query(view, collection._space, 0.9)
    wanted = Wanted(10, 0.0, 0.9, "auto", share=0.5)
    most = int(route_for(plan, wanted).steps[0].ns / plan.row_ns)
    assert scores_matches(plan, wanted, most)
    assert not scores_matches(plan, wanted, most + 1)
    assert scores_matches(plan, replace(wanted, share=0.05), 10**9)
    ids = [str(i) for i in range(2_300)]
    collection.add(ids, [item.vector for item in collection.get(ids)], [{"n": i % 2} for i in range(2_300)])
    monkeypatch.setattr(kinbin.query.plan.Plan, "prefers_scan", False)
    for scored in (True, False):
        monkeypatch.setattr("kinbin.searching.scores_matches", lambda *_, scored=scored: scored)
        for x in ([1.0] * 40, [0.0] * 39 + [2.0]):
            assert (list(collection.query(x, filter={"n": 1}).steps) == ["scan all rows"]) is scored
