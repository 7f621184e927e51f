"""A reader of LMDB's pages, written from the comments of its C source (`mdb.c` of 0.9): which page of a sound file is what.

It shares nothing with the reader that Kinbin has for `check`, so that a mistake of one is not a mistake of both.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from dataclasses import dataclass, field

__all__ = ["PAGE", "Node", "PageMap", "list_pages", "newest_meta"]

PAGE = 4096
_NONE = 2**64 - 1
_DB = struct.Struct("<IHHQQQQQ")
"""MDB_db: pad, flags, depth, branch pages, leaf pages, overflow pages, entries, root."""
_META = 16
"""The head of a page comes first. Then magic, version, address, map size, two MDB_db, last page, transaction."""
_BRANCH, _LEAF = 1, 2
_BIG, _TREE = 1, 2


@dataclass(frozen=True, slots=True)
class Node:
    """One node of a leaf page: its key, and where its value lies in the file."""

    key: bytes
    at: int
    """Offset of the node in the file."""
    value_at: int
    size: int
    big: bool
    """Whether the value has pages of its own."""

    @property
    def pages(self) -> int:
        """Of a large value."""
        return (16 + self.size + PAGE - 1) // PAGE


@dataclass
class PageMap:
    """What each page of a file is: "meta", "free", or "TREE:leaf", "TREE:branch", "TREE:value" (pages of large values)."""

    data: bytes
    kinds: dict[int, str] = field(default_factory=dict)
    leaves: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    """By tree, in the order of keys."""
    last_page: int = 0
    transaction: int = 0
    others: tuple[bytes, ...] = ()
    """Other sound files, whose pages may stand in the place of this one's."""
    earlier: tuple[bytes, ...] = ()
    """What this file was before, at some moments."""

    @classmethod
    def of(cls, data: bytes, others: tuple[bytes, ...] = (), earlier: tuple[bytes, ...] = ()) -> PageMap:
        """The map of a sound file."""
        out = cls(data, others=others, earlier=earlier)
        metas = []
        for page in (0, 1):
            start = page * PAGE + _META
            magic, version = struct.unpack_from("<II", data, start)
            assert (magic, version) == (0xBEEFC0DE, 1), "no LMDB file of version 1"
            databases = [_DB.unpack_from(data, start + 24 + _DB.size * i) for i in (0, 1)]
            last_page, transaction = struct.unpack_from("<QQ", data, start + 24 + 2 * _DB.size)
            metas.append((transaction, last_page, databases))
        out.transaction, out.last_page, databases = max(metas)
        out.kinds = {0: "meta", 1: "meta"}
        for name, database in zip(("freelist", "main"), databases, strict=True):
            out._walk(database[7], name)
        for page in range(out.last_page + 1):
            out.kinds.setdefault(page, "free")
        return out

    def by_kind(self) -> dict[str, list[int]]:
        """The pages of each kind."""
        out: dict[str, list[int]] = defaultdict(list)
        for page, kind in sorted(self.kinds.items()):
            if (page + 1) * PAGE <= len(self.data):
                out[kind].append(page)
        return dict(out)

    def node_offsets(self, page: int) -> list[int]:
        """Where the nodes of a branch or leaf page begin, as offsets in the page."""
        lower = struct.unpack_from("<H", self.data, page * PAGE + 12)[0]
        return list(struct.unpack_from(f"<{(lower - 16) // 2}H", self.data, page * PAGE + 16))

    def nodes(self, page: int) -> list[Node]:
        """The nodes of a leaf page."""
        out = []
        for offset in self.node_offsets(page):
            at = page * PAGE + offset
            low, high, flags, key_size = struct.unpack_from("<HHHH", self.data, at)
            value_at, size = at + 8 + key_size, low | high << 16
            if flags & _BIG:
                value_at = struct.unpack_from("<Q", self.data, value_at)[0] * PAGE + 16
            out.append(Node(self.data[at + 8 : at + 8 + key_size], at, value_at, size, bool(flags & _BIG)))
        return out

    def _walk(self, page: int, tree: str) -> None:
        if page == _NONE:
            return
        start = page * PAGE
        flags = struct.unpack_from("<H", self.data, start + 10)[0]
        if flags & _BRANCH:
            self.kinds[page] = f"{tree}:branch"
            for offset in self.node_offsets(page):
                low, high, top = struct.unpack_from("<HHH", self.data, start + offset)
                self._walk(low | high << 16 | top << 32, tree)
            return
        assert flags & _LEAF, f"page {page} is neither a branch nor a leaf"
        self.kinds[page] = f"{tree}:leaf"
        self.leaves[tree].append(page)
        for node in self.nodes(page):
            if node.big:
                self._own_pages(node, tree)
            elif tree == "main" and struct.unpack_from("<H", self.data, node.at + 4)[0] & _TREE:
                self._walk(_DB.unpack_from(self.data, node.value_at)[7], node.key.decode())

    def _own_pages(self, node: Node, tree: str) -> None:
        """The pages of a large value; those of runs are told by part."""
        first = node.value_at // PAGE
        count = (16 + node.size + PAGE - 1) // PAGE
        part = f"runs {chr(node.key[4])}" if tree == "runs" else tree
        for page in range(first, first + count):
            self.kinds[page] = f"{part}:value"


def newest_meta(data: bytes) -> int:
    """The number of the newest meta page."""
    return max((0, 1), key=lambda page: int.from_bytes(data[page * PAGE + 144 : page * PAGE + 152], "little"))


def list_pages(data: bytes) -> list[int]:
    """The pages that list the trees of a store: that of the last state, and earlier ones that were not used again."""
    names = [bytes([len(name), 0]) + name for name in (b"meta", b"items", b"owners", b"journal", b"runs")]
    found = []
    for page in range(2, len(data) // PAGE):
        content = data[page * PAGE :][:PAGE]
        if content[10:12] == bytes([_LEAF, 0]) and all(name in content for name in names):
            found.append(page)
    return found
