"""Bands, recall and duplicates of collections with several fields, against scores by definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import kinbin
from fielded import combined, filled, ids, parts, some, vectors
from kinbin.errors import Closed
from linked import still
from naive import SCORE_ERROR

N = 240


@pytest.fixture(name="X")
def vectors_of_items(rng: np.random.Generator) -> dict[str, NDArray[np.float64]]:
    """Vectors of all items; some textures are near doubles of others."""
    made = vectors(rng, N)
    made["texture"][100:140] = made["texture"][:40] * (1.0 + rng.uniform(0.0, 0.02, (40, 6)))
    return made


def near(X: dict[str, Any], which: list[int], field: str, least: float) -> dict[tuple[str, str], float]:
    """All pairs of some items that score so much in a field, by definition."""
    names = ids(N)
    out = {}
    for place, i in enumerate(which):
        scores = parts({field: X[field][i]}, some(X, which))[field]
        for j in which[place + 1 :]:
            score = float(scores[which.index(j)])
            if score >= least:
                out[names[i], names[j]] = score
    return out


@pytest.mark.parametrize("field", ["texture", "words", "colour"])
def test_duplicates_of_a_field_are_those_by_definition(db: kinbin.Database, quiet: None, X: dict[str, Any], field: str) -> None:
    """With miss=0 every pair of living items that scores enough in the field is told, once, with its score; replaced ones are not."""
    c = filled(db, X)
    c.compact()
    changed = some(X, slice(5, 15))
    X |= {name: part.copy() for name, part in X.items()}
    for name in X:
        X[name][5:15] = changed[name][::-1]
    c.add(ids(10, 5), some(X, slice(5, 15)), [{"i": i} for i in range(5, 15)])
    c.delete(ids(10, 20))
    for passing, asked in ((range(N), None), (range(100), {"i": {"$lt": 100}})):
        which = [i for i in passing if not 20 <= i < 30]
        truth = near(X, which, field, 0.93)
        with c.duplicates(0.93, field=field, miss=0, filter=asked) as answer:
            found = {(one.a, one.b): one.score for one in answer}
            assert answer.complete
        assert found.keys() == truth.keys()
        np.testing.assert_allclose([found[pair] for pair in truth], list(truth.values()), atol=1e-6)
    assert near(X, [i for i in range(N) if not 20 <= i < 30], "texture", 0.93), "there are some"


def test_clusters_of_a_field(db: kinbin.Database, quiet: None, X: dict[str, Any]) -> None:
    """Clusters are what hangs together by pairs of the field."""
    c = filled(db, X)
    pairs = near(X, list(range(N)), "texture", 0.97)
    linked = {name: {name} for pair in pairs for name in pair}
    for a, b in pairs:
        together = linked[a] | linked[b]
        linked |= dict.fromkeys(together, together)
    clusters = {one.keep: set(one.ids) for one in c.duplicates(0.97, "clusters", field="texture", miss=0)}
    assert clusters == {min(one): one for one in linked.values()}
    assert len(clusters) > 10


def test_an_answer_that_is_not_read_to_its_end_ends_with_the_collection(db: kinbin.Database, X: dict[str, Any]) -> None:
    """Closing the database lets go of the snapshot that it holds."""
    answer = filled(db, X).duplicates(0.5, field="texture", miss=0)
    next(answer)
    db.close()
    with pytest.raises((StopIteration, Closed)):
        next(answer)


@pytest.mark.slow
@pytest.mark.parametrize(("weights", "combine"), [(None, "sum"), ({"colour": 2.0, "texture": 0.5}, "sum"), (None, "product")])
def test_recall_is_that_of_combined_scores(
    db: kinbin.Database, quiet: None, X: dict[str, Any], weights: dict[str, float] | None, combine: str
) -> None:
    """Recall of bands is what comparing their answers with the best by definition gives, item by item; exact finds everything."""
    c = filled(db, X)
    c.compact()
    report = c.recall(N, k=5, weights=weights, combine=combine, modes=["bands", "exact"])
    assert (report.queries, report.sampled, report.k) == (N, True, 5)
    bands, exact = report.modes
    assert (exact.mode, exact.recall, exact.certificate) == ("exact", 1.0, 1.0)
    fields = list(weights or X)
    shares = []
    for i in range(N):
        q = some({name: X[name] for name in fields}, i)
        total = combined(parts(q, X), weights, combine)
        best = np.sort(np.delete(total, i))[::-1][:5]
        answer = c.query(q, weights, combine, k=6, mode="bands")
        found = [score for name, score in zip(answer.ids, answer.scores, strict=True) if name != ids(1, i)[0]][:5]
        alike = best[best > 1e-15]
        if len(alike):
            shares.append(min(len(alike), sum(score >= alike[-1] - 3 * SCORE_ERROR for score in found)) / len(alike))
    assert bands.recall == pytest.approx(float(np.mean(shares)), abs=1e-9)


def test_recall_of_given_queries(db: kinbin.Database, quiet: None, X: dict[str, Any]) -> None:
    """Vectors by field are queries; modes that a field has no means for are refused, and are not measured."""
    c = filled(db, X)
    asked = some(X, slice(0, 7))
    report = c.recall(asked, k=3)
    assert (report.queries, report.sampled) == (7, False)
    assert [one.mode for one in report.modes] == ["auto", "bands", "exact"]
    with pytest.raises(kinbin.InvalidInput, match="has no links"):
        c.recall(5, modes=["links"])
    with still():
        c.link()
    assert "links" in [one.mode for one in c.recall(3, k=3).modes] or not all(one["links"] for one in c.stats()["fields"].values())


def test_a_field_is_tuned_and_rebuilt(db: kinbin.Database, quiet: None, X: dict[str, Any]) -> None:
    """What is predicted is of the field; a rebuild gives it, and no other, the bands that are asked for; answers stay the same."""
    c = filled(db, X)
    c.compact()
    before = c.query_batch(some(X, slice(0, 5)), k=7, mode="exact")
    told = c.tune(5, field="colour", sample=20, choices=[(2, 40)])
    assert [(one.rows, one.bands) for one in told.bands] == [(2, 40)]
    others = {name: c.stats()["fields"][name]["runs"] for name in ("words", "texture")}
    made = c.rebuild(2, 40, field="colour")
    assert (made.rows, made.bands, made.count) == (2, 40, N)
    assert [(run["r"], run["bands"]) for run in c.stats()["fields"]["colour"]["runs"]] == [(2, 40)]
    assert c.config.fields["colour"].bands == 40
    assert {name: c.stats()["fields"][name]["runs"] for name in others} == others
    after = c.query_batch(some(X, slice(0, 5)), k=7, mode="exact")
    assert after.ids.tolist() == before.ids.tolist()
    assert c.check().ok
    assert c.stats()["depths"] == {}


def test_depths_are_measured_anew_after_a_rebuild(db: kinbin.Database, quiet: None, rng: np.random.Generator) -> None:
    """How deep fields are searched was measured with other bands: it is forgotten, here and on disk."""
    many = vectors(rng, 2_300)
    c = filled(db, many)
    c.compact()
    c.query(some(many, 0), k=5, mode="bands")
    assert c.stats()["depths"]
    c.rebuild(1, 20, field="texture")
    assert c.stats()["depths"] == {}
    c.query(some(many, 0), k=5, mode="bands")
    assert c.stats()["depths"]
