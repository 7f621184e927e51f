"""Databases that older releases wrote: each opens, holds and answers what it did, and can be written to."""

from __future__ import annotations

import hashlib
import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import golden_database
import kinbin
import naive_format
from kinbin.storage.format import FORMAT_VERSION

DATA = Path(__file__).resolve().parents[2] / "data"
ARCHIVES = sorted(DATA.glob("format_v*.tar.xz"))


@pytest.fixture(params=ARCHIVES, ids=lambda path: path.name)
def archive(request: pytest.FixtureRequest) -> Path:
    """Each golden database."""
    path: Path = request.param
    return path


@pytest.fixture
def known(archive: Path) -> dict[str, Any]:
    """What a golden database must hold and answer."""
    known: dict[str, Any] = json.loads(archive.with_name(archive.name.replace(".tar.xz", ".json")).read_text())
    return known


@pytest.fixture
def folder(archive: Path, tmp_path: Path) -> Path:
    """A copy of it to open."""
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path, filter="data")
    return tmp_path


def test_there_is_one_for_this_format() -> None:
    """A database of the format that is written now is among them, one of each that is read, and they are small."""
    assert f"format_v{FORMAT_VERSION}.tar.xz" in [path.name for path in ARCHIVES]
    assert [path.name for path in ARCHIVES] == [f"format_v{version}.tar.xz" for version in range(1, FORMAT_VERSION + 1)]
    assert sum(path.stat().st_size for path in DATA.glob("format_v*")) < 110_000 * FORMAT_VERSION


def test_it_is_the_one_that_was_released(archive: Path, known: dict[str, Any]) -> None:
    """A golden database is never made anew: a test that a newer library reads what a newer library wrote proves nothing."""
    assert hashlib.sha256(archive.read_bytes()).hexdigest() == known["sha256"]


def test_it_holds_what_it_did(folder: Path, known: dict[str, Any]) -> None:
    """Every collection opens with its configuration, and every item has its vector, to the bit, and its payload."""
    with kinbin.open(folder) as database:
        assert database.collections() == sorted(known["collections"])
        for name, expected in known["collections"].items():
            collection = database.collection(name)
            config = {key: getattr(collection.config, key) for key in ("kernel", "dim", "sampler", "bands", "rows")}
            assert config | {"seed": str(collection._seed)} == {"bands": None, "rows": None, **expected["configuration"]}
            assert collection.count() == expected["count"] == len(expected["items"])
            found = collection.scroll(limit=1000, include=("vector", "payload")).items
            assert {item.id: [golden_database.nonzeros(item.vector), item.payload] for item in found} == expected["items"]
            report = collection.check()
            assert report.ok, report.problems
            assert (report.items, [run["rows"] for run in collection.stats()["runs"]]) == (expected["count"], expected["runs"])


def test_it_answers_what_it_did(folder: Path, known: dict[str, Any]) -> None:
    """Exact queries have the same answers and scores; every item is found by its own vector through the bands that were stored then."""
    with kinbin.open(folder) as database:
        for name, expected in known["collections"].items():
            collection = database.collection(name)
            for answer in expected["answers"]:
                found = collection.query(dict(answer["query"]), k=4, mode="exact")
                np.testing.assert_allclose(found.scores, answer["scores"], rtol=0, atol=1e-6)
                assert [sorted(found.ids), found.ids[0]] == [sorted(answer["ids"]), answer["ids"][0]]
            for identifier, (vector, _) in expected["items"].items():
                bands = collection.query({int(f): v for f, v in vector}, k=3, mode="bands")
                assert identifier in bands.ids
                assert bands.scores[bands.ids.index(identifier)] > 1 - 1e-6


def test_it_can_be_written_to(folder: Path, known: dict[str, Any]) -> None:
    """Adds, updates, deletes and merges work on files of an older release, and the result is sound and can be opened again."""
    for opening in range(2):
        with kinbin.open(folder) as database:
            for name, expected in known["collections"].items():
                collection = database.collection(name)
                first, second, *_ = expected["items"]
                if opening == 0:
                    assert collection.add(["new"], [{1: 2.0, 5: 3.0}]).count == expected["count"] + 1
                    vector = {int(f): v for f, v in expected["items"][first][0]}
                    assert collection.add([first], [vector], [expected["items"][first][1]]).unchanged == 1
                    assert collection.add([first], [{2: 1.5}], mode="update").updated == 1
                    assert collection.delete([second]).deleted == 1
                    collection.compact()
                assert collection.query({1: 2.0, 5: 3.0}, k=1).ids == ["new"]
                assert first in collection.query({2: 1.5}, k=3).ids
                assert collection.get([second]) == [None]
                assert collection.check().ok


def test_a_second_reader_reads_it(folder: Path, known: dict[str, Any]) -> None:
    """The reader that was written from FORMAT.md finds the same items in it."""
    for name, expected in known["collections"].items():
        files = naive_format.read(folder / "collections" / name)
        found = {
            key: [[[f, v] for f, v in vector.items()], json.loads(files.items[key][1] or b"null")]
            for key, vector in files.vectors().items()
        }
        assert found == expected["items"]
