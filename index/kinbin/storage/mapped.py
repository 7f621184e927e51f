"""The file of a store in memory: read once before LMDB opens it, and the list of its free pages before LMDB takes one."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import numpy as np

from kinbin.errors import CorruptData, FormatMismatch, StorageError
from kinbin.storage.creation import FIELDS
from kinbin.storage.datafile import DataFile
from kinbin.storage.errors import translated
from kinbin.storage.lookups import Trees

__all__ = ["address_of", "check_free", "is_another", "is_successor", "look_at", "refuse_files_of_others"]

T = TypeVar("T")

_PAGE_HEADER, _NODE = 16, 8
_BRANCH, _LEAF = 1, 2
_MOST_DEPTH = 32
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
    return _looked(folder, lambda trees: trees)


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


def _looked(folder: Path, read: Callable[[Trees], T]) -> tuple[DataFile, T]:
    """A store's file, and what was read of the trees of its last transaction."""
    file = DataFile(folder)
    while True:
        try:
            with _mapped(file) as trees:
                found = read(trees)
            # No snapshot keeps these pages as they are.
            if file.newest().transaction - file.meta.transaction <= _KEPT:
                return file, found
            file = DataFile(folder)
        except CorruptData:
            # Was it a commit, or was the file made anew?
            again = DataFile(folder)
            if again.is_same_as(file) and again.meta.transaction == file.meta.transaction:
                raise
            file = again


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


def check_free(base: int, file: DataFile, trees: Trees) -> None:
    """See that the list of free pages is sound: LMDB writes to the pages that it names, without a look at what is there.

    Cost: 10 ns a free page.

    Raises:
        CorruptData: it is damaged, or pages are missing at the file's end that are not free.
    """
    page_bytes, pages = file.meta.page_bytes, trees.pages
    found = [np.empty(0, np.uint64)]
    # Keys are the transactions that freed the pages. LMDB takes lists by key, and ends the process if one is not found again.
    whole = range(1, trees.meta.transaction + 1)
    level = [] if trees.meta.free_root < 0 else [(trees.meta.free_root, whole)]
    for _ in range(_MOST_DEPTH):
        below: list[tuple[int, range]] = []
        for number, keys in level:
            below += _free_page(base, page_bytes, pages, number, keys, found)
        level = below
        if not level:
            break
    free = np.concatenate(found)
    last = trees.meta.last_page
    if level or len(np.unique(free)) != len(free) or (len(free) and not 2 <= free.min() <= free.max() <= last):
        raise _bad_list()
    missing = last + 1 - pages
    if missing and int((free >= pages).sum()) < missing:
        raise CorruptData("the file ends before its last page: it was cut off, or is an incomplete copy")


def _free_page(base: int, page_bytes: int, pages: int, number: int, keys: range, found: list[np.ndarray]) -> list[tuple[int, range]]:
    """Read one page of the tree of free pages: its lists are added to `found`. Returns the pages below it.

    keys: those that it may have; below it the same.
    """
    if not 2 <= number < pages:
        raise _bad_list()
    page = ctypes.string_at(base + number * page_bytes, page_bytes)
    flags, low, high = (int.from_bytes(page[at : at + 2], "little") for at in (10, 12, 14))
    if int.from_bytes(page[:8], "little") != number or flags not in (_BRANCH, _LEAF):
        raise _bad_list()
    if not _PAGE_HEADER < low <= high <= page_bytes or low % 2:
        raise _bad_list()
    below: list[int] = []
    seen: list[int] = []
    for at in np.frombuffer(page[_PAGE_HEADER:low], "<u2").tolist():
        if not high <= at <= page_bytes - _NODE:
            raise _bad_list()
        size, kind, key_bytes = (int.from_bytes(page[at + a : at + b], "little") for a, b in ((0, 4), (4, 6), (6, 8)))
        place = at + _NODE + key_bytes
        # The first key of a branch is never compared, and may be left out.
        first_branch = flags == _BRANCH and not below
        key = keys.start if first_branch else int.from_bytes(page[at + _NODE : place], "little")
        if key not in keys or (seen and key <= seen[-1]) or (key_bytes != 8 and not (first_branch and not key_bytes)):
            raise _bad_list()
        seen.append(key)
        if flags == _BRANCH:
            below.append(size | kind << 32)
            continue
        if kind == 1:
            first = int.from_bytes(page[place : place + 8], "little")
            if place + 8 > page_bytes or first < 2 or first + -(-(size + _PAGE_HEADER) // page_bytes) > pages:
                raise _bad_list()
            body = ctypes.string_at(base + first * page_bytes + _PAGE_HEADER, size)
        else:
            body = page[place : place + size]
        numbers = np.frombuffer(body[: len(body) // 8 * 8], "<u8")
        if kind > 1 or len(body) != size or not len(numbers) or len(numbers) <= numbers[0]:
            raise _bad_list()
        listed = numbers[1 : 1 + int(numbers[0])]
        if (listed[:-1] <= listed[1:]).any():
            raise _bad_list()
        found.append(listed)
    return [(child, range(least, beyond)) for child, least, beyond in zip(below, seen, [*seen[1:], keys.stop], strict=False)]


def _bad_list() -> CorruptData:
    return CorruptData("the list of free pages is damaged: nothing was written, which could destroy what is intact")
