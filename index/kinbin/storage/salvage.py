"""Saving records from a damaged file: pages are read one by one, and nothing is believed that its own checksum does not prove.

A leaf is reached from its tree, or, where a page above it is damaged, found among the pages that are neither reached nor free.
Within a leaf entries are found in more than one way (`leaves`); a damaged size is worked out from where the next one begins. One flipped
bit of a record is put right by its checksum (`correction`). Pages that a tree leads to and that are listed as free, or carry another
number, are no pages of it.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import numpy as np

from kinbin.errors import CorruptData, KinbinError
from kinbin.storage import format as fmt
from kinbin.storage.changes import INDEXES
from kinbin.storage.correction import begun_with, corrected
from kinbin.storage.datafile import opened
from kinbin.storage.format import Part
from kinbin.storage.free import listed_pages
from kinbin.storage.headers import CONFIG
from kinbin.storage.leaves import NUMBER_BYTES, Covered, all_spans_of, slots_of, spans_of
from kinbin.storage.lookups import NAMES, identity_in
from kinbin.storage.quota import QUOTA
from kinbin.storage.rootless import UNKNOWN_LIST, likely_page_bytes, rootless
from kinbin.storage.saved import PartKey, Saved, save_commit, save_item, save_meta, save_owners
from kinbin.storage.trees import BRANCH, HEAD, LEAF, NO_PAGE, OWN, Branch, Meta, Pages, Tree, TreeRecord

__all__ = ["Salvage"]

_BIG = 0x01
_RUN_KEY = struct.Struct(">IcI")
_VOTES, _VOTING_PAGES, _VOTING_BYTES = 2_000, 200_000, 16_384
"""So many records are asked for the salt, on so many pages, of no more than so many bytes."""
_META_KEYS = (CONFIG, b"manifest", b"state", INDEXES, QUOTA)


class Salvage:
    """One damaged file, open for reading. Nothing is written."""

    def __init__(self, path: Path) -> None:
        self._file: BinaryIO = os.fdopen(opened(path), "rb", buffering=0)
        descriptor, size = self._file.fileno(), path.stat().st_size
        metas = Pages.likely_metas(descriptor) or self._exchanged()
        page_bytes = metas[0].page_bytes if metas else likely_page_bytes(descriptor, size)
        self._head = os.pread(descriptor, 2 * page_bytes, 0)
        self._pages = Pages(descriptor, page_bytes, size // page_bytes - 1)
        self._metas_read = len(metas)
        if len(metas) < 2:
            metas = [*metas, *self._found_list(alone=not metas)]
        self._metas = sorted(metas, key=lambda meta: (-self._state_of(meta), -meta.transaction))
        self._reached: set[int] = set()
        self._own: set[int] = set()
        self._whole: set[bytes] = set()
        """The trees all of whose entries were reached; those in the next set have some that no checksum proves."""
        self._unproved: set[bytes] = set()
        self._reached_parts: set[PartKey] = set()
        self._said: dict[PartKey, bytes] = {}
        """What stray records say first of values of runs."""
        self._misplaced: list[int] = []
        """Pages that a tree leads to and that are not its own: they carry the number of another one, or are another tree's."""
        self._earlier: list[int] = []
        """Pages that a tree leads to although they are listed, or which are copies of such."""
        self._names: dict[int, tuple[int, int]] | None = None
        self._bound: dict[int, bool] = {}
        listed = self._read_list()
        self._list_is_whole = listed is not None
        self._listed = listed or set()
        """The pages that are listed as free, if nothing is wrong with the list itself."""
        self.salt = self._salt()
        """What the checksums of this file begin with."""

    def _salt(self) -> int:
        """The salt that identity and state name alike, if any other record has it; else that which most records tell.

        Each record has one with which its checksum is right, and those of sound ones are the same. Without it nothing could be proved; so
        no single record is trusted with it, and pages that no tree reaches are asked only where the trees tell nothing: those of
        large values may look like anything.
        """
        named: set[int] = set()
        votes: Counter[int] = Counter()
        unused = Saved()
        for tree, leaf in self._reached_leaves(unused):
            with suppress(CorruptData):
                page = self._pages.raw(leaf)
                if tree == b"meta":
                    named |= self._named_by(page)
                elif votes.total() < _VOTES:
                    votes.update(self._told_by(page))
        for known in (self._reached, self._whole, self._misplaced, self._earlier):
            known.clear()
        if len(named) == 1 and (not votes or votes[min(named)]):
            return min(named)
        for number in range(2, 0 if votes else min(self._pages.last_page + 1, _VOTING_PAGES)):
            with suppress(CorruptData):
                page = self._pages.raw(number)
                if int.from_bytes(page[10:12], "little") & LEAF and _number_of(page) == number:
                    votes.update(self._told_by(page))
            if votes.total() > _VOTES:
                break
        return votes.most_common(1)[0][0] if votes else 0

    def _reached_leaves(self, out: Saved) -> Iterator[tuple[bytes, int]]:
        """(tree, page) of the leaves that the last transaction's trees reach."""
        for meta in self._metas[:1]:
            for page in self._leaves(meta.main, out):
                for key, value, subtree in self._entries(page):
                    if subtree and len(value) == 48:
                        record, lost, entries = TreeRecord.decode(value), out.pages_lost, 0
                        for leaf in self._leaves(record, out):
                            entries += len(slots_of(self._pages.raw(leaf)))
                            yield key, leaf
                        if (out.pages_lost, entries) == (lost, record.entries):
                            self._whole.add(key)

    def _named_by(self, page: bytes) -> set[int]:
        """The salts that identity and state name, as far as they are in a leaf and sound."""
        named = set()
        for begin, end in spans_of(page):
            for key, value, first in self._candidates(page, begin, end):
                with suppress(KinbinError):
                    if key == b"identity" and not first:
                        named.add(identity_in(value).salt)
                    elif key == b"state" and not first:
                        named.add(fmt.decode_state(value).salt)
                break
        return named

    def _told_by(self, page: bytes) -> Iterator[int]:
        """The salts that the entries of a leaf tell."""
        for begin, end in spans_of(page):
            for key, value, first in self._candidates(page, begin, end):
                size = int.from_bytes(value, "little") if first else len(value)
                if first and len(key) == _RUN_KEY.size:
                    head = self._large(first, fmt.VALUE_HEADER)
                    if fmt.names_key(head):
                        yield begun_with(key, fmt.split_head(head)[4])
                elif 4 < size <= _VOTING_BYTES and key not in (b"identity", b"state"):
                    record = self._large(first, size) if first else value
                    yield begun_with(key + record[4:], int.from_bytes(record[:4], "little"))
                break

    def _exchanged(self) -> list[Meta]:
        """Meta pages that stand in each other's place."""
        out = []
        for place, number in ((0, 1), (1, 0)):
            with suppress(CorruptData):
                out.append(Meta.decode(os.pread(self._file.fileno(), 4096, place * 4096), number))
        return out

    def _state_of(self, meta: Meta) -> int:
        """The transaction of the state that a meta page leads to: as the state record says, or else the page."""
        with suppress(KinbinError, KeyError):
            record = TreeRecord.decode(dict(Tree(self._pages, meta.main).scan())[b"meta"])
            return fmt.decode_state(dict(Tree(self._pages, record).scan())[b"state"]).transaction or meta.transaction
        return meta.transaction

    def was_written(self) -> bool:
        """Whether somebody has committed since it was opened."""
        return os.pread(self._file.fileno(), len(self._head), 0) != self._head

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def records(self) -> Saved:
        """Every record that verifies, by where it was found. Cost: the file is read once but for large values."""
        out = Saved()
        for tree, leaf in self._reached_leaves(out):
            self._take(leaf, tree, out)
        transactions = [meta.transaction for meta in self._metas]
        out.transaction = max(map(self._state_of, self._metas), default=None)
        out.metas_lost = not self._metas_read
        out.newest_known = self._metas_read == 2 and (transactions[0] - transactions[1] == 1 or max(transactions) <= 1)
        free = self._whole_free()
        out.free_known = free is not None
        out.lacking = set(NAMES) - (self._whole - self._unproved)
        if out.lacking:
            self._take_strays(out, self._free() if free is None else free)
        return out

    def _take_strays(self, out: Saved, free: set[int]) -> None:
        """Save records that no tree reaches, of the trees that lack entries.

        Of a tree that is whole nothing else is true: such records may be of a commit that was killed, or taken back.
        """
        self._reached_parts = set(out.parts)
        last = min(self._metas[0].last_page, self._pages.last_page) if self._metas_read else self._pages.last_page
        apart = {*self._reached, *self._own, *self._misplaced, *self._earlier}
        for page in self._misplaced:
            self._take_stray(page, out, free)
        for page in range(2, last + 1):
            if page not in apart and _number_of(self._pages.raw(page)) == page:
                self._take_stray(page, out, free)
        out.earlier |= bool(self._earlier)
        for page in self._earlier:
            # Either is wrong, the list or what leads there; what nothing else is known of is better than nothing.
            self._take_stray(page, out, free, listed=True)
        for key in out.disputed:
            out.parts.pop(key, None)
            out.stale_parts.pop(key, None)
        out.unsure |= not out.free_known and not self._said.keys() <= out.disputed

    def _found_list(self, *, alone: bool) -> Iterator[Meta]:
        """The last list of trees that is found without a meta page; beside one that is whole, only if all that it leads to is."""
        found = rootless(self._file.fileno(), self._pages.page_bytes, self._pages.last_page, whole=not alone)
        if found is not None:
            yield found

    def part(self, saved: Saved, key: PartKey) -> tuple[bytes, bool] | None:
        """The body of a value of a run, and whether its checksum proves it; None if nothing is there.

        One flipped bit is put right. What is not proved is the stored body all the same: its rows carry checks of their own.
        A value that stands in the place of another is found by the key that it names.
        """
        place = saved.parts.get(key) or saved.stale_parts.get(key)
        bound = self.is_bound(saved, key[0])
        found = None if place is None else self._body(key, place, bound=bound)
        if (found is None or not found[1]) and (elsewhere := self._by_name(saved).get(self._name(key))):
            found = self._body(key, elsewhere, bound=bound) or found
        return found

    def is_bound(self, saved: Saved, run: int) -> bool:
        """Whether the values of a run name their keys: its header does, or its row numbers do."""
        if run not in self._bound:
            keys = [(run, part, 0) for part in (Part.HEADER, Part.ROW_NUMBERS)]
            places = [(fmt.run_key(*key), saved.parts.get(key) or saved.stale_parts.get(key)) for key in keys]
            heads = [(key, self._large(place[0], fmt.VALUE_HEADER)) for key, place in places if place is not None]
            named = any(fmt.names_key(head) and fmt.split_head(head)[4] == zlib.crc32(key, self.salt) for key, head in heads)
            self._bound[run] = named or bool(self.salt)
        return self._bound[run]

    def _name(self, key: PartKey) -> int:
        """How the header of a value names its key."""
        return zlib.crc32(fmt.run_key(*key), self.salt)

    def _by_name(self, saved: Saved) -> dict[int, tuple[int, int]]:
        """Where values lie, by the name of the key that their headers have."""
        if self._names is None:
            everything = [*saved.stale_parts.values(), *saved.parts.values()]
            heads = [(place, self._large(place[0], fmt.VALUE_HEADER)) for place in everything]
            self._names = {fmt.split_head(head)[4]: place for place, head in heads if len(head) == fmt.VALUE_HEADER}
        return self._names

    def _body(self, key: PartKey, place: tuple[int, int], *, bound: bool) -> tuple[bytes, bool] | None:
        """The same of the value that lies there; None if it may be that of another key. bound: values of the run name their keys."""
        value = self._large(*place)
        if len(value) < fmt.VALUE_HEADER:
            return None
        crc, _, _, size, named = fmt.split_head(value)
        room = len(value) - fmt.VALUE_HEADER
        body = value[fmt.VALUE_HEADER : fmt.VALUE_HEADER + min(size, room)]
        # What precedes the body in what the checksum covers; dead bits of any run may be of the last format.
        for before, salt in ((fmt.run_key(*key), self.salt),) if bound else ((fmt.run_key(*key), 0), (b"", 0)):
            # The size stands in no checksum: one flipped bit of it is tried.
            for body_bytes in (size, *(size ^ 1 << bit for bit in range(32))):
                some = value[fmt.VALUE_HEADER : fmt.VALUE_HEADER + body_bytes]
                if body_bytes <= room and zlib.crc32(some, zlib.crc32(before, salt)) == crc:
                    return some, True
            right = corrected(before + body, crc, salt)
            if right is not None and right.startswith(before):
                return right[len(before) :], True
        if key[1] == Part.BLOCK:
            # Whatever is left of its header: of each row it is told whether it is one of this block (`saving`).
            return value[fmt.VALUE_HEADER :], False
        # One flipped bit of the name of its key does not make it the value of another one.
        return (body, False) if not bound or (named ^ self._name(key)).bit_count() < 2 else None

    # -- pages

    def _leaves(self, record: TreeRecord, out: Saved) -> Iterator[int]:
        """The pages of a tree that look like leaves, in order; what cannot be read is passed over."""
        stack = [record.root]
        while stack:
            number = stack.pop()
            if number == NO_PAGE:
                continue
            try:
                page = self._pages.raw(number)
            except CorruptData:
                out.pages_lost += 1
                continue
            if not self._is_in_place(number, page):
                out.pages_lost += 1
                continue
            self._reached.add(number)
            flags = int.from_bytes(page[10:12], "little")
            if flags & BRANCH and not flags & LEAF:
                try:
                    branch = self._pages.read(number)
                    assert isinstance(branch, Branch)
                    stack.extend(reversed(branch.children))
                except CorruptData:
                    stack.extend(reversed(self._children(page)))
            else:
                yield number

    def _is_in_place(self, number: int, page: bytes) -> bool:
        """Whether a page that a tree leads to is what was written there for it, as far as is known; else it is noted."""
        own = _number_of(page)
        if number in self._reached:
            self._misplaced.append(number)
        elif number in self._listed or (own != number and own in self._listed and not self._is_renumbered(number, page)):
            self._earlier.append(number)
        elif own != number and not self._is_renumbered(number, page):
            self._misplaced.append(number)
        else:
            return True
        return False

    def _is_renumbered(self, number: int, page: bytes) -> bool:
        """Whether one bit of a page's number flipped, and it is no copy of the page that has this number."""
        own = _number_of(page)
        if (own ^ number).bit_count() != 1:
            return False
        with suppress(CorruptData):
            return self._pages.raw(own)[NUMBER_BYTES:] != page[NUMBER_BYTES:]
        return True

    def _children(self, page: bytes) -> list[int]:
        """The pages that a damaged branch names, as far as there are such pages."""
        found = []
        for slot in slots_of(page):
            low, high, top = struct.unpack_from("<HHH", page, slot)
            child = low | high << 16 | top << 32
            if 2 <= child <= self._pages.last_page:
                found.append(child)
        return found

    def _entries(self, number: int) -> Iterator[tuple[bytes, bytes, bool]]:
        """(key, value, whether it is a tree) of a leaf's small entries, as they are stored."""
        page = self._pages.raw(number)
        for slot in slots_of(page):
            low, high, flags, key_bytes = struct.unpack_from("<HHHH", page, slot)
            start = slot + 8 + key_bytes
            yield page[slot + 8 : start], page[start : start + (low | high << 16)], bool(flags & 0x02)

    def _candidates(self, page: bytes, begin: int, end: int, *, flipped: bool = False) -> Iterator[tuple[bytes, bytes, int]]:
        """(key, value, first page of a large value or 0) that an entry may be: as it says, or with one of its sizes worked out.

        flipped: large values alone, with each bit of their first page's number or of their size flipped.
        """
        low, high, flags, key_bytes = struct.unpack_from("<HHHH", page, begin)
        size, room = low | high << 16, end - begin - 8
        for big in (bool(flags & _BIG), not flags & _BIG):
            inline = 8 if big else size
            for keys, values in (
                (key_bytes, inline), (key_bytes, room - key_bytes), (key_bytes, room - key_bytes - 1), (room - inline, inline),
                (room - inline - 1, inline),
            ):  # fmt: skip
                if 0 < keys <= 511 and values >= 0 and keys + values <= room:
                    start = begin + 8 + keys
                    key, value = page[begin + 8 : start], page[start : start + values]
                    if big and len(value) >= 8:
                        told = int.from_bytes(value[:8], "little")
                        ways = [(told, size)]
                        if flipped:
                            ways = [(told ^ 1 << bit, size) for bit in range(64)] + [(told, size ^ 1 << bit) for bit in range(32)]
                        for first, value_bytes in ways:
                            if self._may_hold(first, value_bytes) if flipped else 2 <= first <= self._pages.last_page:
                                yield key, value_bytes.to_bytes(8, "little"), first
                    elif not big and not flipped:
                        yield key, value, 0

    def _may_hold(self, first: int, size: int) -> bool:
        """Whether a large value of so many bytes begins on a page, as that says."""
        with suppress(CorruptData):
            page = self._pages.raw(first)
            own, flags, count = _number_of(page), int.from_bytes(page[10:12], "little"), int.from_bytes(page[12:16], "little")
            return (own, flags) == (first, OWN) and HEAD + size <= count * self._pages.page_bytes
        return False

    def _large(self, first: int, size: int) -> bytes:
        """The bytes of a large value, as far as the file goes."""
        page_bytes = self._pages.page_bytes
        size = min(size, (self._pages.last_page + 1 - first) * page_bytes)
        self._file.seek(first * page_bytes + HEAD)
        return self._file.read(max(size, 0))

    def _free(self) -> set[int]:
        """The pages that the list of free pages names, as far as it can be read."""
        out: set[int] = set()
        unused = Saved()
        for meta in self._metas[:1]:
            for page in self._leaves(meta.free, unused):
                raw = self._pages.raw(page)
                for begin, end in spans_of(raw):
                    for key, value, first in self._candidates(raw, begin, end):
                        data = self._large(first, int.from_bytes(value, "little")) if first else value
                        count = int.from_bytes(data[:8], "little")
                        if len(key) == 8 and 0 < count <= len(data) // 8 - 1:
                            out.update(struct.unpack_from(f"<{count}Q", data, 8))
                            break
        return out

    def _whole_free(self) -> set[int] | None:
        """The pages that the list of free pages names, if it is whole, and gives away nothing that a tree reaches; None: it is not."""
        return self._listed if self._list_is_whole and self._listed.isdisjoint(self._reached | self._own) else None

    def _read_list(self) -> set[int] | None:
        """The pages that the list of free pages names; None: there is no list, or it is not as LMDB makes it."""
        meta = self._metas[0] if self._metas else None
        if meta is None or meta.free == UNKNOWN_LIST:
            return None
        pages, own = Pages(self._file.fileno(), meta.page_bytes, meta.last_page), set[int]()
        try:
            numbers = np.concatenate([np.empty(0, np.uint64), *listed_pages(pages, meta, own.add)])
        except CorruptData:
            return None
        free = set(numbers.tolist())
        within = all(2 <= number <= meta.last_page for number in free)
        return free if within and len(free) == len(numbers) and free.isdisjoint(own) else None

    # -- records

    def _take(self, number: int, tree: bytes, out: Saved) -> None:
        """Save the entries of a leaf that a tree reaches."""
        try:
            page = self._pages.raw(number)
        except CorruptData:
            out.pages_lost += 1
            return
        spans, proved = all_spans_of(page), Covered(page)
        for flipped, right in ((False, False), (True, False), (False, True)):
            for begin, end in spans:
                if not proved.has(begin):
                    for candidate in self._candidates(page, begin, end, flipped=flipped):
                        if self._save(tree, *candidate, out, right=right):
                            proved.add(begin, candidate)
                            break
        lost = sum(not proved.has(slot) for slot in set(slots_of(page)))
        if lost:
            out.entries_lost += lost
            out.adds_lost += lost * (tree == b"journal")
            self._unproved.add(tree)

    def _save(self, tree: bytes, key: bytes, value: bytes, first: int, out: Saved, *, right: bool) -> bool:
        """Save one entry, if it verifies; right: put a flipped bit right. Returns whether it did."""
        if tree == b"runs":
            if len(key) != _RUN_KEY.size or not first:
                return False
            run, part, index = _RUN_KEY.unpack(key)
            size = int.from_bytes(value, "little")
            head = self._large(first, fmt.VALUE_HEADER)
            # Where the key says what it is, its header may be damaged.
            if len(head) < fmt.VALUE_HEADER or not (right or _is_headed(head, key, part, self.salt)):
                return False
            out.parts.setdefault((run, part, index), (first, size))
            self._own.update(range(first, first + -(-(HEAD + size) // self._pages.page_bytes)))
            return True
        if first:
            value = self._large(first, int.from_bytes(value, "little"))
        if tree == b"items":
            return save_item(key, value, self.salt, out.items, right=right)
        if tree == b"owners":
            return save_owners(key, value, self.salt, out.owners, right=right)
        if tree == b"journal":
            return save_commit(key, value, self.salt, out, right=right)
        return save_meta(key, value, self.salt, out, right=right)

    def _take_stray(self, number: int, out: Saved, free: set[int], *, listed: bool = False) -> None:
        """Save what a page holds that is of no tree which reaches it, and of one that lacks entries.

        Where the list of free pages is whole, what it does not list is of the last state. Where it is not, runs are believed that nothing
        else contradicts: they hold what was acknowledged, unless commits were taken back; and of a file that was cut the journal, lest its
        end cost all rows that are not in runs. Either is said. listed: it is on such a page that a tree leads to: the last one asked.
        """
        page = self._pages.raw(number)
        if not int.from_bytes(page[10:12], "little") & LEAF:
            return
        stale = not listed and _number_of(page) in free
        for begin, end in all_spans_of(page):
            for key, value, first in self._candidates(page, begin, end):
                if self._save_stray((key, value, first), out, free, stale=stale, listed=listed):
                    break

    def _agrees(self, key: PartKey, said: bytes, out: Saved) -> bool:
        """Whether what a stray record says of a value of a run is what others of its key say. Where it is not, none is believed."""
        if key in self._reached_parts:
            return False
        if self._said.setdefault(key, said) != said:
            out.disputed.add(key)
        return key not in out.disputed

    def _save_stray(self, entry: tuple[bytes, bytes, int], out: Saved, free: set[int], *, stale: bool, listed: bool) -> bool:
        """Save one entry whose tree is not known: its form and its checksum tell what it is. stale: it is on a free page."""
        key, value, first = entry
        size = int.from_bytes(value, "little") if first else len(value)
        if first and len(key) == _RUN_KEY.size:
            run, part, index = _RUN_KEY.unpack(key)
            # A run that was given up had the number of one that is: its values lie on pages that are free, or behind the last one.
            pages = range(first, first + -(-(HEAD + size) // self._pages.page_bytes))
            used = first <= self._metas[0].last_page if self._metas else True
            used = used and free.isdisjoint(pages) and (out.free_known or not stale)
            head = self._large(first, fmt.VALUE_HEADER)
            if used and b"runs" in out.lacking and head[6:8] == part + b"\0":
                kept = out.stale_parts if stale else out.parts
                if self._agrees((run, part, index), head, out):
                    kept.setdefault((run, part, index), (first, size))
                return True
        if first:
            value = self._large(first, size)
        if key in _META_KEYS:
            return save_meta(key, value, self.salt, out, right=False, stray=True, only=CONFIG if stale else None)
        is_cut = bool(self._metas) and self._metas[0].last_page > self._pages.last_page
        if stale or not (out.free_known or is_cut):
            return False
        may_be_edit = b"journal" in out.lacking and len(key) == 8 and (not listed or out.is_open_edit(key))
        if may_be_edit and save_commit(key, value, self.salt, out, right=False):
            out.unsure |= not out.free_known
            return True
        if not out.free_known:
            return False
        if b"owners" in out.lacking and len(key) == 8 and save_owners(key, value, self.salt, out.doubtful_owners, right=False):
            return True
        return b"items" in out.lacking and save_item(key, value, self.salt, out.doubtful_items, right=False)


def _is_headed(head: bytes, key: bytes, part: bytes, salt: int) -> bool:
    """Whether a value of a run begins as the one of this key does."""
    return head[6:8] == part + b"\0" and (not fmt.names_key(head) or fmt.split_head(head)[4] == zlib.crc32(key, salt))


def _number_of(page: bytes) -> int:
    """The number that a page says that it has."""
    return int.from_bytes(page[:NUMBER_BYTES], "little")
