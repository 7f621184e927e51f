"""0-bit GCWS on rows of few features: the law is a lower bound, and the guide's table is what hashes do."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from hashing_rows import rows_of_dense
from kinbin.hashing import MAX_BANDS, MAX_ROWS, make_sampler

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "guide" / "explain.md"
LAW = 1 / 3
"""The min-max similarity of values 1, 3, 1 … and 3, 1, 3 …: of each feature the least is 1, and the greatest 3."""
SEEDS = 30
LIMIT = 4.5


def agreement(features: int) -> tuple[float, float]:
    """The share of hashes that agree of both rows, over all seeds, and its standard error."""
    item = 1.0 + 2.0 * (np.arange(features) % 2)
    rows = rows_of_dense(np.stack([item, 4.0 - item]))
    shares = []
    for seed in range(SEEDS):
        left, right = make_sampler("gcws", seed=seed, normalise=False, dim=None).codes(rows, MAX_ROWS, MAX_BANDS)
        shares.append(float(np.mean(left == right)))
    return float(np.mean(shares)), float(np.sqrt(LAW * (1 - LAW) / (SEEDS * MAX_ROWS * MAX_BANDS)))


def told() -> dict[int, tuple[float, float]]:
    """The guide's table: by the number of features what the law says, and what was measured."""
    lines = re.findall(r"^\| (\d+) \| (0\.\d+) \| ([01]\.\d+) \|$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE)
    return {int(features): (float(law), float(share)) for features, law, share in lines}


@pytest.mark.parametrize("features", [1, 3, 10, 100])
def test_the_law_is_a_lower_bound_and_the_guide_says_by_how_much(features: int) -> None:
    """Hashes agree as often as the law says at least, and as the table of the guide says to its two digits."""
    share, error = agreement(features)
    law, measured = told()[features]
    assert law == round(LAW, 3)
    assert share > LAW - LIMIT * error
    assert abs(share - measured) <= 0.005 + LIMIT * error


@pytest.mark.parametrize("value", [0.01, 3.0, 100.0])
def test_rows_of_one_and_the_same_feature_always_agree(value: float) -> None:
    """Of two rows with one feature every hash is that feature, however far their values lie apart."""
    rows = rows_of_dense(np.array([[1.0], [value]]))
    left, right = make_sampler("gcws", seed=5, normalise=False, dim=None).codes(rows, MAX_ROWS, MAX_BANDS)
    assert np.array_equal(left, right)
