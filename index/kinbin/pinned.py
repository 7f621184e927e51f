"""A collection held at one moment: its snapshot, the digest of what it holds, and its notes, all of the same commit."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import islice
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from kinbin.cancelling import cancelled_by
from kinbin.errors import CorruptData
from kinbin.parameters import path_of
from kinbin.query.contents import Contents
from kinbin.query.view import View
from kinbin.records import SnapshotInfo
from kinbin.rows.rows import Rows
from kinbin.snapshots.making import write_snapshot
from kinbin.storage.notes import note_named
from kinbin.storage.store import Store
from kinbin.storage.transactions import Reader
from kinbin.stored import configuration_of, what_is_stored

__all__ = ["Pinned", "PinnedItems"]

_CHUNK = 4_096
"""Items that are digested at once; part of what the digest is."""

Part = tuple[Store, Reader, View | None]
"""A store at the moment, and its rows; the first store of a collection with fields has none."""


@dataclass(frozen=True, slots=True, eq=False)
class PinnedItems:
    """Some items of a pinned collection."""

    ids: list[bytes]
    """n, UTF-8."""
    payloads: list[bytes]
    """n, canonical JSON; empty where there is none."""
    numbers: NDArray[np.uint64]
    """n: of their rows, for `Pinned.rows`."""
    digests: list[bytes]
    """n times 16 bytes, of id, payload and the content hashes of the vectors: the same wherever the same item is stored."""


class Pinned:
    """See `Collection.pinned`. May be used, and left, in another thread than it was made in; by one at a time.

    While it is open no page that others replace is used again, so the files grow by what is written.
    """

    def __init__(self, name: str, parts: Sequence[Part], names: Sequence[str], opened: AbstractContextManager[Any]) -> None:
        """parts: the items' store first. names: of the fields whose they are, "" for the first."""
        self._name = name
        self._parts = parts
        self._names = names
        self._opened = opened

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self._opened.__exit__(*raised)  # type: ignore[arg-type]

    @property
    def count(self) -> int:
        """Items."""
        return self._parts[0][1].state().items

    def note(self, name: bytes) -> bytes | None:
        """What was noted under a name at the moment: see `Collection.note`."""
        return note_named(self._parts[0][1], name)

    def snapshot(self, path: str | os.PathLike[str], *, cancel: threading.Event | None = None, id: str | None = None) -> SnapshotInfo:
        """Write everything to a new file: see `Collection.snapshot`. id: for `Database.snapshots`, which names its files so."""
        if any(view is not None and view.links is None and reader.link_sets() for _, reader, view in self._parts):
            what = "the links are damaged, or of another version, and no snapshot was made"
            raise CorruptData(what, "they are built anew in the background, or by link()")
        sources = [(name, store, reader) for name, (store, reader, _) in zip(self._names, self._parts, strict=True)]
        return write_snapshot(self._name, sources, path_of(path), cancel, id)

    def digest(self, *, cancel: threading.Event | None = None) -> str:
        """Of all ids, payloads and vectors, as 32 hexadecimal digits: the same for the same content, however it was written and lies.

        Vectors count by their content hashes (64 bits, of the values as they are stored). cancel: once it is set, it is given up.

        Raises:
            CorruptData: an item has no row. SearchCancelled.

        Cost: 2 µs an item, one thread.
        """
        if cancel is None:
            return self._digest()
        with cancelled_by(cancel):
            return self._digest()

    def contents(self) -> Iterator[PinnedItems]:
        """All items by id, at most 4,096 at once.

        Raises:
            CorruptData: an item has no row.

        Cost: 4 µs an item, one thread.
        """
        rows = [_hashes(view) for _, _, view in self._parts if view is not None]
        items = self._parts[0][1].scan_items(None)
        while chunk := list(islice(items, _CHUNK)):
            numbers = np.array([row for _, row, _ in chunk], np.uint64)
            hashes = np.stack([_of_rows(known, found, numbers) for known, found in rows], axis=1).astype("<u8")
            digests = [_of_item(key, payload, one.tobytes()) for (key, _, payload), one in zip(chunk, hashes, strict=True)]
            yield PinnedItems([key for key, _, _ in chunk], [payload for _, _, payload in chunk], numbers, digests)

    @property
    def next_row(self) -> int:
        """A number beyond those of all rows that there ever were."""
        return self._parts[0][1].state().next_row

    def owners(self, numbers: Sequence[int]) -> list[list[bytes]]:
        """The ids that share each of these rows, in the order in which they are answered. Raises CorruptData."""
        return self._parts[0][1].owners(list(numbers))

    def payloads(self, ids: Sequence[bytes]) -> list[bytes]:
        """The payloads of items that are there. Raises CorruptData: one is not."""
        found = self._parts[0][1].items(list(ids))
        if None in found:
            raise CorruptData("an item is missing that was listed")
        return [one[1] for one in found if one is not None]

    def rows(self, numbers: NDArray[np.uint64]) -> dict[str, Rows]:
        """The canonical rows of n numbers, of each field; under "" those of items without fields. Raises CorruptData."""
        listed, found = numbers.tolist(), {}
        for name, (store, _, view) in zip(self._names, self._parts, strict=True):
            if view is not None:
                kind, space, form = what_is_stored(configuration_of(store))
                found[name] = Contents(kind, form, space).rows(view, listed)
        return found

    def set_digest(self) -> str:
        """The sum of the digests of all items modulo 2**128, as 32 hexadecimal digits.

        Sums of disjoint parts add up to that of the whole, so collections that are cut differently can be compared (an additive hash of
        a set: Bellare and Micciancio, EUROCRYPT 1997). It finds accidents; whoever wants to can make two sets of the same sum.

        Raises:
            CorruptData: an item has no row.

        Cost: 4 µs an item, one thread.
        """
        total = sum(int.from_bytes(one, "big") for items in self.contents() for one in items.digests)
        return f"{total % (1 << 128):032x}"

    def _digest(self) -> str:
        rows = [_hashes(view) for _, _, view in self._parts if view is not None]
        found = hashlib.blake2b(digest_size=16, person=b"kinbin.digest")
        items = self._parts[0][1].scan_items(None)
        while chunk := list(islice(items, _CHUNK)):
            numbers = np.array([row for _, row, _ in chunk], np.uint64)
            sizes = np.array([(len(key), len(payload)) for key, _, payload in chunk], "<u4")
            found.update(sizes.tobytes())
            for known, hashes in rows:
                found.update(_of_rows(known, hashes, numbers).astype("<u8").tobytes())
            for key, _, payload in chunk:
                found.update(key)
                found.update(payload)
        return found.hexdigest()


def _of_item(key: bytes, payload: bytes, hashes: bytes) -> bytes:
    sizes = len(key).to_bytes(4, "little") + len(payload).to_bytes(4, "little")
    return hashlib.blake2b(sizes + hashes + key + payload, digest_size=16, person=b"kinbin.item").digest()


def _hashes(view: View) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Numbers of all rows of a view, ascending, and their content hashes."""
    numbers, hashes = zip(*_sources(view), strict=True)
    return np.concatenate(numbers), np.concatenate(hashes)


def _sources(view: View) -> Iterator[tuple[NDArray[np.uint64], NDArray[np.uint64]]]:
    for run in view.runs:
        places = np.empty(run.rows, np.uint64)
        if int(run.content_rows.max(initial=0)) >= run.rows:
            raise CorruptData(f"run {run.number} lists a row that it does not have")
        places[run.content_rows] = run.content
        yield run.row_numbers, places
    yield view.fresh.row_numbers[: view.fresh.rows], view.fresh.hashes[: view.fresh.rows]


def _of_rows(known: NDArray[np.uint64], hashes: NDArray[np.uint64], wanted: NDArray[np.uint64]) -> NDArray[np.uint64]:
    place = np.minimum(np.searchsorted(known, wanted), max(0, len(known) - 1))
    if not len(known) or (known[place] != wanted).any():
        raise CorruptData("an item names a row that is not there")
    return hashes[place]
