"""The trees of one snapshot: records looked up and listed in the file's pages (`pages`), as bytes or in place."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinbin.errors import CorruptData
from kinbin.native.memory import address_of
from kinbin.native.records import Record
from kinbin.storage import pages
from kinbin.storage.datafile import OLDER, Meta
from kinbin.storage.format import State, begun, decode_json, decode_state
from kinbin.storage.headers import Identity

__all__ = ["NAMES", "Trees", "damaged_pages", "identity_in", "view_of"]

NAMES = (b"meta", b"items", b"owners", b"journal", b"runs")
"""Of the trees, in the order of their numbers in `Trees`."""
META, ITEMS, OWNERS, JOURNAL, RUNS = range(5)
_HOW = np.array([0, pages.SEALED | pages.NUMBERED, pages.SEALED | pages.BY_ROW, 0, 0])
_AT_ONCE = 256
"""Records that are listed by one call."""
_STAMPS = 2**32 - 2
_RECORD = struct.Struct("<Qqqqqq Qqqqqq")
"""The fields of `pages.TREE`."""
_META_KEYS = (b"state", b"identity")
"""What is read of every snapshot."""
_NAME_KEYS = np.frombuffer(b"".join(NAMES + _META_KEYS), np.uint8)
_NAME_ENDS = np.cumsum([len(name) for name in NAMES + _META_KEYS])


def damaged_pages() -> CorruptData:
    """The error of pages that are not what they should be."""
    return CorruptData("the store's pages are damaged")


def identity_in(record: bytes) -> Identity:
    """Whose files have this record. Its own checksum begins with no salt.

    Raises:
        CorruptData: it is damaged.
    """
    return Identity.decode(decode_json(record, "the collection's identity"))


@lru_cache(64)
def _salt_of(record: bytes) -> int:
    """The salt in an identity record: it is asked for at each commit."""
    return identity_in(record).salt


class _Bytes:
    """Bytes at an address, for NumPy."""

    def __init__(self, address: int, size: int) -> None:
        self.__array_interface__ = {"data": (address, True), "shape": (size,), "typestr": "|u1", "version": 3}


def view_of(address: int, size: int) -> memoryview:
    """A view of mapped bytes, read-only; they have to stay mapped as long as it is used."""
    return np.asarray(_Bytes(address, size)).data if size else memoryview(b"")


class Trees:
    """All trees at one transaction. It holds no snapshot: whoever reads by it has one of that transaction open.

    Raises:
        CorruptData: some page on the way is damaged, or the state record is not of this transaction; so does every method.

    Cost: 8 µs.
    """

    def __init__(
        self, base: int, page_bytes: int, meta: Meta, file_pages: int, seen: NDArray[np.uint32], *, believed: bool = False
    ) -> None:
        """seen: a stamp for each page that the file has, or more. believed: whatever transaction the state record names."""
        self.meta = meta
        self._base, self._page_bytes = base, page_bytes
        self.transaction = meta.transaction
        self.pages = min(meta.last_page + 1, file_pages)
        self.seen = seen
        self.salt = 0
        """What the checksums of this file begin with; 0: nothing."""
        trees = self._told((meta.root, meta.depth, meta.below), pages.SUB_TREES, 1 + len(NAMES))
        out = np.empty((2, 2), np.uint64)
        missing = pages.open_trees(trees, _NAME_KEYS, _NAME_ENDS, _HOW, np.empty((4, pages.MOST_DEPTH), np.int64), out)
        if missing > 0:
            # Keys that are looked for behind the trees lie in the first one, which is empty then.
            raise CorruptData(f"the tree {NAMES[missing - 1 if missing <= len(NAMES) else META].decode()!r} is missing")
        if missing:
            raise damaged_pages()
        self._trees = [trees[i : i + 1] for i in range(1, len(trees))]
        self._all = trees
        (state, state_bytes), (identity, identity_bytes) = out.tolist()
        self.state_at = state - base
        """Where in the file the state record is."""
        self.state_record = ctypes.string_at(state, state_bytes) if state else b""
        self.identity_record = ctypes.string_at(identity, identity_bytes) if identity else None
        self.state: State = decode_state(self.state_record)
        self.salt = self.state.salt if self.identity_record is None else _salt_of(self.identity_record)
        if self.state.salt != self.salt:
            raise CorruptData("the state record is that of other files")
        trees["salt"] = self.salt
        if not believed and self.state.transaction not in (self.transaction, None):
            raise CorruptData(
                f"the files are at transaction {self.transaction}, their state is of {self.state.transaction}: the last commits were lost, "
                "or other pages stand in their place",
                OLDER,
            )

    def moved(self, base: int) -> None:
        """The same file begins elsewhere in memory. What was seen of its pages holds: those of a transaction stay as they are."""
        self._base = base
        self._all["base"] = base

    def _told(self, root: tuple[int, int, int], how: int, count: int) -> Record:
        """What kernels are told of a tree (its root, depth, and what is below), so many times; a tenth of what `Layout.record` takes."""
        stamp = self.transaction % _STAMPS + 2
        packed = _RECORD.pack(self._base, self.pages, self._page_bytes, *root, address_of(self.seen), stamp, how, self.salt, 0, 0)
        return np.frombuffer(bytearray(packed * count), pages.TREE.dtype)

    @staticmethod
    def _found(tree: Record, keys: NDArray[np.uint8], ends: NDArray[np.int64]) -> list[list[int]]:
        out = np.empty((len(ends), 2), np.uint64)
        if pages.find(tree, keys, ends, np.empty((4, pages.MOST_DEPTH), np.int64), out):
            raise damaged_pages()
        places: list[list[int]] = out.tolist()
        return places

    def json(self, key: bytes, what: str) -> Any:
        """What a record of the first tree says; None: it is not there.

        Raises:
            CorruptData: it is damaged.
        """
        value = self.get(META, key)
        return None if value is None else decode_json(value, what, begun(self.salt, key))

    def records_of(self, tree: int) -> int:
        """How many records a tree has, as its own record says."""
        return int(self._all["records"][1 + tree])

    @property
    def told(self) -> Record:
        """What kernels are told of each tree (TREE), that of the trees first."""
        return self._all

    @property
    def base(self) -> int:
        """Where the file begins in memory."""
        return self._base

    def identity(self) -> Identity | None:
        """Whose files these are; None in format 1."""
        return None if self.identity_record is None else identity_in(self.identity_record)

    def places(self, tree: int, keys: Sequence[bytes]) -> list[list[int]]:
        """Address and size of the value of each key; address 0 where there is none."""
        if not keys:
            return []
        ends = np.array([len(keys[0])]) if len(keys) == 1 else np.cumsum([len(key) for key in keys])
        return self._found(self._trees[tree], np.frombuffer(b"".join(keys), np.uint8), ends)

    def get(self, tree: int, key: bytes) -> bytes | None:
        """A copy of the value of a key."""
        ((address, size),) = self.places(tree, (key,))
        return ctypes.string_at(address, size) if address else None

    def get_many(self, tree: int, keys: Sequence[bytes]) -> list[bytes | None]:
        """The same of many keys."""
        copy = ctypes.string_at
        return [copy(address, size) if address else None for address, size in self.places(tree, keys)]

    def listed(self, tree: int, start: bytes, most: int = _AT_ONCE) -> list[list[int]]:
        """Address and size of key and value of the records from a key on, at most so many."""
        places: list[list[int]] = self._listed(tree, start, most).tolist()
        return places

    def _listed(self, tree: int, start: bytes, most: int) -> NDArray[np.uint64]:
        out = np.empty((most, 4), np.uint64)
        path = np.empty((4, pages.MOST_DEPTH), np.int64)
        count = pages.list_from(self._trees[tree], np.frombuffer(start, np.uint8), path, out)
        if count < 0:
            raise damaged_pages()
        return out[:count]

    def parts(self, tree: int, prefix: bytes) -> NDArray[np.uint64] | None:
        """Address and size (n, 2) of the values whose keys are `prefix` and 0, 1 and so on, as four bytes; None: one is left out."""
        found: list[NDArray[np.uint64]] = []
        first, start = 0, prefix
        while True:
            listed = self._listed(tree, start, _AT_ONCE)
            count = pages.are_parts(listed, np.frombuffer(prefix, np.uint8), first)
            if count < 0:
                return None
            found.append(listed[:count, 2:])
            first += count
            if count < _AT_ONCE:
                return np.concatenate(found)
            start = prefix + first.to_bytes(4, "big")

    def scan(self, tree: int, start: bytes) -> Iterator[tuple[bytes, int, int]]:
        """Key, and address and size of the value, of every record from a key on, in order."""
        copy = ctypes.string_at
        while True:
            places = self.listed(tree, start)
            for address, size, value, value_bytes in places:
                start = copy(address, size)
                yield start, value, value_bytes
            if len(places) < _AT_ONCE:
                return
            start += b"\0"

    def records(self, tree: int, start: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Key and value of every record from a key on, in order; copies. Cost: 0.7 µs a record."""
        copy, page_bytes, base = ctypes.string_at, self._page_bytes, self._base
        page, page_at = b"", 0
        while True:
            places = self.listed(tree, start)
            for address, size, value, value_bytes in places:
                at = address - page_at
                if not 0 <= at < page_bytes:
                    # Most records lie in leaves: a copy of all of a page costs little more than one of a value.
                    at = (address - base) % page_bytes
                    page_at = address - at
                    page = copy(page_at, page_bytes)
                start = page[at : at + size]
                at = value - page_at
                yield start, page[at : at + value_bytes] if 0 <= at <= page_bytes - value_bytes else copy(value, value_bytes)
            if len(places) < _AT_ONCE:
                return
            start += b"\0"

    def firm(self, tree: int, keys: Sequence[bytes], *, beside: bool) -> None:
        """See that the pages that are passed on the way to some keys are sound: LMDB may then change them.

        beside: the leaves before and behind as well, with which LMDB joins a leaf that becomes small.
        """
        if keys:
            record = self._trees[tree]
            if beside:
                record = self._told((record["root"][0], record["depth"][0], record["below"][0]), int(_HOW[tree]) | pages.SIBLINGS, 1)
            ends = np.cumsum([len(key) for key in keys])
            self._found(record, np.frombuffer(b"".join(keys), np.uint8), ends)
