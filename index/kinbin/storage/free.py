"""The list of a store's free pages, before LMDB takes one: it writes to the pages that are listed, without a look at what is there."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import ctypes

import numpy as np

from kinbin.errors import CorruptData
from kinbin.native.jit import inline, strict
from kinbin.native.memory import u16_at, u32_at, u64_at
from kinbin.storage.datafile import DataFile
from kinbin.storage.lookups import Trees
from kinbin.storage.pages import MOST_DEPTH, NO_PAGE

__all__ = ["check_free", "mark_used"]

_PAGE_HEADER, _NODE = 16, 8
_BRANCH, _LEAF = 1, 2
_ON_OWN_PAGES = 1
U64 = np.uint64


@strict
def mark_used(trees, used, path):
    """Mark the pages that some trees (TREE) use. used (pages,) u8: gets 1 for each; path (2, MOST_DEPTH) i64: room to work.

    Damaged pages are passed over, with what they lead to: whoever reads them finds that out.
    """
    for t in range(len(trees)):
        tree = trees[t]
        if tree.root == NO_PAGE:
            continue
        level = 0
        path[0, 0], path[1, 0] = tree.root, -1
        while level >= 0:
            number, i = path[0, level], path[1, level]
            if i < 0 and not _marked(tree.pages, used, number, 1):
                level -= 1
                continue
            place = tree.base + U64(number * tree.page_bytes)
            if level + 1 >= tree.depth or level + 1 >= MOST_DEPTH:
                if tree.own > 0:
                    _mark_values(tree, used, place)
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
                _marked(tree.pages, used, child, 1)
            else:
                level += 1
                path[0, level], path[1, level] = child, -1


@inline
def _marked(pages, used, number, count):
    """Mark pages that follow each other. Returns whether they are there, and the first was not marked before."""
    if number < 2 or count < 1 or number >= pages or number + count > min(pages, len(used)) or used[number]:
        return False
    used[number : number + count] = 1
    return True


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
def _mark_values(tree, used, place):
    """Mark the pages of a leaf's large values. One that was overwritten by a shorter one keeps its pages: its first tells how many."""
    if u16_at(place + U64(10)) != _LEAF:
        return
    for i in range((np.int64(u16_at(place + U64(12))) - _PAGE_HEADER) >> 1):
        node = _node(tree, place, i, 0)
        if node == 0 or not u16_at(node + U64(4)) & _ON_OWN_PAGES:
            continue
        node = _node(tree, place, i, 8)
        if node == 0:
            continue
        first = u64_at(node + U64(_NODE) + U64(u16_at(node + U64(6))))
        if U64(2) <= first < U64(tree.pages):
            told = np.int64(u32_at(tree.base + first * U64(tree.page_bytes) + U64(12)))
            least = (_PAGE_HEADER + np.int64(u32_at(node)) + tree.page_bytes - 1) // tree.page_bytes
            _marked(tree.pages, used, np.int64(first), max(told, least))


def check_free(base: int, file: DataFile, trees: Trees) -> None:
    """See that the list of free pages is sound, and that no tree uses a page of it.

    So a list of an earlier state, or of another file, is found before it gives a page away that is in use. One that lacks pages takes
    only room.

    Cost: 10 ns a free page and each leaf of a tree; where a tree has values on pages of their own, its leaves are read: 0.5 µs each.

    Raises:
        CorruptData: it is damaged, or pages are missing at the file's end that are not free.
    """
    page_bytes, pages = file.meta.page_bytes, trees.pages
    listed = _Listed()
    # Keys are the transactions that freed the pages. LMDB takes lists by key, and ends the process if one is not found again.
    whole = range(1, trees.meta.transaction + 1)
    level = [] if trees.meta.free_root < 0 else [(trees.meta.free_root, whole)]
    for _ in range(MOST_DEPTH):
        below: list[tuple[int, range]] = []
        for number, keys in level:
            below += _free_page(base, page_bytes, pages, number, keys, listed)
        level = below
        if not level:
            break
    free = np.concatenate(listed.free)
    last = trees.meta.last_page
    if level or len(np.unique(free)) != len(free) or (len(free) and not 2 <= free.min() <= free.max() <= last):
        raise _bad_list()
    used = np.zeros(last + 1, np.uint8)
    mark_used(trees.told, used, np.empty((2, MOST_DEPTH), np.int64))
    used[listed.own] = 1
    if used[free].any():
        raise _bad_list()
    missing = last + 1 - pages
    if missing and int((free >= pages).sum()) < missing:
        raise CorruptData("the file ends before its last page: it was cut off, or is an incomplete copy")


class _Listed:
    """What was read of the list: the pages that it names, and those that it takes itself."""

    def __init__(self) -> None:
        self.free = [np.empty(0, np.uint64)]
        self.own: list[int] = []


def _free_page(base: int, page_bytes: int, pages: int, number: int, keys: range, listed: _Listed) -> list[tuple[int, range]]:
    """Read one page of the tree of free pages: its lists are added to `listed`. Returns the pages below it.

    keys: those that it may have; below it the same.
    """
    if not 2 <= number < pages:
        raise _bad_list()
    page = ctypes.string_at(base + number * page_bytes, page_bytes)
    flags, low, high = (int.from_bytes(page[at : at + 2], "little") for at in (10, 12, 14))
    listed.own.append(number)
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
            beyond = first + -(-(size + _PAGE_HEADER) // page_bytes)
            if place + 8 > page_bytes or first < 2 or beyond > pages:
                raise _bad_list()
            listed.own.extend(range(first, beyond))
            body = ctypes.string_at(base + first * page_bytes + _PAGE_HEADER, size)
        else:
            body = page[place : place + size]
        numbers = np.frombuffer(body[: len(body) // 8 * 8], "<u8")
        if kind > 1 or len(body) != size or not len(numbers) or len(numbers) <= numbers[0]:
            raise _bad_list()
        free = numbers[1 : 1 + int(numbers[0])]
        if (free[:-1] <= free[1:]).any():
            raise _bad_list()
        listed.free.append(free)
    return [(child, range(least, beyond)) for child, least, beyond in zip(below, seen, [*seen[1:], keys.stop], strict=False)]


def _bad_list() -> CorruptData:
    return CorruptData("the list of free pages is damaged: nothing was written, which could destroy what is intact")
