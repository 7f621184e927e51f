"""What may be tried again of what failed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import failed


@pytest.mark.parametrize(("count", "code"), [(0, 1), (1, 0), (3, 0), (4, 1)])
def test_few_are_tried_again_and_named(
    count: int, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One to three tests may run again, each is named; of more, or none, that is refused."""
    noted = tmp_path / "lastfailed"
    noted.write_text(json.dumps({f"tests/a.py::test_{number}": True for number in range(count)}))
    monkeypatch.setattr(failed, "NOTED", noted)
    assert failed.main(3) == code
    assert capsys.readouterr().err.count("failed beside others") == count


def test_a_run_that_noted_nothing_is_not_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a list of failures nothing is known to be mended."""
    monkeypatch.setattr(failed, "NOTED", tmp_path / "none")
    assert failed.main(3) == 1
