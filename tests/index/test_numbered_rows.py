"""Rows that a program numbers itself: their order among ties, what is on disk, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import kinbin
from naive_format import read

DIM = 10
QUERY = [1.0] + [0.0] * (DIM - 1)
PLAIN: dict[str, Any] = {"kernel": "minmax", "dim": DIM, "seed": 5}
FIELDS: dict[str, Any] = {"fields": {"one": {"dim": DIM, "kernel": "minmax"}, "two": {"dim": DIM}}, "seed": 5}
NOW = 1_700_000_000.0


def add(collection: Any, options: dict[str, Any], ids: list[str], first: int, positions: list[int] | None = None, **terms: Any) -> Any:
    """Add items of which no two have the same vector, though all have the same score for `QUERY`."""
    X = [[1.0, *(float(one == f"i{number}") for number in range(1, DIM))] for one in ids]
    found = kinbin.Schema(**options).check(ids, X if "fields" not in options else {"one": X, "two": X})
    group = collection.together().add(found.ids, found.rows, found.payloads, now=NOW, positions=positions, first=first, **terms)
    return group.commit(lambda _: {})[0]


@pytest.mark.parametrize("options", [PLAIN, FIELDS])
def test_numbers_are_those_that_were_given(tmp_path: Path, options: dict[str, Any]) -> None:
    """A row has the first number plus its item's position, and where that is taken all have more; so it is after a merge and a restore."""
    with kinbin.open(tmp_path / "data") as database:
        collection: Any = database.create_collection("c", **options)
        assert add(collection, options, ["i1", "i2", "i3"], 100, [0, 4, 9]).next_row == 110
        assert collection.numbers_of(["i1", "i2", "i3", "none"]) == [100, 104, 109, None]
        assert add(collection, options, ["i4", "i5"], 50, [1, 7]).next_row == 117
        assert collection.numbers_of(["i4", "i5"]) == [110, 116]
        assert add(collection, options, ["i6"], 10**12).next_row == 10**12 + 1
        assert add(collection, options, ["i1", "i2"], 7).next_row == 10**12 + 1, "nothing was new"
        collection.delete(["i2"])
        before = collection.numbers_of(["i1", "i3", "i4", "i5", "i6"])
        with collection.pinned() as pinned:
            pinned.snapshot(tmp_path / "snapshot")
        restored = database.restore(tmp_path / "snapshot", "restored")
        collection.compact()
        for one in (collection, restored):
            assert one.numbers_of(["i1", "i3", "i4", "i5", "i6"]) == before
            assert one.check().ok
    with kinbin.open(tmp_path / "data") as database:
        assert database.collection("restored").numbers_of(["i6"]) == [10**12]


def test_ties_are_in_the_order_of_numbers(tmp_path: Path) -> None:
    """The lesser number first, in the journal, in runs and over both."""
    with kinbin.open(tmp_path) as database:
        collection: Any = database.create_collection("c", **PLAIN)
        for first, ids in ((40, ["i3", "i1", "i2"]), (90, ["i7"]), (60, ["i5"])):
            add(collection, PLAIN, ids, first)
        wanted = ["i3", "i1", "i2", "i7", "i5"]
        assert collection.numbers_of(wanted) == [40, 41, 42, 90, 91]
        assert collection.query(QUERY, k=9, mode="exact").ids == wanted
        assert collection.query(QUERY, k=3, mode="exact").ids == wanted[:3]
        collection.compact()
        add(collection, PLAIN, ["i4"], 70)
        assert collection.query(QUERY, k=9, mode="exact").ids == [*wanted, "i4"]


def test_what_is_on_disk(tmp_path: Path) -> None:
    """Numbers with gaps are listed in the journal, and read by whoever has the specification alone; without gaps nothing is new."""
    with kinbin.open(tmp_path) as database:
        collection: Any = database.create_collection("c", **PLAIN)
        add(collection, PLAIN, ["i1", "i2"], 7)
        add(collection, PLAIN, ["i3", "i4", "i5"], 20, [0, 1, 5])
    files = read(tmp_path / "collections" / "c")
    assert [entry.numbers for entry in files.journal] == [[7, 8], [20, 21, 25]]
    assert sorted(files.living()) == [7, 8, 20, 21, 25]


@pytest.mark.parametrize(("first", "positions"), [(-1, None), (2**47, None), (0, [1, 1]), (0, [2, 1]), (0, [0, 2**32])])
def test_numbers_that_are_none(tmp_path: Path, first: int, positions: list[int] | None) -> None:
    """They ascend and are not too large; an edit that has others is refused, and nothing is written."""
    with kinbin.open(tmp_path) as database:
        collection: Any = database.create_collection("c", **PLAIN)
        outcome = add(collection, PLAIN, ["i1", "i2"], first, positions)
        assert isinstance(outcome, kinbin.InvalidInput)
        assert outcome.problems[0].field == "first"
        assert collection.count() == 0


def test_a_repeated_answer_tells_the_next_number(tmp_path: Path) -> None:
    """An add that comes again under its key, behind others, tells a number beyond theirs and its own."""
    with kinbin.open(tmp_path) as database:
        collection: Any = database.create_collection("c", **PLAIN)
        assert add(collection, PLAIN, ["i1"], 5, idempotency_key="k").next_row == 6
        add(collection, PLAIN, ["i2"], 30)
        again = add(collection, PLAIN, ["i1"], 90, idempotency_key="k")
        assert (again.replayed, again.next_row, collection.numbers_of(["i1"])) == (True, 31, [5])
