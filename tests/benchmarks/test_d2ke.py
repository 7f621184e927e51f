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


def test_the_sweep_is_measured_and_shown(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each length gets the whole grid and nothing of the table is measured; the page shows each one's best, the results file holds all."""
    monkeypatch.setattr(d2ke, "SWEPT", ("splice", (2, 8)))
    monkeypatch.setattr(d2ke, "_SWEPT_GRID", ((0.25, 4.0), (1e-6, 1.0)))
    folder = tmp_path / "done"
    asked = ["d2ke.py", "--folder", str(folder), "--data", str(small)]
    for more in ("--sweep", "--sweep", "--document"):
        monkeypatch.setattr(d2ke, "RESULTS", tmp_path / "d2ke.json")
        monkeypatch.setattr(d2ke, "DOCUMENT", tmp_path / "d2ke.md")
        monkeypatch.setattr(sys, "argv", [*asked, more])
        assert d2ke.main() == 0
    assert len(capsys.readouterr().out.splitlines()) == 2, "what is finished is measured again"
    cells = json.loads((tmp_path / "d2ke.json").read_text())
    assert [(cell["set"], cell["chosen"]["length"]) for cell in cells] == [("splice", 2), ("splice", 8)]
    page = (tmp_path / "d2ke.md").read_text()
    for cell in cells:
        spreads, costs, accuracies = cell["grid"].values()
        assert (spreads, costs, np.shape(accuracies)) == ([0.25, 4.0], [1e-6, 1.0], (2, 2))
        chosen = cell["chosen"]
        assert cell["accuracy"] == np.max(accuracies) == accuracies[spreads.index(chosen["spread"])][costs.index(chosen["C"])]
        assert f"| {chosen['length']} | {cell['accuracy']:.1f} | {chosen['spread']:g} | {chosen['C']:,.0f} |" in page
    assert "γ of 0.25, 4 over the median" in page
    assert "C of 0; 1." in page
    assert "| splice | – / 90.2 |" in page


def test_the_page_is_what_the_results_say() -> None:
    """Nobody edits the page by hand."""
    assert d2ke.DOCUMENT.read_text() == document(json.loads(d2ke.RESULTS.read_text()))
