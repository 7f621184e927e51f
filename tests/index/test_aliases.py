"""Aliases: other names of collections, swapped in one step."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import kinbin


@pytest.fixture
def db(tmp_path: Path) -> kinbin.Database:
    """A database with two collections, each with one item of its own name."""
    database = kinbin.open(tmp_path / "data")
    for name in ("blue", "green"):
        database.create_collection(name, dim=2).add([name], [[1.0, 2.0]])
    return database


def test_an_alias_stands_for_its_collection_and_is_swapped(db: kinbin.Database, tmp_path: Path) -> None:
    """A name that is an alias opens its collection, in every database of the directory, and another one after a swap."""
    other = kinbin.open(tmp_path / "data")
    db.alias("live", "blue")
    assert other.collection("live").query([1.0, 2.0]).ids == ["blue"]
    db.alias("live", "green")
    assert other.collection("live").query([1.0, 2.0]).ids == ["green"]
    assert other.aliases() == db.aliases() == {"live": "green"}
    assert db.collections() == ["blue", "green"]
    other.collection("live").add(["new"], [[3.0, 1.0]])
    assert db.collection("green").count() == 2
    db.drop_alias("live")
    with pytest.raises(kinbin.CollectionNotFound, match="no collection is named 'live'"):
        other.collection("live")
    assert kinbin.open(tmp_path / "data").aliases() == {}


def test_a_name_is_a_collection_or_an_alias(db: kinbin.Database) -> None:
    """Names that are taken, targets that are none, and chains of aliases are refused, and nothing changes."""
    db.alias("live", "blue")
    with pytest.raises(kinbin.AliasConflict, match="'live' is an alias of 'blue': drop the alias first, or take another name"):
        db.create_collection("live", dim=2, exist_ok=True)
    with pytest.raises(kinbin.AliasConflict, match="a collection is named 'green': an alias takes a name that is free"):
        db.alias("green", "blue")
    with pytest.raises(kinbin.AliasConflict, match="'live' is an alias of 'blue'"):
        db.alias("second", "live")
    with pytest.raises(kinbin.CollectionNotFound, match="no collection is named 'gren'; did you mean 'green'"):
        db.alias("live", "gren")
    with pytest.raises(kinbin.AliasNotFound, match="no alias is named 'blue'"):
        db.drop_alias("blue")
    for bad in ("Live", "", "a/b", 7):
        with pytest.raises(kinbin.InvalidInput, match="a collection's name has"):
            db.alias(bad, "blue")  # type: ignore[arg-type]
    assert db.aliases() == {"live": "blue"}
    assert db.collections() == ["blue", "green"]


def test_a_collection_with_aliases_is_not_dropped(db: kinbin.Database) -> None:
    """Dropping what aliases lead to is refused, by its name and by theirs; after the last one is gone it is done."""
    for name in ("a", "b", "c", "d"):
        db.alias(name, "blue")
    with pytest.raises(kinbin.AliasConflict, match=r"the aliases a, b, c and 1 more lead to 'blue': swap or drop them first"):
        db.drop_collection("blue")
    with pytest.raises(kinbin.AliasConflict, match="'a' is an alias of 'blue'"):
        db.drop_collection("a")
    assert db.collection("blue").count() == 1
    for name in ("a", "b", "c"):
        db.alias(name, "green")
    db.drop_alias("d")
    db.drop_collection("blue")
    assert db.collections() == ["green"]


def test_readers_meet_one_of_both_while_aliases_are_swapped(db: kinbin.Database) -> None:
    """Whoever asks by an alias during many swaps is always answered, by the one collection or by the other."""
    db.alias("live", "blue")
    done = threading.Event()
    seen: set[str] = set()
    faults: list[BaseException] = []

    def read() -> None:
        try:
            while not done.is_set():
                seen.update(db.collection("live").query([1.0, 2.0]).ids)
        except BaseException as error:  # noqa: BLE001 - told below
            faults.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    for turn in range(100):
        db.alias("live", ("green", "blue")[turn % 2])
    done.set()
    reader.join()
    assert not faults
    assert seen <= {"blue", "green"}


def test_there_are_no_more_aliases_than_may_be(db: kinbin.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """One alias too many is refused with its limit; those that are there can still be swapped."""
    monkeypatch.setattr("kinbin.storage.aliases.limit", lambda _: 1)
    db.alias("one", "blue")
    with pytest.raises(kinbin.InvalidInput, match="a database has at most 1 aliases") as refused:
        db.alias("two", "blue")
    assert refused.value.problems[0].limit == "aliases"
    db.alias("one", "green")
    assert db.aliases() == {"one": "green"}


NEEDS: dict[str, Callable[[kinbin.Database], object]] = {
    "listing": lambda data: data.aliases(),
    "opening": lambda data: data.collection("live"),
    "setting": lambda data: data.alias("again", "blue"),
    "removing": lambda data: data.drop_alias("live"),
    "creating": lambda data: data.create_collection("red", dim=2),
    "dropping": lambda data: data.drop_collection("blue"),
    "snapshots": lambda data: data.snapshots.list("live"),
}
"""What cannot be done without knowing the aliases."""


@pytest.mark.slow
@pytest.mark.parametrize("again", [False, True], ids=["open", "opened again"])
def test_a_damaged_list_of_aliases_is_told(db: kinbin.Database, tmp_path: Path, again: bool) -> None:
    """A list whose checksum fails is not used: no collection is opened by what may be another name. By their own names all go on.

    What needs the list says what to do, and that helps.
    """
    db.alias("live", "blue")
    db.snapshots.create("blue")
    path = tmp_path / "data" / "aliases"
    path.write_bytes(path.read_bytes()[:-3] + b"xx}")
    data = kinbin.open(tmp_path / "data") if again else db
    for need in NEEDS.values():
        with pytest.raises(kinbin.CorruptData, match=r"the list of aliases fails its checksum: .*/aliases .*not harmed.*remove it"):
            need(data)
    assert data.collection("blue").count() == 1
    data.collection("green").add(["more"], [[1.0, 1.0]])
    assert all(report.ok for report in data.check().values())
    assert data.check(["blue"])["blue"].ok
    assert len(data.snapshots.list("blue")) == 1
    assert data.stores_of_fields("blue") == []
    assert data.recoverable("green")
    path.unlink()
    assert db.aliases() == {}
    db.alias("live", "blue")
    assert db.collection("live").name == "blue"


def test_the_snapshots_of_a_name_stay_those_of_the_name(db: kinbin.Database) -> None:
    """A collection that was dropped, and whose name leads to another one, has its snapshots; those of the other one are listed as well."""
    first = db.snapshots.create("blue")
    db.restore(db.snapshots.path("blue", str(first.id)), "again")
    db.drop_collection("blue")
    db.alias("blue", "again")
    second = db.snapshots.create("blue")
    assert [(one.id, one.collection) for one in db.snapshots.list("blue")] == [(first.id, "blue"), (second.id, "again")]
    assert [one.id for one in db.snapshots.list("again")] == [second.id]
    for made in (first, second):
        assert db.snapshots.verify("blue", str(made.id)).ok
        assert db.snapshots.info("blue", str(made.id)).collection == made.collection
    assert db.restore(db.snapshots.path("blue", str(first.id)), "third").count() == 1
    db.snapshots.delete("blue", str(first.id))
    assert [one.id for one in db.snapshots.list("blue")] == [second.id]


def test_snapshots_of_what_was_dropped_need_no_list_of_aliases(db: kinbin.Database, tmp_path: Path) -> None:
    """They lie under its name."""
    made = db.snapshots.create("blue")
    db.drop_collection("blue")
    (tmp_path / "data" / "aliases").write_bytes(b"")
    assert db.snapshots.list("blue") == [made]
    assert db.snapshots.verify("blue", str(made.id)).ok
    with pytest.raises(kinbin.CorruptData):
        db.snapshots.list("red")


def test_an_alias_that_is_led_elsewhere_meanwhile_is_followed(db: kinbin.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look at the list and the opening it was swapped, and the collection dropped that it led to."""
    db.alias("live", "blue")
    meant = kinbin.Database._meant

    def swapped(self: kinbin.Database, name: str) -> str:
        found = meant(self, name)
        if (name, found) == ("live", "blue"):
            monkeypatch.setattr(kinbin.Database, "_meant", meant)
            db.alias("live", "green")
            db.drop_collection("blue")
        return found

    monkeypatch.setattr(kinbin.Database, "_meant", swapped)
    assert db.collection("live").name == "green"


@pytest.mark.parametrize("times", [1, 3])
def test_a_collection_that_others_make_and_drop_is_made(db: kinbin.Database, monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """What was in the way is gone when it is looked at, again and again."""
    create, left = kinbin.Database._create, [times]

    def in_the_way(self: kinbin.Database, name: str, make: Callable[[], None]) -> None:
        if left[0]:
            left[0] -= 1
            raise FileExistsError(name)
        create(self, name, make)

    monkeypatch.setattr(kinbin.Database, "_create", in_the_way)
    assert db.create_collection("red", dim=2).count() == 0
    left[0] = 1_000
    with pytest.raises(kinbin.StorageBusy, match="make and drop 'pink' all the time"):
        db.create_collection("pink", dim=2, exist_ok=True)


def test_an_alias_of_a_collection_that_is_gone_says_so(tmp_path: Path) -> None:
    """A directory that is removed as a whole is missed by the aliases that lead to it."""
    with kinbin.open(tmp_path) as database:
        database.create_collection("things", dim=2)
        database.alias("shop", "things")
    shutil.rmtree(tmp_path / "collections" / "things")
    with kinbin.open(tmp_path) as database:
        for name in ("shop", "things"):
            with pytest.raises(kinbin.CollectionNotFound, match="the alias 'shop' leads to 'things', which is not there"):
                database.collection(name)
        with pytest.raises(kinbin.CollectionNotFound, match="create_collection makes one"):
            database.collection("other")
