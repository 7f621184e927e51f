"""Places of values in the map, found without reading the values."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import kinbin
from kinbin.storage import transactions
from kinbin.storage.format import Part
from kinbin.storage.places import address_of
from kinbin.storage.store import Store
from kinbin.storage.transactions import Reader


@pytest.fixture
def run_of_rows(tmp_path: Path) -> Path:
    """The files of a collection with one run of 3,000 rows, closed."""
    with kinbin.open(tmp_path) as database:
        collection = database.create_collection("rows", dim=32, seed=3)
        vectors = np.random.default_rng(5).random((3_000, 32))
        collection.add([str(i) for i in range(3_000)], vectors)
        collection.compact()
    return tmp_path / "collections" / "rows"


def _places_and_views(store: Store, part: bytes) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    with store.read() as reader:
        run = reader.manifest()[0]
        addresses, sizes = reader.run_places(run, part)
        views = [(address_of(view), len(view)) for view in reader.run_parts(run, part)]
    return list(zip(addresses.tolist(), sizes.tolist(), strict=True)), views


@pytest.mark.parametrize("part", [Part.BAND, Part.BLOCK, Part.OFFSETS, Part.ROW_NUMBERS])
def test_places_are_those_of_the_views(run_of_rows: Path, part: bytes) -> None:
    """The place that is computed for a value is where a view of the value lies, and has its size."""
    store = Store(run_of_rows)
    places, views = _places_and_views(store, part)
    store.close()
    assert len(views) > 0
    assert places == views


def test_an_engine_that_keeps_values_elsewhere_costs_time_only(run_of_rows: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the computed place of a run's header is not that of its view, views are taken for all."""
    monkeypatch.setattr(transactions, "place_of", lambda key, page_bytes: (page_bytes, len(key)))
    store = Store(run_of_rows)
    places, views = _places_and_views(store, Part.BAND)
    store.close()
    assert places == views


def test_opening_does_not_read_tables(run_of_rows: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A collection is opened and searched without a view of any band or row block."""
    seen: list[bytes] = []
    whole = Reader.run_parts

    def noted(reader: Reader, run: int, part: bytes, *, verify: bool = False) -> list[memoryview]:
        seen.append(part)
        return whole(reader, run, part, verify=verify)

    monkeypatch.setattr(Reader, "run_parts", noted)
    with kinbin.open(run_of_rows.parent.parent) as database:
        assert database.collection("rows").query(np.ones(32), mode="bands").verified > 0
    assert seen == []
