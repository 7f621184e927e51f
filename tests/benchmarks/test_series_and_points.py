"""What the page says of series and point sets follows from what was measured."""

from __future__ import annotations

import copy
import json
from typing import Any

import numpy as np
import pytest

import report
from kinbin.distances.ragged import ragged
from series_and_points import AIM, _all, _looped, render


@pytest.fixture
def measured() -> dict[str, Any]:
    """The saved result."""
    result: dict[str, Any] = json.loads((report.RESULTS / "series_and_points.json").read_text(encoding="utf-8"))["result"]
    return result


def test_the_aim_is_judged_against_every_scan(measured: dict[str, Any]) -> None:
    """Against our own scan, loops, all distances and SciPy's the ratio is told, and whether both distances meet the aim."""
    slow = copy.deepcopy(measured)
    for scan, times in (("exact", AIM - 1), ("plain", AIM + 1), ("loop", AIM + 2)):
        for distance in ("hausdorff", "modified_hausdorff"):
            slow[distance]["us"][scan]["mean"] = times * slow[distance]["us"]["auto 0.95"]["mean"]
    for distance in ("hausdorff", "modified_hausdorff"):
        slow[distance]["batch_us"] = {"0.95": slow[distance]["us"]["auto 0.95"]["mean"] / 2}
    slow["hausdorff"]["us"]["peer"]["p50"] = 5_000 * slow["hausdorff"]["us"]["auto 0.95"]["mean"]
    text = render(slow)
    assert "**against that it is met by queries of a batch, met by one query at a time; against our own exact scan not met**" in text
    assert "| all distances by loops / a query of a batch | 204 | 204 | met |" in text
    assert "| all distances by loops | 102 | 102 | met |" in text
    assert "| Kinbin's exact scan | 99.0 | 99.0 | not met |" in text
    assert "| all distances, no cutoff | 101 | 101 | met |" in text
    assert "| SciPy's, in a Python loop | 5,000 | – | met |" in text
    slow["hausdorff"]["us"]["exact"]["mean"] *= 2
    assert "our own exact scan not met**" in render(slow)
    slow["modified_hausdorff"]["us"]["exact"]["mean"] *= 2
    slow["hausdorff"]["us"]["loop"]["mean"] /= 2
    assert "**against that it is met by queries of a batch, not met by one query at a time; against our own exact scan met**" in render(
        slow
    )


@pytest.mark.parametrize("distance", ["hausdorff", "modified_hausdorff"])
def test_the_loops_compute_the_distances(distance: str, rng: np.random.Generator) -> None:
    """What searches are compared with are the same distances, but for sums in float32."""
    sets = [rng.normal(size=(n, 2)).astype(np.float32) for n in rng.integers(1, 30, 20)]
    laid = ragged(sets)
    looped = _looped.py_func(sets[3], laid.values, laid.offsets, distance == "modified_hausdorff")
    np.testing.assert_allclose(looped, _all(distance, sets[3], laid), rtol=1e-5, atol=1e-6)


def test_the_document_has_it(measured: dict[str, Any]) -> None:
    """The page holds the tables of the saved result."""
    assert render(measured) in report.DOCUMENT.read_text(encoding="utf-8")
