"""Sets of `kernels.py` that are not measured again keep their tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import kernels
import report
from common import Options


@pytest.fixture
def saved() -> dict[str, Any]:
    """The saved result of all sets."""
    result: dict[str, Any] = json.loads((report.RESULTS / "kernels.json").read_text(encoding="utf-8"))
    return result


def test_sets_that_are_left_out_say_when_they_were_measured(saved: dict[str, Any], tmp_path: Path) -> None:
    """They keep their figures, and their heads have date, instructions and commit; results that go elsewhere keep nothing."""
    there = Options(False, None, tmp_path, tmp_path, report.RESULTS)
    kept = kernels._kept(there, ["news20_counts"])
    assert list(kept) == ["mnist", "cifar10_rgbhist512"]
    where = f"{saved['date']}, {saved['machine']['instructions']}, at {saved['versions']['commit']}"
    # What was kept before keeps its own.
    assert kept == {name: {"measured": where} | saved["result"]["sets"][name] for name in kept}
    text = kernels.render(saved["result"] | {"sets": kept})
    for one in kept.values():
        assert f"**{one['title']}.** {one['rows']:,} rows" in text
        assert f" Measured {one['measured']}." in text
        assert f" Measured {one['measured']}." not in kernels.render(saved["result"] | {"sets": {"alone": {**one, "measured": "then"}}})
    assert kernels._kept(Options(False, None, tmp_path, tmp_path, tmp_path), ["news20_counts"]) == {}
