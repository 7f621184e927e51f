"""A space may print distances: they are exact, ascend, and are asked for by `max_distance`, in the library, over REST and by the client."""

from __future__ import annotations

from pathlib import Path

import httpx
import numpy as np
import pytest

import kinbin
from kinbin.spaces import registry
from kinbin.spaces.ordered import distance_of, distance_score, signed_of, signed_score
from kinbin_client import AsyncClient
from linked import still
from service_app import running_app, warm_up_once

K = 10
ERROR = 1e-5
"""Of distances of some hundred: sums of float32 values."""


@pytest.fixture(autouse=True)
def listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The space stands in the registry."""
    monkeypatch.setitem(registry._HOMES, "manhattan", "distances:MANHATTAN")


def rows(rng: np.random.Generator, count: int) -> np.ndarray:
    """Signed rows around some centres, of whole numbers: sums of them are exact, and many distances tie."""
    centres = rng.integers(-20, 20, (12, 24))
    return (centres[rng.integers(0, 12, count)] + rng.integers(-3, 4, (count, 24))).astype(np.float32)


def distances(query: np.ndarray, stored: np.ndarray) -> np.ndarray:
    """By their definition."""
    return np.asarray(np.abs(stored.astype(np.float64) - query.astype(np.float64)).sum(axis=1))


def test_distances_ascend_and_are_exact(db: kinbin.Database, rng: np.random.Generator) -> None:
    """Fresh, sealed and linked, in every mode: the printed distances are exact and ascend; complete where all rows were looked at."""
    X, Q = rows(rng, 1_500), rows(rng, 20)
    truth = np.array([distances(q, X) for q in Q])
    with still():
        collection = db.create_collection("c", kernel="manhattan", dim=24, seed=1)
        collection.add([str(i) for i in range(1_500)], X)
        for stage in (None, collection.compact, collection.link):
            if stage is not None:
                stage()
            for mode in ("auto", "bands", "links", "exact"):
                found = collection.query_batch(Q, k=K, mode=mode)
                assert found.ascending
                assert found.distances is found.scores
                assert (np.diff(found.scores) >= 0).all()
                for answer, row in zip(found, truth, strict=True):
                    np.testing.assert_allclose(answer.scores, row[[int(i) for i in answer.ids]], atol=ERROR)
                    if mode == "exact" or (mode != "links" and answer.recall_lower_bound == 1.0):
                        np.testing.assert_allclose(answer.scores, np.sort(row)[:K], atol=ERROR)
        stats = collection.stats()
        assert stats["links"] is not None
        assert "walk linked rows" in collection.query(Q[0], mode="links").steps
        walked = collection.query_batch(Q, k=K, mode="links")
        near = np.sort(truth, axis=1)[:, :K]
        recall = np.mean([(one[:K] <= best[-1] + ERROR).mean() for one, best in zip(walked.scores, near, strict=True)])
        assert recall >= 0.9
        # Codes spare rows of the scan, though they bound another distance.
        assert collection.query(Q[0], mode="exact").verified < 1_500


def test_max_distance_takes_the_place_of_min_score(db: kinbin.Database, rng: np.random.Generator) -> None:
    """All within it are answered, none beyond; min_score is refused here, and max_distance where scores are printed."""
    X = rows(rng, 800)
    query = rows(rng, 1)[0]
    with still():
        collection = db.create_collection("c", kernel="manhattan", dim=24, seed=1)
        collection.add([str(i) for i in range(800)], X)
        limit = float(np.sort(distances(query, X))[30])
        for stage in (None, collection.link):
            if stage is not None:
                stage()
            answer = collection.query(query, k=100, max_distance=limit, mode="exact")
            assert sorted(map(int, answer.ids)) == np.flatnonzero(distances(query, X) <= limit).tolist()
            batch = collection.query_batch(np.stack([query, query]), k=100, max_distance=limit, mode="exact")
            assert batch[0].ids == answer.ids
            same = collection.query(query, options=kinbin.QueryOptions(k=100, max_distance=limit, mode="exact"))
            assert same.ids == answer.ids
        hits = list(collection.query(query, k=3, include=["payload"]))
        assert [hit.distance for hit in hits] == [hit.score for hit in hits]
        with pytest.raises(kinbin.InvalidInput, match="manhattan prints distances: use max_distance, not min_score"):
            collection.query(query, min_score=0.5)
        similar = db.create_collection("s", dim=24)
        similar.add(["a"], X[:1])
        with pytest.raises(kinbin.InvalidInput, match="ngmm prints scores: use min_score, not max_distance"):
            similar.query(query, max_distance=1.0)
        with pytest.raises(kinbin.InvalidInput, match=r"min_score is a number from 0 to 1 for ngmm, not 1\.5"):
            similar.query(query, min_score=1.5)
        assert next(iter(similar.query(query))).distance is None


async def test_the_service_and_the_client_name_distances(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    """A result has a distance in the place of a score, one by one and in batches; the client reads either."""
    X = rows(rng, 40)
    with kinbin.open(tmp_path / "data") as database:
        database.create_collection("c", kernel="manhattan", dim=24, seed=1).add([str(i) for i in range(40)], X)
    monkeypatch.setattr(kinbin, "warm_up", warm_up_once)
    async with running_app(tmp_path / "data") as app:

        async def forward(request: httpx.Request) -> httpx.Response:
            content = await request.aread()
            answer = await app.client.request(request.method, request.url, content=content, headers=request.headers)
            return httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)

        sent = {"vector": X[3].tolist(), "k": 2, "max_distance": 500}
        plain = await app.post("/v1/collections/c/query", sent)
        assert [hit.keys() for hit in plain["results"]] == [{"id", "distance"}] * len(plain["results"])
        assert plain["results"][0] == {"id": "3", "distance": 0.0}
        refused = await app.post("/v1/collections/c/query", {"vector": X[3].tolist(), "min_score": 0.5}, status=422)
        assert refused["code"] == "bad_parameter"
        async with AsyncClient("http://localhost", transport=httpx.MockTransport(forward)) as client:
            there = client.collection("c")
            answer = await there.query(X[3].tolist(), k=2)
            assert answer.distances == answer.scores == sorted(answer.scores)
            batch = await there.query_batch(X[:2], k=2, max_distance=0.5)
            assert [one.distances for one in batch] == [[0.0], [0.0]]


def test_ordered_scores_keep_order_and_value(rng: np.random.Generator) -> None:
    """Signed values and distances become scores from 0 on in their order, and back to the last bits."""
    values = np.concatenate([rng.uniform(-1, 1, 2_000), rng.uniform(-1, 1, 200) * 1e-12, [-1.0, -1e-300, 0.0, 1e-300, 1.0]])
    scores = np.array([signed_score.py_func(value) for value in values.tolist()])
    assert (scores >= 0).all()
    np.testing.assert_allclose(signed_of(scores), values, atol=1e-15)
    order = np.argsort(values, kind="stable")
    assert (np.diff(scores[order]) >= 0).all()
    assert [signed_of(score) for score in scores.tolist()] == signed_of(scores).tolist()
    apart = np.concatenate([10.0 ** rng.uniform(-9, 12, 2_000), [0.0]])
    scores = np.array([distance_score.py_func(value) for value in apart.tolist()])
    np.testing.assert_allclose(distance_of(scores), apart, rtol=1e-8, atol=1e-17)
    assert (np.diff(scores[np.argsort(apart)]) <= 0).all()
    assert distance_of(float(scores[-1])) == 0.0
