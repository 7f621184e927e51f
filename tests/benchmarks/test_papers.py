from __future__ import annotations

import json
import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.svm import SVC

from papers import document, machines
from papers.features import LINEARISATIONS, gram
from papers.ledger import FILE, Busy, Finished, Ledger, opened, read
from papers.measure import measured
from papers.plan import FIGURE_2, FIGURES_4_TO_7, NYSTROEM, Cell, cells
from papers.published import PAPERS
from papers.sets import DRAWN_FROM, SCALINGS, SETS, Part, doubled, drawn
from papers.summary import Figure, Summary, summarised

ROOT = Path(__file__).resolve().parents[2]
REPRODUCE = ROOT / "benchmarks" / "reproduce.py"
PROGRAM = [sys.executable, str(REPRODUCE)]
TIMEOUT = 100


def two_classes(rng: np.random.Generator, count: int, features: int = 6) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Rows that differ by class in their first feature, and labels."""
    y = np.arange(count, dtype=np.int64) % 2
    return rng.gamma(2.0, 1.0, (count, features)) + np.outer(y, np.eye(features)[0]) * 3.0, y


@pytest.fixture
def data(tmp_path: Path, rng: np.random.Generator) -> Path:
    """A folder with one tiny set."""
    folder = tmp_path / "data"
    folder.mkdir()
    (X, y), (X_test, y_test) = two_classes(rng, 60), two_classes(rng, 40)
    np.savez(folder / "svmguide3.npz", X_train=X, y_train=y, X_test=X_test, y_test=y_test)
    return folder


def finished(key: str, accuracies: Iterable[float], costs: Iterable[str] = ("1", "10")) -> Finished:
    """A finished cell."""
    return Finished(key, dict(zip(costs, accuracies, strict=True)), 1.0, (10, 20, 3), "kinbin 1 at abc, numpy 2")


def ended(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> object:
    """The status that the program ends with in this process, which has imported what it needs."""
    with monkeypatch.context() as patch:
        patch.setattr(sys, "argv", [str(REPRODUCE), *map(str, arguments)])
        patch.setattr(sys, "path", [*sys.path])
        with pytest.raises(SystemExit) as found:
            runpy.run_path(str(REPRODUCE), run_name="__main__")
    return found.value.code


@pytest.mark.slow
def test_a_killed_run_goes_on(tmp_path: Path, data: Path) -> None:
    """Killed in the middle of a line, a run is taken up by the next: no cell is measured twice, and none is missing."""
    command = [*PROGRAM, "--data", str(data), "--folder", str(tmp_path / "out"), "--processes", "1"]
    file = tmp_path / "out" / FILE
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"}) as first:
        assert first.stdout is not None
        told = 0
        while told < 3:
            line = first.stdout.readline()
            assert line, "the run ended by itself"
            told += line.startswith("nystroem/")
        first.send_signal(signal.SIGKILL)
    before = file.read_bytes()
    kept = before[: before.rfind(b"\n") + 1]
    assert kept.count(b"\n") >= 3
    file.write_bytes(kept + b'{"cell": "nystroem/SVM')

    second = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert second.returncode == 0, second.stderr
    assert file.read_bytes().startswith(kept)
    lines = [json.loads(line)["cell"] for line in file.read_bytes().splitlines()]
    planned = {cell.key for cell in cells(full=False) if cell.set == "SVMGuide3"}
    assert len(lines) == len(set(lines))
    assert set(lines) == planned
    assert "Satimage" in second.stdout, "sets that are not there are named"


def test_a_run_without_data_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Where no set is, the program says what names their folder, and ends with 2."""
    assert ended(monkeypatch, "--data", tmp_path, "--folder", tmp_path / "out") == 2
    assert "KINBIN_DATA" in capsys.readouterr().out


def test_a_part_without_cells_is_refused(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What no key holds is no finished work, and sets that were not asked for are not missed."""
    where = ("--data", data, "--folder", tmp_path / "out")
    assert ended(monkeypatch, "--only", "svmguide", *where) == 2
    said = capsys.readouterr().out
    assert "no cell has 'svmguide' in its key: capitals count" in said
    assert "is nystroem/SVMGuide" in said.replace("\n", " ")
    assert ended(monkeypatch, "--only", "Letter", *where) == 2
    said = capsys.readouterr().out
    assert "letter.npz" in said
    assert "Satimage" not in said


def test_two_runs_do_not_share_a_folder(tmp_path: Path) -> None:
    """While one run writes to a folder, another is refused; when it has ended, the next may write."""
    with opened(tmp_path) as ledger:
        ledger.add(finished("a", (1.0, 2.0)))
        with pytest.raises(Busy):
            Ledger(tmp_path)
    with opened(tmp_path) as ledger:
        assert ledger.cells == {"a": finished("a", (1.0, 2.0))}


@pytest.mark.parametrize("line", ["{}", "[1]", '{"cell": "a"}', "no json"])
def test_a_damaged_line_is_refused_with_its_number(tmp_path: Path, line: str) -> None:
    """A whole line that is no finished cell is not passed over."""
    (tmp_path / FILE).write_text(f"{line}\n")
    with pytest.raises(ValueError, match="line 1 is no finished cell"):
        read(tmp_path / FILE)


def test_a_cell_is_measured(data: Path) -> None:
    """Two classes that differ in one feature are told apart by a kernel machine and by a linear one on hashes; a cell says on what rows."""
    for cell in (Cell("nystroem", "SVMGuide3", "gmm"), Cell("nystroem", "SVMGuide3", "gcws-gmm", 0, 256, 8)):
        one = measured(cell, data, "here")
        assert one.cell == cell.key
        assert one.best[0] > 80
        assert one.rows == (60, 40, 6)
        assert "at here" in one.by


@pytest.mark.parametrize(
    "cell", {(cell.method, bool(cell.k)): cell for cell in cells(full=True)}.values(), ids=lambda cell: f"{cell.method}-{cell.k}"
)
def test_every_method_takes_negative_values(tmp_path: Path, rng: np.random.Generator, cell: Cell) -> None:
    """Sets with some are in the plan, of every method: kernels that do not take them get their rows doubled."""
    (X, y), (X_test, y_test) = two_classes(rng, 60), two_classes(rng, 40)
    np.savez(tmp_path / "svmguide3.npz", X_train=X - 2.0, y_train=y, X_test=X_test - 2.0, y_test=y_test)
    found = measured(replace(cell, paper="nystroem", set="SVMGuide3", k=min(cell.k, 16)), tmp_path, "abc")
    assert found.best[0] > 60.0


def test_a_set_that_is_too_small_is_refused() -> None:
    """A split that asks for more rows than there are is an error, not a smaller split."""
    part = Part(np.zeros((5, 1)), np.zeros(5, np.int64), np.zeros((5, 1)), np.zeros(5, np.int64))
    with pytest.raises(ValueError, match="10 rows, not 12"):
        drawn(part, (6, 6), "random", 0)


def test_the_plan_is_whole() -> None:
    """Every cell has a key of its own, a set, and a method that is known; the usual plan is part of the full one."""
    usual, full = list(cells(full=False)), list(cells(full=True))
    assert len({cell.key for cell in full}) == len(set(full)) == len(full)
    assert set(usual) <= set(full)
    for cell in full:
        assert cell.set in SETS[cell.paper]
        assert cell.method in (LINEARISATIONS if cell.k else PAPERS[cell.paper].methods)
    for paper, described in PAPERS.items():
        assert set(described.rows) == set(SETS[paper])
        assert {len(row) for row in described.rows.values()} == {len(described.methods)}
    assert {*FIGURES_4_TO_7, *NYSTROEM, "gcws-ngmm"} == set(LINEARISATIONS)
    assert set(FIGURE_2) <= set(SETS["gint"])


@pytest.mark.parametrize("drawn_from", sorted(set(DRAWN_FROM) - {"published", "sampled"}))
def test_a_split_is_a_split(rng: np.random.Generator, drawn_from: str) -> None:
    """Rows of training and of test are different rows of the set, with their labels; equally many of each class where that is asked for."""
    X = np.arange(60, dtype=np.float64)[:, None]
    y = np.asarray(X[:, 0] % 3, np.int64)
    part = drawn(Part(X[:40], y[:40], X[40:], y[40:]), (21, 30), drawn_from, 4)
    together = np.concatenate([part.X, part.X_test])[:, 0]
    assert len(set(together)) == 51
    np.testing.assert_array_equal(np.concatenate([part.y, part.y_test]), together % 3)
    assert len(part.y) == 21
    if drawn_from == "balanced":
        assert np.bincount(part.y).tolist() == [7, 7, 7]


def test_scalings(rng: np.random.Generator) -> None:
    """Training rows span 0 to 1, test rows are never below 0; a feature that is the same everywhere does no harm."""
    X, X_test = rng.normal(size=(30, 3)), rng.normal(size=(30, 3)) * 2
    X[:, 2] = 7.0
    scaled, scaled_test = SCALINGS["0..1"](X, X_test)
    assert (scaled.min(0)[:2] == 0).all()
    assert (scaled.max(0)[:2] == 1).all()
    assert scaled_test.min() >= 0
    assert np.isfinite(scaled_test).all()
    stretched, _ = SCALINGS["-1..1"](X, X_test)
    np.testing.assert_allclose(stretched, 2 * scaled - 1)


def test_doubled_rows_have_the_same_min_max_kernel(rng: np.random.Generator) -> None:
    """Splitting signed features changes no similarity of the GMM kernel."""
    X, Y = rng.normal(size=(2, 9, 4))
    part = doubled(Part(X, np.zeros(9, np.int64), Y, np.zeros(9, np.int64)))
    assert min(part.X.min(), part.X_test.min()) == 0
    np.testing.assert_allclose(gram("gmm", None)(part.X_test, part.X), gram("gmm", None)(Y, X), atol=1e-12)


def test_kernel_machines_are_tested_block_by_block(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Accuracies are those of scikit-learn's machine asked for all test rows at once."""
    (X, y), (X_test, y_test) = two_classes(rng, 30), two_classes(rng, 25)
    part = Part(X, y, X_test, y_test)
    monkeypatch.setattr(machines, "BLOCK", 90)
    found = machines.kernel_machines(gram("ngmm", None), part, (1.0, 10.0))
    for cost, accuracy in found.items():
        machine = SVC(kernel="precomputed", C=cost).fit(gram("ngmm", None)(X, X), y)
        assert accuracy == pytest.approx(100 * machine.score(gram("ngmm", None)(X_test, X), y_test))


def test_a_figure_is_the_best_of_gammas_and_costs() -> None:
    """Kernel machines have each repetition's best C and the best gamma repeated most often, linearisations the best C in the mean."""
    plan = [Cell("gint", "Vowel", "rbf", r, gamma=gamma) for gamma in (1.0, 5.0) for r in range(2)]
    plan += [Cell("gint", "Vowel", "rbf", 0, gamma=9.0)]
    plan += [Cell("gint", "Vowel", "gcws-ngmm", r, 64, 8) for r in range(2)]
    values = [(80.0, 82.0), (90.0, 80.0), (70.0, 71.0), (72.0, 70.0), (99.0, 99.0), (50.0, 60.0), (58.0, 52.0)]
    summary = summarised({cell.key: finished(cell.key, pair) for cell, pair in zip(plan, values, strict=True)}, plan)
    assert summary.figure("gint", "Vowel", "rbf") == Figure(86.0, round(8 / 2**0.5, 3), 2, 1.0, None)
    assert summary.figure("gint", "Vowel", "gcws-ngmm", 64, 8) == Figure(56.0, round(8 / 2**0.5, 3), 2, None, 10.0)
    assert summary.parts == {"gint/Vowel table": (5, 5), "gint/Vowel curves": (2, 2)}
    assert Summary.of_data(json.loads(json.dumps(summary.as_data()))) == summary


def test_tables_are_made_from_finished_cells() -> None:
    """A figure stands beside the paper's, in bold where they differ by more than a point; what was not measured is a dash."""
    gmm, linear = Cell("gint", "Vowel", "gmm"), Cell("gint", "Vowel", "linear")
    curve = [Cell("gint", "Vowel", "gcws-ngmm", 0, k, 8) for k in (64, 128)]
    accuracies = {gmm: 96.2, linear: 45.0, curve[0]: 44.0, curve[1]: 70.0}
    summary = summarised({cell.key: finished(cell.key, (1.0, value)) for cell, value in accuracies.items()})
    parts = document.parts(summary)
    row = next(line for line in parts["table of gint"].splitlines() if line.startswith("| Vowel"))
    assert row == "| Vowel | **45.0 / 39.4** | – / 94.7 | 96.2 / 97.0 | – / 89.4 | – / 85.6 |"
    assert "1 of 1 accuracies of kernel machines, and 0 of 1 of linear ones" in parts["differences of gint"]
    passing = next(line for line in parts["passing linear"].splitlines() if line.startswith("| Vowel"))
    assert passing == "| Vowel | 45.0 | 128 | – | – | – | – | – |"
    assert f"4 of {len(list(cells(full=False))):,} cells" in parts["run"]
    assert "With kinbin 1 at abc, numpy 2." in parts["run"]
    assert "| gint/Vowel | curves | 2 | 240 |" in parts["run"]
    assert "| Vowel | gint | `vowel264.npz` | R's ElemStatLearn | 10 | 20 | 3 | all rows, at random | raw |" in parts["sets"]


def test_the_document_is_what_the_results_say() -> None:
    """docs/papers.md is written from benchmarks/results/papers.json, and every difference in it has a reason."""
    text = document.DOCUMENT.read_text(encoding="utf-8")
    assert document.written(text, document.saved()) == text
    assert "not explained" not in text


def test_figures_of_before_stay_on_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that has few cells adds what the page does not show, and takes the place of what was repeated as often; the rest stays."""
    pages = {name: tmp_path / name for name in ("papers.md", "papers.json", "nested.json")}
    for page, made in ((document.DOCUMENT, "papers.md"), (document.RESULT, "papers.json")):
        pages[made].write_bytes(page.read_bytes())
    before = Summary.of_data(json.loads(pages["papers.json"].read_text(encoding="utf-8")))
    monkeypatch.setattr(document, "DOCUMENT", pages["papers.md"])
    monkeypatch.setattr(document, "RESULT", pages["papers.json"])
    monkeypatch.setattr(document, "draw", lambda *_: None)
    document.write(tmp_path)
    assert document.saved() == before
    new = next(cell for cell in cells(full=True) if (cell.paper, cell.set, cell.method, cell.k, cell.bits) not in before.figures)
    again = Cell("comparison", "Vowel", "gmm")
    lucky = Cell("gint", "Vowel", "gmm")
    with opened(tmp_path) as ledger:
        for cell, accuracy in ((new, 12.0), (again, 13.0), (lucky, 99.9)):
            ledger.add(finished(cell.key, (1.0, accuracy)))
    document.write(tmp_path)
    after = document.saved()
    assert after.figure(new.paper, new.set, new.method, new.k, new.bits) == Figure(12.0, None, 1, new.gamma, 10.0)
    assert after.figure("comparison", "Vowel", "gmm") == Figure(13.0, None, 1, None, 10.0)
    assert after.figure("gint", "Vowel", "gmm") == before.figure("gint", "Vowel", "gmm"), "one repetition of ten"
    assert len(after.figures) == len(before.figures) + 1
    assert sum(done for done, _ in after.parts.values()) in (total := sum(done for done, _ in before.parts.values()), total + 1)
    assert after.seconds > before.seconds
    document.write(tmp_path)
    assert document.saved().figures == after.figures


def test_what_the_page_shows_is_not_measured_again(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With --missing, cells of figures that are on the page are left out."""
    arguments = ("--folder", tmp_path / "done", "--data", data, "--missing", "--only", "nystroem/SVMGuide3")
    assert ended(monkeypatch, *arguments) == 0
    assert "docs/papers.md shows figures of all of them" in capsys.readouterr().out
    assert not read(tmp_path / "done" / FILE)[0]


def test_a_document_without_a_place_is_refused() -> None:
    """A part of the tables that the document has no place for is not dropped silently."""
    with pytest.raises(ValueError, match="0 places for in short"):
        document.written("no markers", document.saved())


def test_the_plots_are_what_the_results_say(tmp_path: Path) -> None:
    """The plots in docs/papers are drawn from the saved results, byte by byte, each below 100 kB."""
    pytest.importorskip("matplotlib")
    from papers.drawing import draw

    draw(document.saved(), tmp_path)
    folder = document.DOCUMENT.parent / "papers"
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted(file.name for file in folder.iterdir())
    for file in tmp_path.iterdir():
        assert file.read_bytes() == (folder / file.name).read_bytes()
        assert file.stat().st_size < 100_000
