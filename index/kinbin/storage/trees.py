"""Reading the trees of LMDB without its cursors: every number of a page is held against its bounds before it is used.

LMDB trusts its pages. A cursor that steps onto a damaged one ends the process by an assertion (`mdb_cursor_next`), looks beyond
the end of the file, or goes round for ever. This reader takes pages by `pread`, which gives too few bytes where a file ends, and
follows a tree from the top: a page has to carry its own number, to be of the kind its level asks for, and to have ascending keys
within the bounds that the pages above it set. So a walk ends, and is complete, or raises CorruptData.

The layout is that of `MDB_page`, `MDB_node`, `MDB_db` and `MDB_meta` in the C source of LMDB 0.9 (data version 1, 64-bit).
"""

from __future__ import annotations

import os
import struct
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise

from kinbin.errors import CorruptData

__all__ = ["NO_PAGE", "PAGE_BYTES", "USUAL_PAGE_BYTES", "Branch", "Leaf", "Meta", "Node", "Pages", "Tree", "TreeRecord", "walk"]

NO_PAGE = 2**64 - 1
"""The root of an empty tree."""
HEAD = 16
"""Bytes before the slots of a page: its number u64, pad u16, flags u16, then the ends of the slots and of the free space, u16."""
_HEAD = struct.Struct("<QHHHH")
_OWN_HEAD = struct.Struct("<QHHI")
"""The same of the first page of a large value: how many pages it has stands in the place of the two ends."""
_NODE = struct.Struct("<HHHH")
_PAGE_NUMBER = struct.Struct("<Q")
_RECORD = struct.Struct("<IHHQQQQQ")
_META = struct.Struct("<IIQQ")
BRANCH, LEAF, OWN, META = 0x01, 0x02, 0x04, 0x08
_BIG, _SUBTREE = 0x01, 0x02
_MAGIC, _VERSION = 0xBEEFC0DE, 1
PAGE_BYTES = tuple(512 << i for i in range(8))
"""How large pages may be."""
USUAL_PAGE_BYTES = 4096
_DEEPEST = 24
"""A tree of the largest file is not half as deep."""
_LONGEST_KEY = 511


@dataclass(frozen=True, slots=True)
class TreeRecord:
    """What LMDB keeps of a tree (`MDB_db`)."""

    flags: int
    depth: int
    branch_pages: int
    leaf_pages: int
    own_pages: int
    """Pages of large values."""
    entries: int
    root: int

    @classmethod
    def decode(cls, value: bytes | memoryview) -> TreeRecord:
        """From its 48 bytes."""
        if len(value) != _RECORD.size:
            raise damaged("the record of a tree has another size")
        padding, *told = _RECORD.unpack(value)
        if padding:
            raise damaged("the record of a tree says how long its values are, which it does not for trees of Kinbin")
        return cls(*told)


@dataclass(frozen=True, slots=True)
class Meta:
    """A meta page: the roots of one transaction."""

    page_bytes: int
    map_bytes: int
    free: TreeRecord
    main: TreeRecord
    last_page: int
    transaction: int

    @classmethod
    def decode(cls, page: bytes, number: int, page_bytes: int | None = None) -> Meta:
        """From the bytes of page `number`. page_bytes: of a page, whatever it says; None: what it says.

        Raises:
            CorruptData: it is none.
        """
        if len(page) < HEAD + _META.size + 2 * _RECORD.size + 16:
            raise damaged(f"meta page {number} is cut off")
        own, _, flags, _, _ = _HEAD.unpack_from(page)
        magic, version, _, map_bytes = _META.unpack_from(page, HEAD)
        if own != number or not flags & META or magic != _MAGIC or version != _VERSION:
            raise damaged(f"meta page {number} is none")
        start = HEAD + _META.size
        free, main = (_RECORD.unpack_from(page, start + _RECORD.size * i) for i in (0, 1))
        last_page, transaction = struct.unpack_from("<QQ", page, start + 2 * _RECORD.size)
        if page_bytes is None:
            page_bytes = int(free[0])
        if page_bytes not in PAGE_BYTES:
            raise damaged(f"meta page {number} gives a page {page_bytes} bytes")
        return cls(page_bytes, map_bytes, TreeRecord(*free[1:]), TreeRecord(*main[1:]), last_page, transaction)


@dataclass(frozen=True, slots=True)
class Node:
    """An entry of a leaf: key and value, or where a large value lies."""

    key: bytes
    value: bytes
    """Empty, if it is large."""
    first: int
    """The first page of a large value; 0 if it is not large."""
    size: int
    subtree: bool
    """Whether the value is the record of a tree."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A leaf page."""

    nodes: list[Node]


@dataclass(frozen=True, slots=True)
class Branch:
    """A branch page; the first key is empty."""

    keys: list[bytes]
    children: list[int]


def damaged(what: str) -> CorruptData:
    """The error of a page that cannot be what it should be."""
    return CorruptData(what)


class Pages:
    """The pages of one file, up to a last one. Reads no more than is there, and owns no file."""

    def __init__(self, descriptor: int, page_bytes: int, last_page: int) -> None:
        self._descriptor = descriptor
        self.page_bytes = page_bytes
        self.last_page = last_page

    @classmethod
    def metas(cls, descriptor: int) -> list[Meta | CorruptData]:
        """Both meta pages, or why one cannot be read."""
        out: list[Meta | CorruptData] = []
        page_bytes = 4096
        for number in (0, 1):
            try:
                meta = Meta.decode(os.pread(descriptor, 4096, number * page_bytes), number)
                page_bytes = meta.page_bytes
                out.append(meta)
            except CorruptData as error:
                out.append(error)
        return out

    @classmethod
    def likely_metas(cls, descriptor: int) -> list[Meta]:
        """The meta pages that can be read, whatever they say of the size of pages: the second one's place tells it, or else the first."""
        head = os.pread(descriptor, 2 * PAGE_BYTES[-1], 0)
        for size in PAGE_BYTES:
            with suppress(CorruptData):
                second = Meta.decode(head[size:], 1, size)
                with suppress(CorruptData):
                    return [Meta.decode(head, 0, size), second]
                return [second]
        for told in (None, USUAL_PAGE_BYTES):
            with suppress(CorruptData):
                return [Meta.decode(head, 0, told)]
        return []

    def raw(self, number: int) -> bytes:
        """The bytes of a page.

        Raises:
            CorruptData: there is no such page.
        """
        if not 2 <= number <= self.last_page:
            raise damaged(f"page {number} is named, which the file does not have")
        page = os.pread(self._descriptor, self.page_bytes, number * self.page_bytes)
        if len(page) < self.page_bytes:
            raise damaged(f"the file ends before page {number}")
        return page

    def read(self, number: int) -> Leaf | Branch:
        """A page of a tree, checked as far as it can be alone.

        Raises:
            CorruptData.
        """
        page = self.raw(number)
        own, _, flags, lower, upper = _HEAD.unpack_from(page)
        if own != number:
            raise damaged(f"page {number} carries the number {own}")
        # Exactly: what LMDB notes of a page while it is in memory is not written, and writers refuse it.
        if flags not in (BRANCH, LEAF):
            raise damaged(f"page {number} is neither a branch nor a leaf")
        if not HEAD <= lower <= upper <= self.page_bytes or lower % 2:
            raise damaged(f"page {number} has impossible bounds")
        count = (lower - HEAD) // 2
        slots = struct.unpack_from(f"<{count}H", page, HEAD)
        if count and not (upper <= min(slots) and max(slots) <= self.page_bytes - _NODE.size):
            raise damaged(f"page {number} has an entry outside of it")
        return self._leaf(number, page, slots) if flags == LEAF else self._branch(number, page, slots)

    def _leaf(self, number: int, page: bytes, slots: tuple[int, ...]) -> Leaf:
        nodes = []
        end_of_page = self.page_bytes
        taken = 0
        for slot in slots:
            low, high, flags, key_bytes = _NODE.unpack_from(page, slot)
            size = low | high << 16
            start = slot + 8 + key_bytes
            stop = start + (8 if flags & _BIG else size)
            if stop > end_of_page or not 0 < key_bytes <= _LONGEST_KEY or flags & ~(_BIG | _SUBTREE):
                raise damaged(f"page {number} has an entry that is malformed")
            taken += stop - slot + (stop - slot) % 2
            key = page[slot + 8 : start]
            if flags & _BIG:
                nodes.append(Node(key, b"", _PAGE_NUMBER.unpack_from(page, start)[0], size, subtree=False))
            else:
                nodes.append(Node(key, page[start:stop], 0, size, bool(flags & _SUBTREE)))
        if taken != end_of_page - _HEAD.unpack_from(page)[4]:
            raise damaged(f"page {number} has entries that overlap, or lacks some")
        return Leaf(nodes)

    def _branch(self, number: int, page: bytes, slots: tuple[int, ...]) -> Branch:
        keys, children = [], []
        taken = 0
        for i, slot in enumerate(slots):
            low, high, top, key_bytes = _NODE.unpack_from(page, slot)
            stop = slot + 8 + key_bytes
            if stop > self.page_bytes or key_bytes > _LONGEST_KEY:
                raise damaged(f"page {number} has an entry that is malformed")
            taken += stop - slot + (stop - slot) % 2
            keys.append(page[slot + 8 : stop] if i else b"")
            children.append(low | high << 16 | top << 32)
        if len(slots) < 2 or taken != self.page_bytes - _HEAD.unpack_from(page)[4]:
            raise damaged(f"page {number} has entries that overlap, or lacks some")
        return Branch(keys, children)

    def own_pages(self, node: Node) -> int:
        """How many pages a large value has.

        Raises:
            CorruptData: it does not lie where its node says.
        """
        page = self.raw(node.first)
        own, _, flags, count = _OWN_HEAD.unpack_from(page)
        pages = int(count)
        needed = -(-(HEAD + node.size) // self.page_bytes)
        # A value that was overwritten by a shorter one keeps its pages.
        if own != node.first or flags != OWN or pages < needed or node.first + pages - 1 > self.last_page:
            raise damaged(f"page {node.first} is not the beginning of a value of {node.size} bytes")
        if pages > 1:
            # Callers go through all of them, and the last page of the file is a number of the file, too.
            self.raw(node.first + pages - 1)
        return pages

    def value(self, node: Node) -> bytes:
        """The value of a node, wherever it lies."""
        if not node.first:
            return node.value
        self.own_pages(node)
        data = os.pread(self._descriptor, node.size, node.first * self.page_bytes + HEAD)
        if len(data) < node.size:
            raise damaged(f"the file ends within the value at page {node.first}")
        return data


class Tree:
    """One tree at one snapshot, which has to stay open while it is read."""

    def __init__(self, pages: Pages, record: TreeRecord) -> None:
        self._pages = pages
        self._record = record

    def scan(self, after: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """(key, value) in the order of keys, from the first key greater than `after`.

        Cost: about 1 µs an entry. Raises CorruptData where the tree is damaged, and at its end if entries are missing.
        """
        count = 0
        for _, leaf, _, _ in walk(self._pages, self._record, bytes, after):
            for node in leaf.nodes:
                if after is None or node.key > after:
                    count += 1
                    yield node.key, (self._pages.value(node) if node.first else node.value)
        if after is None and count != self._record.entries:
            raise damaged(f"a tree has {count} entries, its record says {self._record.entries}")


def walk(
    pages: Pages, record: TreeRecord, order: Callable[[bytes], object] = bytes, after: bytes | None = None,
    visited: Callable[[int], None] | None = None,
) -> Iterator[tuple[int, Leaf, object, object]]:  # fmt: skip
    """(page, leaf, lower and upper bound) of the leaves of a tree, in order, from the one on where keys beyond `after` begin.

    order: what keys are compared by. visited: is told of every page. Bounds are None where there are none.

    Raises:
        CorruptData: a page is not what the tree needs there.
    """
    if record.root == NO_PAGE:
        if record.entries or record.depth:
            raise damaged("a tree has entries and no pages")
        return
    if not 1 <= record.depth <= _DEEPEST:
        raise damaged(f"a tree is {record.depth} levels deep")
    stack: list[tuple[int, int, object, object]] = [(record.root, 1, None, None)]
    while stack:
        number, level, low, high = stack.pop()
        if visited is not None:
            visited(number)
        page = pages.read(number)
        if isinstance(page, Leaf):
            if level != record.depth:
                raise damaged(f"page {number} is a leaf where none can be")
            _refuse_disorder(number, [order(node.key) for node in page.nodes], low, high)
            if not page.nodes:
                raise damaged(f"page {number} is a leaf without entries")
            yield number, page, low, high
            continue
        if level == record.depth:
            raise damaged(f"page {number} is no leaf where one has to be")
        keys = [order(key) for key in page.keys[1:]]
        _refuse_disorder(number, keys, low, high)
        first = 0 if after is None else bisect_right(page.keys, after, lo=1) - 1
        bounds = [low, *keys, high]
        stack.extend((page.children[i], level + 1, bounds[i], bounds[i + 1]) for i in range(len(page.children) - 1, first - 1, -1))


def _refuse_disorder(number: int, keys: list[object], low: object, high: object) -> None:
    """Raise if keys do not ascend from the lower bound on to before the upper one."""
    ascends = all(one < other for one, other in pairwise(keys))  # type: ignore[operator]
    if not ascends or (keys and ((low is not None and keys[0] < low) or (high is not None and keys[-1] >= high))):  # type: ignore[operator]
        raise damaged(f"the keys of page {number} do not ascend, or are not those that are looked for there")
