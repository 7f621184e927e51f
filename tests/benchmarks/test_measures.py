from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse
from numpy.typing import NDArray

import peers
import truth
from libraries import normalised
from patches import random_patches
from truth import Judge
from vector_sets import CELLS, ORIENTATIONS, oriented_gradients

K = 10


def scores_of(query: NDArray[np.float64], rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """The normalised generalized min-max kernel by its definition, with signs split."""

    def split(vector: NDArray[np.float64]) -> NDArray[np.float64]:
        parts: NDArray[np.float64] = np.concatenate([np.maximum(vector, 0), np.maximum(-vector, 0)])
        parts /= parts.sum()
        return parts

    left = split(query)
    return np.array([np.minimum(left, split(row)).sum() / np.maximum(left, split(row)).sum() for row in rows])


def test_judge_scores_what_was_answered(rng: np.random.Generator) -> None:
    """Scores are those of the distinct rows answered, best first; missing answers come last."""
    rows, queries = rng.normal(size=(50, 8)), rng.normal(size=(4, 8))
    answers = rng.integers(0, 50, (4, K))
    answers[:, 1], answers[:, 2] = answers[:, 0], -1
    found = Judge(rows, queries, K).scores(answers)
    for query, answer, scores in zip(queries, answers, found, strict=True):
        distinct = np.unique(answer[answer >= 0])
        expected = np.sort(scores_of(query, rows[distinct]))[::-1]
        np.testing.assert_allclose(scores[: len(distinct)], expected, atol=1e-12)
        assert np.isneginf(scores[len(distinct) :]).all()


def test_judge_is_fair_to_ties(rng: np.random.Generator) -> None:
    """Any of several equal rows is a right answer; a row that is less alike is not, nor is the same row twice."""
    best, other = rng.random((2, 6))
    rows = np.vstack([np.tile(best, (15, 1)), other])
    judge = Judge(rows, best[None], K)
    assert judge.recalls(np.arange(5, 15)[None]).tolist() == [1.0]
    assert judge.recalls(np.array([[*range(9), 15]])).tolist() == [0.9]
    assert judge.recalls(np.array([[3] * 9 + [-1]])).tolist() == [0.1]


def test_judge_looks_at_rows_in_parts(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """The true neighbours of all rows together, wherever a part ends."""
    rows, queries = rng.random((97, 6)), rng.random((5, 6))
    answers = rng.integers(-1, 97, (5, K))
    whole = Judge(rows, queries, K)
    monkeypatch.setattr(truth, "_PART", 6 * 13)
    parts = Judge(scipy.sparse.csr_matrix(rows), queries, K)
    best = np.array([np.argsort(scores_of(query, rows))[::-1][:K] for query in queries])
    assert parts.recalls(best).tolist() == whole.recalls(best).tolist() == [1.0] * 5
    assert parts.recalls(answers).tolist() == whole.recalls(answers).tolist()
    best[:, -1] = [np.argsort(scores_of(query, rows))[::-1][K] for query in queries]
    assert parts.recalls(best).tolist() == [1 - 1 / K] * 5


@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_matrix])
def test_normalised_rows_sum_to_one_and_keep_their_signs(rng: np.random.Generator, form: Any) -> None:
    """Dense or sparse, absolute values of a row sum to 1 in float32."""
    rows = rng.normal(size=(7, 5))
    out = normalised(form(rows))
    dense = out.toarray() if scipy.sparse.issparse(out) else out
    assert dense.dtype == np.float32
    np.testing.assert_allclose(np.abs(dense).sum(axis=1), 1.0, rtol=1e-6)
    np.testing.assert_array_equal(np.sign(dense), np.sign(rows))


def test_patches_are_cut_from_every_image_at_distinct_places() -> None:
    """Each patch is a window of one image, and no window comes twice."""
    images = np.random.default_rng(0).integers(0, 256, (3, 3072), np.uint8)
    found = random_patches(images, 12, seed=1)
    windows = [
        photograph[top : top + 16, left : left + 16].tobytes()
        for photograph in images.reshape(-1, 32, 32, 3)
        for top in range(17)
        for left in range(17)
    ]
    places = [windows.index(patch.tobytes()) for patch in found]
    assert len(set(places)) == 12
    assert np.bincount(np.array(places) // 17**2).tolist() == [4, 4, 4]


@pytest.mark.parametrize(("axis", "direction"), [(1, 0), (0, ORIENTATIONS // 2)])
def test_gradients_of_a_ramp_point_one_way(axis: int, direction: int) -> None:
    """Brightness that rises along one axis is seen in every cell, in that direction alone."""
    ramp = np.moveaxis(np.broadcast_to(np.arange(16, dtype=np.uint8), (16, 16)), 1, axis)
    (row,) = oriented_gradients(np.repeat(ramp[None, :, :, None], 3, axis=3))
    cells = row.reshape(CELLS**2, ORIENTATIONS)
    assert np.flatnonzero(cells.sum(axis=0)).tolist() == [direction]
    np.testing.assert_allclose(cells[:, direction], 16.0)


def test_cheapest_setting_is_the_fastest_that_was_measured_to_reach_the_recall() -> None:
    """Neither a faster setting of less recall nor a slower one of more; none where none reaches."""
    curve = [
        {"value": 1, "recall": 0.94, "seconds": [1.0, 1.0, 1.0]},
        {"value": 2, "recall": 0.96, "seconds": [9.0, 2.0, 2.0]},
        {"value": 3, "recall": 0.99, "seconds": [3.0, 3.0, 1.0]},
    ]
    assert [(found := peers.cheapest(curve, floor)) and found["value"] for floor in (0.9, 0.95, 0.97, 0.995)] == [1, 2, 3, None]


def result_of(systems: dict[str, list[tuple[float, float]]]) -> dict[str, Any]:
    """A result of one data set, by system: recall and seconds of a batch of 1,000 for each setting."""
    curves = {
        name: [{"setting": "width", "value": i, "recall": recall, "seconds": [spent] * 3} for i, (recall, spent) in enumerate(curve)]
        for name, curve in systems.items()
    }
    each = {
        "title": "made up", "rows": 5, "dimension": 2, "queries": 1_000, "nonzeros": 2.0, "layout": "no run", "systems": curves,
        "single": [], "exact": None, "builds": {"added": [1.0], "compacted": [2.0], "linked": [4.0]}, "bytes": {"file": 50},
        "given": {}, "not_applicable": ["Dense only"],
    }  # fmt: skip
    return {"floors": [0.95], "batch": 1_000, "sets": {"made_up": each}, "skipped": {"elsewhere": "no data set elsewhere"}}


def test_tables_show_losses_like_wins() -> None:
    """Every system has its ratio, whichever way it goes, or the recall that it reached; what was left out is named."""
    text = peers.render(
        result_of({peers.OURS: [(0.9, 0.1), (0.96, 0.2)], "Faster": [(0.97, 0.1)], "Slower": [(1.0, 0.6)], "Worse": [(0.81, 0.1)]})
    )
    assert "| made_up | 0.500 | 3.00 | reaches 0.8100 | not applicable |" in text
    assert "| Faster, width 0 | 0.9700 | 10,000 | 100 | 100 | 100 | 0.500 |" in text
    assert "| Slower, width 0 | 1.000 | 1,667 | 600 | 600 | 600 | 3.00 |" in text
    assert "| Worse, not reached | 0.8100 | – | – | – | – | – |" in text
    assert "**elsewhere** was skipped: no data set elsewhere." in text
