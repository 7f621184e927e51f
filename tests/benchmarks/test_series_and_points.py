"""What the page says of series and point sets follows from what was measured."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

import report
from series_and_points import AIM, render


@pytest.fixture
def measured() -> dict[str, Any]:
    """The saved result."""
    result: dict[str, Any] = json.loads((report.RESULTS / "series_and_points.json").read_text(encoding="utf-8"))["result"]
    return result


def test_the_aim_is_judged_against_every_scan(measured: dict[str, Any]) -> None:
    """Against our own scan, all distances and SciPy's the ratio is told, and whether the aim is met: by both distances, or it is not."""
    slow = copy.deepcopy(measured)
    for scan, times in (("exact", AIM - 1), ("plain", AIM + 1)):
        for distance in ("hausdorff", "modified_hausdorff"):
            slow[distance]["us"][scan]["mean"] = times * slow[distance]["us"]["auto 0.95"]["mean"]
    slow["hausdorff"]["us"]["peer"]["p50"] = 5_000 * slow["hausdorff"]["us"]["auto 0.95"]["mean"]
    text = render(slow)
    assert "**Against our own exact scan it is not met.**" in text
    assert "| Kinbin's exact scan | 99.0 | 99.0 | not met |" in text
    assert "| all distances, no cutoff | 101 | 101 | met |" in text
    assert "| SciPy's, in a Python loop | 5,000 | – | met |" in text
    slow["hausdorff"]["us"]["exact"]["mean"] *= 2
    assert "**Against our own exact scan it is not met.**" in render(slow)
    slow["modified_hausdorff"]["us"]["exact"]["mean"] *= 2
    assert "**Against our own exact scan it is met.**" in render(slow)


def test_the_document_has_it(measured: dict[str, Any]) -> None:
    """The page holds the tables of the saved result."""
    assert render(measured) in report.DOCUMENT.read_text(encoding="utf-8")
