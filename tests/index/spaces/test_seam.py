"""What the engine asks of a space: one that lacks hashes or codes is searched by what it has, completely where it is asked to be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import kinbin
import naive
from kinbin.spaces import registry
from linked import still

LACKING = ("unhashed", "uncoded", "bare", "untied")
K = 10


@pytest.fixture(autouse=True)
def listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The spaces of the tests stand in the registry, a line each, like all others."""
    for name in LACKING:
        monkeypatch.setitem(registry._HOMES, name, f"lacking:{name.upper()}")


@pytest.mark.slow
@pytest.mark.parametrize("name", LACKING)
def test_a_space_is_searched_by_what_it_has(name: str, db: kinbin.Database, rng: np.random.Generator) -> None:
    """Fresh, sealed, linked and after more adds: scores are exact, every certified or exact answer is complete or keeps its bound."""
    X, Q = (rng.random((count, 30)) ** 6 + 1e-6 for count in (1_500, 20))
    truth = np.array([naive.dense_scores("chi2", q, X) for q in Q])
    best = -np.sort(-truth, axis=1)[:, :K]
    with still():
        collection = db.create_collection("c", kernel=name, dim=30, seed=1)
        for stage in ("fresh", "sealed", "linked", "more"):
            if stage == "fresh":
                collection.add([str(i) for i in range(1_400)], X[:1_400])
                collection.add([str(i) for i in range(1_400, 1_500)], X[1_400:])
            elif stage == "sealed":
                collection.compact()
            elif stage == "linked":
                collection.link()
            else:
                collection.delete([str(i) for i in range(1_400, 1_500)])
                collection.add([str(i) for i in range(1_400, 1_500)], X[1_400:])
            for mode in ("auto", "bands", "links", "exact"):
                answers = collection.query_batch(Q, k=K, mode=mode, certify=mode == "auto")
                if mode == "exact" or (name != "uncoded" and mode == "bands"):
                    np.testing.assert_allclose(answers.scores, best, atol=naive.SCORE_ERROR)
                for answer, row in zip(answers, truth, strict=True):
                    np.testing.assert_allclose(answer.scores, row[[int(i) for i in answer.ids]], atol=naive.SCORE_ERROR)
                    assert mode != "auto" or (answer.recall_lower_bound is not None and answer.recall_lower_bound >= 0.9)
            assert collection.check().ok


@pytest.mark.parametrize("name", LACKING)
def test_what_a_space_lacks_is_not_built(name: str, db: kinbin.Database, rng: np.random.Generator) -> None:
    """Without hashes runs have no bands, without codes there are no links; the route says what is done instead."""
    with still():
        collection = db.create_collection("c", kernel=name, dim=8, seed=1)
        collection.add([str(i) for i in range(600)], rng.random((600, 8)) + 0.01)
        collection.link()
        stats = collection.stats()
        assert [run["bands"] > 0 for run in stats["runs"]] == [name == "uncoded"]
        linked = name in ("unhashed", "untied")
        assert (stats["links"] is not None) == linked
        steps = {step for mode in ("auto", "bands", "links") for step in collection.query(np.ones(8), mode=mode).steps}
        assert any("by bands" in step for step in steps) == (name == "uncoded")
        assert any("walk" in step for step in steps) == linked


def test_a_collection_of_an_unknown_kernel_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database written by a version that knows more kernels opens; the collection of such a kernel says what it is and what is known."""
    with kinbin.open(tmp_path / "db") as database:
        database.create_collection("c", kernel="bare", dim=3).add(["a"], [[1.0, 2.0, 3.0]])
    monkeypatch.delitem(registry._HOMES, "bare")
    with (
        kinbin.open(tmp_path / "db") as database,
        pytest.raises(kinbin.FormatMismatch, match=r"kernel 'bare', which .* does not know.*ngmm"),
    ):
        database.collection("c")
