"""Backups: all collections and aliases of a database in one directory, and a database made anew of it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinbin

X = np.eye(4, dtype=np.float32) + np.float32(0.1)


@pytest.fixture
def filled(db: kinbin.Database) -> kinbin.Database:
    """Three collections, one of them with fields and one of strings, and two aliases."""
    db.create_collection("a", dim=4, indexes={"n": "number"}).add(list("wxyz"), X, [{"n": i} for i in range(4)])
    several: Any = db.create_collection("b", fields={"one": {"dim": 4}, "two": {"dim": 4}})
    several.add(list("wxyz"), {"one": X, "two": X})
    db.create_collection("c", items="strings", distance="levenshtein").add(["k", "s"], ["kitten", "sitting"])
    db.alias("live", "a")
    db.alias("spare", "b")
    return db


def held(database: kinbin.Database) -> dict[str, Any]:
    """Everything that a database holds."""
    out: dict[str, Any] = {"aliases": database.aliases()}
    for name in database.collections():
        items = database.collection(name).scroll(limit=100, include=("vector", "payload")).items
        out[name] = [repr((one.id, one.payload, one.vector, one.vectors, one.object)) for one in items]
    return out


def test_a_database_is_made_anew_of_its_backup(filled: kinbin.Database, tmp_path: Path) -> None:
    """Collections of every kind, payload indexes and aliases are there again, in another database, under the same names."""
    made = filled.backup(tmp_path / "new" / "backup")
    assert [(one.collection, one.items) for one in made.collections] == [("a", 4), ("b", 4), ("c", 2)]
    assert made.aliases == {"live": "a", "spare": "b"}
    assert sorted(path.name for path in (tmp_path / "new" / "backup").iterdir()) == ["a.kinbin", "b.kinbin", "backup.json", "c.kinbin"]
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["backup"]
    with kinbin.open(tmp_path / "other") as other:
        other.create_collection("own", dim=2)
        done = other.restore_backup(tmp_path / "new" / "backup")
        assert held(other) == {**held(filled), "own": []}
        assert done.aliases == made.aliases
        assert other.collection("live").count({"n": {"$gte": 2}}) == 2
        assert all(report.ok for report in other.check().values())


TAKEN: dict[str, tuple[Callable[[kinbin.Database], object], type[kinbin.KinbinError]]] = {
    "a collection has the name of a collection": (lambda other: other.create_collection("b", dim=2), kinbin.CollectionExists),
    "a collection has the name of an alias": (lambda other: other.create_collection("live", dim=2), kinbin.AliasConflict),
    "an alias has the name of a collection": (
        lambda other: other.alias("c", other.create_collection("own", dim=2).name), kinbin.CollectionExists,
    ),
    "an alias has the name of an alias": (
        lambda other: other.alias("spare", other.create_collection("own", dim=2).name), kinbin.AliasConflict,
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", TAKEN)
def test_what_is_there_is_not_overwritten(filled: kinbin.Database, tmp_path: Path, kind: str) -> None:
    """A backup overwrites no directory, and restoring it neither a collection nor an alias: nothing is made then."""
    filled.backup(tmp_path / "backup")
    with pytest.raises(kinbin.InvalidInput, match="is there: a backup is written into a new directory"):
        filled.backup(tmp_path / "backup")
    take, error = TAKEN[kind]
    with kinbin.open(tmp_path / "other") as other:
        take(other)
        before = held(other)
        with pytest.raises(error, match="a backup is restored where none of its names is taken"):
            other.restore_backup(tmp_path / "backup")
        assert held(other) == before


def flipped(path: Path) -> None:
    """Change one bit in the midst of a file."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def renumbered(path: Path) -> None:
    """Make it a backup of a later version, whose list is right."""
    from kinbin.backups import _digest

    data = json.loads((path / "backup.json").read_text())
    data["kinbin_backup"]["version"] = 2
    data["sha256"] = _digest(data["kinbin_backup"])
    (path / "backup.json").write_text(json.dumps(data))


DAMAGE: dict[str, tuple[Callable[[Path], object], type[kinbin.KinbinError]]] = {
    "a flipped bit of a file": (lambda path: flipped(path / "c.kinbin"), kinbin.CorruptData),
    "a flipped bit of the list": (lambda path: flipped(path / "backup.json"), kinbin.CorruptData),
    "a file that is missing": (lambda path: (path / "b.kinbin").unlink(), kinbin.CorruptData),
    "another one's file": (lambda path: (path / "b.kinbin").write_bytes((path / "a.kinbin").read_bytes()), kinbin.CorruptData),
    "no list": (lambda path: (path / "backup.json").unlink(), kinbin.FormatMismatch),
    "no JSON": (lambda path: (path / "backup.json").write_text("{"), kinbin.CorruptData),
    "a later version": (renumbered, kinbin.FormatMismatch),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_backup_restores_nothing(filled: kinbin.Database, tmp_path: Path, kind: str) -> None:
    """Whatever is wrong with a backup: an error of the library, and no collection and no alias is left."""
    filled.backup(tmp_path / "backup")
    harm, error = DAMAGE[kind]
    harm(tmp_path / "backup")
    with kinbin.open(tmp_path / "other") as other:
        with pytest.raises(error):
            other.restore_backup(tmp_path / "backup")
        assert (other.collections(), other.aliases()) == ([], {})


def test_what_is_sound_of_a_damaged_backup_is_restored_alone(filled: kinbin.Database, tmp_path: Path) -> None:
    """A refusal names the file and says how the others are restored; it can be done."""
    filled.backup(tmp_path / "backup")
    flipped(tmp_path / "backup" / "c.kinbin")
    with kinbin.open(tmp_path / "other") as other:
        with pytest.raises(kinbin.CorruptData, match=r"c\.kinbin of the backup is missing, damaged") as refused:
            other.restore_backup(tmp_path / "backup")
        assert "kinbin restore BACKUP/NAME.kinbin NAME" in refused.value.advice
        other.restore(tmp_path / "backup" / "a.kinbin", "a")
        assert other.collection("a").count() == filled.collection("a").count()


def test_aliases_that_fail_leave_nothing(filled: kinbin.Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error at the last alias takes back the aliases before it and all collections."""
    filled.backup(tmp_path / "backup")
    alias = kinbin.Database.alias

    def failing(database: kinbin.Database, name: str, collection: str) -> None:
        if name == "spare":
            raise kinbin.StorageFull("no room")
        alias(database, name, collection)

    monkeypatch.setattr(kinbin.Database, "alias", failing)
    with kinbin.open(tmp_path / "other") as other:
        with pytest.raises(kinbin.StorageFull):
            other.restore_backup(tmp_path / "backup")
        assert (other.collections(), other.aliases()) == ([], {})


def test_a_backup_that_fails_leaves_nothing(filled: kinbin.Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error, or an event that is set, in the midst leaves no directory, and the next backup is whole."""
    gone = threading.Event()
    gone.set()
    (tmp_path / "place").mkdir()
    with pytest.raises(kinbin.Closed):
        filled.backup(tmp_path / "place" / "backup", cancel=gone)

    def full(*_: object, **__: object) -> None:
        raise kinbin.StorageFull("no room")

    with monkeypatch.context() as patched:
        patched.setattr(kinbin.FieldsCollection, "snapshot", full)
        with pytest.raises(kinbin.StorageFull):
            filled.backup(tmp_path / "place" / "backup")
    assert list((tmp_path / "place").iterdir()) == []
    assert len(filled.backup(tmp_path / "place" / "backup").collections) == 3
