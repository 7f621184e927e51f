"""The experiment of nested histograms: its kernels are the definition's, it goes on after an end, and the page says what it found."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import naive
from bundled import grids, pictures
from papers import nested


@pytest.mark.slow
@pytest.mark.parametrize("base", nested.BASES)
def test_kernels_are_those_of_the_definition(base: str) -> None:
    """From the distances of all nodes follow the kernels of every depth, width and share, to 1e-5 (they are float32)."""
    images = pictures()[:6]
    psi, order = nested.psi_of_all(images, base)
    assert [len(level) for level in order] == [1, 4, 16, 64]
    own = nested.kernels_of_nodes(psi, order, 3.0)
    for depth in nested.DEPTHS:
        X = grids(images, 2**depth)
        expected = np.array([naive.nested_scores(q, X, depth + 1, base, 3.0, 0.3) for q in X])
        np.testing.assert_allclose(nested.kernel_of(own, depth, 0.3), expected, atol=1e-5)


def test_an_ended_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is measured is not measured again, half a line is none, and errors are shares of wrong answers in percent."""
    images = pictures()[:24].copy()
    labels = np.arange(24) % 2
    images[labels == 0] //= 8
    monkeypatch.setattr(nested, "_photographs", lambda _data: (images, labels))
    monkeypatch.setattr(nested, "LEARNED", 8)
    monkeypatch.setattr(nested, "BASES", ("tv",))
    monkeypatch.setattr(nested, "DEPTHS", (1,))
    told: list[str] = []
    assert not nested.measure(tmp_path, tmp_path, ((0.0,), (0.0, 0.5)), -1.0, told.append)
    assert nested.measure(tmp_path, tmp_path, ((0.0,), (0.0, 0.5)), 5.0, told.append)
    assert len(told) == 2
    with (tmp_path / nested.FILE).open("a") as file:
        file.write('{"base": "tv", "dep')
    assert nested.measure(tmp_path, tmp_path, ((0.0,), (0.0, 0.5, 1.0)), 5.0, told.append)
    assert len(told) == 3
    found = nested.errors(tmp_path)
    assert set(found) == {("tv", 1, 0.0, share) for share in (0.0, 0.5, 1.0)}
    assert all(0.0 <= error < 40.0 for error in found.values())


def test_the_table_compares_the_middle_with_both_ends() -> None:
    """The least error of 0 < ε < 1 stands beside those of ε = 0 and 1, with the share of cells that are below both of their λ."""
    errors = {(0.0, 0.0): 30.0, (0.0, 0.5): 20.0, (0.0, 1.0): 25.0, (2.0, 0.0): 10.0, (2.0, 0.5): 22.0, (2.0, 1.0): 40.0}
    found = {("tv", 1, rate, share): error for (rate, share), error in errors.items()}
    assert nested.table(found) == [("tv", "1", "10.0", "25.0", "20.0", "2^0, 0.5", "50")]


def test_what_was_saved_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with some cells replaces these, and takes no others away."""
    monkeypatch.setattr(nested, "RESULT", tmp_path / "nested.json")
    monkeypatch.setattr(nested, "DOCUMENT", tmp_path / "page.md")
    (tmp_path / "page.md").write_text("<!-- nested histograms -->\n<!-- end of nested histograms -->\n", encoding="utf-8")
    nested.RESULT.write_text('[["tv", 1, 0.0, 0.0, 30.0], ["tv", 1, 0.0, 1.0, 25.0]]', encoding="utf-8")
    assert not nested.write(tmp_path)
    cell = {"base": "tv", "depth": 1, "log2_rate": 0.0, "epsilon": 1.0, "error": 20.0}
    (tmp_path / nested.FILE).write_text(json.dumps(cell) + "\n", encoding="utf-8")
    assert nested.write(tmp_path)
    assert nested.saved() == {("tv", 1, 0.0, 0.0): 30.0, ("tv", 1, 0.0, 1.0): 20.0}


def test_the_document_is_what_the_results_say() -> None:
    """The page has the table of the saved results, and nobody edited it."""
    document = nested.DOCUMENT.read_text(encoding="utf-8")
    assert nested.written(document) == document
    assert len(json.loads(nested.RESULT.read_text(encoding="utf-8"))) > 100
