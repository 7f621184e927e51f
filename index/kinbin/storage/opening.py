"""The files of a store from one opening of them to the next: the file, LMDB's environment on it, and the trees that were seen last."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from ctypes import string_at
from pathlib import Path
from typing import Any

import lmdb
import numpy as np

from kinbin.errors import Closed, StorageBusy
from kinbin.storage.addresses import is_outgrown, map_for
from kinbin.storage.datafile import META_BYTES, Meta, Outgrown, Replaced, behind, meta_damage
from kinbin.storage.errors import translated
from kinbin.storage.free import check_reached
from kinbin.storage.headers import CONFIG
from kinbin.storage.lockfile import LOCK, MAX_READERS, make_lock_file
from kinbin.storage.lookups import META, NAMES, Trees, damaged_pages
from kinbin.storage.mapped import address_of, look_at

__all__ = ["INHERITED", "Opening"]

INHERITED = (
    "a process that had this database open was forked, and its child cannot open it again: fork before it is opened, open it only in the "
    'children, or start them by multiprocessing\'s "spawn"'
)
_HARMED = "the newest meta page is damaged"
_TRIES = 20
"""Snapshots that are begun while others commit."""


_OPEN: weakref.WeakSet[Opening] = weakref.WeakSet()
"""Those of this process."""
_INHERITED: set[tuple[int, int]] = set()
"""Files that LMDB has open in this process because it had them in the one that was forked: it opens them no second time."""


def _inherit() -> None:
    """In a forked child: nothing of the parent's openings is used."""
    _INHERITED.update(one.file.inode for one in _OPEN if not one.is_closed)
    _OPEN.clear()


os.register_at_fork(after_in_child=_inherit)


class Opening:
    """One opening of a store's files. Whoever has it keeps it from being closed while the map is read. Thread-safe but for `close`."""

    def __init__(self, path: Path, check: Callable[[Trees], None]) -> None:
        """check: is shown the trees before LMDB opens the file, and may refuse them.

        Raises:
            Replaced: another file, or another table of readers, has the name since it was looked at. CorruptData, FormatMismatch.
        """
        self._path = path
        self.is_outgrown = False
        """Whether the file has grown out of the address space that it is mapped in."""
        # Before LMDB follows the first page: it trusts them all.
        self.file, trees = look_at(path)
        check(trees)
        if self.file.inode in _INHERITED:
            self.file.close()
            raise Closed(INHERITED)
        self.is_closed = False
        self._is_looked_at = False
        with translated():
            lock = self.file.lock_named()
            if lock is None:
                make_lock_file(path)
                lock = self.file.lock_named()
            self._map_bytes = map_for(self.file.pages * self.file.meta.page_bytes)
            self.env = lmdb.open(
                str(path), map_size=self._map_bytes, max_dbs=len(NAMES), max_readers=MAX_READERS,
                sync=True, metasync=True, writemap=False, readahead=False, create=False,
            )  # fmt: skip
            try:
                # Its descriptor is held, so that no other file gets its inode: LMDB has this one if it has the name now.
                self.file.check_named()
                if lock is None or self.file.lock_named() != lock:
                    raise Replaced(f"{LOCK} was replaced while it was opened")
                self.file.watch_lock(lock)
                # Handles outlive only a transaction that may write; this one does not.
                with self.env.begin(write=True) as transaction:
                    self.handles = tuple(self.env.open_db(name, transaction, create=False) for name in NAMES)
                self.configured = b""
                """The record of what the collection was created with, as it was then."""
                self.salt = trees.salt
                self._committed: Meta | None = None
                """What the meta page says that this process wrote last."""
                self.newest: Trees | None = self._find_base(trees, lock)
                self.env.reader_check()
                _OPEN.add(self)
            except BaseException as error:
                self.close()
                if isinstance(error, lmdb.InvalidError):
                    # It is a store: its trees were looked at.
                    raise damaged_pages() from None
                raise

    def close(self) -> None:
        """Let go of the files. Harmless when repeated."""
        self.is_closed = True
        self.env.close()
        self.file.close()

    def _find_base(self, trees: Trees, lock: tuple[int, int]) -> Trees:
        """Find where LMDB has mapped the file: the place of the state record in memory, less its place in the file.

        Both are found by the same pages, of which every number was checked. Returns the trees, which are there now.
        """
        for _ in range(_TRIES):
            with self.env.begin(buffers=True) as transaction:
                if transaction.id() == self.file.meta.transaction:
                    state = transaction.get(b"state", db=self.handles[META])
                    if state is None:
                        raise damaged_pages()
                    self.base = address_of(state) - trees.state_at
                    trees.moved(self.base)
                    self.configured = trees.get(META, CONFIG) or b""
                    self._seen = trees.seen
                    return trees
                again, trees = look_at(self._path)
                if not again.is_same_as(self.file):
                    raise Replaced("another file has taken the place of the one that is being opened")
                again.watch_lock(lock)
                self.file = again
                if again.meta.transaction < transaction.id():
                    # A commit is in the file before it is in the table.
                    raise behind(again.meta.transaction, transaction.id())
        raise StorageBusy("the store is being written to faster than it can be opened: try again")

    def snapshot(self) -> tuple[Any, Trees]:
        """A read transaction, and the trees that it sees; if all slots are taken, those of dead processes are freed first."""
        for _ in range(_TRIES):
            transaction = self._begin()
            try:
                trees = self.trees_at(transaction.id())
            except BaseException:
                transaction.abort()
                raise
            if trees is not None:
                if not self._is_looked_at:
                    self._look_at(transaction, trees)
                return transaction, trees
            # Two commits came between the snapshot and the look at its meta page.
            transaction.abort()
        raise StorageBusy("the store is being written to faster than it can be read: try again")

    def _look_at(self, transaction: Any, trees: Trees) -> None:
        """Before the first answer, see that the trees of a snapshot lead to no page that is free."""
        try:
            check_reached(self.file.descriptor, trees)
        except BaseException:
            transaction.abort()
            raise
        self._is_looked_at = True

    def _begin(self) -> Any:
        try:
            return self.env.begin(buffers=True)
        except lmdb.ReadersFullError:
            self.env.reader_check()
            return self.env.begin(buffers=True)
        except lmdb.MapResizedError:
            raise self._outgrown() from None
        except lmdb.InvalidError:
            raise meta_damage(_HARMED) from None

    def begin_writing(self) -> Any:
        """A write transaction.

        Raises:
            Outgrown: the map has no room for the file. CorruptData: LMDB sees that the newest meta page is damaged.
        """
        try:
            return self.env.begin(write=True, buffers=True)
        except lmdb.MapResizedError:
            raise self._outgrown() from None
        except lmdb.InvalidError:
            raise meta_damage(_HARMED) from None

    def has_room(self, *, alone: bool) -> bool:
        """Whether the map has room for more. alone: nobody reads in the process, who would have to be waited for (`addresses`)."""
        trees = self.newest
        used = 0 if trees is None else (trees.meta.last_page + 1) * self.file.meta.page_bytes
        return not is_outgrown(used, self._map_bytes, alone=alone)

    def see_room(self, *, alone: bool) -> None:
        """The same.

        Raises:
            Outgrown: it has not.
        """
        if not self.has_room(alone=alone):
            raise self._outgrown()

    def _outgrown(self) -> Outgrown:
        self.is_outgrown = True
        return Outgrown("the file has grown out of the address space that it was opened in")

    def trees_at(self, transaction: int) -> Trees | None:
        """The trees at a transaction that is seen just now; None if its meta page was written over already."""
        newest = self.newest
        if newest is not None and newest.transaction == transaction:
            return newest
        page_bytes = self.file.meta.page_bytes
        meta = self._committed
        if meta is None or meta.transaction != transaction:
            page = self._meta_page(transaction)
            meta = Meta.of(page, transaction & 1)
            if page != self._meta_page(transaction):
                # Just now it is written over.
                return None
        if meta is None or meta.transaction != transaction:
            if meta is not None and meta.transaction > transaction:
                return None
            # Others may commit to a file that has taken the place of this one.
            self.file.check_named()
            raise damaged_pages()
        pages = self.file.grown(meta.last_page + 1)
        if pages > len(self._seen):
            self._seen = np.zeros(2 * pages, np.uint32)
        trees = Trees(self.base, page_bytes, meta, pages, self._seen)
        if newest is None or newest.transaction < transaction:
            self.newest = trees
        return trees

    def _meta_page(self, transaction: int) -> bytes:
        """The meta page where a transaction is written, as it is in the map."""
        return string_at(self.base + (transaction & 1) * self.file.meta.page_bytes, META_BYTES)

    def committed(self, transaction: int) -> None:
        """Keep what the meta page says of a transaction that was just committed, while nobody else may write. Cost: 2 µs."""
        meta = Meta.of(self._meta_page(transaction), transaction & 1)
        self._committed = meta if meta is not None and meta.transaction == transaction else None

    def other_meta(self, transaction: int) -> Meta:
        """The meta page that is not that of a transaction: the next commit is written there.

        Raises:
            CorruptData: it is damaged. LMDB writes only a part of it, and what is committed would not be found again.
        """
        meta = Meta.of(self._meta_page(~transaction), ~transaction & 1)
        if meta is None:
            raise meta_damage("a meta page is damaged")
        return meta

    def check_newest(self, meta: Meta, other: Meta) -> None:
        """See that the newest meta page is what it was when it was first seen: LMDB takes most of the next one from it. Cost: 1 µs.

        meta: what it said then. other: what the other one says.

        Raises:
            CorruptData: it is not, or never was sound.
        """
        opened = self.file.meta
        # LMDB writes down the larger of the map that it has and of the one that was written down.
        sound = meta.page_bytes == opened.page_bytes and meta.map_bytes in (opened.map_bytes, self._map_bytes)
        if not sound or meta.last_page < other.last_page or meta.page != self._meta_page(meta.transaction):
            raise meta_damage(_HARMED)

    def last_transaction(self) -> int:
        """The last that the file tells of, whoever has its name; -1: none."""
        pages = [self.base + page * self.file.meta.page_bytes for page in (0, 1)]
        metas = [Meta.of(string_at(place, META_BYTES), number) for number, place in enumerate(pages)]
        return max((meta.transaction for meta in metas if meta is not None), default=-1)

    def refuses_everything(self) -> bool:
        """Whether a meta page could not be written: until it is opened anew the environment does nothing more."""
        try:
            self.env.begin().abort()
        except lmdb.PanicError:
            return True
        except lmdb.Error:
            return False
        return False

    def size_on_disk(self) -> int:
        """Bytes that the file takes on disk."""
        with translated():
            return os.fstat(self.file.descriptor).st_blocks * 512

    def used_bytes(self) -> int:
        """Bytes of all pages in use at the last commit."""
        with translated(), self.env.begin() as transaction:
            told = [transaction.stat(tree) for tree in self.handles]
        return int(sum(one["psize"] * (one["branch_pages"] + one["leaf_pages"] + one["overflow_pages"]) for one in told))
