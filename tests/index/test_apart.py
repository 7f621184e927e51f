"""Checks in a process of their own: reports come back, and a process that dies is a report as well."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import kinbin
from torture.pages import PAGE, PageMap


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """A closed database with the collections "a", "b" and "c"."""
    with kinbin.open(tmp_path / "data") as database:
        for name in "abc":
            database.create_collection(name, dim=2, seed=1).add(["x", "y"], [[1.0, 2.0], [3.0, 1.0]])
    return tmp_path / "data"


def zero_items(database: Path, name: str) -> None:
    """Zero the leaf of the tree of items."""
    file = database / "collections" / name / "data.mdb"
    data = bytearray(file.read_bytes())
    (page,) = PageMap.of(bytes(data)).leaves["items"]
    data[page * PAGE : (page + 1) * PAGE] = bytes(PAGE)
    file.write_bytes(data)


def test_reports_come_back(database: Path) -> None:
    """Each collection has its report, damaged ones theirs, and progress is told of by name."""
    zero_items(database, "b")
    told: list[tuple[str, str]] = []
    with kinbin.open(database) as there:
        reports = there.check(progress=lambda name, text: told.append((name, text)))
        assert list(reports) == ["a", "b", "c"]
        assert [report.ok for report in reports.values()] == [True, False, True]
        assert (reports["a"].items, reports["a"].rows) == (2, 2)
        assert "tree items" in reports["b"].problems[0]
        assert ("a", "items") in told
        with pytest.raises(kinbin.CollectionNotFound):
            there.check(["nothing"])


@pytest.mark.slow
def test_a_process_that_dies_is_a_report(database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The collection that a process died of is reported with the signal, and the others are checked by another process."""
    child = tmp_path / "python"
    # Its arguments: -m, the module, the database, names. It reports on the first collection, and dies as if of the second.
    script = f"""#!/bin/sh
if [ "$4" = a ]; then {sys.executable} "$1" "$2" "$3" a || exit 1; kill -SEGV $$; fi
exec {sys.executable} "$@"
"""
    child.write_text(script)
    child.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(child))
    with kinbin.open(database) as there:
        reports = there.check()
    assert reports["a"].ok
    assert not reports["b"].ok
    assert "signal 11" in reports["b"].problems[0]
    assert reports["c"].ok
