"""The last state of a file of which a meta page cannot be read, or neither: the page that lists its trees is looked for among all pages.

LMDB writes that list anew with every commit, on one leaf, and gives earlier ones away. Which list is the last one is told by the
state record that it leads to. A page of the tree with that record may have had its place in an earlier list, too, which then leads to
the same record: such a list is told by its trees, whose pages are used again or whose entries are not those that the state counts.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress

from kinbin.errors import CorruptData, KinbinError
from kinbin.storage import format as fmt
from kinbin.storage.format import Part, State
from kinbin.storage.headers import numbers
from kinbin.storage.lookups import NAMES
from kinbin.storage.survey import are_sound_trees
from kinbin.storage.trees import LEAF, NO_PAGE, PAGE_BYTES, USUAL_PAGE_BYTES, Leaf, Meta, Pages, Tree, TreeRecord, walk

__all__ = ["UNKNOWN_LIST", "likely_page_bytes", "rootless"]

_ASKED = 4_096
"""Pages that are asked for their number, to tell how large pages are."""
UNKNOWN_LIST = TreeRecord(0, 0, 0, 0, 0, 0, NO_PAGE)
"""The tree of free pages of such a state."""
_RUNS = "the list of runs"

_List = dict[bytes, TreeRecord]


def likely_page_bytes(descriptor: int, file_bytes: int) -> int:
    """The size of pages with which most of them carry their own number."""
    found = {}
    for size in PAGE_BYTES:
        asked = range(2, min(file_bytes // size, _ASKED))
        found[size] = sum(int.from_bytes(os.pread(descriptor, 8, number * size), "little") == number for number in asked)
    return max(PAGE_BYTES, key=lambda size: (found[size], size == USUAL_PAGE_BYTES))


def rootless(descriptor: int, page_bytes: int, last_page: int, *, whole: bool = False) -> Meta | None:
    """A meta page of the last state of which there is a list of trees. It names no list of free pages.

    None: there is none, or it is one of several and nothing tells which. whole: it has to lead to sound trees, as its state counts them.

    Cost: the file is read, but for large values; those of the latest lists are walked, 40 µs a page.
    """
    pages = Pages(descriptor, page_bytes, last_page)
    lists = [(state, number, trees) for number, trees in _lists(pages) if (state := _state_of(pages, trees)) is not None]
    latest = max((_age(state) for state, _, _ in lists), default=None)
    lists = [one for one in lists if _age(one[0]) == latest]
    metas = {number: _meta_of(page_bytes, last_page, number, state) for state, number, _ in lists}
    sound = [one for one in lists if are_sound_trees(descriptor, metas[one[1]]) and _are_of_state(pages, one[0], one[2])]
    left = sound or ([] if whole else lists)
    if not left or any(trees != left[0][2] for _, _, trees in left):
        return None
    return metas[left[0][1]]


def _lists(pages: Pages) -> Iterator[tuple[int, _List]]:
    """(page, the records of the trees) of all leaves that list the trees of a store."""
    for number in range(2, pages.last_page + 1):
        with suppress(CorruptData):
            page = pages.raw(number)
            if page[:8] != number.to_bytes(8, "little") or page[10:12] != LEAF.to_bytes(2, "little") or NAMES[0] not in page:
                continue
            leaf = pages.read(number)
            if isinstance(leaf, Leaf) and sorted(node.key for node in leaf.nodes if node.subtree) == sorted(NAMES):
                yield number, {node.key: TreeRecord.decode(node.value) for node in leaf.nodes}


def _state_of(pages: Pages, trees: _List) -> State | None:
    """The state that a list leads to."""
    with suppress(KinbinError, KeyError):
        return fmt.decode_state(dict(Tree(pages, trees[b"meta"]).scan())[b"state"])
    return None


def _age(state: State) -> tuple[int, int]:
    """What grows from each state to the next."""
    return state.transaction or 0, state.sequence


def _are_of_state(pages: Pages, state: State, trees: _List) -> bool:
    """Whether the trees of a list, which are sound, are those that its state tells of: items, the last edits, and the listed runs."""
    with suppress(KinbinError, KeyError):
        manifest = dict(Tree(pages, trees[b"meta"]).scan())[b"manifest"]
        runs = numbers(fmt.decode_json(manifest, _RUNS, fmt.begun(state.salt, b"manifest")), _RUNS)
        there = set(_keys(pages, trees[b"runs"]))
        edits = [int.from_bytes(key, "big") for key in _keys(pages, trees[b"journal"])]
        return (
            trees[b"items"].entries == state.items
            and state.rows in (None, trees[b"owners"].entries)
            and edits == list(range(state.sealed + 1, state.sequence + 1))
            and all(fmt.run_key(run, Part.HEADER) in there for run in runs)
        )
    return False


def _keys(pages: Pages, record: TreeRecord) -> Iterator[bytes]:
    return (node.key for _, leaf, _, _ in walk(pages, record) for node in leaf.nodes)


def _meta_of(page_bytes: int, last_page: int, root: int, state: State) -> Meta:
    """What a meta page would say of a list of trees."""
    main = TreeRecord(0, 1, 0, 1, 0, len(NAMES), root)
    return Meta(page_bytes, page_bytes * (last_page + 1), UNKNOWN_LIST, main, last_page, state.transaction or 0)
