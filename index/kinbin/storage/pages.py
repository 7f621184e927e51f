"""LMDB's pages, read with every number of theirs held against the file's end: how Kinbin looks records up.

LMDB trusts its pages: a damaged one is followed beyond the file's end, which ends the process, or searched in the wrong place, which
answers that a record is not there. So records are looked up here, in the pages that one snapshot sees (they do not change while it is
open); LMDB itself begins snapshots and writes. What holds of every page that was passed through:

- It carries its own number and is a branch or a leaf. Its nodes fill its upper part without gaps, each has one slot; keys and values lie
  within it, or on pages of their own before the file's end. Its keys ascend, between those of the branch above it.
- The root is as high as the tree's record says, and has as many nodes (of up to three levels; beyond, the record does not tell).
- A key that is not found lies between its two neighbours, over the borders of pages as well; and where records carry checksums that
  cover the key (`SEALED`), those of both neighbours hold. So a miss is proved, not believed. Lists of a row's ids carry checksums that
  are made as those of items are; so neighbours among items begin with a row's number, and have no byte 0 in their key, as commits and what
  these touched have (`NUMBERED`); and those among such lists have a row's number as their key (`BY_ROW`).

A page that was looked through is not again in the same transaction, nor in the one that follows: what both see was not changed, since
no transaction writes to pages that itself or the one before it uses. `seen` keeps the stamp of the last that saw it. Layout: `MDB_page`
and `MDB_node` of LMDB 0.9.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinbin.native.jit import inline, inner, strict
from kinbin.native.memory import u8_at, u16_at, u32_array, u32_at, u64_at
from kinbin.native.records import Layout
from kinbin.storage.format import MOST_ROWS

__all__ = [
    "BY_ROW",
    "DAMAGED",
    "MOST_DEPTH",
    "NO_PAGE",
    "NUMBERED",
    "SEALED",
    "SIBLINGS",
    "SUB_TREES",
    "TREE",
    "are_parts",
    "find",
    "list_from",
    "open_trees",
]

U64 = np.uint64
DAMAGED = -1
"""What kernels return instead of a number: some page is not what it should be."""
SEALED, SIBLINGS, SUB_TREES, NUMBERED, BY_ROW = 1, 2, 4, 8, 16
"""How a tree is read: a miss is proved by its neighbours' checksums; the leaves beside are looked through too; values may be trees;
neighbours that prove a miss have a row's number behind their checksum, or as their key."""
MOST_DEPTH = 32
NO_PAGE = -1
"""The root of a tree that is empty."""
_HEADER = 16
_BRANCH, _LEAF = 1, 2
_NODE = 8
_ON_OWN_PAGES, _SUB_TREE = 1, 2
_MOST_KEY = 511
_INDEX = 4
_DB_BYTES, _DB_DEPTH, _DB_BRANCHES, _DB_LEAVES, _DB_OWN, _DB_RECORDS, _DB_ROOT = 48, 6, 8, 16, 24, 32, 40
"""Size of the record of a tree (`MDB_db`), and where in it its numbers stand."""

TREE = Layout(
    "TREE",
    base=("address", "of the map"),
    pages=("count", "that the file has, and the snapshot knows"),
    page_bytes=("count", ""),
    root=("count", "page of the tree's root"),
    depth=("count", "pages from the root to a leaf, as the tree's record says"),
    below=("count", "nodes of the root, by the same record; 0: it does not tell"),
    seen=("u32[]", "by page, the stamp under which it was looked through"),
    stamp=("count", "of the snapshot's transaction: from 2 on, one more for each"),
    how=("count", "SEALED, SIBLINGS, SUB_TREES, NUMBERED, BY_ROW"),
    salt=("count", "what checksums begin with"),
    records=("count", "that it has, as its record says"),
    own=("count", "pages of its large values, as its record says"),
)
"""One tree of one snapshot."""


class _Tree(NamedTuple):
    base: np.uint64
    pages: np.int64
    page_bytes: np.int64
    root: np.int64
    depth: np.int64
    below: np.int64
    seen: np.uint64
    stamp: np.int64
    how: np.int64
    salt: np.int64
    records: np.int64


@inline
def _tree_of(records):
    one = records[0]
    return _Tree(one.base, one.pages, one.page_bytes, one.root, one.depth, one.below, one.seen, one.stamp, one.how, one.salt, one.records)


def _crc_table() -> NDArray[np.uint32]:
    """The remainder of each byte, of the polynomial that zlib takes."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> np.uint32(1)) ^ np.uint32(0xEDB88320), table >> np.uint32(1)).astype(np.uint32)
    return table


_CRC = np.zeros((8, 256), np.uint32)
"""Slicing by 8: _CRC[j, b] is the remainder of byte b with j zeros behind it."""
_CRC[0] = _crc_table()
for _j in range(1, 8):
    _CRC[_j] = (_CRC[_j - 1] >> np.uint32(8)) ^ _CRC[0][_CRC[_j - 1] & 255]


@inline
def _crc32(address, size, crc):
    """The CRC-32 of bytes behind those whose CRC-32 is given: `zlib.crc32`. Cost: 0.5 ns a byte."""
    crc = np.uint32(~crc)
    i = 0
    while i + 8 <= size:
        low, high = u32_at(address + U64(i)) ^ crc, u32_at(address + U64(i + 4))
        crc = (
            _CRC[7, low & 255] ^ _CRC[6, (low >> 8) & 255] ^ _CRC[5, (low >> 16) & 255] ^ _CRC[4, low >> 24]
            ^ _CRC[3, high & 255] ^ _CRC[2, (high >> 8) & 255] ^ _CRC[1, (high >> 16) & 255] ^ _CRC[0, high >> 24]
        )  # fmt: skip
        i += 8
    while i < size:
        crc = np.uint32(crc >> np.uint32(8)) ^ _CRC[0, (crc ^ u8_at(address + U64(i))) & 255]
        i += 1
    return np.uint32(~crc)


@inline
def _compare(a, a_size, b, b_size):
    """Below, at or above 0 as the bytes at a sort before, with or behind those at b."""
    for i in range(min(a_size, b_size)):
        x, y = np.int64(u8_at(a + U64(i))), np.int64(u8_at(b + U64(i)))
        if x != y:
            return x - y
    return a_size - b_size


@inline
def _page(tree, number):
    return tree.base + U64(number) * U64(tree.page_bytes)


@inline
def _node(place, i):
    """Address of node i of a page that was looked through."""
    return place + U64(u16_at(place + U64(_HEADER + 2 * i)))


@inline
def _key(node):
    """Address and size of a node's key."""
    return node + U64(_NODE), np.int64(u16_at(node + U64(6)))


@inline
def _child(node):
    """The page that a branch's node leads to."""
    return np.int64(u16_at(node)) | np.int64(u16_at(node + U64(2))) << 16 | np.int64(u16_at(node + U64(4))) << 32


@inline
def _value(tree, node):
    """Address and size of a leaf's value."""
    key, key_bytes = _key(node)
    size = np.int64(u32_at(node))
    behind = key + U64(key_bytes)
    if u16_at(node + U64(4)) & _ON_OWN_PAGES:
        return _page(tree, u64_at(behind)) + U64(_HEADER), size
    return behind, size


@inline
def _value_fits(tree, place, node, key_bytes):
    """Whether a leaf's value ends where it may."""
    flags = u16_at(node + U64(4))
    size = np.int64(u32_at(node))
    room = np.int64(place + U64(tree.page_bytes) - node) - _NODE - key_bytes
    if flags & _ON_OWN_PAGES:
        if flags != _ON_OWN_PAGES or room < 8:
            return False
        first = u64_at(node + U64(_NODE + key_bytes))
        needed = (_HEADER + size + tree.page_bytes - 1) // tree.page_bytes
        return first >= 2 and first < U64(tree.pages) and np.int64(first) + needed <= tree.pages
    allowed = flags == 0 or (flags == _SUB_TREE and tree.how & SUB_TREES != 0)
    return allowed and size <= room


@inline
def _is_packed(place, high, nodes, leaf, page_bytes):
    """Whether a page's nodes, one behind the other, are as many as its slots, and where these say (the sum tells of one that is wrong)."""
    at, found, slots = high, np.int64(0), np.int64(0)
    while at + _NODE <= page_bytes:
        node = place + U64(at)
        size = np.int64(u16_at(node + U64(6))) + np.int64(_NODE)
        if leaf:
            size += np.int64(8) if u16_at(node + U64(4)) & _ON_OWN_PAGES else np.int64(u32_at(node))
        found, slots = found + 1, slots + at
        at += (size + 1) & ~1
    for i in range(nodes):
        slots -= np.int64(u16_at(place + U64(_HEADER + 2 * i)))
    return at == page_bytes and found == nodes and slots == 0


@inline
def _leads_somewhere(tree, place, node, kind):
    """Whether what a node names is in the file: a branch's child, a leaf's value."""
    _, key_bytes = _key(node)
    if kind == _BRANCH:
        child = _child(node)
        return 2 <= child < tree.pages
    return key_bytes > 0 and _value_fits(tree, place, node, key_bytes)


@inner
def _look_through(tree, number):
    """Whether a page is what it should be: the number of its nodes, or DAMAGED."""
    place = _page(tree, number)
    kind = u16_at(place + U64(10))
    low, high = np.int64(u16_at(place + U64(12))), np.int64(u16_at(place + U64(14)))
    if u64_at(place) != U64(number) or kind < _BRANCH or kind > _LEAF or low < _HEADER or low & 1 or low > high or high > tree.page_bytes:
        return DAMAGED
    nodes = (low - _HEADER) >> 1
    if nodes == 0 or not _is_packed(place, high, nodes, kind == _LEAF, tree.page_bytes):
        return DAMAGED
    for i in range(nodes):
        at = np.int64(u16_at(place + U64(_HEADER + 2 * i)))
        if at < high or at + _NODE > tree.page_bytes:
            return DAMAGED
        node = place + U64(at)
        key, size = _key(node)
        if at + _NODE + size > tree.page_bytes or size > _MOST_KEY or not _leads_somewhere(tree, place, node, kind):
            return DAMAGED
        if i > (1 if kind == _BRANCH else 0):
            # The first key of a branch stands for all that are less, whatever it is.
            before, before_size = _key(_node(place, i - 1))
            if _compare(before, before_size, key, size) >= 0:
                return DAMAGED
    return nodes


@inline
def _nodes(tree, number):
    """The number of nodes of a page, which is looked through unless it was in this transaction or the one before; or DAMAGED."""
    if number < 2 or number >= tree.pages:
        return DAMAGED
    seen = u32_array(tree.seen, tree.pages)
    age = tree.stamp - np.int64(seen[number])
    if 0 <= age <= 1:
        seen[number] = np.uint32(tree.stamp)
        return (np.int64(u16_at(_page(tree, number) + U64(12))) - _HEADER) >> 1
    nodes = _look_through(tree, number)
    if nodes > 0:
        seen[number] = np.uint32(tree.stamp)
    return nodes


@inline
def _is_leaf(tree, number):
    return u16_at(_page(tree, number) + U64(10)) == _LEAF


@inline
def _is_between(place, nodes, leaf, least, beyond):
    """Whether the keys of a page lie between those of the branches above it: a child that is another one's is noticed."""
    first = 0 if leaf else 1
    if nodes <= first:
        return True
    if least != 0:
        bound, bound_size = _key(least)
        key, size = _key(_node(place, first))
        if _compare(key, size, bound, bound_size) < 0:
            return False
    if beyond != 0:
        bound, bound_size = _key(beyond)
        key, size = _key(_node(place, nodes - 1))
        if _compare(key, size, bound, bound_size) >= 0:
            return False
    return True


@inner
def _descend(tree, key, size, path):
    """Go down to the leaf where a key belongs.

    path (4, MOST_DEPTH) gets pages and places of nodes; in the leaf, that of the first node whose key is not less. Returns the height
    of the leaf, from 0, and whether the key is there; or DAMAGED.
    """
    number = tree.root
    # The nodes of branches whose keys are at most the first key below, and greater than the last; 0: there is none.
    least, beyond = U64(0), U64(0)
    for depth in range(MOST_DEPTH):
        nodes = _nodes(tree, number)
        # A root of an earlier time is sound in itself.
        if nodes < 0 or (depth == 0 and tree.below not in (0, nodes)):
            return DAMAGED, False
        place, leaf = _page(tree, number), _is_leaf(tree, number)
        if not _is_between(place, nodes, leaf, least, beyond):
            return DAMAGED, False
        low, high, exact = 0 if leaf else 1, nodes, False
        while low < high:
            middle = (low + high) >> 1
            here, here_size = _key(_node(place, middle))
            order = _compare(here, here_size, key, size)
            if order < 0 or (order == 0 and not leaf):
                low = middle + 1
            else:
                high = middle
                exact |= order == 0
        path[0, depth] = number
        if leaf:
            path[1, depth] = low
            # A branch in the place of the root leads to a part of the tree.
            return (depth, exact) if depth + 1 == tree.depth else (DAMAGED, False)
        path[1, depth] = low - 1
        if low > 1:
            least = _node(place, low - 1)
        if low < nodes:
            beyond = _node(place, low)
        number = _child(_node(place, low - 1))
    return DAMAGED, False


@inner
def _is_placed(tree, path, depth):
    """Whether the pages of a path lie between the keys of the branches above them: none is another one's, which ascends as well."""
    least, beyond = U64(0), U64(0)
    for d in range(depth):
        place, nodes, i = _page(tree, path[0, d]), _nodes(tree, path[0, d]), path[1, d]
        if i > 0:
            least = _node(place, i)
        if i + 1 < nodes:
            beyond = _node(place, i + 1)
        below = path[0, d + 1]
        if not _is_between(_page(tree, below), _nodes(tree, below), d + 1 == depth, least, beyond):
            return False
    return True


@inner
def _step(tree, path, depth, direction):
    """Go to the leaf before (-1) or behind (1). Returns 1, 0 if there is none, or DAMAGED."""
    d = depth - 1
    while d >= 0 and not 0 <= path[1, d] + direction < _nodes(tree, path[0, d]):
        d -= 1
    if d < 0:
        return 0
    path[1, d] += direction
    while d < depth:
        number = _child(_node(_page(tree, path[0, d]), path[1, d]))
        d += 1
        nodes = _nodes(tree, number)
        if nodes < 0 or _is_leaf(tree, number) != (d == depth):
            return DAMAGED
        path[0, d] = number
        path[1, d] = 0 if direction > 0 else nodes - 1
    return 1 if _is_placed(tree, path, depth) else DAMAGED


@inline
def _has_zero(key, size):
    """Whether a byte of a key is 0: of a number, then; no id has one."""
    found = False
    for i in range(size):
        found |= u8_at(key + U64(i)) == 0
    return found


@inline
def _holds(tree, node):
    """Whether a record's checksum, of its key and of what follows it, is right, and it is one of this tree."""
    key, key_bytes = _key(node)
    value, size = _value(tree, node)
    if tree.how & NUMBERED and (size < 12 or u64_at(value + U64(4)) >= U64(MOST_ROWS) or _has_zero(key, key_bytes)):
        return False
    if tree.how & BY_ROW and (key_bytes != 8 or u16_at(key) != 0):
        return False
    return size >= 4 and _crc32(value + U64(4), size - 4, _crc32(key, key_bytes, np.uint32(tree.salt))) == u32_at(value)


@inner
def _is_proof(tree, node, key, size, direction):
    """Whether a record lies on one side of a key, and is sound."""
    there, there_size = _key(node)
    return _compare(there, there_size, key, size) * direction > 0 and (not tree.how & SEALED or _holds(tree, node))


@inner
def _is_beside(tree, key, size, path, depth, direction):
    """Whether the neighbour of a key that is not there, in the leaf beside, lies on its side of it, and is sound. path stays as it is."""
    for d in range(depth + 1):
        path[2, d], path[3, d] = path[0, d], path[1, d]
    moved = _step(tree, path, depth, direction)
    proof = moved == 0 or (moved > 0 and _is_proof(tree, _node(_page(tree, path[0, depth]), path[1, depth]), key, size, direction))
    for d in range(depth + 1):
        path[0, d], path[1, d] = path[2, d], path[3, d]
    return proof


@inner
def _is_first(tree, key, size, path, depth):
    """Whether it is proved that no record at or behind a key was left out: the one before it, if there is any, lies before it."""
    i = path[1, depth]
    if i > 0:
        return _is_proof(tree, _node(_page(tree, path[0, depth]), i - 1), key, size, -1)
    return _is_beside(tree, key, size, path, depth, -1)


@inner
def _is_absent(tree, key, size, path, depth):
    """Whether it is proved that a key is not there: its neighbours follow each other."""
    if not _is_first(tree, key, size, path, depth):
        return False
    number, i = path[0, depth], path[1, depth]
    if i < _nodes(tree, number):
        return _is_proof(tree, _node(_page(tree, number), i), key, size, 1)
    return _is_beside(tree, key, size, path, depth, 1)


@inner
def _beside_are_sound(tree, path, depth):
    """Whether the leaves before and behind the one at the end of a path are what they should be. The path is changed."""
    for d in range(depth + 1):
        path[2, d], path[3, d] = path[0, d], path[1, d]
    if _step(tree, path, depth, -1) < 0:
        return False
    for d in range(depth + 1):
        path[0, d], path[1, d] = path[2, d], path[3, d]
    return _step(tree, path, depth, 1) >= 0


@inline
def _below(record, depth):
    """How many nodes the root of a tree has, as far as its record tells; 0: it does not."""
    if depth == 1:
        return np.int64(u64_at(record + U64(_DB_RECORDS)))
    if depth == 2:
        return np.int64(u64_at(record + U64(_DB_LEAVES)))
    return np.int64(u64_at(record + U64(_DB_BRANCHES))) - 1 if depth == 3 else np.int64(0)


@strict
def open_trees(trees, names, ends, hows, path, out):
    """Find the trees that the first of `trees` (n + 1) lists under n names, and tell of them in the others; how each is read say hows (n,).

    The last names are no trees, but keys of the first tree found: out (names - n, 2) u64 gets address and size of their values, as of
    `find`. Returns 0; DAMAGED; or 1 + i: name i is missing. Names end to end, ends (names,) i64: where each ends.
    """
    first = U64(names.ctypes.data)
    start = 0
    for i in range(len(ends)):
        inner = i >= len(trees) - 1
        tree = _tree_of(trees[1:] if inner else trees)
        key, size = first + U64(start), ends[i] - start
        start = ends[i]
        if tree.root == NO_PAGE:
            return 1 + i
        depth, exact = _descend(tree, key, size, path)
        if depth < 0 or (not exact and not _is_absent(tree, key, size, path, depth)):
            return DAMAGED
        value, value_bytes = U64(0), np.int64(0)
        if exact:
            value, value_bytes = _value(tree, _node(_page(tree, path[0, depth]), path[1, depth]))
        if inner:
            out[i - len(trees) + 1, 0], out[i - len(trees) + 1, 1] = value, U64(value_bytes)
        elif not exact or value_bytes != _DB_BYTES:
            return 1 + i
        elif u16_at(value + U64(4)) != 0:
            # Flags that Kinbin gives to no tree: LMDB would take keys or values for something else.
            return DAMAGED
        else:
            below = trees[i + 1]
            below.root, below.how = np.int64(u64_at(value + U64(_DB_ROOT))), hows[i]
            below.depth = np.int64(u16_at(value + U64(_DB_DEPTH)))
            below.below = _below(value, below.depth)
            below.records = np.int64(u64_at(value + U64(_DB_RECORDS)))
            below.own = np.int64(u64_at(value + U64(_DB_OWN)))
            if (below.root == NO_PAGE) != (below.depth == 0):
                return DAMAGED
    return 0


@strict
def find(trees, keys, ends, path, out):
    """Look keys up in a tree (TREE). keys: end to end; ends (n,) i64: where each ends; path (4, MOST_DEPTH) i64: room to work.

    out (n, 2) u64 gets address and size of each value, address 0 where it is proved that there is none. Returns 0, or DAMAGED.
    Cost: 0.3 µs a key; a page more for each that was not looked through in this transaction, about a microsecond.
    """
    tree = _tree_of(trees)
    first = U64(keys.ctypes.data)
    start = 0
    for i in range(len(ends)):
        key, size = first + U64(start), ends[i] - start
        start = ends[i]
        out[i, 0] = out[i, 1] = U64(0)
        if tree.root == NO_PAGE:
            continue
        depth, exact = _descend(tree, key, size, path)
        if depth < 0:
            return DAMAGED
        if exact:
            address, value_bytes = _value(tree, _node(_page(tree, path[0, depth]), path[1, depth]))
            out[i, 0], out[i, 1] = address, U64(value_bytes)
        elif not _is_absent(tree, key, size, path, depth):
            return DAMAGED
        if tree.how & SIBLINGS and not _beside_are_sound(tree, path, depth):
            return DAMAGED
    return 0


@strict
def list_from(trees, keys, path, out):
    """List records of a tree in the order of their keys, from the first whose key is not less than `keys`, one key.

    out (n, 4) u64 gets address and size of key and value of at most n records. Returns how many, or DAMAGED: some keys do not ascend,
    or it is not proved that none was left out.
    """
    tree = _tree_of(trees)
    if tree.root == NO_PAGE:
        return 0
    key, size = U64(keys.ctypes.data), np.int64(len(keys))
    depth, _ = _descend(tree, key, size, path)
    if depth < 0 or not _is_first(tree, key, size, path, depth):
        return DAMAGED
    before, before_size, exclusive = key, size, 0
    for count in range(len(out)):
        number = path[0, depth]
        if path[1, depth] >= _nodes(tree, number):
            moved = _step(tree, path, depth, 1)
            if moved <= 0:
                return count if moved == 0 else DAMAGED
            number = path[0, depth]
        node = _node(_page(tree, number), path[1, depth])
        here, here_size = _key(node)
        if _compare(before, before_size, here, here_size) > -exclusive:
            return DAMAGED
        before, before_size, exclusive = here, here_size, 1
        value, value_bytes = _value(tree, node)
        out[count, 0], out[count, 1], out[count, 2], out[count, 3] = here, U64(here_size), value, U64(value_bytes)
        path[1, depth] += 1
    return len(out)


@strict
def are_parts(listed, prefix, first):
    """How many of listed records (n, 4) are values first, first + 1 … of the part of a run whose keys begin so; DAMAGED: one is left out.

    prefix (m,) u8. Behind it stands the index of the value, four bytes.
    """
    begins, size = U64(prefix.ctypes.data), np.int64(len(prefix))
    for i in range(len(listed)):
        key, key_size = listed[i, 0], np.int64(listed[i, 1])
        if key_size < size or _compare(begins, size, key, size) != 0:
            return i
        index = np.int64(0)
        for j in range(size, key_size):
            index = index << 8 | np.int64(u8_at(key + U64(j)))
        if key_size != size + _INDEX or index != first + i:
            return DAMAGED
    return len(listed)
