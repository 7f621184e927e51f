"""The D2KE paper's methods, as the script measures them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import d2ke
from d2ke import METHODS, Objects, PublicSet, document, measured


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """One set of strings of two classes that differ in their letters, and few settings to try."""
    rng = np.random.default_rng(0)
    labels = np.arange(90) % 2
    texts = ["".join(rng.choice(list("aaaabc" if label else "abcccc"), 20)) for label in labels]
    monkeypatch.setattr(
        d2ke, "SETS", {"splice": PublicSet("small", "strings", lambda _data: Objects("levenshtein", {}, texts, labels, 60))}
    )
    monkeypatch.setattr(d2ke, "_LENGTHS", (8,))
    monkeypatch.setattr(d2ke, "_FEATURES", 100)
    np.savez(tmp_path / "small.npz", nothing=np.zeros(1))
    return tmp_path


@pytest.mark.parametrize("method", METHODS)
def test_every_method_learns_what_is_easy(method: str, small: Path) -> None:
    """Two kinds of strings are told apart better than by chance, and parameters and time are reported."""
    cell = measured("splice", method, small)
    assert cell["accuracy"] > 75.0
    assert (cell["set"], cell["method"]) == ("splice", method)
    assert cell["seconds"] >= 0.0
    assert cell["chosen"]


def test_a_run_goes_on_where_it_ended(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Finished cells are not measured again, and the page shows ours beside the paper's figure."""
    finished = [
        {"set": "splice", "method": method, "accuracy": 80.0, "seconds": 1, "chosen": {}, "by": ""} for method in METHODS if method != "KNN"
    ]
    folder = tmp_path / "done"
    folder.mkdir()
    (folder / "d2ke.jsonl").write_text("".join(json.dumps(cell) + "\n" for cell in finished))
    monkeypatch.setattr(sys, "argv", ["d2ke.py", "--folder", str(folder), "--data", str(small)])
    assert d2ke.main() == 0
    cells = [json.loads(line) for line in (folder / "d2ke.jsonl").read_text().splitlines()]
    assert [cell["method"] for cell in cells[len(finished) :]] == ["KNN"]
    assert len(capsys.readouterr().out.splitlines()) == 1
    assert f"{cells[-1]['accuracy']:.1f} ({cells[-1]['seconds']:,.0f} s) / 79.4" in document(cells)
