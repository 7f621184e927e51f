"""Damage and its remedies: what a database does about files that are damaged, lost or of an older state."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

from kinbin.apart import check_apart
from kinbin.collection import Collection
from kinbin.errors import CollectionExists, CollectionNotFound, InvalidInput
from kinbin.fields.collection import FieldsCollection
from kinbin.records import CheckReport, RepairReport
from kinbin.repair import Damaged
from kinbin.rows.identity import check_name
from kinbin.storage.creation import FIELDS, create_store
from kinbin.storage.errors import translated
from kinbin.storage.folder import holds, odd_ones
from kinbin.storage.recovery import Recoverable, recover, recoverable

__all__ = ["Mending"]

_LONGEST, _REPAIRED = 63, "-repaired"
"""Characters of a collection's name, and how that of a new one ends."""
_ODD = "this is no name of a collection, and nothing of it is used: rename it, or put it elsewhere"
"""What a check says of a directory that lies among collections."""


class Mending:
    """The remedies of a database, which inherits this."""

    path: Path
    _folder: Path
    _used: dict[str, Any]

    def _check_open(self) -> None:
        raise NotImplementedError

    def _meant(self, name: str) -> str:
        raise NotImplementedError

    def _not_found(self, name: str) -> CollectionNotFound:
        raise NotImplementedError

    def collections(self) -> list[str]:
        """Names of all collections."""
        raise NotImplementedError

    def collection(self, name: str) -> Any:
        """One of them."""
        raise NotImplementedError

    def drop_collection(self, name: str, *, damaged: bool = False) -> None:
        """Remove one."""
        raise NotImplementedError

    def _created(
        self, name: str, create: Callable[[], None], existing: Callable[[bool], Collection | FieldsCollection], *, once: bool = False
    ) -> Collection:
        raise NotImplementedError

    def recoverable(self, name: str) -> list[Recoverable]:
        """The sound states of a collection that opening refuses, the last first; of the store of a field by NAME/FIELD. Reads all of it.

        Raises:
            CollectionNotFound. FormatMismatch: these are no files of Kinbin.
        """
        return recoverable(self._folder_of(name))

    def recover(self, name: str, transaction: int) -> None:
        """Go on with one of the `recoverable` states, deliberately: what came after it is lost. Nobody may have the collection open.

        The file as it was stays beside, as `data.mdb.damaged`.

        Raises:
            CollectionNotFound. InvalidInput: there is no such state. StorageError: it could not be written.
        """
        recover(self._folder_of(name), transaction)

    def stores_of_fields(self, name: str) -> list[str]:
        """NAME/FIELD of each store of a field, which `recoverable` and `recover` take alone; none where the items have one vector.

        Raises:
            CollectionNotFound.
        """
        folder = self._folder_of(name)
        with translated():
            there = sorted(entry.name for entry in (folder / FIELDS).iterdir()) if (folder / FIELDS).is_dir() else []
        return [f"{name}/{field}" for field in there]

    def _folder_of(self, name: str) -> Path:
        """Where a collection lies, or (NAME/FIELD) the store of a field; nothing of it is opened."""
        self._check_open()
        collection, _, field = name.partition("/") if isinstance(name, str) else (name, "", "")
        collection = self._meant(check_name(collection))
        folder = self._folder / collection
        if field:
            check_name(field, "field")
            folder = folder / FIELDS / field
        with translated():
            if not holds(folder):
                raise self._not_found(name)
        return folder

    def losses(self) -> dict[str, str]:
        """By name, what happened to the files of collections that are open here: they were removed, replaced or cut. Cost: 4 µs a file.

        Of those that were removed searches still answer, until they are closed: make a snapshot of them before that. Collections that
        were dropped, by whatever process, are none of them.
        """
        out = {}
        for name, used in self._used.copy().items():
            if not used._is_named():
                continue
            stores = [used._store, *(field._store for field in getattr(used, "_fields", {}).values())]
            if told := [loss for store in stores if (loss := store.loss()) is not None]:
                out[name] = told[0]
        return out

    def check(self, names: Iterable[str] | None = None, progress: Callable[[str, str], None] | None = None) -> dict[str, CheckReport]:
        """What `Collection.check` finds in each of these collections (None: in all), looked at in a process of its own.

        Files may be so damaged that reading them ends a process: that is then the report. progress: is told of (name, what is
        looked at). Cost: that of the checks, and a second for the process.

        Raises:
            CollectionNotFound. InvalidInput: names is a string.
        """
        if isinstance(names, str):
            raise InvalidInput.of("bad_parameter", f"names of collections are a list: [{names!r}]", field="names")
        there = self.collections()
        wanted = there if names is None else list(dict.fromkeys(self._meant(check_name(name)) for name in names))
        for name in wanted:
            if name not in there:
                raise self._not_found(name)
        with translated():
            found = check_apart(self.path, wanted, progress)
            odd = odd_ones(self._folder) if names is None else []
        return found | dict.fromkeys(odd, CheckReport(False, 0, 0, 0, [_ODD], checked=False))

    def repair(self, name: str, into: str | None = None, progress: Callable[[int, int], object] | None = None) -> RepairReport:
        """Save what is whole of a damaged collection into a new one beside it, `NAME-repaired` (of at most 63 characters) or `into`.

        The damaged files are read without LMDB and stay as they are. Every item whose vector is proved by its checksum is taken over,
        with its payload where that is; one flipped bit of a record is put right. Runs, postings, links and owners are made anew.
        Nobody may write to the damaged collection meanwhile. progress(done, items): is told how far it is.

        Cost: that of adding the items; ids and payloads are held in memory.

        Raises:
            CollectionNotFound. CollectionExists: `into` is there. CorruptData: nothing can be saved; there is no new collection then.
        """
        if isinstance(name, str) and "/" in name:
            raise InvalidInput.of("bad_name", f"a field is repaired with its collection: {name.partition('/')[0]}", field="name")
        name = self._meant(check_name(name))
        into = name[: _LONGEST - len(_REPAIRED)] + _REPAIRED if into is None else into
        check_name(into)
        if name not in self.collections():
            raise self._not_found(name)
        if into in self.collections():
            raise CollectionExists(f"the collection {into!r} exists; take another name (`into`, --into), or drop it first")
        with translated(), closing(Damaged(self._folder / name)) as damaged:

            def create() -> None:
                create_store(self._folder / into, damaged.configuration, damaged.fields)

            target: object = self._created(into, create, lambda _: self.collection(into))
            assert isinstance(target, Collection | FieldsCollection)
            try:
                return damaged.save_into(target, progress)
            except BaseException:
                self.drop_collection(into)
                raise
