"""Going on with an older state, deliberately."""

from __future__ import annotations

import random
import re
from pathlib import Path

import numpy as np
import pytest

import kinbin
from background import no_background
from kinbin.errors import CorruptData, InvalidInput, StorageError
from kinbin.storage.datafile import DATA, in_order, metas_of
from kinbin.storage.recovery import recover, recoverable

PAGE = 4096
TRANSACTION = 16 + 8 + 16 + 96 + 8


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A closed database of 50 items, and 10 more in the last commit."""
    with kinbin.open(tmp_path / "data") as database, no_background():
        collection = database.create_collection("c", dim=8, seed=1)
        X = np.random.default_rng(1).random((60, 8))
        collection.add([f"i{i}" for i in range(50)], X[:50])
        collection.add([f"late{i}" for i in range(10)], X[50:])
    return tmp_path / "data"


def damage(path: Path, *, last: bool, place: int = TRANSACTION, bit: int = 5) -> bytes:
    """Flip a bit of one meta page. Returns the whole file."""
    file = path / "collections" / "c" / DATA
    data = bytearray(file.read_bytes())
    newer = in_order(metas_of(bytes(data)))[0].transaction % 2
    data[(newer if last else 1 - newer) * PAGE + place + bit // 8] ^= 1 << bit % 8
    file.write_bytes(data)
    return bytes(data)


@pytest.mark.parametrize("last", [True, False], ids=["of the last", "of the one before"])
def test_a_damaged_number_of_a_transaction_costs_nothing(path: Path, last: bool) -> None:
    """Both states are sound whichever meta page has a wrong number; the last can be taken, and the damaged file stays beside."""
    before = damage(path, last=last)
    with kinbin.open(path) as database, no_background():
        with pytest.raises(CorruptData, match="kinbin recover"):
            database.collection("c")
        states = database.recoverable("c")
        assert [(state.items, state.commits, state.collection) for state in states] == [(60, 2, "c"), (50, 1, "c")]
        database.recover("c", states[0].transaction)
        assert (path / "collections" / "c" / "data.mdb.damaged").read_bytes() == before
        collection = database.collection("c")
        assert collection.count() == 60
        assert collection.check().ok
        assert collection.add(["new"], [[1] * 8]).count == 61


def test_an_older_state_is_taken_deliberately(path: Path) -> None:
    """Where the last state's meta page is gone, the one before is offered, taken when it is named, and can be written to."""
    damage(path, last=True, place=16)
    with kinbin.open(path) as database, no_background():
        with pytest.raises(CorruptData):
            database.collection("c")
        (state,) = database.recoverable("c")
        assert (state.items, state.commits) == (50, 1)
        with pytest.raises(InvalidInput, match="no sound state"):
            database.recover("c", state.transaction + 1)
        database.recover("c", state.transaction)
        collection = database.collection("c")
        assert collection.get(["i3", "late3"], include=())[1] is None
        assert collection.add(["late3"], [[1] * 8]).count == 51
        assert collection.check().ok
    with kinbin.open(path) as database:
        assert database.collection("c").count() == 51


@pytest.mark.slow
def test_pages_of_the_state_that_is_given_up_are_used_again(path: Path) -> None:
    """A last commit that made the file longer leaves nothing behind that `check` calls damage, before and after the next write."""
    with kinbin.open(path) as database, no_background():
        many = np.random.default_rng(2).random((3000, 8))
        database.collection("c").add([f"more{i}" for i in range(3000)], many)
    damage(path, last=True, place=16)
    with kinbin.open(path) as database, no_background():
        (state,) = database.recoverable("c")
        assert state.items == 60
        database.recover("c", state.transaction)
        collection = database.collection("c")
        assert not collection.check().problems
        assert database.check(["c"])["c"].ok
        assert collection.add(["new"], [[1] * 8]).count == 61
        assert database.check(["c"])["c"].ok


def test_a_damaged_copy_is_never_overwritten(path: Path) -> None:
    """A second recovery is refused while the first one's copy lies there, and changes nothing."""
    damage(path, last=True)
    with kinbin.open(path) as database:
        state = database.recoverable("c")[0]
        database.recover("c", state.transaction)
        before = (path / "collections" / "c" / DATA).read_bytes()
        with pytest.raises(StorageError, match="never overwritten"):
            database.recover("c", state.transaction)
        assert (path / "collections" / "c" / DATA).read_bytes() == before


def test_a_state_whose_pages_are_damaged_is_not_offered(path: Path) -> None:
    """Every record of a state that is offered was found; one whose tree of items is damaged is none."""
    data = damage(path, last=True)
    file = path / "collections" / "c" / DATA
    at = data.find(b"late7")
    while at >= 0:
        page = at // PAGE
        data = data[: page * PAGE] + bytes(PAGE) + data[(page + 1) * PAGE :]
        at = data.find(b"late7")
    file.write_bytes(data)
    with kinbin.open(path) as database:
        assert [state.items for state in database.recoverable("c")] == [50]


def test_files_under_another_name_are_taken_deliberately(path: Path) -> None:
    """A collection whose directory was renamed is refused until it is told that this is meant."""
    (path / "collections" / "c").rename(path / "collections" / "d")
    with kinbin.open(path) as database, no_background():
        with pytest.raises(CorruptData, match="collection 'd': these are the files of the collection 'c'"):
            database.collection("d")
        database.recover("d", database.recoverable("d")[0].transaction)
        assert database.collection("d").count() == 60
        assert database.collection("d").add(["new"], [[1] * 8]).count == 61


def test_the_store_of_a_field_is_named_with_its_collection(tmp_path: Path) -> None:
    """Each store of a collection with fields has states of its own."""
    with kinbin.open(tmp_path) as database, no_background():
        database.create_collection("c", fields={"a": {"dim": 4}, "b": {"dim": 4}})
        database.fields_collection("c").add(["x"], {"a": [[1, 2, 3, 4]], "b": [[1, 2, 3, 4]]})
    for name in ("c", "c/a", "c/b"):
        with kinbin.open(tmp_path) as database:
            assert database.recoverable(name)[0].collection == name
    folder = tmp_path / "collections" / "c" / "fields"
    (folder / "a").rename(folder / "z")
    (folder / "b").rename(folder / "a")
    (folder / "z").rename(folder / "b")
    with (
        kinbin.open(tmp_path) as database,
        pytest.raises(CorruptData, match="collection 'c/a': these are the files of the collection 'c/b'"),
    ):
        database.collection("c")


@pytest.mark.slow
def test_what_is_offered_is_whole(path: Path) -> None:
    """Bits flipped in and beside the keys of the first tree and of the trees themselves: no state is offered that is not content then."""
    folder = path / "collections" / "c"
    whole = (folder / DATA).read_bytes()
    names = (b"identity", b"config", b"manifest", b"state", b"items", b"owners", b"runs", b"journal", b"meta")
    sites = [found.start() + k for name in names for found in re.finditer(name, whole) for k in range(-16, len(name) + 48)]
    rng, offered, refused = random.Random(3), 0, 0
    for _ in range(120):
        data, at = bytearray(whole), rng.choice(sites)
        data[at] ^= 1 << rng.randrange(8)
        for file in folder.iterdir():
            if file.is_file():
                file.unlink()
        (folder / DATA).write_bytes(data)
        states = recoverable(folder)
        refused += len(states) < 2
        for state in states:
            (folder / DATA).write_bytes(data)
            (folder / "data.mdb.damaged").unlink(missing_ok=True)
            (folder / "lock.mdb").unlink(missing_ok=True)
            recover(folder, state.transaction)
            with kinbin.open(path) as database, no_background():
                assert database.collection("c").check().problems == [], (at, state)
            offered += 1
    assert offered > 20
    assert refused > 20
