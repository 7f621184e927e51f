"""The file of a store in memory, read once before LMDB opens it."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import numpy as np

from kinbin.errors import CorruptData, FormatMismatch, StorageError
from kinbin.storage.creation import FIELDS
from kinbin.storage.datafile import DataFile, Meta, meta_damage
from kinbin.storage.errors import translated
from kinbin.storage.format import decode_state
from kinbin.storage.lockfile import last_commit
from kinbin.storage.lookups import Trees
from kinbin.storage.trees import Pages, Tree, TreeRecord

__all__ = ["address_of", "is_another", "is_successor", "look_at", "refuse_files_of_others"]

T = TypeVar("T")

_KEPT = 1
"""Commits behind a transaction that leave all its pages as they are. The first lists pages as free, the third writes to them, and does so
before it is committed."""


def address_of(value: memoryview) -> int:
    """Where a view lies in this process's memory."""
    return int(np.frombuffer(value, np.uint8).__array_interface__["data"][0])


def look_at(folder: Path) -> tuple[DataFile, Trees]:
    """Look at the pages of a store's file that LMDB reads when it opens it. Returns the file, and its trees, to be `moved` before use.

    Raises:
        CorruptData: one of them is damaged. FormatMismatch: it is no store, or the files are of a newer format.
    """
    return _looked(folder, lambda trees: trees, lambda file: _refuse_undone(folder, file))


def is_successor(folder: Path, identity: bytes | None, transaction: int) -> bool:
    """Whether the file in a folder was made of one with this identity record, when that was at this transaction (`shrinking`).

    Raises:
        CorruptData: it is damaged.
    """
    try:
        _, (known, moved) = _looked(folder, lambda trees: (trees.identity_record, trees.json(b"moved", "the list of moves")))
    except FormatMismatch:
        return False
    return moved is not None and known == identity and transaction in moved


def is_another(folder: Path, identity: bytes | None) -> bool:
    """Whether the file in a folder has another identity record than this one. One that cannot be read has not."""
    try:
        _, known = _looked(folder, lambda trees: trees.identity_record)
    except StorageError:
        return False
    return None is not known != identity


def refuse_files_of_others(folder: Path) -> None:
    """See that the files in a collection's directory are its own, or are those of another one that has its own as well.

    Raises:
        CorruptData: they are all that another collection has.
    """
    whose = _collection_in(folder)
    if whose is None or whose == folder.name:
        return
    collection, _, field = whose.partition("/")
    other = folder.parent / collection
    if other.is_dir() and _collection_in(other / FIELDS / field if field else other) != whose:
        error = CorruptData(
            f"these are the files of {whose!r}, which has them nowhere else: they are not removed",
            "put each file back into the directory of its collection",
        )
        error.collection = folder.name
        raise error


def _collection_in(folder: Path) -> str | None:
    """Whose files lie in a folder, as they say: NAME, or NAME/FIELD; None: they do not say it, or cannot be read."""
    try:
        _, identity = _looked(folder, lambda trees: trees.identity())
    except StorageError:
        return None
    return None if identity is None else identity.collection


def _looked(folder: Path, read: Callable[[Trees], T], check: Callable[[DataFile], object] = bool) -> tuple[DataFile, T]:
    """A store's file, and what was read of the trees of its last transaction. check: may refuse the file with CorruptData."""
    file = DataFile(folder)
    while True:
        try:
            with _mapped(file) as trees:
                check(file)
                found = read(trees)
            # No snapshot keeps these pages as they are.
            if file.newest().transaction - file.meta.transaction <= _KEPT:
                return file, found
            file = DataFile(folder)
        except CorruptData:
            # Was it a commit, or was the file made anew?
            again = DataFile(folder)
            if again.is_same_as(file) and (again.meta.page, again.before.page) == (file.meta.page, file.before.page):
                raise
            file = again


def _refuse_undone(folder: Path, file: DataFile) -> None:
    """See that the page of the transaction before does not lead to the one that comes next: then that was the last, and is undone.

    One flipped bit of its number does that, and a commit whose meta page could not be written: LMDB writes the old number over it. What
    the table of readers says tells the two apart.

    Raises:
        CorruptData: it was committed, or the table does not say that it was not.
    """
    if file.before.last_page != file.meta.last_page:
        # The number alone would be seen: the two exchange their places.
        return
    told = _state_transaction(file.descriptor, file.before)
    if told is not None and told > file.meta.transaction and last_commit(folder) not in (0, file.meta.transaction):
        raise meta_damage(f"the meta pages are of transactions before {told}, to whose state one of them leads")


def _state_transaction(descriptor: int, meta: Meta) -> int | None:
    """The transaction that the state names to which a meta page leads; None: it leads to none, or to one of format 1.

    Pages are copied before they are looked at: those of an earlier state may be written over just now. Cost: 30 µs.
    """
    pages = Pages(descriptor, meta.page_bytes, meta.last_page)
    try:
        root = TreeRecord(0, meta.depth, 0, 0, 0, 1, meta.root % 2**64)
        first = _first_at(Tree(pages, root), b"meta")
        state = None if first is None else _first_at(Tree(pages, TreeRecord.decode(first)), b"state")
        return None if state is None else decode_state(state).transaction
    except (CorruptData, FormatMismatch):
        return None


def _first_at(tree: Tree, key: bytes) -> bytes | None:
    """The value of a key, if it is the first of those behind all its letters but the last."""
    found, value = next(tree.scan(after=key[:-1]), (None, None))
    return value if found == key else None


@contextmanager
def _mapped(file: DataFile) -> Iterator[Trees]:
    """The trees of the last transaction of a file that LMDB does not have open."""
    with translated(), mmap.mmap(file.descriptor, 0, access=mmap.ACCESS_READ) as mapped:
        view = np.frombuffer(mapped, np.uint8)
        # Pages that are new since the file was looked at are not mapped.
        pages = len(mapped) // file.meta.page_bytes
        try:
            yield Trees(int(view.__array_interface__["data"][0]), file.meta.page_bytes, file.meta, pages, np.zeros(pages, np.uint32))
        finally:
            del view
