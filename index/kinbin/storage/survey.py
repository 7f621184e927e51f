"""Looking at every page of a file before anything trusts one: what `check` does first.

A database whose survey finds nothing has sound trees: each key is found where a look-up goes for it, no page serves two ends, and
the list of free pages gives away none that is in use. What the values say is not looked at.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from kinbin.errors import CorruptData
from kinbin.storage.free import listed_pages
from kinbin.storage.lookups import NAMES
from kinbin.storage.store import Store
from kinbin.storage.trees import Meta, Node, Pages, TreeRecord, walk

__all__ = ["NOT_LOOKED", "TREES", "Survey", "are_sound_trees", "has_sound_trees", "proved_last_page", "survey", "survey_store"]

TREES = tuple(name.decode() for name in NAMES)
"""The trees that a store has."""

_MOST = 20
"""Problems that are told."""


@dataclass
class Survey:
    """What was found in a file."""

    transaction: int | None = None
    """Of the state that was looked at; None: no meta page could be read."""
    problems: list[str] = field(default_factory=list)
    """The first of them, as sentences."""
    entries: dict[str, int] = field(default_factory=dict)
    """By tree, how many entries were counted."""

    def add(self, text: str) -> None:
        """Note a problem."""
        if len(self.problems) < _MOST:
            self.problems.append(text)


NOT_LOOKED = "nothing else was looked at: there may be more damage than this"
"""What a report says where pages are damaged."""


def survey_store(store: Store) -> list[str]:
    """What a survey finds wrong with the files of an open store, beside whoever writes; an empty list: nothing.

    LMDB's cursors are safe on trees that were found whole.
    """
    while True:
        with store.read() as reader:
            if (lost := store.loss()) is not None:
                return [lost]
            before = Pages.metas(store.descriptor)
            found = survey(store.descriptor, reader.transaction, TREES)
            if found is not None and (not found.problems or Pages.metas(store.descriptor) == before):
                # Else a meta page may have been read while it was written.
                return found.problems


def survey(descriptor: int, transaction: int | None = None, trees: tuple[str, ...] = ()) -> Survey | None:
    """Look at all pages of a file that is not written to, or of the state of a transaction that is open for reading.

    transaction: its number; None: the newest. trees: those that there have to be. None if that state is gone from the meta pages:
    writers went on, begin again.

    Cost: all branches and leaves are read, and one page of each large value; about 40 µs a page.
    """
    out = Survey()
    metas = Pages.metas(descriptor)
    sound = [meta for meta in metas if isinstance(meta, Meta)]
    if transaction is not None:
        newest = next((meta for meta in sound if meta.transaction == transaction), None)
        if newest is None and len(sound) == 2 and min(meta.transaction for meta in sound) > transaction:
            return None
    else:
        newest = max(sound, key=lambda meta: meta.transaction, default=None)
    for meta in metas:
        if isinstance(meta, CorruptData):
            out.add(str(meta))
    if newest is None:
        out.add("no meta page tells of the state that is read")
        return out
    out.transaction = newest.transaction
    _compare_metas(sound, newest, out)
    _Surveyor(Pages(descriptor, newest.page_bytes, newest.last_page), newest, out).look(trees)
    return out


def proved_last_page(descriptor: int, number: int) -> int | None:
    """The last page of the state of a meta page (0 or 1), if every page up to it is used or free; None: that is not so."""
    meta = Pages.metas(descriptor)[number]
    if isinstance(meta, CorruptData):
        return None
    out = Survey()
    _Surveyor(Pages(descriptor, meta.page_bytes, meta.last_page), meta, out).look(TREES)
    return None if out.problems else meta.last_page


def has_sound_trees(descriptor: int, number: int) -> bool:
    """Whether the trees of the state of a meta page (0 or 1) are sound, and those that a store has. The list of free pages is left out."""
    meta = Pages.metas(descriptor)[number]
    return not isinstance(meta, CorruptData) and are_sound_trees(descriptor, meta)


def are_sound_trees(descriptor: int, meta: Meta) -> bool:
    """The same of what a meta page says, or would say."""
    out = Survey()
    _Surveyor(Pages(descriptor, meta.page_bytes, meta.last_page), meta, out).look(TREES, free=False)
    return not out.problems


def _compare_metas(metas: list[Meta], newest: Meta, out: Survey) -> None:
    """The other meta page is that of the transaction before, or after where writers went on."""
    for meta in metas:
        if abs(meta.transaction - newest.transaction) != 1 and meta is not newest and max(meta.transaction, newest.transaction) > 1:
            out.add(f"the meta pages are of transactions {newest.transaction} and {meta.transaction}, which do not follow each other")
        if meta.page_bytes != newest.page_bytes or meta.map_bytes != newest.map_bytes:
            out.add("the meta pages differ in what never changes")


class _Surveyor:
    """Walks all trees of one state and keeps account of the pages."""

    def __init__(self, pages: Pages, meta: Meta, out: Survey) -> None:
        self._pages = pages
        self._meta = meta
        self._out = out
        self._used = bytearray(meta.last_page + 1 if meta.last_page < 2**31 else 0)
        """1: used by a tree, 2: free."""

    def look(self, trees: tuple[str, ...], *, free: bool = True) -> None:
        """Everything. free: also that each page that no tree uses is free, once."""
        size = os.fstat(self._pages._descriptor).st_size
        if not self._used or size < self._pages.page_bytes * 2:
            self._out.add(f"the file has {size} bytes, its meta page tells of {self._meta.last_page + 1} pages")
            return
        self._used[0:2] = b"\1\1"
        found = self._tree("the list of trees", self._meta.main, top=True)
        for name in trees:
            if name.encode() not in found and not self._out.problems:
                self._out.add(f"there is no tree {name}")
        for key, record in found.items():
            self._tree(f"tree {key.decode(errors='replace')}", record)
        if not free:
            return
        self._free_list()
        if not self._out.problems and (lost := self._used.count(0)):
            self._out.add(f"{lost} pages are neither used nor free")

    def _use(self, page: int, mark: int = 1) -> None:
        if not 2 <= page < len(self._used):
            raise CorruptData(f"page {page} is named, which the file does not have")
        if self._used[page]:
            raise CorruptData(f"page {page} serves two ends")
        self._used[page] = mark

    def _tree(self, name: str, record: TreeRecord, *, top: bool = False) -> dict[bytes, TreeRecord]:
        """One tree. Returns the records of the trees in it."""
        found: dict[bytes, TreeRecord] = {}
        branches = leaves = own = entries = 0

        def visited(page: int) -> None:
            nonlocal branches
            self._use(page)
            branches += 1

        try:
            if record.flags:
                raise CorruptData(f"it is of a kind ({record.flags:#x}) that Kinbin does not make")
            for _, leaf, _, _ in walk(self._pages, record, visited=visited):
                leaves += 1
                entries += len(leaf.nodes)
                for node in leaf.nodes:
                    own += self._own(node) if node.first else 0
                    if node.subtree != top:
                        raise CorruptData("an entry is a tree, or should be one")
                    if top:
                        found[node.key] = TreeRecord.decode(node.value)
            counted = TreeRecord(record.flags, record.depth, branches - leaves, leaves, own, entries, record.root)
            if counted != record:
                raise CorruptData(f"its record says {_told(record)}, there are {_told(counted)}")
        except CorruptData as error:
            self._out.add(f"{name}: {error.what}")
        self._out.entries[name.removeprefix("tree ")] = entries
        return found

    def _own(self, node: Node) -> int:
        count = self._pages.own_pages(node)
        span = self._used[node.first : node.first + count]
        if any(span):
            raise CorruptData(f"the pages from {node.first} on serve two ends")
        self._used[node.first : node.first + count] = b"\1" * count
        return count

    def _free_list(self) -> None:
        """The pages that may be written over: none of them is in use, or listed twice."""
        try:
            for listed in listed_pages(self._pages, self._meta, self._use):
                for page in listed.tolist():
                    self._use(page, 2)
        except CorruptData as error:
            self._out.add(f"the list of free pages: {error.what}")


def _told(record: TreeRecord) -> str:
    pages = f"{record.leaf_pages} leaves, {record.branch_pages} branches and {record.own_pages} pages of large values"
    return f"{record.entries} entries on {pages}, {record.depth} levels deep"
