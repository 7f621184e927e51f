"""Collections made of snapshots: what a database does with them. See `snapshots` for how they are made and kept."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path

from kinbin.collection import Collection
from kinbin.errors import CollectionExists, CorruptData
from kinbin.fields.collection import FieldsCollection
from kinbin.parameters import path_of
from kinbin.records import SnapshotInfo
from kinbin.rows.identity import check_name
from kinbin.snapshots.kept import Snapshots, foreign_to
from kinbin.snapshots.making import proved, restored
from kinbin.storage.creation import give_name
from kinbin.stored import what_is_stored

__all__ = ["Restoring"]

log = logging.getLogger("kinbin.snapshots")


class Restoring:
    """The restored collections of a database, which inherits this."""

    snapshots: Snapshots
    _folder: Path

    def collections(self) -> list[str]:
        """Names of the collections."""
        raise NotImplementedError

    def collection(self, name: str) -> Collection:
        """One of them."""
        raise NotImplementedError

    def _created(
        self, name: str, create: Callable[[], None], existing: Callable[[bool], Collection | FieldsCollection], *, once: bool = False
    ) -> Collection:
        raise NotImplementedError

    def restore(self, source: str | os.PathLike[str] | SnapshotInfo, name: str, *, cancel: threading.Event | None = None) -> Collection:
        """Make a new collection of a snapshot: a file, or one of `snapshots`, wherever and by whomever it was made.

        All of it is proved before anything is made, and the collection is there whole or not at all. Only a file whose maker is
        trusted should be restored: right checksums prove that nothing has changed since, not who made it.

        Raises:
            CollectionExists: there is one of this name. CorruptData: the snapshot is damaged. FormatMismatch: it is none, or of
            hashes or a format that this Kinbin does not know. InvalidInput, SnapshotNotFound, StorageFull, StorageError.

        Cost: that of reading it twice, and of writing it: about 10 µs an item.
        """
        check_name(name)
        stored = isinstance(source, SnapshotInfo) and source.id is not None
        path = self.snapshots.path(source.collection, source.id) if stored else path_of(source)  # type: ignore[union-attr, arg-type]
        if name in self.collections():
            raise _in_the_way(name)
        found = proved(path, what_is_stored)
        if isinstance(source, SnapshotInfo) and source.id is not None:
            if source.sha256 not in ("", found.sha256):
                raise CorruptData("the snapshot is another than the one that was listed", "list them again; or restore it by its path")
            if foreign := foreign_to(path, found):
                what = f"the snapshot is {foreign}, whose file was put in the place of its own"
                raise CorruptData(what, "put it back; or restore it by its path")

        def existing(_: bool) -> Collection:
            self.collection(name)  # or it is half removed, and gone now
            raise _in_the_way(name)

        with restored(path, self._folder / name, cancel) as draft:
            made = self._created(name, lambda: give_name(draft, self._folder / name), existing, once=True)
        log.info("%s: restored from a snapshot", name)
        return made


def _in_the_way(name: str) -> CollectionExists:
    return CollectionExists(f"the collection {name!r} exists: a snapshot is restored into a new one; choose another name or drop it first")
