"""A database: a directory of collections, each one store of its own."""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Unpack, cast

from kinbin.aliased import Aliased
from kinbin.backups import BackingUp
from kinbin.collection import Collection
from kinbin.creating import (
    CollectionOptions,
    checked_options,
    configuration_of_fields,
    configuration_of_items,
    differing,
    exists_already,
    functions_of,
    refuse_beside_fields,
)
from kinbin.errors import (
    Closed,
    CollectionNotFound,
    InvalidInput,
    StorageBusy,
    StorageError,
    nearest,
    suggestion,
)
from kinbin.fields.collection import FieldsCollection
from kinbin.hashing import HASH_VERSION
from kinbin.limits import limit
from kinbin.mending import Mending
from kinbin.parameters import path_of
from kinbin.restoring import Restoring
from kinbin.rows.identity import check_name
from kinbin.sharing import SHARED, bound
from kinbin.snapshots.kept import Snapshots
from kinbin.storage.aliases import Aliases
from kinbin.storage.creation import create_store
from kinbin.storage.directories import sync_directory, sync_path
from kinbin.storage.errors import translated
from kinbin.storage.folder import holds, listed, refuse_denied, remove_leftovers, which
from kinbin.storage.headers import Configuration, FieldNames
from kinbin.storage.mapped import refuse_files_of_others
from kinbin.storage.opening import INHERITED
from kinbin.upkeep.indexing import checked_kinds

__all__ = ["Database", "open"]

_FOLDER = "collections"
_TRIES = 20
"""Openings of a collection that others remove and make anew meanwhile."""


class Database(Aliased, Restoring, BackingUp, Mending):
    """Collections by name. Thread-safe; open it after a fork, never before.

    Opening the same directory twice in a process gives two `Database`s that share their collections.
    """

    def __init__(self, path: str | os.PathLike[str], snapshots: str | os.PathLike[str] | None = None) -> None:
        """See `open`."""
        self.path = path_of(path, "directory")
        self._folder = _resolved(self.path / _FOLDER)
        self._aliases = Aliases(self._folder.parent)
        self.snapshots = Snapshots(
            self.path / "snapshots" if snapshots is None else path_of(snapshots, "directory"), self.collection, self._meant
        )
        """Those that the database keeps."""
        self._pid = os.getpid()
        self._used: dict[str, Collection | FieldsCollection] = {}
        self._lock = threading.RLock()
        self._closed = False
        self._unsynced: set[str] = set()
        """Names of new collections whose names could not be put on disk."""
        with translated():
            try:
                remove_leftovers(self._folder)
            except (FileNotFoundError, NotADirectoryError):
                if self.path.is_file():
                    raise StorageError(f"{self.path} is a file; a database is a directory") from None
                # What lies in them is on disk only if they are: whoever writes first syncs all of them (`storage.directories`).
                self._folder.mkdir(parents=True, exist_ok=True)
                sync_path(self._folder)

    def create_collection(
        self, name: str, *, kernel: str | None = None, dim: int | None = None, items: str = "vectors",
        distance: str | Callable[[Any, Any], float] | None = None, exist_ok: bool = False,
        fields: Mapping[str, Mapping[str, Any]] | None = None, indexes: Mapping[str, str] | None = None,
        **options: Unpack[CollectionOptions],
    ) -> Collection:  # fmt: skip
        """A new, empty collection.

        kernel: a name in `kinbin.KERNELS`; None: "ngmm". dim: length of its vectors; None: sparse, with unbounded
        feature ids. sampler, bands, rows (hashes a band): None: chosen by Kinbin, bands and rows run by run.
        seed: of the hashes; None: secret and random. exist_ok: return the one that is there, if it is alike.
        parameters: of the kernel, such as {"gamma": 2.0}; those left out have their defaults (`KERNELS[kernel].declared`).
        fields: for items of several vectors: of each, by its name, the options that else are those of the whole
        (`{"colour": {"kernel": "chi2", "dim": 512}, "words": {}}`). A `FieldsCollection` is made then; `fields_collection` is typed so.
        items: what the items are, a name in `kinbin.KINDS`: "vectors", or objects as "strings", which have kernels of their own.
        distance: the kernel, by its other name, of one that prints distances ("levenshtein"); None: the kind's default. Or a function
        of two objects, of items="strings", "series", "points", or "objects": what `encoder` makes bytes or an array of (`decoder` is
        its inverse). It has to return the same for the same objects, in any thread, and not to call Kinbin. See `collection`.
        feature_names: a list of names of features 0, 1, … (without dim: of tokens), or names by feature: `explain` tells them.
        indexes: fields of payloads with their kinds, as {"year": "number"}: see `Collection.add_index`. Of one that is there, those
        that it lacks are added.

        Raises:
            InvalidInput, CollectionExists.
        """
        check_name(name)
        if not isinstance(exist_ok, bool):
            raise InvalidInput.of("bad_parameter", "exist_ok is true or false", field="exist_ok")
        asked = checked_options(kernel, dim, options)
        if indexes is not None:
            indexes = checked_kinds(indexes)
        if fields is not None:
            refuse_beside_fields(items, distance)
            configs = configuration_of_fields(fields, asked)
            names = FieldNames(tuple(configs), HASH_VERSION)
            several = self._created(
                name, lambda: create_store(self._folder / name, names, configs),
                lambda again: self._existing_fields(name, fields, configs, asked["seed"], exist_ok or again),
            )  # fmt: skip
            several._indexing.change(indexes or {})
            return several
        own = functions_of(items, distance, options)
        config = configuration_of_items(items, distance, asked)
        made = self._created(
            name, lambda: create_store(self._folder / name, config),
            lambda again: self._existing(name, config, asked, exist_ok or again),
        )  # fmt: skip
        made._indexing.change(indexes or {})
        return cast(Collection, bound(made, *own))

    def _created(
        self, name: str, create: Callable[[], None], existing: Callable[[bool], Collection | FieldsCollection], *, once: bool = False
    ) -> Collection:
        """A new collection, or what `existing` makes of one that is there; it is told whether this call was tried before.

        create: makes its files. once: it can do so once, and not again if the collection is dropped at once.
        """
        self._check_open()  # before the lock, which another thread may have held at a fork
        with self._lock:
            self._check_open()
            there = self.collections()
            if name not in there and len(there) >= limit("collections"):
                raise InvalidInput.of(
                    "over_limit", f"a database has at most {limit('collections')} collections", field="name", limit="collections"
                )
            for _ in range(_TRIES):
                # Others may make it and drop it in turns: what was in the way is then gone, and so is what was made.
                try:
                    self._create(name, create)
                except FileExistsError:
                    with suppress(CollectionNotFound):
                        found = existing(name in self._unsynced)
                        # Whoever made it may have been killed before its name was on disk.
                        sync_path(self._folder)
                        self._unsynced.discard(name)
                        return cast(Collection, found)
                    continue
                if once:
                    return self.collection(name)
                with suppress(CollectionNotFound):
                    return self.collection(name)
            raise StorageBusy(f"others make and drop {name!r} all the time: try again")

    def _create(self, name: str, create: Callable[[], None]) -> None:
        """Make the files of a collection; remember it if just its name could not be put on disk."""
        there = self._is_there(name)
        try:
            with self._removing():
                self._aliases.refuse_alias(name)
                create()
        except StorageError:
            if not there and self._is_there(name):
                self._unsynced.add(name)
            raise

    def _is_there(self, name: str) -> bool:
        with translated():
            return holds(self._folder / name)

    def _existing(self, name: str, config: Configuration, asked: Mapping[str, object], exist_ok: bool) -> Collection:
        """The collection of this name, if it is wanted and alike. asked: what need not be alike where it is None."""
        there = self.collection(name)
        if isinstance(there, FieldsCollection):
            raise exists_already([f"the fields {', '.join(there._fields)}"])
        apart = differing(config, there, asked)
        if apart or not exist_ok:
            raise exists_already(apart)
        return there

    def _existing_fields(
        self, name: str, asked: Mapping[str, Mapping[str, Any]], wanted: Mapping[str, Configuration], seed: int | None, exist_ok: bool
    ) -> FieldsCollection:
        """The same with fields. asked: what need not be alike where it is None."""
        there: object = self.collection(name)
        have = there._fields if isinstance(there, FieldsCollection) else {}
        told = f"the fields {', '.join(have)}" if have else "no fields"
        apart = [] if list(have) == list(wanted) else [told]
        for field, one in have.items() if not apart else ():
            apart += differing(wanted[field], one, {**asked[field], "seed": seed}, field)
        if apart or not exist_ok or not isinstance(there, FieldsCollection):
            raise exists_already(apart)
        return there

    def collection(
        self, name: str, *, distance: Callable[[Any, Any], float] | None = None, encoder: Callable[[Any], Any] | None = None,
        decoder: Callable[[Any], Any] | None = None,
    ) -> Collection:  # fmt: skip
        """The collection of this name, or alias; a `FieldsCollection` if it was created with fields (`fields_collection` is typed so).

        distance, encoder, decoder: of a collection that was created with a function as its distance: the same ones, for none is
        stored. Without them its items can be read, counted and deleted, and nothing can be searched.

        Raises:
            CollectionNotFound. InvalidInput: code "bad_parameter": it has no such functions, or is open with other ones.
            FormatMismatch: it has other hashes than this machine computes, or another format. CorruptData.
        """
        return cast(Collection, bound(self._used_as(name), distance, encoder, decoder))

    def _used_as(self, name: str) -> Collection:
        """The collection of this name, as it is open here."""
        check_name(name)
        self._check_open()
        with self._lock:
            self._check_open()
            asked = name
            for _ in range(_TRIES):
                used = self._current(name)
                if used is None:
                    name = self._meant(asked)
                    used = self._current(name)
                try:
                    if used is None:
                        used = self._used[name] = self._acquire(name)
                except CollectionNotFound:
                    # An alias may have been led elsewhere meanwhile, and the collection dropped that it led to.
                    if self._meant(asked) == name:
                        raise
                else:
                    return cast(Collection, used)
            raise self._not_found(asked)

    def _current(self, name: str) -> Collection | FieldsCollection | None:
        """The collection that is open here, unless another process dropped it, or removed its files, and perhaps made a new one."""
        used = self._used.get(name)
        if used is not None and not (used._is_named() and used._is_current()):
            del self._used[name]
            SHARED.release(used)
            return None
        return used

    def fields_collection(self, name: str) -> FieldsCollection:
        """The collection of this name, which was created with fields.

        Raises:
            CollectionNotFound. InvalidInput: code "bad_parameter": it has none.
        """
        there: object = self.collection(name)
        if not isinstance(there, FieldsCollection):
            raise InvalidInput.of("bad_parameter", "the collection has no fields: each of its items has one vector", field="name")
        return there

    def _acquire(self, name: str) -> Collection | FieldsCollection:
        """Open the collection of this name; one whose removal was cut short is removed."""
        path = self._folder / name
        found = self._open(name, path)
        if self._is_kept(found):
            return found
        SHARED.release(found, forget=True)
        with self._removing():
            self._bury_if_dropped(name)
        return self._open(name, path)

    @staticmethod
    def _is_kept(found: Collection | FieldsCollection) -> bool:
        """Whether a collection that was just opened was not dropped. Where it cannot be read it is let go of: nobody else would."""
        try:
            return found._is_current()
        except BaseException:
            SHARED.release(found)
            raise

    def _open(self, name: str, path: Path) -> Collection | FieldsCollection:
        """Open or share the collection in a directory that may vanish meanwhile, and come again."""
        for _ in range(_TRIES):
            there = which(path)
            try:
                if self._is_there(name):
                    return SHARED.acquire(name, path)
            except StorageError:
                if there is not None and which(path) == there:
                    raise
            else:
                break
        raise self._not_found(name)

    def _not_found(self, name: str) -> CollectionNotFound:
        """The error for a name that no collection has: which there are, and which one may be meant."""
        there = [other for other in self.collections() if other != name]
        listed = f"there are {', '.join(there[:8])}{' and more' if len(there) > 8 else ''}" if there else "there are none"
        text = f"no collection is named {name!r}{suggestion(name, there)} ({listed}; create_collection makes one)"
        with suppress(StorageError):
            if leading := [alias for alias, target in self._aliases.all().items() if target == name]:
                gone = "which is not there: its directory was removed; put it back, or restore a snapshot"
                text = f"the alias {leading[0]!r} leads to {name!r}, {gone}"
        return CollectionNotFound(text, nearest(name, there))

    def _bury_if_dropped(self, name: str) -> None:
        """Remove the files of this name if they are marked as dropped: whoever marked them did not live to do it."""
        try:
            found = self._open(name, self._folder / name)
        except CollectionNotFound:
            return
        dropped = not self._is_kept(found)
        SHARED.release(found, forget=dropped)
        if dropped:
            self._bury(name)

    def _bury(self, name: str) -> None:
        grave = self._folder / f".dropped-{name}-{secrets.token_hex(8)}"
        with translated(), suppress(FileNotFoundError):
            # Somebody may have removed the directory by hand.
            (self._folder / name).rename(grave)
            sync_directory(self._folder)
        shutil.rmtree(grave, ignore_errors=True)

    @contextmanager
    def _removing(self) -> Iterator[None]:
        """Alone over all processes: between the mark of a removal and the removal of the files no new collection takes the name."""
        with translated():
            descriptor = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with translated():
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)

    def collections(self) -> list[str]:
        """Names of all collections, sorted; those that are damaged as well, even where `data.mdb` is gone."""
        self._check_open()
        with translated():
            return listed(self._folder)

    def background(self) -> dict[str, dict[str, Any]]:
        """By name, what failed in the background of each collection that is open here (`Collection.background`). Waits for nobody."""
        return {name: used.background() for name, used in self._used.copy().items()}

    def drop_collection(self, name: str, *, damaged: bool = False) -> None:
        """Remove a collection and its files; uses of it elsewhere are refused from then on.

        damaged: also one whose files are damaged, or cannot be written as the disk is full. Other processes are not told then: writes of
        theirs fail, and who holds the `Collection` reads what it had, until other files have the name or it asks for it anew.

        Raises:
            CollectionNotFound. AliasConflict: it is an alias, or aliases lead to it. CorruptData: see damaged; or these are the files of
            another collection, which has lost them. StorageError: this user may not read or write them.
        """
        check_name(name)
        self._check_open()
        with self._lock:
            self._aliases.refuse_alias(name)
            refused = (StorageError,) if damaged else ()
            if damaged:
                refuse_denied(self._folder / name)
            there = None
            with suppress(*refused):
                there = self.collection(name)
            there = there or cast(Collection | None, self._used.get(name))
            with self._removing():
                self._aliases.refuse_aliased(name)
                if there is not None:
                    with suppress(*refused):
                        there._mark_dropped()
                if damaged:
                    refuse_files_of_others(self._folder / name)
                self._bury(name)
            self._used.pop(name, None)
            if there is not None:
                SHARED.release(there, forget=True)

    def close(self) -> None:
        """Let go of all collections. Harmless when repeated, and in a forked child, whose parent they belong to."""
        if os.getpid() != self._pid:
            return
        with self._lock:
            if not self._closed:
                self._closed = True
                for used in self._used.values():
                    SHARED.release(used)
                self._used.clear()

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("the database was closed")
        if os.getpid() != self._pid:
            raise Closed(INHERITED)

    def __enter__(self) -> Database:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def open(path: str | os.PathLike[str], snapshots: str | os.PathLike[str] | None = None) -> Database:
    """Open the database in a directory, which is created if it is absent.

    snapshots: the directory in which it keeps snapshots, best on another disk; None: `snapshots` in its own.

    Raises:
        StorageError: the directory cannot be used.
    """
    return Database(path, snapshots)


def _resolved(path: Path) -> Path:
    return Path(os.path.realpath(path))
