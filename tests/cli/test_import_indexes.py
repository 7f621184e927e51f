"""`kinbin import --index`: payload indexes of what is imported, in a directory and through a service."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

import kinbin

Run = Callable[..., Result]
LINES = "".join(f'{{"id": {i}, "vector": [1, 2, {i}], "payload": {{"year": {2000 + i}, "tag": "t{i % 2}"}}}}\n' for i in range(1, 9))


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    """A file of eight items with payloads, whose ids are integers."""
    (tmp_path / "items.ndjson").write_text(LINES)
    return tmp_path / "items.ndjson"


def declared(data: Path, name: str = "c") -> dict[str, str]:
    """The payload indexes of a collection."""
    with kinbin.open(data) as database:
        told: dict[str, Any] = database.collection(name).stats()["indexes"] or {"fields": {}}
        assert database.collection(name).count({"year": {"$gte": 2005}}) == 4
    return {field: one["kind"] for field, one in told["fields"].items()}


def test_an_import_declares_indexes(data: Path, run: Run, lines: Path) -> None:
    """A new collection has the indexes that are named; one that is there gets those that it lacks, and keeps the others."""
    assert run("import", lines, "--data", data, "--collection", "c", "--index", "year:number").exit_code == 0
    assert declared(data) == {"year": "number"}
    assert run("import", lines, "--data", data, "--collection", "c", "--no-resume", "--index", "tag:keyword").exit_code == 0
    assert declared(data) == {"year": "number", "tag": "keyword"}


@pytest.mark.server
def test_an_import_through_a_service_declares_indexes(served: Any, run: Run, lines: Path) -> None:
    """Through a service, too: of a new collection, and of one that is there."""
    place = ("--url", served.address, "--collection", "indexed")
    assert run("import", lines, *place, "--index", "year:number").exit_code == 0
    assert run("import", lines, *place, "--no-resume", "--index", "tag:keyword").exit_code == 0
    assert declared(served.data, "indexed") == {"year": "number", "tag": "keyword"}


@pytest.mark.parametrize(
    ("index", "text"),
    [
        ("year", "--index takes a field and a kind, as year:number"),
        ("year:words", "words is no kind of index: there are number"),
        (":number", "--index takes a field and a kind"),
    ],
)
def test_a_bad_index_imports_nothing(data: Path, run: Run, lines: Path, index: str, text: str) -> None:
    """What is no field and kind is refused, and leaves no collection behind."""
    result = run("import", lines, "--data", data, "--collection", "c", "--index", index)
    assert result.exit_code != 0
    assert text in " ".join(result.stderr.replace("│", " ").split())
    with kinbin.open(data) as database:
        assert database.collections() == []


def test_an_index_of_another_kind_is_refused(data: Path, run: Run, lines: Path) -> None:
    """A field that is indexed as another kind stays so, and nothing is imported."""
    assert run("create", "c", "--dim", 3, "--data", data, "--index", "year:keyword").exit_code == 0
    result = run("import", lines, "--data", data, "--collection", "c", "--index", "year:number")
    assert result.exit_code != 0
    assert "'year' is indexed as keyword; drop that index first" in result.stderr
    with kinbin.open(data) as database:
        assert database.collection("c").count() == 0
