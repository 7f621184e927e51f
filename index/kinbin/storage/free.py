"""The list of a store's free pages.

Before LMDB takes one: it writes to the pages that are listed, without a look at what is there. And before anything is read: a page of an
earlier state is sound in itself, and may have the keys that are looked for there; that it is free tells that nothing leads to it.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from kinbin.errors import CorruptData
from kinbin.native.jit import inline, strict
from kinbin.native.memory import u16_at, u32_at, u64_at
from kinbin.storage.lookups import Trees
from kinbin.storage.pages import MOST_DEPTH, NO_PAGE
from kinbin.storage.trees import Meta, Pages, TreeRecord, damaged, walk

__all__ = ["check_free", "check_reached", "listed_pages", "mark_used"]

_PAGE_HEADER, _NODE = 16, 8
_BRANCH, _LEAF, _OWN = 1, 2, 4
_ON_OWN_PAGES = 1
_NUMBER = np.dtype("<u8")
U64 = np.uint64
_TWO_ENDS = "some pages serve two ends, or do not say whose they are"
_UNWRITTEN = "nothing was written, which could destroy what is intact"


def check_free(descriptor: int, trees: Trees) -> None:
    """See that the list of free pages is sound, that no tree uses a page of it, and that none serves two ends.

    So a list of an earlier state, or of another file, is found before it gives a page away that is in use; and a large value that says it
    has more pages than are its own, before these are freed with it. A list that lacks pages takes only room.

    Cost: 10 ns a free page and each leaf of a tree, 40 µs a page of the list; where a tree has values on pages of their own, its leaves
    are read: 0.5 µs each.

    Raises:
        CorruptData: it is damaged, or pages are missing at the file's end that are not free.
    """
    last = trees.meta.last_page
    free, taken = _taken(descriptor, trees)
    if len(np.unique(taken)) != len(taken):
        raise _bad_list()
    missing = last + 1 - trees.pages
    if missing and int((free >= trees.pages).sum()) < missing:
        raise CorruptData("the file ends before its last page: it was cut off, or is an incomplete copy")
    used = _used(trees, heads=True)
    if used is None:
        raise CorruptData(f"{_TWO_ENDS}: {_UNWRITTEN}")
    if used[taken].any():
        raise _bad_list()


def check_reached(descriptor: int, trees: Trees) -> None:
    """See that no tree leads to a page that is free, and no two lead to one: a flipped bit of a page's number leads to an earlier page.

    Where the list of free pages is damaged in itself, nothing is known of it, and nothing is refused for it; writers refuse it.

    Cost: as `check_free`, but that no page of a large value is read: they may be many, and on a disk.

    Raises:
        CorruptData: one does, or the list names a page that is in use.
    """
    try:
        _, taken = _taken(descriptor, trees)
    except CorruptData:
        taken = np.empty(0, _NUMBER)
    used = _used(trees, heads=False)
    if used is None:
        raise CorruptData(f"{_TWO_ENDS}: what is read there may be of an earlier state")
    if used[taken].any():
        raise CorruptData("pages that are in use are listed as free: what is read there may be of an earlier state")


def _taken(descriptor: int, trees: Trees) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """The pages that are listed as free; these, and those of the list itself.

    Raises:
        CorruptData: the list is damaged.
    """
    last, own = trees.meta.last_page, list[int]()
    try:
        meta = Meta.decode(trees.meta.page, trees.meta.transaction & 1)
        lists = list(listed_pages(Pages(descriptor, trees.meta.page_bytes, last), meta, own.append))
    except CorruptData:
        raise _bad_list() from None
    free = np.concatenate([np.empty(0, _NUMBER), *lists])
    if len(free) and not 2 <= free.min() <= free.max() <= last:
        raise _bad_list()
    return free, np.concatenate([free, np.array(own, _NUMBER)])


def _used(trees: Trees, *, heads: bool) -> NDArray[np.uint8] | None:
    """By page, whether a tree uses it; None: some serve two ends. heads: see `mark_used`."""
    used = np.zeros(trees.meta.last_page + 1, np.uint8)
    return None if mark_used(trees.told, used, np.empty((2, MOST_DEPTH), np.int64), heads) else used


def _bad_list() -> CorruptData:
    return CorruptData(f"the list of free pages is damaged: {_UNWRITTEN}")


def listed_pages(pages: Pages, meta: Meta, visited: Callable[[int], object]) -> Iterator[NDArray[np.uint64]]:
    """The pages that a state's list names as free, one array for each transaction that freed them. visited: is told of its own pages.

    Raises:
        CorruptData: the list is not what LMDB makes.
    """
    leaves = own = entries = all_pages = 0

    def seen(page: int) -> None:
        nonlocal all_pages
        all_pages += 1
        visited(page)

    for _, leaf, _, _ in walk(pages, meta.free, lambda key: int.from_bytes(key, "little"), visited=seen):
        leaves += 1
        for node in leaf.nodes:
            # Keys are the transactions that freed the pages. LMDB takes lists by key, and ends the process if one is not found again.
            if node.subtree or len(node.key) != _NUMBER.itemsize:
                raise damaged("an entry is malformed")
            if not 1 <= int.from_bytes(node.key, "little") <= meta.transaction:
                raise damaged("an entry is of a transaction that is yet to come, or never was")
            if node.first:
                span = pages.own_pages(node)
                own += span
                for page in range(node.first, node.first + span):
                    visited(page)
            entries += 1
            yield _listed(pages.value(node))
    counted = TreeRecord(meta.free.flags, meta.free.depth, all_pages - leaves, leaves, own, entries, meta.free.root)
    if counted != meta.free:
        raise damaged("it has other pages, or entries, than its record says")


def _listed(value: bytes) -> NDArray[np.uint64]:
    """The pages in one entry: how many there are, and their numbers, which descend."""
    if len(value) % _NUMBER.itemsize or not value:
        raise damaged("an entry is malformed")
    numbers = np.frombuffer(value, _NUMBER)
    if len(numbers) <= numbers[0]:
        raise damaged("an entry is malformed")
    found = numbers[1 : 1 + int(numbers[0])]
    if (found[:-1] <= found[1:]).any():
        raise damaged("an entry's pages do not descend")
    return found


# -- what the trees use


@strict
def mark_used(trees, used, path, heads):
    """Mark the pages that some trees (TREE) use. used (pages,) u8: gets 1 for each; path (2, MOST_DEPTH) i64: room to work.

    heads: whether the first pages of large values are looked at, which say how many pages these have; else as many count as they need.

    Returns how many serve two ends, or are said to belong to a large value whose first page is none. Otherwise damaged pages are passed
    over, with what they lead to: whoever reads them finds that out.
    """
    wrong = np.int64(0)
    for t in range(len(trees)):
        tree = trees[t]
        if tree.root == NO_PAGE:
            continue
        level = 0
        path[0, 0], path[1, 0] = tree.root, -1
        while level >= 0:
            number, i = path[0, level], path[1, level]
            if i < 0 and (number < 2 or number >= tree.pages):
                level -= 1
                continue
            if i < 0:
                taken = _marked(used, number, 1)
                wrong += taken
                if taken:
                    # Not twice through what it leads to, which may lead back.
                    level -= 1
                    continue
            place = tree.base + U64(number * tree.page_bytes)
            if level + 1 >= tree.depth or level + 1 >= MOST_DEPTH:
                if tree.own > 0:
                    wrong += _mark_values(tree, used, place, heads)
                level -= 1
                continue
            i += 1
            node = _node(tree, place, i, 0)
            if u16_at(place + U64(10)) != _BRANCH or node == 0:
                level -= 1
                continue
            path[1, level] = i
            child = np.int64(u16_at(node)) | np.int64(u16_at(node + U64(2))) << 16 | np.int64(u16_at(node + U64(4))) << 32
            if level + 2 == tree.depth and tree.own == 0:
                # A leaf that leads nowhere.
                if 2 <= child < tree.pages:
                    wrong += _marked(used, child, 1)
            else:
                level += 1
                path[0, level], path[1, level] = child, -1
    return wrong


@inline
def _marked(used, number, count):
    """Mark pages that follow each other. Returns how many were marked before."""
    before = np.int64(0)
    for page in range(number, number + count):
        before += np.int64(used[page])
        used[page] = 1
    return before


@inline
def _node(tree, place, i, behind):
    """Address of node i of a page, with so many bytes behind its key; 0: there is none."""
    low = np.int64(u16_at(place + U64(12)))
    if low > tree.page_bytes or _PAGE_HEADER + 2 * i + 2 > low:
        return U64(0)
    at = np.int64(u16_at(place + U64(_PAGE_HEADER + 2 * i)))
    if at + _NODE > tree.page_bytes:
        return U64(0)
    node = place + U64(at)
    return node if at + _NODE + np.int64(u16_at(node + U64(6))) + behind <= tree.page_bytes else U64(0)


@inline
def _mark_values(tree, used, place, heads):
    """Mark the pages of a leaf's large values. Returns how many are wrong.

    A value that was overwritten by a shorter one keeps its pages: the first says how many they are, and LMDB frees as many.
    """
    wrong = np.int64(0)
    if u16_at(place + U64(10)) != _LEAF:
        return wrong
    for i in range((np.int64(u16_at(place + U64(12))) - _PAGE_HEADER) >> 1):
        node = _node(tree, place, i, 0)
        if node == 0 or not u16_at(node + U64(4)) & _ON_OWN_PAGES:
            continue
        node = _node(tree, place, i, 8)
        if node == 0:
            continue
        first = u64_at(node + U64(_NODE) + U64(u16_at(node + U64(6))))
        if first < U64(2) or first >= U64(tree.pages):
            continue
        least = (_PAGE_HEADER + np.int64(u32_at(node)) + tree.page_bytes - 1) // tree.page_bytes
        told = least
        if heads:
            head = tree.base + first * U64(tree.page_bytes)
            told = np.int64(u32_at(head + U64(12)))
            if u64_at(head) != first or u16_at(head + U64(10)) != _OWN or told < least:
                wrong += 1
                continue
        if np.int64(first) + told > tree.pages:
            wrong += 1
        else:
            wrong += _marked(used, np.int64(first), told)
    return wrong
